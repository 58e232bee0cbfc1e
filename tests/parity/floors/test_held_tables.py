"""A sampler that made its table of alphas in float32 when it was built: a right port makes it in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from lockstep import parity as px
from lockstep.parity.floors.held_tables import held_tables_moved
from parity.causes.test_classes import drawn, seeded
from parity.causes.test_own_loops import Velocity

STEPS, TRAINED, RHO = 6, 1000, 7.0


class Sampler:
    """Steps between noise levels that are bent as Karras does, of a product that is kept in float32."""

    def __init__(self, last_beta=0.012, wide=False):
        kind = torch.float64 if wide else torch.float32
        betas = torch.linspace(0.00085**0.5, last_beta**0.5, TRAINED, dtype=kind) ** 2
        self.net, self.kept = seeded(Velocity()), torch.cumprod(1 - betas, 0)

    @torch.no_grad()
    def __call__(self):
        kept = self.kept.double().numpy()
        every = np.sqrt((1 - kept) / kept)
        first, last = every[-1] ** (1 / RHO), every[0] ** (1 / RHO)
        sigmas = np.append((first + np.linspace(0, 1, STEPS) * (last - first)) ** RHO, 0.0)
        x = drawn(1, 4, 6, 8, seed=3) * float(sigmas[0])
        for now, after in itertools.pairwise(sigmas):
            time = torch.full((1,), float(np.log(now) / 4))
            x = x + float(after - now) * self.net(x / float((now**2 + 1) ** 0.5), time)
        return x


def verdict(folder, port):
    reference = Sampler()
    for side, path in ((reference, "a.trace"), (port, "b.trace")):
        with px.record(side, folder / path, level="module+ops"):
            side()
    floor = px.floor(reference, folder / "a.trace", call=reference)
    return px.compare(folder / "a.trace", folder / "b.trace", floor=floor)


def test_a_right_table_in_float64_is_no_bug(tmp_path):
    result = verdict(tmp_path, Sampler(wide=True))
    assert result.verdict in ("PASS", "NOISE"), result.sentence()


@pytest.mark.parametrize("wide", [True, False])
def test_another_last_beta_stays_a_bug(tmp_path, wide):
    assert verdict(tmp_path, Sampler(0.01201, wide)).verdict == "BUG"


def test_tables_are_moved_for_a_while_and_timesteps_are_not():
    sampler = Sampler()
    sampler.times, before = torch.arange(TRAINED).float(), sampler.kept
    with held_tables_moved([sampler], [], torch.Generator().manual_seed(0)):
        moved = (sampler.kept.double() / before.double() - 1).abs()
        assert 1e-7 < float(moved.max()) < 1e-5
        assert torch.equal(sampler.times, torch.arange(TRAINED).float())
    assert sampler.kept is before
