"""The names of the original ControlNet files (lllyasviel/ControlNet): rows of a weight map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..unets.unet_2d_condition_map import conditions, layers_per_block, middle, way_down
from ..weights import Row


def controlnet_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for a ControlNet of this config: the UNet's way down, and what makes it one."""
    return [*conditions(config), *way_down(config), *middle(config), *hint(config), *zero_convolutions(config)]


def hint(config: Mapping[str, Any]) -> Iterator[Row]:
    """The picture's own convolutions; activations stand between them and are counted."""
    widths = config["conditioning_embedding_out_channels"]
    last = 2 * (len(widths) - 1)
    yield "input_hint_block.0.{}", "controlnet_cond_embedding.conv_in.{}"
    for block in range(last):
        yield f"input_hint_block.{2 * block + 2}.{{}}", f"controlnet_cond_embedding.blocks.{block}.{{}}"
    yield f"input_hint_block.{2 * last + 2}.{{}}", "controlnet_cond_embedding.conv_out.{}"


def zero_convolutions(config: Mapping[str, Any]) -> Iterator[Row]:
    """One for each skip that the UNet's way down leaves, and one for the middle."""
    layers = layers_per_block(config)
    for number in range(sum(layers) + len(layers)):
        yield f"zero_convs.{number}.0.{{}}", f"controlnet_down_blocks.{number}.{{}}"
    yield "middle_block_out.0.{}", "controlnet_mid_block.{}"
