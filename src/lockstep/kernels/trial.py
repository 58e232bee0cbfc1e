"""A library is tried on small problems with awkward sizes before it is used, against the same in fp64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

from . import calls
from .calls import FP32

if TYPE_CHECKING:
    from .library import Library

Tensor = torch.Tensor
Noise = Callable[..., Tensor]
Problem = tuple[str, Tensor, Tensor, float]  # the kernel, its result, the exact one, and how far apart they may be
LARGEST = 3e-6  # relative L2; a right kernel has some 3e-7
IN_BF16 = 2e-2  # where a kernel rounds to bf16 what only it sees: convolutions have 1.2e-2, attention 3e-3


@torch.no_grad()
def wrong_results(library: Library) -> list[str]:
    """The names of the kernels whose results are not what they have to be."""
    with torch.device("cpu"), _disable_current_modes():  # whatever the process is doing when it first asks
        return _wrong(_problems(library)) or _wrong(_extremes(library))


def _wrong(problems: Iterator[Problem]) -> list[str]:
    return sorted({name for name, result, exact, most in problems if not _close(result, exact, most)})


def _close(result: Tensor, exact: Tensor, most: float) -> bool:
    return bool((result.double() - exact).norm() <= most * exact.norm())  # false for NaN too


def _problems(library: Library) -> Iterator[Problem]:
    random = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=FP32, generator=random)

    for bf16 in (False, True) if library.bf16 else (False,):
        mark = "_bf16" if bf16 else ""
        for name, result, exact, most in _products(library, noise, bf16):
            yield name + mark, result, exact, most

    x, weight, bias = noise(2, 32, 5, 7) + 30, noise(32), noise(32)
    norm = F.group_norm(x.double(), 4, weight.double(), bias.double(), 1e-5)
    yield "group_norm", calls.group_norm(library, x, 4, weight, bias, 1e-5, silu=False), norm, LARGEST
    yield "group_norm", calls.group_norm(library, x, 4, weight, bias, 1e-5, silu=True), F.silu(norm), LARGEST
    weight, bias = noise(2, 32), noise(2, 32)
    norm = F.group_norm(x.double(), 4, eps=1e-5) * weight[:, :, None, None] + bias[:, :, None, None]
    yield "group_norm", calls.group_norm(library, x, 4, weight, bias, 1e-5, silu=False), norm, LARGEST

    x, other = noise(2, 5, 3, 4), noise(2, 7, 3, 4)
    yield "join", calls.join(library, x, other), torch.cat([x, other], dim=1).double(), 0.0

    changed = x.clone()
    changed[-1, -1, -1, -1] += 1
    answers = [float(calls.same(library, x, one)) for one in (x.clone(), changed)]
    yield "same", torch.tensor(answers), torch.tensor([1.0, 0.0]).double(), 0.0

    for x, centred in ((noise(2, 5, 80) + 30, True), (noise(2, 5, 80), False)):
        exact = x.double() - x.double().mean(-1, keepdim=True) if centred else x.double()
        exact = exact / (exact.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        weight, bias = noise(2, 80), noise(2, 80)
        yield "row_norm", calls.row_norm(library, x, None, None, 1e-5, centred), exact, LARGEST
        exact = exact * weight.double()[:, None] + bias[:, None]
        yield "row_norm", calls.row_norm(library, x, weight, bias, 1e-5, centred), exact, LARGEST

    x, cos, sin = noise(2, 7, 3, 32), noise(7, 32), noise(7, 32)
    turned = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(3).double()
    yield "turn", calls.turn(library, x, cos, sin), x.double() * cos[:, None] + turned * sin[:, None], LARGEST


def _products(library: Library, noise: Noise, bf16: bool) -> Iterator[Problem]:
    """What multiplies. In bf16 the factors of linear layers are rounded before, so that the result has to be exact."""

    def factor(*shape: int) -> Tensor:
        return noise(*shape).bfloat16().float() if bf16 else noise(*shape)

    rough = IN_BF16 if bf16 else LARGEST
    x, weight, bias, residual = factor(37, 51), factor(45, 51), noise(45), noise(37, 45)
    result = calls.linear(library, x, calls.pack_linear(library, weight, bf16), bias, residual, 45)
    exact = F.linear(x.double(), weight.double(), bias.double())
    yield "linear", result, exact + residual, LARGEST
    result = calls.linear(library, x, calls.pack_linear(library, weight, bf16), bias, residual, 45, gelu=True)
    yield "linear", result, F.gelu(exact, approximate="tanh") + residual, LARGEST

    x, weight, bias = factor(19, 25), factor(64, 25), noise(64)
    packed = calls.pack_linear(library, calls.interleaved(library, weight), bf16)
    values, gates = F.linear(x.double(), weight.double(), bias.double()).chunk(2, -1)
    result = calls.geglu(library, x, packed, calls.interleaved(library, bias), 32)
    yield "geglu", result, values * F.gelu(gates), LARGEST

    x, weight, bias, residual = factor(2, 32, 7, 9), factor(48, 32, 3, 3), noise(2, 48), noise(2, 48, 7, 9)
    exact = F.conv2d(x.double(), weight.double(), padding=1) + bias[:, :, None, None] + residual
    for stored in (False, True):
        packed = calls.pack_convolution(library, weight, stored, bf16)
        yield "convolution", calls.convolution(library, x, packed, bias, residual, 48, stored), exact, rough

    part, scale, shift, bias = x[:, :, :3, :4], noise(32), noise(32), noise(48)
    normed = F.silu(F.group_norm(part.double(), 4, scale.double(), shift.double(), 1e-5))
    exact = F.conv2d(normed, weight.double(), bias.double(), padding=1) + residual[:, :, :3, :4]
    norm, rest = (4, scale, shift, 1e-5), residual[:, :, :3, :4]
    result = calls.normed_convolution(library, part, norm, packed, bias, rest, 48, stored=True)
    yield "normed_convolution", result, exact, rough
    exact = F.conv2d(F.interpolate(part.double(), scale_factor=2.0), weight.double(), bias.double(), padding=1)
    yield "doubled_convolution", calls.doubled_convolution(library, part, packed, bias, 48, stored=True), exact, rough

    query, key, value, bias = factor(2, 61, 3, 24), factor(2, 149, 3, 24), factor(2, 149, 3, 24), noise(2, 149)
    scores = torch.einsum("bqhd,bkhd->bhqk", query.double(), key.double()) * 0.3 + bias[:, None, None]
    exact = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value.double())
    yield "attention", calls.attention(library, query, key, value, bias, 0.3, bf16), exact, rough
    yield from _large_scores(library, value, bf16, 2.0**12)

    x, weight, bias = factor(2, 21, 9, 7), factor(45, 21, 3, 3), noise(45)
    exact = F.conv2d(x.double(), weight.double(), bias.double(), stride=2, padding=1)
    result = calls.patches(library, x, calls.pack_patches(library, weight, bf16), bias, 45, 3, 2, 1)
    yield "patches", result, exact, LARGEST


def _extremes(library: Library) -> Iterator[Problem]:
    """Scores up to 1e33: a kernel that is wrong on smaller ones may not return from them."""
    value = torch.randn(2, 149, 3, 24, dtype=FP32, generator=torch.Generator().manual_seed(1))
    for bf16 in (False, True) if library.bf16 else (False,):
        for name, result, exact, most in _large_scores(library, value, bf16, 2.0**100):
            yield name + ("_bf16" if bf16 else ""), result, exact, most


def _large_scores(library: Library, value: Tensor, bf16: bool, large: float) -> Iterator[Problem]:
    """Scores that are equal, rise, fall, or are whole numbers times `large`, and hidden keys: in fp32 exact."""
    random, shape = torch.Generator().manual_seed(2), value.shape
    ones, whole = torch.ones(2, 61, 3, 24, dtype=FP32), torch.randint(-3, 4, (2, 61, 3, 24), generator=random).float()
    ramp = (torch.arange(shape[1], dtype=FP32) * large / 2.0**12).view(-1, 1, 1).expand(shape).contiguous()
    noise = torch.randint(-3, 4, shape, generator=random).float() * large
    hidden = torch.zeros(shape[:2], dtype=FP32)
    hidden[0, :20], hidden[1, ::3], hidden[1, 70:] = -torch.inf, torch.finfo(torch.float32).min, -torch.inf
    equal = torch.full(shape, large, dtype=FP32)
    for query, key in ((ones, equal), (ones, -equal), (ones, ramp), (ones, -ramp), (whole, noise)):
        for bias in (None, hidden):
            scores = torch.einsum("bqhd,bkhd->bhqk", query.double(), key.double()) * 0.25
            scores = scores if bias is None else scores + bias[:, None, None]
            exact = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value.double())
            result = calls.attention(library, query, key, value, bias, 0.25, bf16)
            yield "attention", result, exact, IN_BF16 if bf16 else LARGEST
