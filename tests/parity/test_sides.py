"""What a side of a proof may be: the port's trace, a program that raises, a compiled model."""

import importlib
import json

import pytest
import torch
from safetensors.numpy import save_file

from lockstep.cli.app import run
from lockstep.cli.exit_codes import ExitCode
from lockstep.parity import Trace, Verdict, compare, record
from parity import tiny

REFERENCE = """
import sys
sys.path.insert(0, {tests!r})
from parity import tiny

def build():
    model = tiny.transformer()
    return model, lambda: model(tiny.sample(), 3.0)
"""
FAULTS = {
    "raises.py": "    del model.blocks[2].ff.out\n",
    "early.py": "    model.blocks[0].norm1.eps = 0.1\n    del model.blocks[2].ff.out\n",
    "port.py": "    model.blocks[1].norm2.eps = 1e-3\n",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    from pathlib import Path

    folder = tmp_path_factory.mktemp("sides")
    text = REFERENCE.format(tests=str(Path(__file__).parents[1]))
    (folder / "reference.py").write_text(text)
    for name, fault in FAULTS.items():
        (folder / name).write_text(text.replace("    return", f"{fault}    return"))
    (folder / "unbuilt.py").write_text("def build():\n    raise ValueError('no such size')\n")
    return folder


def prove(capsys, *words):
    with pytest.raises(SystemExit) as leave:
        run(["parity", "prove", *map(str, words), "--json"])
    captured = capsys.readouterr()
    return leave.value.code, json.loads(captured.out), captured.err


def foreign(model, file, weights=True):
    """What a port in another framework writes: names and tensors, parameters included, one file."""
    folder = file.with_suffix(".trace")
    with torch.no_grad(), record(model, folder, keep="full"):
        model(tiny.sample(), 3.0)
    trace = Trace.open(folder)
    values = {str(e.name): trace.array(e).copy() for e in trace.entries if not e.key.path.startswith("@")}
    number = max(trace.by_seq) + 1
    if weights:
        parameters = model.named_parameters()
        values |= {f"{number + i:06d}|-|model.{n}|param": p.detach().numpy() for i, (n, p) in enumerate(parameters)}
    save_file(values, file)
    return file


def test_the_ports_trace_is_the_candidate(files, tmp_path, capsys):
    model = tiny.transformer()
    reference = f"{files}/reference.py:build"
    right = foreign(model, tmp_path / "right.safetensors")
    code, told, _ = prove(capsys, reference, right, "-o", tmp_path / "right")
    assert (code, told["verdict"]) == (ExitCode.DONE, "PASS")
    model.blocks[1].norm2.eps = 1e-3
    wrong = foreign(model, tmp_path / "wrong.safetensors")
    code, told, err = prove(capsys, reference, wrong, "-o", tmp_path / "wrong")
    assert (code, told["verdict"]) == (ExitCode.BUG, "BUG")
    assert told["candidate_path"].endswith("wrong.safetensors")
    assert told["first"]["key"] == "-|model.blocks.1.norm2|out"
    assert "the reference" in " ".join(err.split())
    assert "norm_eps" in told["causes"][0]["name"] or "eps" in told["causes"][0]["why"]
    assert "in the candidate" in told["causes"][0]["why"]


@pytest.mark.parametrize("name", ["raises.py", "early.py"])
def test_a_side_that_raises_has_its_own_verdict_and_no_traceback(files, name, tmp_path, capsys):
    code, told, err = prove(capsys, f"{files}/reference.py:build", f"{files}/{name}:build", "-o", tmp_path)
    assert (code, told["verdict"]) == (ExitCode.RAISED, "RAISED")
    assert "the candidate ended with AttributeError" in told["reasons"][0]
    assert "Traceback" not in err
    if name == "early.py":
        assert told["first"]["key"] == "-|model.blocks.0.norm1|out"
        assert "before that, first difference" in told["reasons"][0]
    else:
        assert told["first"]["key"].startswith("-|model.blocks.2.ff.out|")
    assert len(Trace.open(tmp_path / "cand.trace").entries) > 20


def test_the_reference_that_raises_is_told_as_the_reference(files, tmp_path, capsys):
    code, told, _ = prove(capsys, f"{files}/raises.py:build", f"{files}/reference.py:build", "-o", tmp_path)
    assert (code, told["verdict"]) == (ExitCode.RAISED, "RAISED")
    assert "the reference ended with AttributeError" in told["reasons"][0]


def test_a_function_that_cannot_build_is_told_in_a_sentence(files, capsys, tmp_path):
    with pytest.raises(SystemExit) as leave:
        run(["parity", "prove", f"{files}/reference.py:build", f"{files}/unbuilt.py:build", "-o", str(tmp_path)])
    assert leave.value.code == ExitCode.WRONG_USE
    assert "ValueError: no such size (unbuilt.py:2)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("where", "found"), [("probe.Probe.attempt", "norm_eps"), ("whole_run.WholeRun.compared_again", "unknown")]
)
def test_ctrl_c_gives_what_was_found_until_then(files, tmp_path, capsys, monkeypatch, where, found):
    """After the first hypothesis one fits already; while the whole run is repeated nothing is proven yet."""
    module, owner, method = where.split(".")
    cls = getattr(importlib.import_module(f"lockstep.parity.causes.{module}"), owner)
    original = getattr(cls, method)

    def interrupted(self, *args, **kwargs):
        if method == "attempt":
            original(self, *args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(cls, method, interrupted)
    code, told, err = prove(capsys, f"{files}/reference.py:build", f"{files}/port.py:build", "-o", tmp_path)
    assert (code, told["verdict"]) == (ExitCode.BUG, "BUG")
    assert told["causes"][0]["name"] == found
    assert "interrupted" in err


@pytest.mark.parametrize("way", ["all of it", "one block", "in place", "around"])
def test_a_compiled_candidate_is_recorded_where_it_has_borders(way, tmp_path):
    reference, model = tiny.transformer(), tiny.transformer()
    call = model
    if way == "all of it":
        call = model = torch.compile(model, backend="aot_eager")
    elif way == "one block":
        model.blocks[1] = torch.compile(model.blocks[1], backend="aot_eager")
    elif way == "in place":
        model.compile(backend="aot_eager")
    else:
        call = torch.compile(model, backend="aot_eager")  # what is watched is the model itself
    for target, run_it, path in ((reference, reference, "a.trace"), (model, call, "b.trace")):
        with torch.no_grad(), record(target, tmp_path / path, level="module+ops"):
            run_it(tiny.sample(), 3.0)
    torch._dynamo.reset()
    result = compare(tmp_path / "a.trace", tmp_path / "b.trace")
    assert result.verdict in (Verdict.PASS, Verdict.NOISE, Verdict.INCONCLUSIVE), result.sentence()
    assert result.verdict is not Verdict.INCONCLUSIVE or "no floor" in result.reasons[0], result.reasons
    assert str(result.nodes[-1].key) == "-|model|out"
    if way in ("all of it", "in place"):
        assert any("is compiled" in reason and "fused away" in reason for reason in result.reasons)
    if way == "one block":
        compared = {node.key.path for node in result.nodes}
        assert "model.blocks.1" in compared
        assert "model.blocks.1.attn" not in compared
        assert "model.blocks.2.attn" in compared
