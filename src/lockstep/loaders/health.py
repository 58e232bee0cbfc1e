"""Whether the weights of a file are sound: NaN, Inf, tensors of zeros, and tensors that stand in it twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from ..models.weights import MappedFiles, StoredTensor

NATURALLY_ZERO = (".bias",)  # zero is where these begin, and where some stay


@dataclass
class Health:
    """What a scan of all values found."""

    nan: list[str] = field(default_factory=list)
    infinite: list[str] = field(default_factory=list)
    zeros: list[str] = field(default_factory=list)
    duplicates: list[tuple[str, ...]] = field(default_factory=list)  # names with the same values

    @property
    def sound(self) -> bool:
        return not (self.nan or self.infinite)


def scan(stored: Mapping[str, StoredTensor], report: Callable[[str], None] = lambda name: None) -> Health:
    """Read every tensor once, one at a time."""
    health, opened = Health(), MappedFiles()
    same: dict[str, list[str]] = {}
    for name, tensor in stored.items():
        report(name)
        value = opened.read(tensor)
        if value.is_floating_point() and value.numel():
            # one pass tells whether there is anything to look for: NaN and Inf survive a sum of halves or more
            small = value.to(torch.float32) if value.dtype.itemsize < 2 else value
            low, high = (float(bound) for bound in torch.aminmax(small))
            if low != low or high != high:
                health.nan.append(name)
                finite = small[~torch.isnan(small)]
                if bool(torch.isinf(finite).any()):
                    health.infinite.append(name)
            elif abs(low) == float("inf") or abs(high) == float("inf"):
                health.infinite.append(name)
            elif low == high == 0 and not name.endswith(NATURALLY_ZERO):
                health.zeros.append(name)
        if value.numel() > 1 and value.ndim > 1:
            digest = hashlib.blake2b(value.contiguous().view(torch.uint8).flatten().numpy().data, digest_size=16)
            digest.update(repr((tensor.info.dtype, tensor.info.shape)).encode())
            same.setdefault(digest.hexdigest(), []).append(name)
    zeros = set(health.zeros)
    health.duplicates = [tuple(names) for names in same.values() if len(names) > 1 and names[0] not in zeros]
    return health
