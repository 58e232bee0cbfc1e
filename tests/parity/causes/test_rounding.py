"""Causes inside the floor: another rounding of the same formula is found and proven, noise is not explained away."""

import itertools
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from lockstep.models.layers import Timesteps
from lockstep.parity import Trace, TraceWriter, Verdict, compare, floor, record
from lockstep.parity.causes.diagnosis import Live, diagnose

CANDLE = Path(__file__).parents[2] / "fixtures" / "candle" / "time_proj_sd15.trace.safetensors"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.time_proj = Timesteps(320, flip_sin_to_cos=True, downscale_freq_shift=0)

    def forward(self, timestep):
        return self.time_proj(timestep)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """The model, how it is run, its trace and its floor."""
    model = Model()
    trace = tmp_path_factory.mktemp("time") / "ours.trace"

    def call():
        return model(torch.tensor([981]))

    with record(model, trace, name="unet"):
        call()
    return Live(model, call, "unet"), trace, floor(model, trace, runs=("fp64", "ulp"), call=call, name="unet")


def test_candles_frequencies_are_explained_to_the_last_bit(ours):
    live, trace, measured = ours
    result = compare(CANDLE, trace, floor=measured)
    assert result.verdict is Verdict.NOISE  # 1e-5, and no fault: float64 is as far from either side
    assert diagnose(result, candidate=live, floor=measured) == []
    causes = diagnose(result, candidate=live, floor=measured, rounding=True)
    assert {cause.name for cause in causes} == {"rounding"}
    assert "times the rounded inverse of 160" in causes[0].why
    assert "`exp` rounded once" in causes[1].why
    assert causes[0].residual_before == pytest.approx(9.8e-6, rel=0.05)
    assert causes[1].residual_after < 1e-7
    for before, behind in itertools.pairwise(causes):
        assert behind.residual_before == before.residual_after
    assert result.explained.verdict is Verdict.PASS
    assert result.explained.nodes[-1].error < 1e-7
    assert result.to_json()["explained"].startswith("PASS")


def test_noise_of_the_same_size_has_no_cause(ours, tmp_path):
    live, trace, measured = ours
    values = torch.from_numpy(Trace.open(trace).array(Trace.open(trace).get("-|unet.time_proj|out")).copy())
    noise = torch.randn(values.shape, generator=torch.Generator().manual_seed(0))
    noisy = values + noise * (1e-5 * values.norm() / math.sqrt(values.numel()))
    with TraceWriter(tmp_path / "noisy.trace", {}) as writer:
        writer.put("-", "unet.time_proj", "out", noisy.numpy())
    result = compare(tmp_path / "noisy.trace", trace, floor=measured)
    assert result.verdict is Verdict.NOISE
    assert diagnose(result, candidate=live, floor=measured, rounding=True) == []
    assert result.explained is None
