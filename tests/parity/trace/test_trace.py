"""The trace format: what is written is read, what is broken is refused."""

import json
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from lockstep.parity import InvalidTrace, Name, RecordError, Trace, TraceWriter, Verdict, compare, relative_l2
from lockstep.parity.trace.container import _E4M3, decode


def write_level_zero(path, tensors):
    save_file(tensors, str(path))
    return path


def small_trace(path, values=3, **meta):
    rng = np.random.default_rng(0)
    with TraceWriter(path, meta) as writer:
        for index in range(values):
            writer.put("-", f"model.layer{index}", "out", rng.standard_normal((4, 8)).astype(np.float32), op="Linear")
    return path


def raw_file(path, header, data=b""):
    blob = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(blob)) + blob + data)
    return path


def test_reading_and_comparing_imports_no_torch():
    code = (
        "import sys, lockstep.parity as px; px.Trace, px.TraceWriter, px.compare, px.Floor; "
        "assert 'torch' not in sys.modules and 'safetensors' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_written_is_read_back(tmp_path):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    with TraceWriter(tmp_path / "t.trace", {"side": "ref"}) as writer:
        first = writer.put("denoise:00", "unet", "in.sample", values)
        writer.put("denoise:00", "unet", "out", values * 2, full=False, deps=[first])
        writer.put("denoise:00", "unet", "out", np.array([1, 2], np.int64))
    trace = Trace.open(tmp_path / "t.trace")
    assert trace.complete
    assert trace.meta["side"] == "ref"
    assert [str(e.key) for e in trace.entries] == [
        "denoise:00|unet|in.sample", "denoise:00|unet|out", "denoise:00|unet#1|out",
    ]  # fmt: skip
    assert np.array_equal(trace.array(trace.entries[0]), values)
    assert trace.entries[1].deps == (0,)
    assert trace.stats(trace.entries[1]).l2 == pytest.approx(2 * np.linalg.norm(values))
    with pytest.raises(InvalidTrace, match="only the sketch"):
        trace.array(trace.entries[1])
    assert [node.path for node in trace.nodes] == ["unet", "unet"]


def test_a_file_of_another_writer_is_a_trace(tmp_path):
    rng = np.random.default_rng(0)
    path = write_level_zero(
        tmp_path / "run.safetensors",
        {
            "000002|-|b|out": rng.standard_normal(5),
            "000001|denoise:01.cond|a|in.x": rng.standard_normal((2, 3)).astype("f4"),
        },
    )
    trace = Trace.open(path)
    assert [e.key.path for e in trace.entries] == ["a", "b"]
    assert trace.sketch(trace.entries[0]).shape == (256,)
    assert compare(path, path).verdict is Verdict.PASS


def test_half_and_eight_bit_floats_are_decoded(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_torch

    values = torch.randn(64, generator=torch.Generator().manual_seed(0)) * 10
    kinds = [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]
    save_torch({f"{i:06d}|-|x|out.{i}": values.to(kind) for i, kind in enumerate(kinds)}, tmp_path / "h.safetensors")
    trace = Trace.open(tmp_path / "h.safetensors")
    for entry, kind in zip(trace.entries, kinds, strict=True):
        assert np.array_equal(trace.array(entry), values.to(kind).float().numpy()), kind


def test_every_eight_bit_code_is_decoded_as_torch_does():
    torch = pytest.importorskip("torch")
    codes = np.arange(256, dtype=np.uint8)
    for kind, name in ((torch.float8_e4m3fn, "F8_E4M3"), (torch.float8_e5m2, "F8_E5M2")):
        wanted = torch.from_numpy(codes).view(kind).float().numpy()
        assert np.array_equal(decode(codes, name), wanted, equal_nan=True)
    assert _E4M3.shape == (256,)


@pytest.mark.parametrize(
    "name",
    [
        "no separators",
        "1|-|a",
        "x|-|a|out",
        "1||a|out",
        "1|-||out",
        "1|-|a|side",
        "1|-|a|out.",
        "1|loop|a|out",
        "1|-|a\n|out",
        "1|-|a|out|b",
    ],
)
def test_bad_names_are_refused(name):
    with pytest.raises(InvalidTrace):
        Name.parse(name)


@pytest.mark.parametrize(
    "name",
    [
        "000017|-|text_encoder.layers.3.mlp.fc1|out",
        "000912|denoise:07.cond|unet.a|in.x",
        "5|chunk:2/denoise:07|@sigma|out",
    ],
)
def test_good_names_are_read(name):
    assert str(Name.parse(name)).endswith(name.split("|", 1)[1])


ENTRY_AS_TEXT = b'"1|-|a|out":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'


def entry(dtype, shape, offsets):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


BROKEN_FILES = {
    "empty": lambda p: p.write_bytes(b""),
    "seven bytes": lambda p: p.write_bytes(b"1234567"),
    "header longer than the file": lambda p: p.write_bytes(struct.pack("<Q", 1 << 40) + b"{}"),
    "header of text": lambda p: raw_file(p, b"hello"),
    "header not utf-8": lambda p: raw_file(p, b"\xff\xfe{}"),
    "header a list": lambda p: raw_file(p, []),
    "deeply nested header": lambda p: raw_file(p, b"[" * 100_000),
    "duplicate names": lambda p: raw_file(p, b"{%s,%s}" % (ENTRY_AS_TEXT, ENTRY_AS_TEXT), b"x"),
    "no tensors": lambda p: raw_file(p, {}),
    "entry not an object": lambda p: raw_file(p, {"1|-|a|out": 3}),
    "negative shape": lambda p: raw_file(p, {"1|-|a|out": entry("F32", [-1], [0, 4])}, b"1234"),
    "shape overflow": lambda p: raw_file(p, {"1|-|a|out": entry("F32", [1 << 61, 8], [0, 4])}, b"1234"),
    "boolean shape": lambda p: raw_file(p, {"1|-|a|out": entry("F32", [True], [0, 4])}, b"1234"),
    "offsets backwards": lambda p: raw_file(p, {"1|-|a|out": entry("U8", [0], [4, 0])}, b"1234"),
    "bytes and shape disagree": lambda p: raw_file(p, {"1|-|a|out": entry("F32", [2], [0, 4])}, b"1234"),
    "unknown dtype": lambda p: raw_file(p, {"1|-|a|out": entry("Q4", [4], [0, 4])}, b"1234"),
    "overlapping tensors": lambda p: raw_file(
        p, {"1|-|a|out": entry("U8", [4], [0, 4]), "2|-|a|out": entry("U8", [4], [2, 6])}, b"123456"
    ),
    "truncated data": lambda p: raw_file(p, {"1|-|a|out": entry("U8", [9], [0, 9])}, b"1234"),
    "unclaimed bytes": lambda p: raw_file(p, {"1|-|a|out": entry("U8", [1], [0, 1])}, b"1234"),
    "one sequence number twice": lambda p: raw_file(
        p, {"1|-|a|out": entry("U8", [1], [0, 1]), "01|-|b|out": entry("U8", [1], [1, 2])}, b"12"
    ),
    "other schema": lambda p: raw_file(
        p, {"__metadata__": {"schema": "ptrace/9"}, "1|-|a|out": entry("U8", [1], [0, 1])}, b"1"
    ),
    "name without grammar": lambda p: raw_file(p, {"weight": entry("U8", [1], [0, 1])}, b"1"),
}


@pytest.mark.parametrize("kind", BROKEN_FILES)
def test_broken_files_are_invalid_and_never_pass(kind, tmp_path):
    path = tmp_path / "bad.safetensors"
    BROKEN_FILES[kind](path)
    with pytest.raises(InvalidTrace):
        Trace.open(path)
    result = compare(path, path)
    assert result.verdict is Verdict.INVALID
    assert result.reasons


def edit_events(path, change):
    file = path / "events.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    change(lines)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


BROKEN_EVENTS = {
    "other shape": lambda lines: lines[1].update(shape=[8, 4]),
    "other dtype": lambda lines: lines[1].update(dtype="F16"),
    "wrong count": lambda lines: lines[-1].update(tensors=99),
    "missing line": lambda lines: lines.pop(1),
    "swapped labels": lambda lines: lines[0].update(sk=lines[1]["sk"], stats=lines[1]["stats"]),
    "sketch too short": lambda lines: lines[1].update(sk="AAAA"),
    "sketch not base64": lambda lines: lines[1].update(sk="***"),
    "stats are text": lambda lines: lines[1].update(stats="big"),
    "stats count": lambda lines: lines[1]["stats"].update(n=7),
    "dependency on the future": lambda lines: lines[0].update(deps=[2]),
    "same as nothing": lambda lines: lines[1].update(same=77),
    "name is a number": lambda lines: lines[1].update(name=7),
    "announced data missing": lambda lines: lines[1].update(name="000001|-|elsewhere|out"),
    "negative call": lambda lines: lines[1].update(call=-1),
}


@pytest.mark.parametrize("kind", BROKEN_EVENTS)
def test_mislabelled_traces_are_invalid_and_never_pass(kind, tmp_path):
    good, bad = small_trace(tmp_path / "good.trace"), small_trace(tmp_path / "bad.trace")
    edit_events(bad, BROKEN_EVENTS[kind])
    for a, b in ((good, bad), (bad, good), (bad, bad)):
        assert compare(a, b).verdict is Verdict.INVALID, kind


def test_a_changed_number_in_the_data_is_noticed(tmp_path):
    good, bad = small_trace(tmp_path / "good.trace"), small_trace(tmp_path / "bad.trace")
    shard = next(bad.glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-2] ^= 0x40
    shard.write_bytes(data)
    result = compare(good, bad)
    assert result.verdict is Verdict.INVALID
    assert "mislabelled or changed" in result.reasons[0]


def test_other_schema_or_hostile_metadata(tmp_path):
    path = small_trace(tmp_path / "t.trace")
    for text in ('{"schema": "ptrace/2"}', "[]", '{"schema": NaN}', "{" * 50_000, '{"a":1,"a":2}'):
        (path / "trace.json").write_text(text)
        assert compare(path, path).verdict is Verdict.INVALID
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InvalidTrace, match="neither"):
        Trace.open(tmp_path / "nothing")
    with pytest.raises(InvalidTrace, match="no trace at"):
        Trace.open(tmp_path / "absent")


def test_a_killed_process_leaves_a_readable_trace(tmp_path):
    code = f"""
import os, numpy as np
from lockstep.parity import TraceWriter
writer = TraceWriter({str(tmp_path / "k.trace")!r}, shard_bytes=4096)
for i in range(200):
    writer.put("-", f"layer{{i}}", "out", np.full((16, 16), i, np.float32))
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    trace = Trace.open(tmp_path / "k.trace")
    assert not trace.complete
    assert len(trace.entries) >= 128
    assert sum(entry.has_data for entry in trace.entries) >= 100
    entry = next(e for e in trace.entries if e.has_data)
    assert trace.array(entry).shape == (16, 16)
    assert compare(trace, trace).verdict is Verdict.INVALID  # cut off: never PASS


def test_an_exception_is_part_of_the_trace(tmp_path):
    def run():
        with TraceWriter(tmp_path / "e.trace") as writer:
            writer.put("-", "a", "out", np.ones(3, np.float32))
            raise AttributeError("components.transformer")

    with pytest.raises(AttributeError):
        run()
    trace = Trace.open(tmp_path / "e.trace")
    assert trace.complete
    assert trace.exception["type"] == "AttributeError"


def test_the_writer_does_not_touch_other_files(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(RecordError, match="holds other files"):
        TraceWriter(tmp_path)
    small_trace(tmp_path / "again.trace", values=5)
    small_trace(tmp_path / "again.trace", values=2)  # an older trace is replaced
    assert len(Trace.open(tmp_path / "again.trace").entries) == 2


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.booleans())
@example(position=81, value=ord("1"), cut=False)  # `000001|…` becomes `100001|…`
@example(position=90, value=ord(" "), cut=False)  # `m.1` becomes ` .1`
def test_random_damage_never_crashes_and_never_passes_silently(tmp_path, position, value, cut):
    """Change one byte or cut the file anywhere: PASS only if the numbers really are the same."""
    good = tmp_path / "good.safetensors"
    if not good.exists():
        rng = np.random.default_rng(0)
        write_level_zero(good, {f"{i:06d}|-|m.{i}|out": rng.standard_normal((2, 3)).astype("f4") for i in range(3)})
    original = good.read_bytes()
    position %= len(original)
    damaged = original[:position] if cut else original[:position] + bytes([value]) + original[position + 1 :]
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(damaged)
    result = compare(good, bad)
    if result.verdict is Verdict.PASS:
        wanted, got = Trace.open(good), Trace.open(bad)
        assert len(result.nodes) + len(result.coverage.missing) == len(wanted.entries) == len(got.entries)
        for (
            node
        ) in result.nodes:  # by pairs: a damaged name has no partner, and a damaged sequence number another place
            left, right = wanted.get(node.key), got.get(node.other)
            assert left.shape == right.shape
            assert relative_l2(wanted.array(left), got.array(right)) < 1e-5
    else:
        assert damaged != original
