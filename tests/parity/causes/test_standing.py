"""A cause stands only if the whole run agrees with it; what fits one value, and that nothing was found, is told as
such."""

from __future__ import annotations

import copy
import types

import pytest
import torch
import torch.nn.functional as F
from rich.console import Console

from lockstep import parity as px
from lockstep.parity import report as reports
from lockstep.parity.causes.diagnosis import diagnose
from lockstep.parity.causes.hypotheses.code_numbers import number_edits, numbers_in_code
from lockstep.parity.causes.numbers import SideNumbers
from lockstep.parity.comparison.results import Standing
from lockstep.parity.floors.measure import is_exact
from parity import tiny


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("standing")
    model = tiny.transformer()
    recorded(model, folder / "a.trace")
    return model, folder / "a.trace", px.floor(model, folder / "a.trace")


def recorded(model, path):
    with torch.no_grad(), px.record(model, path, level="module+ops"):
        model(tiny.sample(), 10.0)
    return path


def diagnosed(reference, plant, path, both=True, **options):
    """`both`: the candidate can be run again, too; else it is known by its trace alone."""
    model, trace, floor = reference
    candidate = copy.deepcopy(model)
    with torch.no_grad():
        plant(candidate)
    result = px.compare(trace, recorded(candidate, path), floor=floor)
    diagnose(result, reference=model, candidate=candidate if both else None, floor=floor, **options)
    return result


def forward(owner, function):
    owner.forward = types.MethodType(function, owner)


def strange(m):
    forward(m.blocks[1].ff, lambda self, x: self.out(torch.sin(3 * self.proj(x).chunk(2, dim=-1)[0] ** 2)))


def written_into(m):
    def changed(self, x):
        h = self.norm1(x.mul_(1.01))
        x = x + self.attn(h)
        return x + self.ff(self.norm2(x))

    forward(m.blocks[1], changed)


def drawn_anew(m):
    def changed(self, x):
        hidden, gate = self.proj(x).chunk(2, dim=-1)
        return self.out(hidden * F.gelu(gate + 0.01 * torch.randn(gate.shape)))

    forward(m.blocks[0].ff, changed)


def one_block_not_loaded(m):
    for parameter in m.blocks[1].ff.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(5)))


def all_in_half(m):
    for parameter in m.parameters():
        parameter.copy_(parameter.half().float())


def activation_twice(m):
    for block in m.blocks:

        def changed(self, x):
            hidden, gate = self.proj(x).chunk(2, dim=-1)
            return self.out(hidden * F.gelu(F.gelu(gate)))

        forward(block.ff, changed)


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (written_into, "in_place"),
        (drawn_anew, "non_deterministic"),
        (one_block_not_loaded, "weight_values"),
        (all_in_half, "weights_precision"),
        (activation_twice, "call_twice"),
    ],
)
def test_what_outsiders_planted_is_named(reference, tmp_path, plant, name):
    result = diagnosed(reference, plant, tmp_path / "b.trace")
    assert result.verdict == "BUG"
    assert (result.causes[0].name, result.causes[0].standing) == (name, Standing.PROVEN), result.causes[0].why


def test_a_fault_of_every_block_is_one_cause_and_the_run_closes(reference, tmp_path):
    result = diagnosed(reference, activation_twice, tmp_path / "b.trace")
    assert [c.name for c in result.causes] == ["call_twice"]
    assert result.explained.verdict == "PASS"


def test_that_nothing_was_found_is_an_answer(reference, tmp_path):
    result = diagnosed(reference, strange, tmp_path / "b.trace", both=False, evaluations=150)
    cause = result.causes[0]
    assert (cause.name, cause.standing) == ("unknown", Standing.UNKNOWN)
    tried = sum(result.search.tried.values())
    assert f"{tried:,} hypotheses of {len(result.search.tried)} kinds tried" in result.sentence()
    assert "equal to the last bit" in cause.why
    assert cause.fix.startswith("look at this node alone: lockstep parity zoom ")


def test_what_no_hypothesis_says_is_seen_where_both_sides_run(reference, tmp_path):
    cause = diagnosed(reference, strange, tmp_path / "b.trace").causes[0]
    assert (cause.name, cause.standing) == ("other_computation", Standing.PROVEN)
    assert "sin(" in cause.why
    assert " instead of " in cause.why


def test_the_search_ends_after_its_evaluations_not_after_seconds(reference, tmp_path):
    few, many = (
        diagnosed(reference, strange, tmp_path / f"{n}.trace", both=False, evaluations=n).search.spent
        for n in (40, 100)
    )
    assert few < 80 < many < 140


def test_what_fits_one_value_is_not_told_as_the_cause(reference, tmp_path):
    """The first value is the reference's times two, but what follows is something else again."""

    def two_things(m):
        def changed(self, x):
            hidden, gate = self.proj(x).chunk(2, dim=-1)
            return self.out(torch.cos(5 * hidden) * F.gelu(gate, approximate="tanh"))

        forward(m.blocks[1].ff, changed)

    result = diagnosed(reference, two_things, tmp_path / "b.trace", both=False, evaluations=400)
    assert result.causes[0].standing is not Standing.PROVEN
    assert "gelu_variant" not in result.sentence() or "fits the value only" in result.sentence()
    console = Console(width=200)
    with console.capture() as captured:
        console.print(reports.to_terminal(reports.build(result)))
    assert "Cause:" not in captured.get()


def test_the_repair_says_what_to_change(reference, tmp_path):
    result = diagnosed(reference, lambda m: setattr(m.blocks[1].norm1, "eps", 1e-3), tmp_path / "b.trace")
    assert result.causes[0].fix == "set `model.blocks.1.norm1.eps` to 1e-05 in the port, where it is 0.001"


def test_a_value_can_be_left_out(reference, tmp_path):
    model, trace, floor = reference
    candidate = copy.deepcopy(model)
    forward(candidate.head, lambda self, x: F.linear(x, self.weight, self.bias) * 1.5)
    other = recorded(candidate, tmp_path / "b.trace")
    assert px.compare(trace, other, floor=floor).verdict == "BUG"
    left = px.compare(trace, other, floor=floor, without=["model.head", "model"])
    assert left.first is None


def test_whole_numbers_are_not_moved_by_an_ulp():
    assert is_exact(torch.tensor([937.0, 1.0]))
    assert is_exact(torch.tensor([0.5, 2.25]))
    assert not is_exact(torch.tensor([937.4]))
    assert is_exact(torch.tensor([744.0]).bfloat16())
    assert not is_exact(torch.randn(8).bfloat16())


class Few:
    def step(self, x):
        return x if len(x) < 15 else 2.5 * x


class Many:
    def step(self, x, factor=2.5):
        return factor * x


def test_a_number_that_the_other_side_has_nowhere_is_no_cause():
    edits = {edit.parameter: edit for edit in number_edits({"scheduler": Few()})}
    theirs = SideNumbers([5.0, 0.2, *numbers_in_code(Many())])
    assert [theirs.lack(edits[number]) for number in (150, 1.5, 1.0, 5.0)] == [True, True, True, False]
