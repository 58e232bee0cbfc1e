"""The sketch: linear, order-sensitive, accurate, and the same in numpy and torch."""

import numpy as np
import pytest
import torch

from lockstep.parity.recording.sketch_torch import Sketcher
from lockstep.parity.trace.sketch import FOLD_FROM, WIDTH, relative_l2, sketch, sketch_and_stats, splitmix64

SIZES = [0, 1, 257, FOLD_FROM - 1, FOLD_FROM, FOLD_FROM + 1, 300_001, 5_000_000]


def test_splitmix64_gives_the_published_sequence():
    # first outputs of the generator seeded with 0, from its authors' reference code
    wanted = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    assert [int(v) for v in splitmix64(np.arange(4))] == wanted


@pytest.mark.parametrize("size", SIZES)
def test_torch_and_numpy_agree(size):
    values = torch.randn(size, generator=torch.Generator().manual_seed(size))
    here, stats = Sketcher()(values)
    there, wanted = sketch_and_stats(values.numpy())
    assert np.array_equal(here, there)
    assert stats.l2 == pytest.approx(wanted.l2, rel=1e-6)
    assert stats.mean == pytest.approx(wanted.mean, abs=1e-6)
    assert (stats.n, stats.min, stats.max) == (wanted.n, wanted.min, wanted.max)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn]
)
def test_other_dtypes_are_sketched_by_value(dtype):
    values = (torch.randn(70_000, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)
    here, stats = Sketcher()(values)
    exact = values.double() if dtype in (torch.float64, torch.int64, torch.bool) else values.float()
    there, wanted = sketch_and_stats(exact.numpy())
    assert np.array_equal(here, there)
    assert (stats.min, stats.max) == (wanted.min, wanted.max)


def test_strided_tensors_are_read_in_logical_order():
    values = torch.randn(300, 400, generator=torch.Generator().manual_seed(0))
    assert np.array_equal(Sketcher()(values.T)[0], sketch(values.numpy().T.copy()))


@pytest.mark.parametrize("size", [1000, 100_000])
def test_it_is_linear(size):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(size), rng.standard_normal(size)
    np.testing.assert_allclose(sketch(a) - sketch(b), sketch(a - b), atol=1e-9)


@pytest.mark.parametrize("error", [1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("size", [4000, 200_000])
def test_it_estimates_the_relative_error(size, error):
    ratios = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        a = rng.standard_normal(size)
        b = a + error * rng.standard_normal(size)
        ratios.append(np.linalg.norm(sketch(a) - sketch(b)) / np.linalg.norm(a) / relative_l2(a, b))
    assert np.mean(ratios) == pytest.approx(1, abs=0.04)
    assert np.std(ratios) < 0.08


@pytest.mark.parametrize("pattern", ["one channel", "one plane", "constant plane", "rank one"])
def test_structured_errors_are_estimated_as_well(pattern):
    ratios = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        d = np.zeros((4096, 320))
        if pattern == "one channel":
            d[:, seed] = rng.standard_normal(4096)
        elif pattern == "one plane":
            d.reshape(320, 4096)[seed] = rng.standard_normal(4096)
        elif pattern == "constant plane":
            d.reshape(320, 4096)[seed] = 1
        else:
            d = np.outer(rng.standard_normal(4096), rng.standard_normal(320))
        ratios.append(np.linalg.norm(sketch(d)) / np.linalg.norm(d))
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)
    assert np.max(np.abs(np.array(ratios) - 1)) < 0.3


def test_a_permutation_keeps_the_norm_and_changes_the_sketch():
    a = np.random.default_rng(0).standard_normal((64, 128))
    b = np.roll(a, 64, axis=1)
    (sketch_a, stats_a), (sketch_b, stats_b) = sketch_and_stats(a), sketch_and_stats(b)
    assert stats_a.l2 == pytest.approx(stats_b.l2, rel=1e-12)
    estimate = np.linalg.norm(sketch_a - sketch_b) / stats_a.l2
    assert estimate == pytest.approx(relative_l2(a, b), rel=0.15)


@pytest.mark.parametrize("size", [100, 100_000])
def test_non_finite_elements_are_counted_and_left_out(size):
    values = torch.randn(size, generator=torch.Generator().manual_seed(0))
    values[3], values[5], values[7] = float("nan"), float("inf"), -float("inf")
    here, stats = Sketcher()(values)
    assert (stats.nan, stats.inf) == (1, 2)
    assert np.isfinite(here).all()
    assert np.isfinite([stats.l2, stats.mean, stats.min, stats.max]).all()
    assert here.shape == (WIDTH,)


def test_masks_with_the_smallest_float_do_not_overflow():
    mask = torch.zeros(300, 300)
    mask[:, 200:] = torch.finfo(torch.float32).min
    here, stats = Sketcher()(mask)
    assert np.isfinite(here).all()
    assert (stats.nan, stats.inf) == (0, 0)
    assert np.array_equal(here, sketch(mask.numpy()))


def test_folding_in_float32_costs_little():
    """The estimate of a last-bit error is not drowned by the sketch's own rounding."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal(400_000).astype(np.float32)
    b = (a + 2e-7 * rng.standard_normal(a.size)).astype(np.float32)
    estimate = np.linalg.norm(sketch(a) - sketch(b)) / np.linalg.norm(a)
    assert estimate == pytest.approx(relative_l2(a, b), rel=0.25)
