"""The names of the original T2I-Adapter files (TencentARC/T2I-Adapter): rows of a weight map.

There the resnets of a full adapter are one list, counted through, and the first one of a level brings the new width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Row = tuple[Any, ...]


def t2i_adapter_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for an adapter of this config."""
    light = config.get("adapter_type") == "light_adapter"
    return list(light_rows(config) if light else full_rows(config))


def full_rows(config: Mapping[str, Any]) -> Iterator[Row]:
    yield "conv_in.{}", "adapter.conv_in.{}"
    count, widths = config["num_res_blocks"], config["channels"]
    for level in range(len(widths)):
        if level and widths[level] != widths[level - 1]:
            yield f"body.{level * count}.in_conv.{{}}", f"adapter.body.{level}.in_conv.{{}}"
        for number in range(count):
            for name in ("block1", "block2"):
                theirs, ours = f"body.{level * count + number}.{name}", f"body.{level}.resnets.{number}.{name}"
                yield f"{theirs}.{{}}", f"adapter.{ours}.{{}}"


def light_rows(config: Mapping[str, Any]) -> Iterator[Row]:
    for level in range(len(config["channels"]) + 1):
        for name in ("in_conv", "out_conv"):
            yield f"body.{level}.{name}.{{}}", f"adapter.body.{level}.{name}.{{}}"
        yield f"body.{level}.body.{{}}.{{*}}", f"adapter.body.{level}.resnets.{{}}.{{*}}"
