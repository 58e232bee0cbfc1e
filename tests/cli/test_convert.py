"""`lockstep convert` and `lockstep diff`, and a single file where a model is named."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from lockstep.files import read_safetensors_header
from lockstep.loaders.convert import convert


@pytest.fixture
def single(lockstep, folder, tmp_path):
    code, out, err = lockstep("convert", folder, tmp_path / "model.safetensors")
    assert code == 0, err
    assert "model.safetensors" in out
    return tmp_path / "model.safetensors"


def test_there_and_back(lockstep, folder, single, tmp_path):
    code, out, _ = lockstep("convert", single, tmp_path / "again", "--json")
    assert code == 0
    assert json.loads(out)["notes"] == []
    code, out, _ = lockstep("diff", folder, tmp_path / "again")
    assert code == 0
    code, out, _ = lockstep("diff", folder, single, "--json")
    said = json.loads(out)
    assert (code, said["equal"], set(said["counts"].values()) - {0}) == (0, True, {said["counts"]["same"]})


def test_pictures_from_the_file_are_those_from_the_folder(lockstep, folder, single, tmp_path):
    words = [
        "generate",
        "a red cat",
        "--steps",
        2,
        "--seed",
        1,
        "--height",
        32,
        "--width",
        32,
        "-q",
        "--dtype",
        "float32",
    ]
    assert lockstep(*words, "--model", folder, "-o", tmp_path / "a.png")[0] == 0
    assert lockstep(*words, "--model", single, "-o", tmp_path / "b.png")[0] == 0
    from PIL import Image

    assert Image.open(tmp_path / "a.png").tobytes() == Image.open(tmp_path / "b.png").tobytes()
    assert lockstep("replay", tmp_path / "b.png")[0] == 0
    assert "single files" in lockstep(*words, "--model", folder, "--family", "sd1", "-o", tmp_path / "c.png")[2]


def test_pickles_only_where_they_are_allowed(lockstep, single, tmp_path):
    metadata = read_safetensors_header(single)[1]
    torch.save({"state_dict": load_file(single)}, tmp_path / "model.ckpt")
    code, _, err = lockstep("convert", tmp_path / "model.ckpt", tmp_path / "out.safetensors")
    assert (code, "--allow-pickle" in err) == (3, True)
    assert lockstep("convert", tmp_path / "model.ckpt", tmp_path / "out.safetensors", "--allow-pickle")[0] == 0
    code, out, _ = lockstep("diff", single, tmp_path / "out.safetensors")
    assert (code, "same" in out) == (0, True)
    assert metadata  # the pickle has none, and the comparison does not need it


def test_dtype(lockstep, folder, single, tmp_path):
    assert lockstep("convert", single, tmp_path / "half.safetensors", "--dtype", "float16")[0] == 0
    code, out, _ = lockstep("diff", single, tmp_path / "half.safetensors")
    assert (code, "cast" in out) == (15, True)
    assert lockstep("diff", single, tmp_path / "half.safetensors", "--ignore-casts")[0] == 0
    code, _, err = lockstep("convert", single, tmp_path / "x.safetensors", "--dtype", "float61")
    assert (code, "did you mean" in err) == (2, True)


def test_every_kind_of_difference_is_named(lockstep, tmp_path):
    square, cube = torch.randn(4, 4), torch.randn(2, 3, 4)
    one = {
        "same": square,
        "cast": square,
        "turned": torch.randn(3, 4),
        "axes": cube,
        "rows": torch.randn(6, 3),
        "scaled": square,
        "other": square,
        "gone": square,
        "shape": torch.randn(4, 5),
    }
    other = {
        "same": square,
        "cast": square.half(),
        "turned": one["turned"].T.contiguous(),
        "axes": cube.permute(2, 0, 1).contiguous(),
        "rows": one["rows"].flip(0).contiguous(),
        "scaled": square * 0.13025,
        "other": square + 0.1 * torch.randn(4, 4),
        "new": square,
        "shape": torch.randn(3, 5),
    }
    save_file({name: tensor.clone() for name, tensor in one.items()}, tmp_path / "a.safetensors")
    save_file({name: tensor.clone() for name, tensor in other.items()}, tmp_path / "b.safetensors")
    code, out, _ = lockstep("diff", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--json")
    said = json.loads(out)
    states = {entry["name"]: entry["state"] for entry in said["differences"]}
    assert code == 15
    assert states == {
        "cast": "cast",
        "turned": "transposed",
        "axes": "permuted",
        "rows": "permuted",
        "scaled": "scaled",
        "other": "different",
        "gone": "only in A",
        "new": "only in B",
        "shape": "different",
    }
    assert next(entry["detail"] for entry in said["differences"] if entry["name"] == "scaled") == "by 0.13025"


def test_what_is_too_large_for_a_header_is_told(lockstep, folder, tmp_path):
    with_large = shutil.copytree(folder, tmp_path / "large")
    (with_large / "tokenizer" / "tokenizer.json").write_bytes(b" " * (16 * 2**20 + 1))
    (with_large / "tokenizer" / "spiece.model").write_bytes(b"\xff")
    code, _, err = lockstep("convert", with_large, tmp_path / "large.safetensors")
    assert code == 0
    assert "tokenizer/tokenizer.json stays behind" in err
    assert "tokenizer/spiece.model stays behind" in err
    (with_large / "tokenizer" / "tokenizer.json").write_text("{}")
    assert "stays behind" not in lockstep("convert", with_large, tmp_path / "small.safetensors")[2]


def test_nothing_half_written_stays(lockstep, folder, single, tmp_path, monkeypatch):
    from lockstep.loaders import streaming

    def fail(*args, **kwargs):
        raise OSError("the disk is full")

    monkeypatch.setattr(streaming, "_copy", fail)
    for source, target in ((folder, "out.safetensors"), (single, "out")):
        with pytest.raises(OSError, match="the disk is full"):
            convert(source, tmp_path / target)
    assert not [path for path in tmp_path.iterdir() if "out" in path.name]
