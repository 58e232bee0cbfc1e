"""The names of the original latent diffusion files (LDM, SGM) for the UNet's tensors: rows of a weight map.

There the blocks are one list, counted through: each resnet, with the transformer behind it, and each downsampler has
its own number. What is inside a transformer has the same names on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..weights import Row, renamed_parts

RESNET = {
    "in_layers.0": "norm1",
    "in_layers.2": "conv1",
    "emb_layers.1": "time_emb_proj",
    "out_layers.0": "norm2",
    "out_layers.3": "conv2",
    "skip_connection": "conv_shortcut",
}


def unet_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for a UNet of this config."""
    ends = [("out.0.{}", "conv_norm_out.{}"), ("out.2.{}", "conv_out.{}")]
    return [*conditions(config), *way_down(config), *middle(config), *way_up(config), *ends]


def conditions(config: Mapping[str, Any]) -> Iterator[Row]:
    """What is added to every block: time, and class or size and pooled text."""
    yield "time_embed.0.{}", "time_embedding.linear_1.{}"
    yield "time_embed.2.{}", "time_embedding.linear_2.{}"
    if config.get("num_class_embeds"):
        yield "label_emb.weight", "class_embedding.weight"
    elif config.get("addition_embed_type") or config.get("class_embed_type"):
        name = "add_embedding" if config.get("addition_embed_type") else "class_embedding"
        yield "label_emb.0.0.{}", f"{name}.linear_1.{{}}"
        yield "label_emb.0.2.{}", f"{name}.linear_2.{{}}"


def way_down(config: Mapping[str, Any]) -> Iterator[Row]:
    yield "input_blocks.0.0.{}", "conv_in.{}"
    number, types = 0, config["down_block_types"]
    for block, (kind, layers) in enumerate(zip(types, layers_per_block(config), strict=True)):
        for layer in range(layers):
            number += 1
            yield from renamed_parts(f"input_blocks.{number}.0", f"down_blocks.{block}.resnets.{layer}", RESNET)
            if kind.startswith("CrossAttn"):
                yield f"input_blocks.{number}.1.{{*}}", f"down_blocks.{block}.attentions.{layer}.{{*}}"
        if block < len(types) - 1:
            number += 1
            yield f"input_blocks.{number}.0.op.{{}}", f"down_blocks.{block}.downsamplers.0.conv.{{}}"


def middle(config: Mapping[str, Any]) -> Iterator[Row]:
    if config.get("mid_block_type", "UNetMidBlock2DCrossAttn") is None:
        return
    yield from renamed_parts("middle_block.0", "mid_block.resnets.0", RESNET)
    yield "middle_block.1.{*}", "mid_block.attentions.0.{*}"
    yield from renamed_parts("middle_block.2", "mid_block.resnets.1", RESNET)


def way_up(config: Mapping[str, Any]) -> Iterator[Row]:
    number, types = 0, config["up_block_types"]
    for block, (kind, layers) in enumerate(zip(types, reversed(layers_per_block(config)), strict=True)):
        attends = kind.startswith("CrossAttn")
        for layer in range(layers + 1):
            yield from renamed_parts(f"output_blocks.{number}.0", f"up_blocks.{block}.resnets.{layer}", RESNET)
            if attends:
                yield f"output_blocks.{number}.1.{{*}}", f"up_blocks.{block}.attentions.{layer}.{{*}}"
            if layer == layers and block < len(types) - 1:  # behind the last layer stands the upsampler
                place = f"output_blocks.{number}.{2 if attends else 1}.conv"
                yield f"{place}.{{}}", f"up_blocks.{block}.upsamplers.0.conv.{{}}"
            number += 1


def layers_per_block(config: Mapping[str, Any]) -> list[int]:
    layers, count = config["layers_per_block"], len(config["down_block_types"])
    return [layers] * count if isinstance(layers, int) else list(layers)
