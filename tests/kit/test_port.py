"""`lockstep port`: rules of a weight map by values, what is missing and in which order, the first difference."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import lockstep as library
from kit.scaffold import edited, importable, sides, written
from lockstep.cli.exit_codes import ExitCode
from lockstep.kit.port.matching import match_tensors
from lockstep.kit.port.rules import propose
from lockstep.kit.port.rules import written as as_file
from lockstep.kit.port.watching import saved_files, saves
from lockstep.loaders import operations
from lockstep.loaders.weight_map import WeightMap


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def changed(text, tensor, count=1):
    return operations.run(operations.parse(text), [tensor], count, backwards=False)


@pytest.mark.parametrize(
    ("operation", "shape"),
    [
        ("keep", (4, 3)),
        ("transpose", (4, 3)),
        ("permute 3 2 0 1", (2, 2, 3, 4)),
        ("permute 0 2 1", (4, 3, 5)),
        ("squeeze", (4, 3, 1, 1)),
        ("squeeze 1", (4, 3, 1)),
        ("swap_scale_shift", (6, 3)),
        ("interleave 2", (8, 3)),
        ("regroup 4 3", (24, 2)),
    ],
)
def test_an_operation_is_found_by_values_and_proven(operation, shape):
    theirs = {"a.weight": drawn(*shape), "a.bias": drawn(7, seed=1)}
    ours = {"b.weight": changed(operation, theirs["a.weight"])[0].contiguous(), "b.bias": theirs["a.bias"]}
    found = propose(theirs, ours)
    assert set(found.proven) == set(ours)
    assert not found.theirs_left
    assert not found.ours_left
    rows = {row[1]: row[2] if len(row) > 2 else "keep" for row in found.rows}
    assert rows.get("b.weight", rows.get("b.{}")) == operation


@pytest.mark.parametrize("operation", ["split", "split 1 2 5", "regroup 4 2 | split", "regroup 2 3 | split"])
def test_a_fused_tensor_is_taken_apart(operation):
    parts = 2 if "4 2" in operation else 3
    theirs = {f"layers.{i}.qkv.weight": drawn(24, 5, seed=i) for i in range(3)}
    ours = {}
    for i in range(3):
        for name, part in zip("qkv", changed(operation, theirs[f"layers.{i}.qkv.weight"], parts), strict=False):
            ours[f"blocks.{i}.to_{name}.weight"] = part
    found = propose(theirs, ours)
    (row,) = found.rows
    assert row == (
        "layers.{i}.qkv.weight",
        tuple(f"blocks.{{i}}.to_{name}.weight" for name in "qkv"[:parts]),
        operation,
    )
    assert len(found.proven) == len(ours)


def test_tensors_that_are_joined():
    theirs = {"q.weight": drawn(4, 3), "k.weight": drawn(4, 3, seed=1), "mlp.weight": drawn(8, 3, seed=2)}
    found = propose(theirs, {"fused.weight": torch.cat(list(theirs.values()))})
    assert found.rows == [(tuple(theirs), "fused.weight", "join 1 1 2")]
    assert found.coverage == "3 of 3 tensors of theirs, 1 of 1 of ours"


def test_what_no_operation_says_is_told_and_not_claimed():
    theirs = {"a": drawn(4, 3), "b": drawn(5, 2, seed=1), "norm": torch.ones(6), "lost": drawn(9, seed=3)}
    mixed = theirs["b"][torch.tensor([4, 0, 2, 1, 3])]
    found = propose(theirs, {"x": theirs["a"] * 0.125, "y": mixed, "scale": torch.ones(6), "new": drawn(2, 2, seed=4)})
    assert found.rows == []
    assert {match.note.partition(":")[0].split()[0] for match in found.notes} == {"scaled", "permuted"}
    assert [(match.theirs, match.ours) for match in found.guessed] == [(("norm",), ("scale",))]
    assert found.ours_left == ["x", "y", "new"]
    text = as_file(found, "reference", "port")
    assert "a -> x: scaled by 0.125" in text
    assert "norm -> scale: a guess by shape and order" in text
    assert "lost: theirs, without a partner" in text
    compile(text, "weight_map.py", "exec")


def test_equal_values_go_to_the_name_that_is_alike():
    shared = drawn(3, 3)
    tensors = {"a.0.weight": shared, "a.1.weight": shared.clone()}
    found = match_tensors(tensors, {"b.1.weight": shared.clone(), "b.0.weight": shared.clone()})
    assert {(match.theirs[0], match.ours[0]) for match in found} == {
        ("a.0.weight", "b.0.weight"),
        ("a.1.weight", "b.1.weight"),
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return written(tmp_path_factory.mktemp("ported") / "noon-models", ("pipeline", "noon"))


def test_a_whole_port_is_covered_and_nothing_is_missing(home, lockstep, tmp_path):
    with importable(home):
        import reference_noon

        weights = tmp_path / "original.safetensors"
        save_file(reference_noon.reference_model().state_dict(), weights)
        code, out, err = lockstep("port", *sides(home, "noon"), "--weights", weights, "-o", tmp_path / "out")
        assert code == 0, out + err
        assert "13 rows, 34 of 34 tensors of theirs, 38 of 38 of ours" in out
        assert "none missing" in out
        assert "PASS" in out
        page: dict = {}
        exec((tmp_path / "out" / "weight_map.py").read_text(), page)
        theirs = reference_noon.reference_model().state_dict()
    assert not WeightMap(page["ROWS"]).plan(theirs).unknown


def test_what_is_missing_is_listed_in_the_order_of_building(home, lockstep, tmp_path):
    with importable(home):
        code, out, _ = lockstep("port", sides(home, "noon", "_pipeline", "build")[0], "-o", tmp_path / "out", "--json")
    assert code == ExitCode.DIFFERENT
    found = json.loads(out)
    listed = [(one["group"], one["path"]) for one in found["missing"]]
    assert list(dict.fromkeys(group for group, _ in listed)) == ["decoders", "encoders", "loop"]
    assert [path for group, path in listed if group == "loop"] == [
        f"transformer.{part}" for part in ("words", "patch", "time", "layers", "norm", "head")
    ]
    layers = next(one for one in found["missing"] if one["path"] == "transformer.layers")
    assert (layers["kind"], layers["inside"] > 5) == ("2 × Layer", True)
    assert layers["made_of"]
    decoders = [path for group, path in listed if group == "decoders"]
    assert {"vae.decoder.conv_in", "vae.decoder.mid_block", "vae.decoder.up_blocks", "vae.decoder.conv_out"} <= set(
        decoders
    )
    assert decoders.index("vae.decoder.mid_block") < decoders.index("vae.decoder.up_blocks")


HALF = '''
class Half(torch.nn.Module):
    """The beginning of a port."""

    def __init__(self):
        super().__init__()
        self.context_embedder = torch.nn.Linear(16, 16)

    def forward(self, text):
        return self.context_embedder(text)


def build_half():
    weights = reference_noon.reference_model().state_dict()
    half = Half()
    half.load_state_dict({f"context_embedder.{end}": weights[f"words.{end}"] for end in ("weight", "bias")})
    text = reference_noon.model_inputs()[2]
    return half, lambda: half(text)
'''


def test_a_port_that_has_begun_is_told_what_comes_next(home, lockstep, tmp_path):
    path = home.file("port", "noon")
    with edited(path, ("def build_model():", HALF + "\n\ndef build_model():")), importable(home):
        code, out, _ = lockstep("port", sides(home, "noon")[0], f"{path}:build_half", "-o", tmp_path / "out", "--json")
    found = json.loads(out)
    assert code == ExitCode.DIFFERENT
    assert found["rows"] == [["words.{}", "context_embedder.{}"]]
    assert [one["path"] for one in found["missing"]] == [
        f"model.{part}" for part in ("patch", "time", "layers", "norm", "head")
    ]


def test_a_save_is_seen(tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("port.py", "notes.txt", "out/old.py"):
        (tmp_path / name).write_text("x = 1\n")
    assert set(saved_files([tmp_path])) == {tmp_path / "port.py"}
    looking = saves([tmp_path], pause=0)
    timer = threading.Timer(0.2, lambda: (tmp_path / "new.py").write_text("y = 2\n"))
    timer.start()
    assert next(looking) == [tmp_path / "new.py"]
    timer.join()


LINEAR = """import torch


def build():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, {out})
    return model, lambda: model(torch.ones(1, 4))
"""


def test_watching_compares_again_at_a_save(tmp_path):
    """The command in a process of its own: a first look, then one more when the port is saved."""
    (tmp_path / "reference.py").write_text(LINEAR.format(out=3))
    (tmp_path / "port.py").write_text(LINEAR.format(out=2))
    sources = {"PYTHONPATH": str(Path(library.__file__).parents[1]), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "lockstep", "port", "reference.py:build", "port.py:build", "--watch"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, **sources}, **pipes) as process:
        ended = threading.Timer(100, process.kill)  # rather a failure than a test that waits for ever
        ended.start()
        try:
            seen = ""
            for line in process.stdout:
                seen += line
                if "watching" in line:
                    assert "PASS" not in seen
                    (tmp_path / "port.py").write_text(LINEAR.format(out=3))
                if "PASS" in line:
                    break
            assert "saved: port.py" in seen
        finally:
            ended.cancel()
            process.terminate()
