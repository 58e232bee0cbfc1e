"""What a step is told beside its tensors, the same however it is written."""

from __future__ import annotations

import inspect
from typing import Any

from ..edits import PARAMETERS
from .graph import FrameStep, FrameValue

_CONVOLUTION = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
# Settings that say the same whether they are given or not.
_DEFAULTS: dict[str, dict[str, Any]] = {
    **{f"conv{n}d": _CONVOLUTION for n in (1, 2, 3)},
    "gelu": {"approximate": "none"},
    "interpolate": {"size": None, "scale_factor": None, "mode": "nearest", "align_corners": None, "antialias": False,
                    "recompute_scale_factor": None},
    "scaled_dot_product_attention": {"dropout_p": 0, "is_causal": False, "scale": None, "enable_gqa": False},
    "layer_norm": {"eps": 1e-5},
    "group_norm": {"eps": 1e-5},
    "add": {"alpha": 1},
    "sub": {"alpha": 1},
}  # fmt: skip


_WHERE = frozenset(("device", "layout", "pin_memory", "requires_grad"))  # not what is computed


def plain(step: FrameStep) -> dict[str, Any]:
    """Arguments that are no tensors, by name where the names are known."""
    names = PARAMETERS.get(step.name, ()) or _names(step.function)
    found = {names[i] if i < len(names) else str(i): v for i, v in enumerate(step.args)} | step.kwargs
    usual = _DEFAULTS.get(step.name, {})
    given = {k: _one_number(v) if k in usual else v for k, v in found.items() if not has_value(v) and k not in _WHERE}
    return {k: v for k, v in given.items() if k not in usual or v != usual[k]}


def _one_number(value: Any) -> Any:
    """`(1, 1)` of a convolution is 1."""
    several = type(value) in (list, tuple) and value and all(item == value[0] for item in value)
    return value[0] if several else value


def _names(function: Any) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def has_value(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(has_value(item) for item in value)
    return isinstance(value, FrameValue)
