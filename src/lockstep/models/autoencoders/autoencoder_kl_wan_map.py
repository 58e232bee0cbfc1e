"""The names of Wan's own files for the tensors of its autoencoder: rows of a weight map.

2.1 counts the layers of encoder and decoder through; 2.2 groups them by resolution. Nothing but names differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..weights import Row, renamed_parts

RESNET = {
    "residual.0": "norm1",
    "residual.2": "conv1",
    "residual.3": "norm2",
    "residual.6": "conv2",
    "shortcut": "conv_shortcut",
}
RESAMPLE = {"resample.1": "resample.1", "time_conv": "time_conv"}
ATTENTION = {"norm": "norm", "to_qkv": "to_qkv", "proj": "proj"}


def wan_autoencoder_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for an autoencoder of this config."""
    if config.get("is_residual", False):
        layers = [*grouped_layers("encoder", config), *grouped_layers("decoder", config)]
    else:
        layers = [*counted_encoder_layers(config), *counted_decoder_layers(config)]
    return [
        *layers,
        *ends("encoder"),
        *ends("decoder"),
        ("conv1.{}", "quant_conv.{}"),
        ("conv2.{}", "post_quant_conv.{}"),
    ]


def counted_encoder_layers(config: Mapping[str, Any]) -> Iterator[Row]:
    """Residual blocks and downsamplers in one list, here as there."""
    blocks, layers = len(config["dim_mult"]), config["num_res_blocks"]
    for place in range(blocks * (layers + 1) - 1):
        theirs, ours = f"encoder.downsamples.{place}", f"encoder.down_blocks.{place}"
        yield from renamed_parts(theirs, ours, RESNET if place % (layers + 1) < layers else RESAMPLE)


def counted_decoder_layers(config: Mapping[str, Any]) -> Iterator[Row]:
    """There residual blocks and upsamplers are one list; here blocks of them."""
    blocks, layers = len(config["dim_mult"]), config["num_res_blocks"] + 1
    for block in range(blocks):
        first, ours = block * (layers + 1), f"decoder.up_blocks.{block}"
        for layer in range(layers):
            yield from renamed_parts(f"decoder.upsamples.{first + layer}", f"{ours}.resnets.{layer}", RESNET)
        if block < blocks - 1:
            yield from renamed_parts(f"decoder.upsamples.{first + layers}", f"{ours}.upsamplers.0", RESAMPLE)


def grouped_layers(part: str, config: Mapping[str, Any]) -> Iterator[Row]:
    """Blocks of residual blocks with a sampler at their end, there as here."""
    blocks = len(config["dim_mult"])
    down = part == "encoder"
    layers = config["num_res_blocks"] + (0 if down else 1)
    names = ("downsamples", "down_blocks", "downsampler") if down else ("upsamples", "up_blocks", "upsampler")
    for block in range(blocks):
        theirs, ours = f"{part}.{names[0]}.{block}.{names[0]}", f"{part}.{names[1]}.{block}"
        for layer in range(layers):
            yield from renamed_parts(f"{theirs}.{layer}", f"{ours}.resnets.{layer}", RESNET)
        if block < blocks - 1:
            yield from renamed_parts(f"{theirs}.{layers}", f"{ours}.{names[2]}", RESAMPLE)


def ends(part: str) -> Iterator[Row]:
    """The first and last convolution, and the middle."""
    yield f"{part}.conv1.{{}}", f"{part}.conv_in.{{}}"
    yield from renamed_parts(f"{part}.middle.0", f"{part}.mid_block.resnets.0", RESNET)
    yield from renamed_parts(f"{part}.middle.1", f"{part}.mid_block.attentions.0", ATTENTION)
    yield from renamed_parts(f"{part}.middle.2", f"{part}.mid_block.resnets.1", RESNET)
    yield f"{part}.head.0.{{}}", f"{part}.norm_out.{{}}"
    yield f"{part}.head.2.{{}}", f"{part}.conv_out.{{}}"
