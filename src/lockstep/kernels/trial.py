"""A library is tried on small problems with awkward sizes before it is used, against the same in fp64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from . import calls

if TYPE_CHECKING:
    from .library import Library

Tensor = torch.Tensor
LARGEST = 3e-6  # relative L2; a right kernel has some 3e-7


@torch.no_grad()
def wrong_results(library: Library) -> list[str]:
    """The names of the kernels whose results are not what they have to be."""
    return sorted({name for name, result, exact in _problems(library) if not _close(result, exact)})


def _close(result: Tensor, exact: Tensor) -> bool:
    return bool((result.double() - exact).norm() <= LARGEST * exact.norm())  # false for NaN too


def _problems(library: Library) -> Iterator[tuple[str, Tensor, Tensor]]:
    random = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    x, weight, bias, residual = noise(37, 50), noise(45, 50), noise(45), noise(37, 45)
    result = calls.linear(library, x, calls.pack_linear(library, weight), bias, residual, 45)
    yield "linear", result, F.linear(x.double(), weight.double(), bias.double()) + residual

    x, weight, bias = noise(19, 24), noise(64, 24), noise(64)
    packed = calls.pack_linear(library, calls.interleaved(library, weight))
    values, gates = F.linear(x.double(), weight.double(), bias.double()).chunk(2, -1)
    result = calls.geglu(library, x, packed, calls.interleaved(library, bias), 32)
    yield "geglu", result, values * F.gelu(gates)

    x, weight, bias, residual = noise(2, 32, 7, 9), noise(48, 32, 3, 3), noise(2, 48), noise(2, 48, 7, 9)
    exact = F.conv2d(x.double(), weight.double(), padding=1) + bias[:, :, None, None] + residual
    for stored in (False, True):
        packed = calls.pack_convolution(library, weight, stored)
        yield "convolution", calls.convolution(library, x, packed, bias, residual, 48, stored), exact

    x, weight, bias = noise(2, 32, 5, 7) + 30, noise(32), noise(32)
    norm = F.group_norm(x.double(), 4, weight.double(), bias.double(), 1e-5)
    yield "group_norm", calls.group_norm(library, x, 4, weight, bias, 1e-5, silu=False), norm
    yield "group_norm", calls.group_norm(library, x, 4, weight, bias, 1e-5, silu=True), F.silu(norm)
    weight, bias = noise(2, 32), noise(2, 32)
    norm = F.group_norm(x.double(), 4, eps=1e-5) * weight[:, :, None, None] + bias[:, :, None, None]
    yield "group_norm", calls.group_norm(library, x, 4, weight, bias, 1e-5, silu=False), norm

    query, key, value, bias = noise(2, 61, 3, 24), noise(2, 150, 3, 24), noise(2, 150, 3, 24), noise(2, 150)
    scores = torch.einsum("bqhd,bkhd->bhqk", query.double(), key.double()) * 0.3 + bias[:, None, None]
    exact = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value.double())
    yield "attention", calls.attention(library, query, key, value, bias, 0.3), exact
