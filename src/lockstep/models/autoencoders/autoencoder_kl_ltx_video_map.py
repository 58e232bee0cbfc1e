"""The names of LTX-Video's own files for the tensors of its autoencoder: rows of a weight map.

There the residual blocks of a size, its sampler and the block that changes the width are counted in one list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..weights import Row

UNUSED = ("channel", "mean-of-stds", "mean-of-stds_over_std-of-means")  # statistics that nothing reads


def ltx_autoencoder_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for an autoencoder of this config."""
    encoder, decoder = counted("encoder", down_parts(config)), counted("decoder", up_parts(config))
    return [
        *encoder,
        *decoder,
        *((f"{part}.{conv}.{{*}}",) * 2 for part in ("encoder", "decoder") for conv in ("conv_in", "conv_out")),
        ("decoder.last_time_embedder.{*}", "decoder.time_embedder.{*}"),
        ("decoder.last_scale_shift_table", "decoder.scale_shift_table"),
        ("decoder.timestep_scale_multiplier",) * 2,
        ("per_channel_statistics.mean-of-means", "latents_mean"),
        ("per_channel_statistics.std-of-means", "latents_std"),
        *((f"per_channel_statistics.{name}", (), "drop") for name in UNUSED),
    ]


def down_parts(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parts of the encoder in the order in which they are counted, and what each is."""
    widths, is_new = config["block_out_channels"], config["down_block_types"][-1] == "LTXVideo095DownBlock3D"
    blocks = len(widths) - is_new
    for block in range(blocks):
        ours = f"down_blocks.{block}"
        yield ours, "resnets"
        if config["spatio_temporal_scaling"][block]:
            yield f"{ours}.downsamplers.0", "sampler"
        if not is_new and block + 1 < blocks and widths[block] != widths[block + 1]:
            yield f"{ours}.conv_out", "resnet"
    yield "mid_block", "resnets"


def up_parts(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The same of the decoder."""
    widths, factors = config["decoder_block_out_channels"][::-1], config["upsample_factor"][::-1]
    grows, last = config["decoder_spatio_temporal_scaling"][::-1], widths[0]
    yield "mid_block", "resnets"
    for block, (width, factor) in enumerate(zip(widths, factors, strict=False)):
        before, last, ours = last // factor, width // factor, f"up_blocks.{block}"
        if before != last:
            yield f"{ours}.conv_in", "resnet"
        if grows[block]:
            yield f"{ours}.upsamplers.0", "sampler"
        yield ours, "resnets"


def counted(part: str, parts: Iterator[tuple[str, str]]) -> Iterator[Row]:
    """Rows for parts that are one list there."""
    listed = "down_blocks" if part == "encoder" else "up_blocks"
    for place, (name, kind) in enumerate(parts):
        theirs, ours = f"{part}.{listed}.{place}", f"{part}.{name}"
        if kind == "sampler":
            yield f"{theirs}.{{*}}", f"{ours}.{{*}}"
            continue
        if kind == "resnets":
            yield f"{theirs}.time_embedder.{{*}}", f"{ours}.time_embedder.{{*}}"
            theirs, ours = f"{theirs}.res_blocks.{{i}}", f"{ours}.resnets.{{i}}"
        yield f"{theirs}.norm3.norm.{{}}", f"{ours}.norm3.{{}}"
        yield f"{theirs}.conv_shortcut.{{}}", f"{ours}.conv_shortcut.conv.{{}}"
        yield f"{theirs}.{{*}}", f"{ours}.{{*}}"
