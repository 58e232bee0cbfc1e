"""A hypothesis that cannot be tried: what a model refuses is counted, a bug of our own is told with its hypothesis."""

from __future__ import annotations

import copy
import json
import types

import pytest
import torch
from rich.console import Console
from torch import nn

from lockstep import parity as px
from lockstep.cli.app import run
from lockstep.parity import report as reports
from lockstep.parity.causes.edits import Edit, Edited, ModuleChange, NotApplicable, Site
from lockstep.parity.causes.failures import is_ours
from lockstep.parity.causes.hypotheses import catalogue, layers
from parity import tiny

BUGS = {
    "AttributeError": "call.no_such_name",
    "NameError": "no_such_name",
    "TypeError": "call.op + 1",
    "KeyError": "call.named['no such argument']",
    "ZeroDivisionError": "len(call.args) / 0",
    "IndexError": "call.args[99]",
    "ValueError": "int(call.op)",
    "TypeError in torch": "torch.nn.functional.interpolate(call.args[0], scale_factor='twice')",
}


def plant(patch, module, name, parameters, expression):
    """A function of the module's own, so that its frames are those of the library."""
    code = compile(f"def {name}({parameters}):\n    return {expression}", module.__file__, "exec")
    made: dict = {}
    exec(code, vars(module), made)
    patch.setattr(module, name, made[name])


def divide_by_one_less(model):
    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt(x.var(-1, keepdim=True, unbiased=True) + self.eps) * self.weight + self.bias

    model.blocks[1].norm1.forward = types.MethodType(forward, model.blocks[1].norm1)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A norm by another formula: every hypothesis about norms is tried."""
    folder = tmp_path_factory.mktemp("failures")
    model = tiny.transformer()
    candidate = copy.deepcopy(model)
    divide_by_one_less(candidate)
    for name, side in (("a", model), ("b", candidate)):
        with torch.no_grad(), px.record(side, folder / f"{name}.trace", level="module+ops"):
            side(tiny.sample(), 10.0)
    return model, folder, px.floor(model, folder / "a.trace")


def diagnosed(pair, live=None):
    model, folder, floor = pair
    result = px.compare(folder / "a.trace", folder / "b.trace", floor=floor)
    px.diagnose(result, reference=live if live is not None else model, floor=floor)
    return result


def text(result):
    console = Console(width=200)
    with console.capture() as captured:
        console.print(reports.to_terminal(reports.build(result)))
    return captured.get()


def test_without_a_bug_nothing_failed(pair):
    result = diagnosed(pair)
    assert result.causes[0].name == "norm_estimator"
    assert result.search.failed_hypotheses == []
    assert result.search.runs > 10
    assert "Not tried" not in text(result)
    assert "Not tried" not in reports.to_html(reports.build(result))


@pytest.mark.parametrize("kind", BUGS)
def test_a_bug_in_a_hypothesis_is_told_and_the_search_goes_on(pair, monkeypatch, kind):
    plant(monkeypatch, layers, "_rms_of_layer_norm", "call", BUGS[kind])
    result = diagnosed(pair)
    assert result.causes[0].name == "norm_estimator", "the other hypotheses are tried all the same"
    (failed, *_) = result.search.failed_hypotheses
    assert failed.ours
    assert failed.hypothesis.startswith("norm_kind: RMS norm")
    assert failed.error.startswith(kind.split()[0])
    assert "_rms_of_layer_norm" in failed.traceback
    assert failed.at.startswith("model.blocks.1")


def test_it_is_in_every_report(pair, monkeypatch):
    plant(monkeypatch, layers, "_rms_of_layer_norm", "call", BUGS["AttributeError"])
    result = diagnosed(pair)
    report = reports.build(result)
    assert "Not tried: norm_kind: RMS norm" in text(result)
    assert "a bug of Lockstep" in text(result)
    assert "<h2>Not tried</h2>" in reports.to_html(report)
    told = json.loads(json.dumps(reports.to_json(result)))["search"]["failed_hypotheses"]
    assert told[0]["error"].startswith("AttributeError: 'Call' object has no attribute 'no_such_name'")


def test_a_bug_in_a_change_of_modules_is_told_too(pair, monkeypatch):
    plant(monkeypatch, catalogue, "same_as_input", "values, args, kwargs, result", "result.no_such_name")
    model, folder, floor = pair
    candidate = copy.deepcopy(model)
    with torch.no_grad():
        candidate.blocks[1].ff.out.weight.mul_(1 + 0.3 * torch.rand_like(candidate.blocks[1].ff.out.weight))
    with torch.no_grad(), px.record(candidate, folder / "c.trace", level="module+ops"):
        candidate(tiny.sample(), 10.0)
    result = px.compare(folder / "a.trace", folder / "c.trace", floor=floor)
    px.diagnose(result, reference=model, floor=floor)
    assert [f for f in result.search.failed_hypotheses if f.ours and f.hypothesis.startswith("left_out")]


REFUSALS = {
    "RuntimeError": "call.args[0].reshape(-1, 7919)",
    "IndexError": "call.args[0].flip(7)",
    "IndexError in a table": "torch.nn.functional.embedding(torch.tensor([9]), torch.zeros(2, 2))",
    "ValueError": "torch.nn.functional.interpolate(call.args[0], size=3, scale_factor=2)",
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_does_not_fit_is_counted_and_no_bug(pair, monkeypatch, kind):
    plant(monkeypatch, layers, "_rms_of_layer_norm", "call", REFUSALS[kind])
    result = diagnosed(pair)
    assert result.search.failed_hypotheses == []
    assert result.search.misfits[kind.split()[0]] >= 1


def test_a_hypothesis_may_say_that_it_does_not_apply(pair, monkeypatch):
    def elsewhere(call):
        raise NotApplicable("not here")

    monkeypatch.setattr(layers, "_rms_of_layer_norm", elsewhere)
    result = diagnosed(pair)
    assert result.search.failed_hypotheses == []
    assert result.search.misfits["NotApplicable"] >= 1


class Picky(nn.Module):
    def forward(self, x):
        return [x][int(x.shape[0] > 3)]


@pytest.mark.parametrize("values", [torch.zeros(4, 2), None, "text"])
def test_an_error_of_the_models_own_code_is_not_ours(values):
    with pytest.raises((IndexError, AttributeError)) as caught:
        Picky()(values)
    assert not is_ours(caught.value)


def test_a_side_that_cannot_run_again_is_told(pair):
    def broken():
        raise OSError("the weights are gone")

    result = diagnosed(pair, px.Live(pair[0], broken))
    failed = result.search.failed_hypotheses
    assert failed
    assert all(f.hypothesis == "the recorded run once more" and not f.ours for f in failed)
    assert "OSError: the weights are gone" in text(result)


def test_verbose_shows_the_traceback(tmp_path, capsys, monkeypatch):
    (tmp_path / "sides.py").write_text(
        "from parity import tiny\nfrom parity.causes.test_failures import divide_by_one_less\n\n"
        "def build(change=lambda model: None):\n"
        "    model = tiny.transformer()\n"
        "    change(model)\n"
        "    return model, lambda: model(tiny.sample(), 10.0)\n\n"
        "def other():\n    return build(divide_by_one_less)\n"
    )
    plant(monkeypatch, layers, "_rms_of_layer_norm", "call", BUGS["AttributeError"])
    sides = [f"{tmp_path}/sides.py:{name}" for name in ("build", "other")]
    words = ["parity", "prove", *sides, "-o", str(tmp_path / "out"), "--runs", "ulp"]
    told = {}
    for flag in ("", "--verbose"):
        with pytest.raises(SystemExit):
            run([*words, *([flag] if flag else [])])
        told[flag] = capsys.readouterr()
    assert "Not tried: norm_kind" in told[""].out
    assert "Traceback" not in told[""].err
    assert "Traceback" in told["--verbose"].err
    assert "looked for causes in" in told["--verbose"].err


def test_an_operation_gives_its_value_to_a_module(pair):
    """A change of modules that asks for the result of an operation gets it: nothing has to be changed at operations."""
    model = pair[0]
    modules = {f"model.{path}" if path else "model": module for path, module in model.named_modules()}
    asked = Site("model.blocks.1.ff", "gelu", 0)
    seen = []
    change = ModuleChange(
        "model.blocks.1.ff.out", lambda values, args, kwargs, result: seen.append(values[str(asked)]), True
    )
    edited = Edited(modules, [Edit("looks", "looks", (change,), needs=(str(asked),))])
    with torch.no_grad(), edited:
        model(tiny.sample(), 10.0)
    assert seen[0].ndim == 3
