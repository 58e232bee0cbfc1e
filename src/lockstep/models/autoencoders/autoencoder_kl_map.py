"""The names of the original latent diffusion files for the VAE's tensors: rows of a weight map.

There the decoder counts its blocks from the finest, and projections of the attention are 1x1 convolutions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..weights import Row, renamed_parts

RESNET = {"norm1": "norm1", "conv1": "conv1", "norm2": "norm2", "conv2": "conv2", "nin_shortcut": "conv_shortcut"}
ATTENTION = {"norm": "group_norm", "q": "to_q", "k": "to_k", "v": "to_v", "proj_out": "to_out.0"}


def autoencoder_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for an autoencoder of this config."""
    return [*encoder(config), *decoder(config), ("quant_conv.{}",) * 2, ("post_quant_conv.{}",) * 2]


def encoder(config: Mapping[str, Any]) -> Iterator[Row]:
    types = config["down_block_types"]
    for block, kind in enumerate(types):
        theirs, ours = f"encoder.down.{block}", f"encoder.down_blocks.{block}"
        yield from layers(theirs, ours, config["layers_per_block"], attends=kind.startswith("Attn"))
        yield f"{theirs}.downsample.conv.{{}}", f"{ours}.downsamplers.0.conv.{{}}"
    yield from ends("encoder")


def decoder(config: Mapping[str, Any]) -> Iterator[Row]:
    types = config["up_block_types"]
    for block, kind in enumerate(types):
        theirs, ours = f"decoder.up.{len(types) - 1 - block}", f"decoder.up_blocks.{block}"
        yield from layers(theirs, ours, config["layers_per_block"] + 1, attends=kind.startswith("Attn"))
        yield f"{theirs}.upsample.conv.{{}}", f"{ours}.upsamplers.0.conv.{{}}"
    yield from ends("decoder")


def layers(theirs: str, ours: str, count: int, attends: bool) -> Iterator[Row]:
    for layer in range(count):
        yield from renamed_parts(f"{theirs}.block.{layer}", f"{ours}.resnets.{layer}", RESNET)
        if attends:
            yield from renamed_parts(f"{theirs}.attn.{layer}", f"{ours}.attentions.{layer}", ATTENTION, "squeeze")


def ends(part: str) -> Iterator[Row]:
    """The first and last convolution, and the middle."""
    yield f"{part}.conv_in.{{}}", f"{part}.conv_in.{{}}"
    yield from renamed_parts(f"{part}.mid.block_1", f"{part}.mid_block.resnets.0", RESNET)
    yield from renamed_parts(f"{part}.mid.attn_1", f"{part}.mid_block.attentions.0", ATTENTION, "squeeze")
    yield from renamed_parts(f"{part}.mid.block_2", f"{part}.mid_block.resnets.1", RESNET)
    yield f"{part}.norm_out.{{}}", f"{part}.conv_norm_out.{{}}"
    yield f"{part}.conv_out.{{}}", f"{part}.conv_out.{{}}"
