"""Files that mean harm: refused, without running what is in them or taking the memory that they claim."""

import json
import os
import pickle
import resource
import struct

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import lockstep
from helpers import slow
from loaders.test_quantised import write_gguf
from lockstep.errors import FileFormatError, LockstepError
from lockstep.loaders.checkpoint import open_checkpoint, open_header
from lockstep.loaders.describe import describe, describe_folder
from lockstep.loaders.folder_files import FOLDER_KEY, embedded_files

MANY = 10_000


def safetensors(header, data=b"", length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def tensor(start, end, shape=(1,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def gguf_file(num_tensors=0, num_values=0, body=b"", version=3):
    return b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_values) + body


def text(value, length=None):
    return struct.pack("<Q", len(value) if length is None else length) + value


def entry(name=b"a", axes=1, dims=(4,), kind=0, offset=0):
    return (
        text(name)
        + struct.pack("<I", axes)
        + b"".join(struct.pack("<Q", d) for d in dims)
        + struct.pack("<IQ", kind, offset)
    )


HOSTILE = {
    "header of 2^63 bytes": safetensors(b"{}", length=2**63),
    "header of 2^64 - 1 bytes": safetensors(b"{}", length=2**64 - 1),
    "header longer than the file": safetensors(b"{}", length=100),
    "overlapping tensors": safetensors({"a": tensor(0, 4), "b": tensor(2, 6)}, bytes(6)),
    "the same bytes twice": safetensors({"a": tensor(0, 4), "b": tensor(0, 4)}, bytes(4)),
    "a gap": safetensors({"a": tensor(0, 4), "b": tensor(8, 12)}, bytes(12)),
    "offsets beyond the file": safetensors({"a": tensor(0, 2**40, (2**38,))}, bytes(4)),
    "negative offsets": safetensors({"a": tensor(-4, 0)}, bytes(4)),
    "offsets that run backwards": safetensors({"a": tensor(4, 0)}, bytes(4)),
    "a shape that overflows": safetensors({"a": tensor(0, 4, (2**63, 2**63))}, bytes(4)),
    "a shape of fractions": safetensors({"a": tensor(0, 4, (1.5,))}, bytes(4)),
    "a negative shape": safetensors({"a": tensor(0, 4, (-1, -1))}, bytes(4)),
    "an unknown dtype": safetensors({"a": tensor(0, 4, dtype="F33")}, bytes(4)),
    "nested JSON": safetensors(b"[" * 100_000 + b"]" * 100_000),
    "a list": safetensors(b"[1]"),
    "no JSON": safetensors(b"{" * 50),
    "an entry that is a number": safetensors({"a": 5}),
    "a name that stands twice": safetensors(
        json.dumps({"a": tensor(0, 4)}).replace("}", '}, "a": 1', 1).encode(), bytes(4)
    ),
    "half of a surrogate pair as a name": safetensors({"\ud800": tensor(0, 4)}, bytes(4)),
    "metadata that are a list": safetensors({"__metadata__": [1], "a": tensor(0, 4)}, bytes(4)),
    "metadata that are no text": safetensors({"__metadata__": {"a": {"b": 1}}, "a": tensor(0, 4)}, bytes(4)),
    "data behind the end": safetensors({"a": tensor(0, 4)}, bytes(8)),
    "GGUF of 2^63 tensors": gguf_file(num_tensors=2**63),
    "GGUF of 2^63 values": gguf_file(num_values=2**63),
    "GGUF with a text of 2^62 bytes": gguf_file(0, 1, text(b"k", 2**62)),
    "GGUF with an array of 2^62 values": gguf_file(0, 1, text(b"k") + struct.pack("<IIQ", 9, 6, 2**62)),
    "GGUF with an array of 2^62 texts": gguf_file(0, 1, text(b"k") + struct.pack("<IIQ", 9, 8, 2**62)),
    "GGUF with arrays of arrays": gguf_file(0, 1, text(b"k") + struct.pack("<IIQ", 9, 9, 1)),
    "GGUF with an unknown value": gguf_file(0, 1, text(b"k") + struct.pack("<I", 77)),
    "GGUF with 2^32 - 1 axes": gguf_file(1, 0, entry(axes=2**32 - 1)),
    "GGUF with a tensor beyond the file": gguf_file(1, 0, entry(dims=(2**40,))),
    "GGUF with an offset beyond the file": gguf_file(1, 0, entry(offset=2**60)),
    "GGUF with an unknown type": gguf_file(1, 0, entry(kind=99)),
    "GGUF with half a block": gguf_file(1, 0, entry(dims=(33,), kind=2)),
    "GGUF with a tensor twice": gguf_file(2, 0, entry() + entry(), 3) + bytes(64),
    "GGUF with overlapping tensors": gguf_file(2, 0, entry() + entry(b"b"), 3) + bytes(64),
    "GGUF with an alignment of 0": gguf_file(0, 1, text(b"general.alignment") + struct.pack("<II", 4, 0)),
    "GGUF with an alignment of a text": gguf_file(0, 1, text(b"general.alignment") + struct.pack("<I", 8) + text(b"x")),
    "GGUF of version 77": gguf_file(version=77),
    "GGUF cut off": b"GGUF\x03\x00",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_refused_without_taking_memory(tmp_path, name):
    path = tmp_path / "model.safetensors"
    path.write_bytes(HOSTILE[name])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in (open_header, open_checkpoint, lambda path: describe(path)):
        with pytest.raises(FileFormatError, match="model.safetensors"):
            read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


class Payload:
    """A pickle that would make a file where it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("ending", ["ckpt", "pt", "bin", "safetensors"])
@pytest.mark.parametrize("form", ["bare", "torch"])
def test_a_pickle_is_never_run(tmp_path, ending, form):
    path, trap = tmp_path / f"model.{ending}", tmp_path / "sprung"
    content = {"state_dict": {"a": torch.ones(2)}, "x": Payload(trap)}
    if form == "bare":
        path.write_bytes(pickle.dumps(Payload(trap)))
    else:
        torch.save(content, path)
    for allow in (False, True):
        for read in (open_header, open_checkpoint):
            with pytest.raises(FileFormatError, match="pickle"):
                read(path, allow_pickle=allow)
    with pytest.raises(LockstepError):
        lockstep.DiffusionPipeline.from_single_file(path, allow_pickle=True)
    assert not trap.exists()


def test_pickles_of_tensors_are_read_where_they_are_allowed(tmp_path):
    nested = {"state_dict": {"model": {"a.weight": torch.ones(2), "epoch": 3}}, "lr": 0.1}
    torch.save(nested, tmp_path / "a.ckpt")
    assert torch.equal(open_checkpoint(tmp_path / "a.ckpt", allow_pickle=True)["a.weight"].make(), torch.ones(2))
    torch.save([1, 2], tmp_path / "b.ckpt")
    with pytest.raises(FileFormatError, match="no tensors"):
        open_checkpoint(tmp_path / "b.ckpt", allow_pickle=True)


@pytest.mark.parametrize(
    "name", ["../evil.json", "/etc/passwd", "a/b/c.json", "a/../../b.json", "..", "a\\..\\b", "C:x", "", "a//b"]
)
def test_names_in_the_header_stay_in_their_folder(tmp_path, name):
    with pytest.raises(FileFormatError, match="outside of its folder"):
        embedded_files({FOLDER_KEY: json.dumps({name: "{}"})})
    save_file(
        {"model.diffusion_model.input_blocks.0.0.weight": torch.ones(1, 4, 3, 3)},
        tmp_path / "x.safetensors",
        {FOLDER_KEY: json.dumps({name: "{}"})},
    )
    with pytest.raises(LockstepError):
        lockstep.UNet2DConditionModel.from_single_file(tmp_path / "x.safetensors")


@pytest.mark.parametrize("value", ["[1]", "{", '{"a": 1}', "[" * 10_000])
def test_metadata_that_is_no_folder(value):
    with pytest.raises(FileFormatError, match="JSON object"):
        embedded_files({FOLDER_KEY: value})


@pytest.mark.parametrize("name", ["../../outside.safetensors", "/etc/passwd", "sub/x.safetensors", "..", ""])
def test_an_index_that_leads_outside(tmp_path, folder, name):
    (tmp_path / "config.json").write_text((folder / "unet" / "config.json").read_text())
    (tmp_path / "diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(LockstepError, match="outside|not there"):
        lockstep.UNet2DConditionModel.from_pretrained(tmp_path)
    assert describe_folder(tmp_path)["notes"]


# ---- fuzzing ----


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    """Whole files, of which the fuzzer changes bytes."""
    folder = tmp_path_factory.mktemp("seeds")
    tensors = {
        "model.diffusion_model.input_blocks.0.0.weight": torch.ones(2, 4, 3, 3),
        "a.lora_up.weight": torch.ones(4, 32),
    }
    save_file(tensors, folder / "a.safetensors", {"format": "pt", FOLDER_KEY: json.dumps({"unet/config.json": "{}"})})
    write_gguf(folder / "b.gguf", tensors, {"a.lora_up.weight": "Q4_0"})
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def survives(path):
    """Reading a file ends in a description or in an error of Lockstep's own, nothing else."""
    try:
        describe(path)
        for tensor in open_checkpoint(path).values():
            assert tensor.info.end - tensor.info.start <= path.stat().st_size
    except LockstepError:
        pass


def changed(seed, edits, cut):
    data = bytearray(seed)
    for place, value in edits:
        data[place % len(data)] = value
    return bytes(data[: len(data) - cut % len(data)]) if cut else bytes(data)


EDITS = st.lists(st.tuples(st.one_of(st.integers(0, 64), st.integers(0, 4096)), st.integers(0, 255)), max_size=6)
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def fuzz(seeds, tmp_path, examples):
    path = tmp_path / "fuzzed.bin"

    @settings(max_examples=examples, deadline=None, suppress_health_check=QUIET, database=None)
    @given(st.sampled_from(range(len(seeds))), EDITS, st.one_of(st.just(0), st.integers(0, 4096)))
    def change_bytes(which, edits, cut):
        path.write_bytes(changed(seeds[which], edits, cut))
        survives(path)

    @settings(max_examples=examples // 4, deadline=None, suppress_health_check=QUIET, database=None)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(["dtype", "shape", "data_offsets", "__metadata__", "a.weight", "b"]),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ),
        st.binary(max_size=64),
    )
    def any_header(header, data):
        path.write_bytes(safetensors(header, data))
        survives(path)

    @settings(max_examples=examples // 4, deadline=None, suppress_health_check=QUIET, database=None)
    @given(st.binary(max_size=256))
    def any_gguf(body):
        path.write_bytes(b"GGUF\x03\x00\x00\x00" + body)
        survives(path)

    change_bytes()
    any_header()
    any_gguf()


def test_fuzzed_a_little(seeds, tmp_path):
    fuzz(seeds, tmp_path, 200)


@slow
def test_fuzzed(seeds, tmp_path):
    fuzz(seeds, tmp_path, MANY)
