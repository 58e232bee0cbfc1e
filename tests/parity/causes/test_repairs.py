"""Faults of the language itself (an index, a name, a statement): the port's own line, written otherwise."""

from __future__ import annotations

import sys
import textwrap

import pytest
import torch

from lockstep.cli.parity.proofs import proof
from lockstep.cli.parity.runs import RunRecipe, load
from lockstep.parity.causes.limits import TooLong, limited
from lockstep.parity.causes.repairs.constants import Constants
from lockstep.parity.causes.repairs.executed import Having, KnownValues
from lockstep.parity.causes.repairs.operators import operator_rewrites
from lockstep.parity.causes.repairs.rewrites import rewrites_of
from lockstep.parity.causes.repairs.sources import Running, SourceFile
from lockstep.parity.causes.repairs.spots import spots_of
from lockstep.parity.causes.repairs.suspects import Suspect
from lockstep.parity.comparison.results import Standing

REFERENCE = """
import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, x, sigma):
        return self.outer(torch.tanh(self.inner(x)) + sigma)


def levels(count):
    return np.append(np.linspace(3.0, 0.4, count) ** 1.5, 0.0)


class Sampler:
    def __init__(self):
        torch.manual_seed(0)
        self.net = Net().eval()

    @torch.no_grad()
    def __call__(self):
        sigmas = levels(5)
        x = torch.randn(3, 12, generator=torch.Generator().manual_seed(1)) * float(sigmas[0])
        text = torch.randn(3, 12, generator=torch.Generator().manual_seed(2))
        for i in range(5):
            plain = self.net(x, torch.tensor(float(sigmas[i])))
            guided = self.net(x + text, torch.tensor(float(sigmas[i])))
            mixed = plain + 3.0 * (guided - plain)
            spread = mixed.std(dim=1, keepdim=True) / guided.std(dim=1, keepdim=True)
            x = x + (mixed / spread) * float(sigmas[i + 1] - sigmas[i])
        return x


def build():
    sampler = Sampler()
    return sampler, sampler
"""

PORT = """
import math

import torch

import reference

COUNT = 5
POWER = 1.5


def schedule():
    step = (3.0 - 0.4) / (COUNT - 1)
    found = []
    for i in range(COUNT):
        found.append(math.pow(3.0 - i * step, POWER))
    found.append(0.0)
    return found


def rescaled(mixed, guided):
    return mixed / (mixed.std(dim=1, keepdim=True) / guided.std(dim=1, keepdim=True))


class Port:
    def __init__(self, weights):
        self.net = reference.Net().eval()
        self.net.load_state_dict(weights)

    def mix(self, plain, guided):
        self.pending.append(guided)
        return plain + 3.0 * (self.pending.pop() - plain)

    @torch.no_grad()
    def run(self):
        sigmas = schedule()
        x = torch.randn(3, 12, generator=torch.Generator().manual_seed(1)) * sigmas[0]
        text = torch.randn(3, 12, generator=torch.Generator().manual_seed(2))
        self.pending = [text]
        for now, after in zip(sigmas[:-1], sigmas[1:]):
            plain = self.net(x, torch.tensor(now))
            guided = self.net(x + text, torch.tensor(now))
            x = x + rescaled(self.mix(plain, guided), guided) * (after - now)
        return x


def build():
    port = Port(reference.build()[0].net.state_dict())
    return port, port.run
"""

FAULTS = [
    # what is written wrong, for what, and what has to be said
    ("zip(sigmas[:-1], sigmas[1:])", "zip(sigmas[1:], sigmas[1:])", "zip(sigmas[:-1], sigmas[1:])"),
    ("math.pow(3.0 - i * step, POWER)", "math.pow(3.0 - i * step, POWER - 1)", "3.0 - i * step"),
    ("/ (COUNT - 1)", "/ COUNT", "COUNT - 1"),
    (
        "(mixed.std(dim=1, keepdim=True) / guided.std(dim=1, keepdim=True))", "(mixed.std() / guided.std())",
        "mixed.std(dim=",
    ),
    ("self.pending.pop() - plain", "self.pending.pop(0) - plain", "self.pending.pop("),
    ("POWER = 1.5", "POWER = 2.5", "POWER = 1.5"),
]  # fmt: skip


@pytest.fixture
def proven(tmp_path, monkeypatch):
    """The comparison of a port of this text with the reference."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("reference", "parity_target_reference", "parity_target_port"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "reference.py").write_text(textwrap.dedent(REFERENCE))

    def prove(port):
        (tmp_path / "port.py").write_text(textwrap.dedent(port))
        sides = [load(RunRecipe(model=f"{name}.py:build")) for name in ("reference", "port")]
        return proof(*sides, tmp_path, "fp64,ulp,ulp"), sides[1]

    yield prove
    sys.modules.pop("reference", None)


def test_the_right_port_passes(proven):
    assert proven(PORT)[0].verdict == "PASS"


@pytest.mark.parametrize(("right", "wrong", "words"), FAULTS, ids=[words for *_, words in FAULTS])
def test_the_line_is_told_or_what_it_does(proven, right, wrong, words):
    assert PORT.count(right) == 1
    port = PORT.replace(right, wrong)
    result, side = proven(port)
    assert result.verdict == "BUG"
    first = result.causes[0]
    assert first.standing is Standing.PROVEN, (first.why, result.search.failed_hypotheses)
    line = next(i for i, text in enumerate(port.splitlines(), 1) if wrong in text)
    if "after" in first.evidence:
        assert f"port.py:{line}" in first.fix, first.fix
        assert words in first.evidence["after"], first.why
        assert result.explained.verdict in ("PASS", "NOISE")
    before = side.call()
    assert torch.equal(side.call(), before)  # every line is as it was


ODD = """
class Odd(torch.nn.Linear):
    def forward(self, x):
        y = torch.nn.functional.linear(x, self.weight, self.bias)
        y = y * 1.01
        y = y - 0.3
        return y


def build():
    port = Port(reference.build()[0].net.state_dict())
    for module in port.net.modules():
        if isinstance(module, torch.nn.Linear):
            module.__class__ = Odd
    return port, port.run
"""


def test_a_port_that_is_switched_off_proves_nothing(proven):
    """Two faults in a class of the port's own: without the class all is right, which is no repair of its lines."""
    result, _ = proven(PORT.partition("def build()")[0] + ODD)
    assert result.verdict == "BUG"
    for cause in result.causes:
        assert not any(text in cause.fix for text in ("if False", "module.__class__", "isinstance")), cause.fix


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("y = x + table[t:t + 1]", "y = x + table[t + 1:t + 2]"),
        ("y = near(t)", "y = near(row[n])"),
        ("y = [1.0]", "y = [row[0]]"),
        ("y += 1", "y += share"),
        ("y = x * scale", "y = x * (scale ** 2 + 1) ** 0.5"),
        ("y = x / count", "y = x / (count - 1)"),
        ("y = full[:count]", "y = full[(full.shape[0] - count) // 2:(full.shape[0] - count) // 2 + count]"),
        ("y = x.reshape(2, 3)", "y = x.transpose(0, 1).reshape(2, 3)"),
        ("y = x.repeat(1, 2)", "y = x.repeat_interleave(2, dim=1)"),
        ("y = einsum('ab,bc->ac', x, x)", "y = einsum('ab,bc->ca', x, x)"),
        ("y, z = x.chunk(2)", "z, y = x.chunk(2)"),
        ("y = x.std()", "y = x.std(dim=-1, keepdim=True)"),
        ("y = (1, 0, 0, 1)", "y = (0, 1, 0, 1)"),
        ("y = cat([x, full])", "y = cat([full, x])"),
        ("y = zeros_like(x)", "y = x"),
        ("y = gelu(x)", "y = gelu(x, approximate='tanh')"),
        ("for i in range(count): pass", "for i in range(count + 1):"),
        ("if t > 3: y = 1", "if t >= 3:"),
    ],
)
def test_what_porters_write_for_each_other(tmp_path, line, wanted):
    statement, *_ = _statement(tmp_path, f"def f(x):\n    {line}\n    return x\n", 2)
    values = {"x": torch.ones(3, 3), "full": torch.ones(9, 3), "share": torch.ones(3, 3), "row": [5.0, 7, 9.0], "n": 2}
    values |= {"t": 7, "count": 4, "scale": 1.5}
    suspect = Suspect(statement, SourceFile.read(statement.file), 0.0, values)
    found = [r for r in rewrites_of(suspect, Constants((0.5,), ((0, 1, 0, 1),)), {}) if r.described()]
    assert wanted in {rewrite.after for rewrite in found}
    assert all(rewrite.before != rewrite.after for rewrite in found)
    assert statement.text() == line.replace(": pass", ":").replace(": y = 1", ":")


def test_statements_that_act_are_left_alone(tmp_path):
    statement, *_ = _statement(tmp_path, "def f(path):\n    path.rename(path.name[:-1])\n    return 1\n", 2)
    suspect = Suspect(statement, SourceFile.read(statement.file), 0.0)
    assert list(rewrites_of(suspect, Constants((), ()), {})) == []


def test_two_orders_of_the_same_numbers_are_told_apart():
    known = KnownValues()
    known.add(torch.arange(1.0, 7.0))
    values = (torch.arange(1.0, 7.0), torch.arange(1.0, 7.0).flip(0), torch.arange(1.0, 7.0) + 1e-3, 3.0, 3)
    assert [known.has(v) for v in values] == [Having.SAME, Having.REARRANGED, Having.STRANGE, Having.SAME, None]


def _statement(tmp_path, text, line):
    file = tmp_path / "written.py"
    file.write_text(text)
    source = SourceFile.read(str(file))
    names = {}
    exec(compile(text, str(file), "exec"), names)
    return source.at(line), str(file), names


def test_a_function_runs_another_code_and_then_its_own(tmp_path):
    text = "def outer(a):\n    def inner(b):\n        return b - a\n    return inner\n"
    statement, file, names = _statement(tmp_path, text, 3)
    inner = names["outer"](2)  # is there already
    running = Running(statement.top, file)
    swapped = next(r for r in operator_rewrites(statement, spots_of(statement)) if r.kind == "operand_order")
    assert swapped.described()
    assert (swapped.before, swapped.after) == ("return b - a", "return a - b")
    with swapped.applied(), running.changed() as changed:
        assert changed
        assert (inner(7), names["outer"](3)(7)) == (-5, -4)
    assert (inner(7), names["outer"](3)(7)) == (5, 4)
    assert statement.text() == "return b - a"


def test_a_run_without_end_is_ended():
    def endless():
        while True:
            pass

    with pytest.raises(TooLong), limited(0.05):
        endless()


def test_what_a_library_is_made_of_is_left_alone(proven):
    """No line of the reference's file is told, though the port runs lines of it."""
    port = PORT.replace("self.net(x + text, torch.tensor(now))", "self.net(x - text, torch.tensor(now))")
    result, _ = proven(port)
    assert all("reference.py" not in cause.fix for cause in result.causes)
