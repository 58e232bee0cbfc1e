"""The names of the standalone TAESD files (madebyollin/taesd): rows of a weight map.

They are dumps of two `nn.Sequential`; the decoder counts its soft clamp as layer 0, here a line of the forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..weights import Row


def encoder_rows() -> list[Row]:
    """All rows for the encoder's file."""
    return [("{i}.{*}", "encoder.layers.{i}.{*}")]


def decoder_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for the decoder's file."""
    return [(f"{layer + 1}.{{*}}", f"decoder.layers.{layer}.{{*}}") for layer in range(num_decoder_layers(config))]


def tiny_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for a file with both, under the prefixes that ComfyUI gives them."""
    encoder = [(f"taesd_encoder.{theirs}", ours) for theirs, ours in encoder_rows()]
    return encoder + [(f"taesd_decoder.{theirs}", ours) for theirs, ours in decoder_rows(config)]


def num_decoder_layers(config: Mapping[str, Any]) -> int:
    """A convolution and its activation, the blocks, an upsampling and a convolution between stages, and the last."""
    stages = config["num_decoder_blocks"]
    return 2 + sum(stages) + 2 * (len(stages) - 1) + 1
