"""Random numbers: the same ones in another order are no difference, and others are a cause only if the run closes."""

from __future__ import annotations

import torch
from torch import nn

from lockstep import parity as px
from lockstep.parity.causes import Live, diagnose
from lockstep.parity.comparison.results import Standing


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x, t):
        return self.conv(x) * t


class Sampler:
    """A loop without a scheduler: noise first, then what is added behind every step."""

    steps, seed, factor = 3, 7, 1.0

    def __init__(self):
        torch.manual_seed(0)
        self.unet = Denoiser().eval()

    def noises(self, generator):
        x = torch.randn(1, 4, 6, 6, generator=generator)
        return x, (torch.randn(1, 4, 6, 6, generator=generator) for _ in range(self.steps))

    def sample(self):
        x, added = self.noises(torch.Generator().manual_seed(self.seed))
        for i, noise in enumerate(added):
            x = x - 0.1 * self.unet(x, 1.0 - i / self.steps) + 0.1 * noise * self.factor
        return x


class AllAtOnce(Sampler):
    """The same draws of the same stream, and another one between them."""

    def noises(self, generator):
        x = torch.randn(1, 4, 6, 6, generator=generator)
        added = [torch.randn(1, 4, 6, 6, generator=generator) for _ in range(self.steps)]
        torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
        return x, iter(added)


class OtherSeed(Sampler):
    seed = 8


class OtherSeedAndMore(OtherSeed):
    factor = 0.5


def compared(folder, *pipelines):
    runs = [torch.no_grad()(pipeline.sample) for pipeline in pipelines]
    for pipeline, run, name in zip(pipelines, runs, ("a", "b"), strict=True):
        with px.record(pipeline, folder / name, level="module+ops") as recorder:
            recorder.result(run())
    floor = px.floor(pipelines[0], folder / "a", call=runs[0], runs=("ulp", "ulp"))
    result = px.compare(folder / "a", folder / "b", floor=floor)
    diagnose(result, reference=Live(pipelines[0], runs[0]), candidate=Live(pipelines[1], runs[1]), floor=floor)
    return result


def test_the_steps_of_a_loop_without_a_scheduler_are_told_apart(tmp_path):
    result = compared(tmp_path, Sampler(), Sampler())
    assert {f"denoise:0{i}" for i in range(3)} <= {node.key.step for node in result.nodes}
    assert (
        next(node for node in result.nodes if node.key.path == "@pipeline" and node.key.slot == "out").key.step == "-"
    )


def test_the_same_draws_in_another_order_are_the_same(tmp_path):
    result = compared(tmp_path, Sampler(), AllAtOnce())
    assert result.verdict == "PASS", result.sentence()


def test_other_draws_are_the_cause_if_with_the_references_the_run_closes(tmp_path):
    result = compared(tmp_path, Sampler(), OtherSeed())
    assert result.verdict in ("BUG", "INVALID")
    if result.causes:
        assert result.causes[0].standing is Standing.PROVEN, result.causes[0].why


def test_other_draws_are_no_cause_where_the_run_stays_different(tmp_path):
    result = compared(tmp_path, Sampler(), OtherSeedAndMore())
    assert all(cause.standing is not Standing.PROVEN for cause in result.causes), result.causes[0].why
