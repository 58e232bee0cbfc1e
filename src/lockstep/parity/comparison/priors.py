"""What rounding alone explains: unit roundoffs and the probabilistic bound for sums (Higham & Mary 2019)."""

from __future__ import annotations

import math
from typing import Any

UNIT = {"F64": 2.0**-53, "F32": 2.0**-24, "C64": 2.0**-24, "F16": 2.0**-11, "BF16": 2.0**-8}
UNIT |= {"F8_E4M3": 2.0**-4, "F8_E5M2": 2.0**-3}
HALF = {"F16", "BF16", "F8_E4M3", "F8_E5M2"}
UNKNOWN_LENGTH = 1024  # of the sums inside a node about which nothing is known


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ELEMENTWISE = _names(
    "add sub mul div pow sqrt rsqrt exp sin cos neg abs clamp where cat stack gelu silu relu sigmoid tanh to rsub rdiv "
    "GELU SiLU ReLU Tanh Sigmoid Mish Identity Dropout Embedding SiLUActivation QuickGELUActivation GELUActivation"
)
_NORMS = _names(
    "LayerNorm GroupNorm RMSNorm BatchNorm2d InstanceNorm2d FP32LayerNorm layer_norm group_norm softmax mean"
)
NORM_LENGTH = 16  # the errors of the elements average out in mean and variance, what is left is a few operations


def unit(*dtypes: str) -> float:
    """The coarsest unit roundoff among the dtypes; integers have none."""
    return max((UNIT.get(dtype, 0.0) for dtype in dtypes), default=0.0)


def reduction_length(op: str, attributes: dict[str, Any]) -> int:
    """K: how many products one element of the output is a sum of."""
    if _is_count(attributes.get("in_features")):
        return int(attributes["in_features"])
    kernel, groups = attributes.get("kernel_size"), attributes.get("groups") or 1
    if isinstance(kernel, list) and all(_is_count(n) for n in [attributes.get("in_channels"), groups, *kernel]):
        return max(1, attributes["in_channels"] * math.prod(kernel) // groups)
    if op in _ELEMENTWISE:
        return 1
    if op in _NORMS:
        return NORM_LENGTH
    return UNKNOWN_LENGTH


def _is_count(value: Any) -> bool:
    """Settings come from a file: what is no plausible count is not counted with."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31


def prior(dtypes: tuple[str, str], length: int, constant: float = 4.0) -> float:
    """c (u_store + sqrt(K) u_acc). Leaves add up in float32 at least; what is made of many nodes rounds to storage."""
    store = unit(*dtypes)
    accumulate = store if length == UNKNOWN_LENGTH else min(store, UNIT["F32"])
    return constant * (store + math.sqrt(length) * accumulate)
