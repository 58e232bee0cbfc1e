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
    assert (code, found["verdict"]) == (ExitCode.BUG, "BUG")  # the answer of the values, where there are some
    assert found["rows"] == [["words.{}", "context_embedder.{}"]]
    assert [one["path"] for one in found["missing"]] == [
        f"model.{part}" for part in ("patch", "time", "layers", "norm", "head")
    ]


LINEAR = """import torch


def build():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, {out})
    return model, lambda: model({given})
"""

REFUSED = """from lockstep.errors import ConfigError


def build():
    raise ConfigError("rope_dim 5 is not even.")
"""


@pytest.mark.parametrize(
    ("port", "code", "told"),
    [
        (LINEAR.format(out=3, given="torch.ones(1, 4)"), ExitCode.DONE, "PASS"),
        (LINEAR.format(out=3, given="2 * torch.ones(1, 4)"), ExitCode.BUG, "BUG"),
        (LINEAR.format(out=3, given="torch.ones(1, 5)"), ExitCode.RAISED, "RAISED"),
        (LINEAR.format(out="size=3", given="torch.ones(1, 4)"), ExitCode.RAISED, "unexpected keyword argument"),
        ("import nothing_like_it\n", ExitCode.RAISED, "nothing_like_it"),
        (REFUSED, ExitCode.RAISED, "is not even"),
        (None, ExitCode.DIFFERENT, "1 missing"),
    ],
    ids=["right", "wrong", "raises", "cannot be built", "cannot be imported", "refused", "not there yet"],
)
def test_the_exit_code_is_the_answer(lockstep, tmp_path, port, code, told):
    sides = {"reference": LINEAR.format(out=3, given="torch.ones(1, 4)"), "port": port}
    words = []
    for name, text in sides.items():
        if text is not None:
            (tmp_path / f"{name}.py").write_text(text)
            words.append(f"{tmp_path / name}.py:build")
    found, out, err = lockstep("port", *words, "-o", tmp_path / "out")
    assert found == code, out + err
    assert told in out + err
    if code in (ExitCode.RAISED, ExitCode.DIFFERENT) and "RAISED" not in told:
        assert "1 missing" in out  # the plan of the reference alone
        assert "of ours" not in out


@pytest.mark.parametrize("command", [("port",), ("port", "alone"), ("parity", "stages")], ids=" ".join)
def test_a_reference_that_raises_is_told_and_ends_with_the_code_of_proofs(lockstep, tmp_path, command):
    for name, width in (("reference", 5), ("port", 4)):
        (tmp_path / f"{name}.py").write_text(LINEAR.format(out=3, given=f"torch.ones(1, {width})"))
    given = [f"{tmp_path / name}.py:build" for name in ("reference", "port")[: 1 if "alone" in command else 2]]
    words = [word for word in command if word != "alone"]
    code, out, err = lockstep(*words, *given, "-o", tmp_path / "out")
    assert code == ExitCode.RAISED, out + err
    assert "mat1 and mat2 shapes" in out + err
    assert "Traceback" not in out + err


TWO = """import torch


def build():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 4), torch.nn.LayerNorm(4))
    return model, lambda: model(torch.ones(1, 4))


def tensors():
    return build()[0].state_dict()
"""


@pytest.fixture
def two(tmp_path):
    """A reference and a right port, with the tensors that both have."""
    for name in ("reference", "port"):
        (tmp_path / f"{name}.py").write_text(TWO)
    made: dict = {}
    exec(TWO, made)
    return [f"{tmp_path / name}.py:build" for name in ("reference", "port")], made["tensors"]()


def without(tensors):
    return {name: one for name, one in tensors.items() if name != "1.weight"}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (without, "ours without a partner: 1.weight"),
        (lambda all_: all_ | {"1.weight": drawn(4, 5)}, "ours without a partner: 1.weight"),
        (lambda all_: {name: one * float("nan") for name, one in all_.items()}, "NaN or Inf in theirs: "),
        (lambda all_: {name: one * 0.5 for name, one in all_.items()}, "scaled by 2"),
        (lambda all_: all_, ""),
    ],
    ids=["a tensor is missing", "another shape", "NaN", "half", "right"],
)
def test_a_checkpoint_that_does_not_cover_the_port_is_different(lockstep, tmp_path, two, changed, told):
    sides, tensors = two
    save_file(changed(tensors), tmp_path / "original.safetensors")
    weights = ["--weights", tmp_path / "original.safetensors"]
    code, out, err = lockstep("port", *sides, *weights, "-o", tmp_path / "out")
    assert code == (ExitCode.DIFFERENT if told else ExitCode.DONE), out + err
    assert told in out
    assert "with the weights that they load themselves" in out  # whose values PASS


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_checkpoint_in_half_precision_is_the_same_model(two, dtype):
    ours = {**two[1], "fused": drawn(8, 3), "turned": drawn(5, 7, seed=1), "q": drawn(4, 3, seed=2)}
    ours["k"] = drawn(4, 3, seed=3)
    theirs = {name: one.to(dtype) for name, one in two[1].items()}
    theirs |= {"a": ours["fused"][:4].to(dtype), "b": ours["fused"][4:].to(dtype), "t": ours["turned"].T.to(dtype)}
    theirs["qk"] = torch.cat([ours["q"], ours["k"]]).to(dtype)
    found = propose(theirs, ours)
    assert set(found.proven) == set(ours)
    assert found.covers_ours


def test_several_tensors_of_one_shape_are_no_guess():
    theirs = {name: drawn(3, 3, seed=seed) for seed, name in enumerate(["a", "b"])}
    found = propose(theirs, {name: drawn(3, 3, seed=seed) for seed, name in enumerate(["x", "y"], 5)})
    assert not found.rows
    assert not found.guessed
    assert found.notes[0].note == "ambiguous: 2 of theirs and 2 of ours have the shape [3, 3]"
    assert found.ours_left == ["x", "y"]


def test_shards_are_read_from_their_folder_or_index(lockstep, tmp_path, two):
    sides, tensors = two
    folder = tmp_path / "sharded"
    folder.mkdir()
    names = {name: f"model-{1 + place % 2:05}-of-00002.safetensors" for place, name in enumerate(tensors)}
    for file in set(names.values()):
        save_file({name: one for name, one in tensors.items() if names[name] == file}, folder / file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    for weights in (folder, index):
        code, out, err = lockstep("port", *sides, "--weights", weights, "-o", tmp_path / "out")
        assert code == 0, out + err
    index.unlink()
    code, out, err = lockstep("port", *sides, "--weights", folder, "-o", tmp_path / "out")
    assert code == ExitCode.WRONG_USE
    assert "several checkpoints" in out + err


PARTS = """import torch


class Parts:
    def __init__(self):
        self.transformer, self.text_encoder, self.vae = (torch.nn.Linear(4, 4) for _ in range(3))

    def __call__(self):
        return self.vae(self.transformer(self.text_encoder(torch.ones(1, 4))))


def build():
    parts = Parts()
    return parts, parts
"""


def test_parts_without_a_scheduler_have_the_order_of_building(lockstep, tmp_path):
    (tmp_path / "reference.py").write_text(PARTS)
    _, out, _ = lockstep("port", f"{tmp_path / 'reference.py'}:build", "-o", tmp_path / "out", "--json")
    listed = [(one["group"], one["path"]) for one in json.loads(out)["missing"]]
    assert listed == [("decoders", "vae"), ("encoders", "text_encoder"), ("loop", "transformer")]


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


def test_watching_compares_again_at_a_save(tmp_path):
    """The command in a process of its own: a first look, then one more when the port is saved."""
    (tmp_path / "reference.py").write_text(LINEAR.format(out=3, given="torch.ones(1, 4)"))
    (tmp_path / "port.py").write_text(LINEAR.format(out=2, given="torch.ones(1, 4)"))
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
                    (tmp_path / "port.py").write_text(LINEAR.format(out=3, given="torch.ones(1, 4)"))
                if "PASS" in line:
                    break
            assert "saved: port.py" in seen
        finally:
            ended.cancel()
            process.terminate()
