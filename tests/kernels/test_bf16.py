"""Kernels that multiply in bf16: exact on factors that are bf16 already, as far off as bf16 on others."""

import pytest
import torch
from torch.nn import functional as F

from lockstep import kernels
from lockstep.kernels import calls, operators, trial
from lockstep.kernels.library import ANSWERS, ARGUMENTS, PRODUCTS, Library

own = kernels.library()
pytestmark = pytest.mark.skipif(own is None or not own.bf16, reason="no kernels for bf16 here")


@pytest.fixture(autouse=True)
def _quietly():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def rounded(*shape):
    return torch.randn(*shape).bfloat16().float()


def distance(result, exact):
    return float((result.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [(1, 1, 1), (13, 33, 31), (400, 700, 64), (7, 1301, 100), (193, 64, 33)]
)
def test_linear_is_exact_on_bf16_factors(rows, depth, columns):
    x, weight, residual, bias = rounded(rows, depth), rounded(columns, depth), torch.randn(rows, columns), rounded(1)
    bias = bias.expand(columns).contiguous()
    packed = calls.pack_linear(own, weight, bf16=True)
    assert packed.dtype == torch.bfloat16
    exact = F.linear(x.double(), weight.double(), bias.double())
    assert distance(operators.linear(x, packed, bias, None, columns), exact) < 2e-6
    assert distance(operators.linear(x, packed, bias, residual, columns), exact + residual) < 2e-6


def test_linear_rounds_other_factors_to_the_nearest():
    x, weight = torch.randn(64, 320), torch.randn(96, 320)
    result = operators.linear(x, calls.pack_linear(own, weight, bf16=True), None, None, 96)
    nearest = x.bfloat16().double() @ weight.bfloat16().double().T
    assert distance(result, nearest) < 2e-6
    assert 1e-3 < distance(result, x.double() @ weight.double().T) < 4e-3


def test_geglu_is_exact_on_bf16_factors():
    x, weight, bias = rounded(50, 64), rounded(128, 64), torch.randn(128)
    packed = calls.pack_linear(own, calls.interleaved(own, weight), bf16=True)
    values, gates = F.linear(x.double(), weight.double(), bias.double()).chunk(2, -1)
    assert distance(operators.geglu(x, packed, calls.interleaved(own, bias), 64), values * F.gelu(gates)) < 2e-6


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (17, 6), (40, 40)])
@pytest.mark.parametrize(("into", "out"), [(16, 16), (48, 80), (592, 32)])
def test_convolution(stored, size, into, out):
    x, weight, bias, residual = rounded(2, into, *size), rounded(out, into, 3, 3), torch.randn(2, out), None
    packed = calls.pack_convolution(own, weight, stored, bf16=True)
    exact = F.conv2d(x.double(), weight.double(), padding=1) + bias[:, :, None, None]
    assert 1e-3 < distance(operators.convolution(x, packed, bias, residual, out, stored), exact) < 2e-2


@pytest.mark.parametrize("width", [8, 40, 64, 80, 128, 160])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 77), (100, 301), (49, 129)])
def test_attention(width, queries, keys):
    query, key, value = rounded(2, queries, 3, width), rounded(2, keys, 3, width), rounded(2, keys, 3, width)
    heads = [tensor.double().transpose(1, 2) for tensor in (query, key, value)]
    exact = F.scaled_dot_product_attention(*heads).transpose(1, 2)
    assert distance(operators.attention(query, key, value, None, width**-0.5, bf16=True), exact) < 5e-3


def test_attention_leaves_out_keys_that_a_bias_takes_away():
    query, key, value = (rounded(2, 30, 2, 16) for _ in range(3))
    bias = torch.zeros(2, 30)
    bias[1, 21:] = -torch.inf
    result = operators.attention(query, key, value, bias, 0.25, bf16=True)
    alone = operators.attention(query[1:], key[1:, :21], value[1:, :21], None, 0.25, bf16=True)
    assert distance(result[1:], alone.double()) < 1e-6


def test_nan_stays():
    x, weight = torch.randn(50, 64), torch.randn(96, 64)
    x[3, 5] = torch.nan
    result = operators.linear(x, calls.pack_linear(own, weight, bf16=True), None, None, 96)
    assert result[3].isnan().all()
    assert result.isnan().sum() == 96


@pytest.mark.parametrize("name", [*ARGUMENTS, *(f"{name}_bf16" for name in PRODUCTS)])
def test_a_kernel_with_a_planted_error_is_refused(name):
    """One number of a result, half a percent off for fp32 and five for bf16, is seen; so is a wrong packing."""
    assert not trial.wrong_results(own)
    planted = Library(own.path)
    right = planted._functions[name]

    def wrong(*arguments):
        answer = right(*arguments)
        if name in ANSWERS:
            return not answer
        return spoil(name, arguments, 1.05 if name.endswith("_bf16") else 1.005)

    planted._functions[name] = wrong
    assert any(name.removesuffix("_bf16").removeprefix("pack_") in one for one in trial.wrong_results(planted))


def spoil(name, arguments, factor):
    """Multiply the first numbers of what a kernel has written."""
    import ctypes

    places = {"pack_linear": 1, "pack_convolution": 1, "geglu": 3, "group_norm": 3, "row_norm": 3, "turn": 3}
    places |= {"normed_convolution": 6, "doubled_convolution": 3, "patches": 3, "join": 2}
    base = name.removesuffix("_bf16")
    numbers = ctypes.cast(arguments[places.get(base, 4)], ctypes.POINTER(ctypes.c_float))
    if base.startswith("pack_") and name.endswith("_bf16"):
        halves = ctypes.cast(arguments[1], ctypes.POINTER(ctypes.c_uint16))
        for place in range(64):
            halves[place] ^= 0x40  # half as much again, or less
        return
    for place in range(24):
        numbers[place] *= 1 + (factor - 1) * 8
