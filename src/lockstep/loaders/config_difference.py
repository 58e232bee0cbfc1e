"""Where a declared config says something else than the shapes of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def compare_config(implied: Mapping[str, Any], declared: Mapping[str, Any]) -> list[str]:
    """Where the declared config says something else than the shapes."""
    different = []
    for key, value in implied.items():
        said = declared.get(key, value)
        if isinstance(value, Mapping) and isinstance(said, Mapping):
            different += [f"{key}: {line}" for line in compare_config(value, said)]
        elif _spread(key, said, implied) != _spread(key, value, implied):
            different.append(f"{key}: the shapes say {_plain(value)}, the config says {_plain(said)}")
    return different


def _spread(key: str, value: Any, implied: Mapping[str, Any]) -> Any:
    """A value for each block where one number may stand for all; what a block without attention says counts not."""
    blocks = implied.get("down_block_types", ())
    if key in ("transformer_layers_per_block", "layers_per_block") and isinstance(value, int):
        value = [value] * len(blocks)
    if key == "transformer_layers_per_block" and isinstance(value, (list, tuple)) and len(value) == len(blocks):
        matters = ["CrossAttn" in kind or block == len(blocks) - 1 for block, kind in enumerate(blocks)]  # the middle's
        value = [depth for depth, counts in zip(value, matters, strict=True) if counts]
    return _plain(value)


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
