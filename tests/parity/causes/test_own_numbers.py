"""Schedules that numpy makes: no operation of torch shows the number that is wrong, only the code does."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from lockstep.parity.causes.edits import Call, Site
from lockstep.parity.causes.examples import Example
from lockstep.parity.causes.hypotheses.own_code import code_numbers, own_number_edits
from lockstep.parity.causes.hypotheses.tensors import arithmetic_edits, constant
from lockstep.parity.causes.live import Live
from lockstep.parity.causes.pipeline_probe import PipelineProbe
from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded
from parity.causes.test_own_loops import Velocity

STEPS, LARGEST = 4, 9.0


def bent(count, largest, rho=7.0):
    first, last = largest ** (1 / rho), 0.05 ** (1 / rho)
    return np.append((first + np.linspace(0, 1, count) * (last - first)) ** rho, 0.0)


class Sampler:
    """Steps along noise levels; the model is told their logarithm."""

    def __init__(self):
        self.net = seeded(Velocity())

    def levels(self):
        return bent(STEPS, LARGEST)

    @torch.no_grad()
    def __call__(self):
        levels = self.levels()
        x = drawn(1, 4, 6, 8, seed=3) * float(levels[0])
        for now, after in itertools.pairwise(levels):
            noise = self.net(x / float(np.sqrt(now**2 + 1)), torch.full((1,), float(np.log(now)) / 4))
            x = x + float(after - now) * noise
        return x


def another(largest, power):
    """Written otherwise, with its numbers in the function around."""

    class Other(Sampler):
        def levels(self):
            ends = np.array([largest, 0.05]) ** (1 / power)
            return np.append(np.linspace(ends[0], ends[1], STEPS) ** power, 0.0)

    return Other()


@pytest.mark.parametrize(
    ("largest", "power", "words"),
    [
        (9.0, 5.0, "5 instead of 7 as the default of `rho` in the code of `bent`"),
        (9.5, 7.0, "9.5 instead of 9 as `LARGEST`"),
    ],
)
def test_the_number_is_told(tmp_path, largest, power, words):
    result = diagnosed(tmp_path, Sampler(), another(largest, power), lambda pipe: pipe(), evaluations=800)
    first = result.causes[0]
    assert (first.name, first.standing) == ("constant", Standing.PROVEN), first.why
    assert words in first.why, first.why


def test_every_number_is_given_back():
    side, other = Sampler(), another(9.5, 5.0)
    live, wanted = Live(side, side), side()
    edits = list(own_number_edits(live, Live(other, other)))
    assert len(edits) > 3
    for edit in edits:
        with PipelineProbe.edited(live, [edit]):
            pass
    assert torch.equal(side(), wanted)
    assert {7.0, 0.05, 9.0} <= {place.number for place in code_numbers(live)}


def test_a_factor_that_is_another_one_in_each_step_changes_in_each():
    halved = constant("mul", "constant", 1, 2.0, 1.0, frozenset([Site("@pipeline", "mul", 0)])).changes[0]
    inverted = constant("mul", "constant", 1, 2.0, 0.5, frozenset([Site("@pipeline", "mul", 0)])).changes[0]
    made = [c.apply(Call(torch.mul, (torch.ones(2), n), {}, "mul", {})) for c in (halved, inverted) for n in (2.0, 8.0)]
    assert [float(x[0]) for x in made] == [1.0, 4.0, 0.5, 0.125]


@pytest.mark.parametrize(("operands", "large"), [([(2, 3), 2.0], False), ([10000.0, (2, 3)], True)])
def test_an_exponent_is_not_made_so_large_that_its_term_is_gone(operands, large):
    edits = arithmetic_edits(Example("pow", operands, result=(2, 3)), frozenset([Site("model", "pow", 0)]))
    tried = [edit.parameter for edit in edits if edit.name == "constant"]
    assert tried
    assert (max(tried) > 100) is large
