"""Files: found without a network, read with checks, written whole or not at all."""

import json
import socket
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from lockstep import files
from lockstep.errors import FileFormatError, InputError, LockstepError, NotFoundError, WriteError


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_a_local_path_touches_no_network(tmp_path, no_network, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    (tmp_path / "config.json").write_text("{}")
    assert files.resolve_folder(tmp_path) == tmp_path
    assert files.resolve_file(str(tmp_path), "config.json") == tmp_path / "config.json"
    with pytest.raises(NotFoundError):
        files.resolve_folder(str(tmp_path / "no" / "such" / "folder"))


def test_an_absent_hub_id_says_what_to_do_when_offline(no_network, tmp_path):
    with pytest.raises(NotFoundError, match="offline"):
        files.resolve_folder("nobody/nothing", cache_dir=tmp_path)


def test_a_hub_id_is_found_in_the_local_cache(no_network, tmp_path):
    snapshot = tmp_path / "models--owner--name" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text('{"a": 1}')
    refs = tmp_path / "models--owner--name" / "refs"
    refs.mkdir()
    (refs / "main").write_text("0" * 40)
    path = files.resolve_file("owner/name", "config.json", cache_dir=tmp_path)
    assert files.read_json(path) == {"a": 1}


def test_what_is_no_folder_says_what_it_is_and_what_is_meant(tmp_path):
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "config.json").write_text("{}")
    (tmp_path / "vae").symlink_to(tmp_path / "moved")
    with pytest.raises(NotFoundError, match="is a file; give the folder"):
        files.resolve_folder(tmp_path / "unet" / "config.json")
    with pytest.raises(NotFoundError, match=r"No subfolder 'transformer' in .* There: unet, vae \(a broken link\)"):
        files.resolve_folder(tmp_path, subfolder="transformer")
    with pytest.raises(NotFoundError, match="Did you mean subfolder='unet'"):
        files.resolve_file(tmp_path, "config.json")
    for nothing in (None, 5, ""):
        with pytest.raises(InputError, match="path, or by a hub id"):
            files.resolve_folder(nothing)


def test_json_with_a_byte_order_mark_is_read_and_a_number_too_long_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf{}")
    assert files.read_json(tmp_path / "a.json") == {}
    (tmp_path / "b.json").write_text('{"a": ' + "9" * 5000 + "}")
    with pytest.raises(FileFormatError, match=r"b\.json is not valid JSON"):
        files.read_json(tmp_path / "b.json")


def test_a_git_lfs_pointer_is_called_one(tmp_path):
    (tmp_path / "w.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(FileFormatError, match="git lfs pull"):
        files.read_safetensors_header(tmp_path / "w.safetensors")


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    files.write_text(path, "old")

    def write_half():
        with files.atomic(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("the power went out")

    with pytest.raises(RuntimeError, match="power"):
        write_half()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def _file(tmp_path, header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)
    return path


def test_header_of_a_good_file(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"a": np.zeros((2, 3), np.float32), "b": np.ones(4, np.float16)}, path)
    tensors, _ = files.read_safetensors_header(path)
    assert tensors["a"].shape == (2, 3)
    assert tensors["b"].dtype == "F16"


@pytest.mark.parametrize(
    ("header", "data", "word"),
    [
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"\0" * 4, "needs 8 bytes"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, b"\0" * 8, "gap"),
        ({"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4, "unknown dtype"),
        ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, b"\0" * 4, "damaged"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 3, "cut off"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 9, "extra data"),
        ({"a": {"dtype": "F32", "shape": [1]}}, b"", "damaged"),
        ({"a": 3}, b"", "tensor 'a' wants"),
        ({"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4, "tensor 'a' wants"),
        ({"a": {"dtype": "F32", "shape": None, "data_offsets": [0, 4]}}, b"\0" * 4, "tensor 'a' wants"),
        (b"[]", b"", "damaged"),
        (b"\xff\xfe", b"", "damaged"),
        (b'{"a":' * 100_000, b"", "damaged"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, header, data, word):
    with pytest.raises(FileFormatError, match=word) as caught:
        files.read_safetensors_header(_file(tmp_path, header, data))
    assert "w.safetensors" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\1", struct.pack("<Q", 2**63), struct.pack("<Q", 10**6) + b"{}"])
def test_a_file_too_short_for_its_header_is_refused(tmp_path, content):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="cut off"):
        files.read_safetensors_header(path)


GOOD = {
    "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
    "b": {"dtype": "BF16", "shape": [3], "data_offsets": [16, 22]},
}
GOOD_BYTES = struct.pack("<Q", len(json.dumps(GOOD))) + json.dumps(GOOD).encode() + b"\0" * 22


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(GOOD_BYTES) - 1), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, len(GOOD_BYTES)),
)
def test_any_damage_is_an_error_of_ours_or_harmless(tmp_path_factory, changes, cut):
    damaged = bytearray(GOOD_BYTES)
    for position, value in changes:
        damaged[position] = value
    path = tmp_path_factory.mktemp("fuzz") / "w.safetensors"
    path.write_bytes(bytes(damaged[: cut or None]))
    try:
        tensors, _ = files.read_safetensors_header(path)
    except LockstepError:
        return
    size = path.stat().st_size
    assert all(8 <= info.start <= info.end <= size for info in tensors.values())


def test_a_header_whose_length_looks_like_a_pickle_is_read(tmp_path):
    """A length of 0x80, 0x180, … begins with the byte that a pickle begins with."""
    import struct

    from lockstep.files import read_safetensors_header

    header = b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}'
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", 0x80) + header.ljust(0x80) + b"\0" * 4)
    assert list(read_safetensors_header(path)[0]) == ["a"]


def test_a_written_file_has_the_mode_of_the_umask(tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    with files.atomic(tmp_path / "weights.safetensors") as temporary:
        save_file({"x": np.zeros(2)}, temporary)
    assert (tmp_path / "weights.safetensors").stat().st_mode == plain.stat().st_mode


def test_an_atomic_write_is_on_the_disk_before_it_has_its_name_and_after(tmp_path, monkeypatch):
    import os

    done = []
    real_sync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(
        "os.fsync", lambda handle: done.append(os.readlink(f"/proc/self/fd/{handle}")) or real_sync(handle)
    )
    monkeypatch.setattr("os.replace", lambda a, b: done.append("rename") or real_replace(a, b))
    files.write_text(tmp_path / "a.txt", "x")
    assert done[0].endswith(".part")
    assert done[1:] == ["rename", str(tmp_path)]


def test_what_the_disk_refuses_is_an_error_of_ours(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WriteError, match="cannot be written"):
        files.write_text(tmp_path / "file" / "a.txt", "x")
    with pytest.raises(WriteError, match="No such file or directory"):
        files.write_text(Path("/proc/nowhere/a.txt"), "x")  # where nobody can make a folder
    with pytest.raises(NotFoundError), files.atomic(tmp_path / "b.txt"):
        raise NotFoundError("what the block reads is not there")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
