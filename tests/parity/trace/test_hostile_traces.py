"""Traces that lie: mislabelled, swapped, shifted, empty of meaning or written to do harm. Never a crash,
never a PASS."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from lockstep.cli.app import run
from lockstep.cli.exit_codes import ExitCode
from lockstep.parity import TraceWriter, Verdict, compare
from lockstep.parity import report as reports

STEPS = 4
REFUSED = (ExitCode.BUG, ExitCode.DRIFT, ExitCode.INCONCLUSIVE, ExitCode.INVALID)


def tensors(seed=0):
    """A small loop: in, two modules and a sample per step."""
    rng = np.random.default_rng(seed)
    found, seq = {}, 0
    for step in range(STEPS):
        for path, slot, shape in (
            ("unet", "in.sample", (2, 4, 8)), ("unet.conv", "out", (2, 4, 8)), ("unet.attn", "out.0", (2, 4, 8)),
            ("unet.attn", "out.1", (2, 4, 8)), ("unet", "out", (2, 4, 8)),
        ):  # fmt: skip
            found[f"{seq:06d}|denoise:{step:02d}|{path}|{slot}"] = rng.standard_normal(shape).astype(np.float32)
            seq += 1
    return found


def diff(pair):
    """Exit code of `lockstep parity diff`."""
    with pytest.raises(SystemExit) as leave:
        run(["parity", "diff", *map(str, pair)])
    return leave.value.code


def renamed(change):
    return lambda values: {change(name): value for name, value in values.items()}


def each(change):
    return lambda values: {name: change(value) for name, value in values.items()}


def later(name):
    seq, step, path, slot = name.split("|")
    return f"{seq}|denoise:{int(step[-2:]) + 1:02d}|{path}|{slot}"


def swapped_slots(name):
    return name.replace("out.0", "out.x").replace("out.1", "out.0").replace("out.x", "out.1")


def swapped_paths(name):
    seq, step, path, slot = name.split("|")
    return "|".join([seq, step, {"unet.conv": "unet.attn", "unet.attn": "unet.conv"}.get(path, path), slot])


LIES = {
    "float labelled as integer": each(lambda x: x.view(np.int32)),
    "one labelled as integer": lambda v: {**v,
        "000001|denoise:00|unet.conv|out": v["000001|denoise:00|unet.conv|out"].view(np.int32)},
    "float32 labelled as float16": each(lambda x: x.view(np.float16).reshape(2, 8, 8)),
    "float64 labelled as float32": each(lambda x: x.astype(np.float64).view(np.float32).reshape(4, 4, 8)),
    "last axes of the shape exchanged": each(lambda x: x.reshape(2, 8, 4)),
    "first axes of the shape exchanged": each(lambda x: x.reshape(4, 2, 8)),
    "transposed": each(lambda x: np.ascontiguousarray(x.transpose(0, 2, 1)).reshape(2, 4, 8)),
    "step labels shifted by one": renamed(later),
    "two modules swapped": renamed(swapped_paths),
    "all NaN": each(lambda x: np.full_like(x, np.nan)),
    "all infinite": each(lambda x: np.full_like(x, np.inf)),
    "all zero": each(np.zeros_like),
    "one NaN at the end": lambda v: {**v,
        list(v)[-1]: np.where(np.arange(8) == 3, np.float32(np.nan), list(v.values())[-1])},
    "no elements": each(lambda x: x[:0]),
    "last value without elements": lambda v: {**v, list(v)[-1]: np.zeros((0, 4, 8), np.float32)},
    "one number each": each(lambda x: x.reshape(-1)[:1].reshape(())),
    "last step missing": lambda v: dict(list(v.items())[:-5]),
    "only the inputs": lambda v: {k: x for k, x in v.items() if "|in." in k},
    "paths out of the folder": renamed(lambda n: n.replace("unet", "../../../etc/passwd")),
    "paths that are a shell's or a browser's": renamed(lambda n: n.replace("unet",
        "<script>alert('$(reboot)')</script>")),
    "markup of the terminal": renamed(lambda n: n.replace("unet", "[bold red]x[/]")),
}  # fmt: skip


def written(path, values):
    save_file({name: np.ascontiguousarray(value) for name, value in values.items()}, str(path))
    return path


@pytest.mark.parametrize("kind", LIES)
def test_a_file_that_lies_never_passes(kind, tmp_path, capsys):
    honest = written(tmp_path / "honest.safetensors", tensors())
    lying = written(tmp_path / "lying.safetensors", LIES[kind](tensors()))
    for pair in ((honest, lying), (lying, honest)):
        result = compare(*pair)
        assert result.verdict not in (Verdict.PASS, Verdict.NOISE), kind
        assert result.sentence()
        report = reports.build(result)
        page = reports.to_html(report)
        assert "<script>alert" not in page
        assert reports.to_junit(report)
        json.dumps(reports.to_json(result), allow_nan=False)
    assert diff((honest, lying)) in REFUSED
    assert "Traceback" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("one labelled as integer", "one of the two is mislabelled"),
        ("float labelled as integer", "one of the two is mislabelled"),
        ("step labels shifted by one", "1 later: mislabelled"),
        ("two modules swapped", "the two names are exchanged"),
    ],
)
def test_a_label_that_lies_is_told(kind, says, tmp_path):
    honest = written(tmp_path / "honest.safetensors", tensors())
    result = compare(honest, written(tmp_path / "lying.safetensors", LIES[kind](tensors())))
    assert result.verdict is Verdict.INVALID
    assert says in result.sentence()


def test_results_of_a_call_in_another_order_are_no_lie(tmp_path):
    honest = written(tmp_path / "honest.safetensors", tensors())
    result = compare(honest, written(tmp_path / "exchanged.safetensors", renamed(swapped_slots)(tensors())))
    assert result.verdict is Verdict.PASS
    pairs = {str(node.key): str(node.other) for node in result.nodes}
    assert any("out.0" in key and "out.1" in partner for key, partner in pairs.items())


@pytest.mark.parametrize("kind", ["all NaN", "all infinite", "no elements"])
def test_two_sides_without_meaning_do_not_pass_either(kind, tmp_path):
    paths = [written(tmp_path / f"{side}.safetensors", LIES[kind](tensors())) for side in "ab"]
    assert compare(*paths).verdict in (Verdict.INVALID, Verdict.INCONCLUSIVE)


def test_another_view_of_the_same_numbers_is_no_lie(tmp_path):
    honest = written(tmp_path / "a.safetensors", tensors())
    joined = written(tmp_path / "b.safetensors", each(lambda x: x.reshape(2, 32))(tensors()))
    assert compare(honest, joined).verdict is Verdict.PASS
    assert compare(joined, honest).verdict is Verdict.PASS


HOSTILE_META = {
    "modules a list": {"modules": [1, 2]},
    "attributes a number": {"modules": {"model.layer0": {"attrs": 5}}},
    "attributes text": {"modules": {"model.layer0": {"attrs": "abc"}}},
    "a module null": {"modules": {"model.layer0": None}},
    "channels that are text": {"modules": {"model.layer0": {"attrs": {"in_channels": 3, "kernel_size": ["x"],
        "groups": "y"}}}},
    "zero groups, negative kernel": {"modules": {"model.layer0": {"attrs": {"in_channels": 3, "kernel_size": [-3],
        "groups": 0}}}},
    "features below zero": {"modules": {"model.layer0": {"attrs": {"in_features": -7}}}},
    "features beyond all bounds": {"modules": {"model.layer0": {"attrs": {"in_features": 10**400}}}},
    "schedulers text": {"schedulers": "ddim"},
    "scheduler a number": {"schedulers": {"scheduler": 3}},
    "scheduler config a list": {"schedulers": {"scheduler": {"config": [], "state": 7}}},
    "call a list": {"call": [1]},
    "inputs nested": {"inputs": {"prompt": {"a": [{}]}}},
    "sources a number": {"sources": 5},
    "sources of numbers": {"sources": {"unet": 5}},
    "seed an object": {"seed": {}},
    "stopped at a number": {"stopped_at": 3},
    "level an object": {"level": {}},
    "host text": {"host": "x", "framework": [], "dtype": {}, "config": 5, "weights": "sha", "schedules": 8, "side": []},
}  # fmt: skip


def layers(path, meta=None):
    rng = np.random.default_rng(0)
    with TraceWriter(path, meta or {}) as writer:
        first = writer.put("-", "model.layer0", "in.x", rng.standard_normal((4, 8)).astype(np.float32), op="Linear")
        writer.put(
            "-", "model.layer0", "out", rng.standard_normal((4, 8)).astype(np.float32), op="Linear", deps=[first]
        )
        writer.put("-", "model", "out", rng.standard_normal((4, 8)).astype(np.float32), op="Model")
    return path


@pytest.mark.parametrize("kind", HOSTILE_META)
def test_metadata_of_the_wrong_kind_does_not_crash(kind, tmp_path, capsys):
    honest = layers(tmp_path / "honest.trace")
    hostile = layers(tmp_path / "hostile.trace")
    (hostile / "trace.json").write_text(json.dumps({"schema": "ptrace/1", **HOSTILE_META[kind]}))
    bad = layers(tmp_path / "bad.trace")
    (bad / "trace.json").write_text(json.dumps({"schema": "ptrace/1", **HOSTILE_META[kind]}))
    for pair in ((honest, hostile), (hostile, honest), (hostile, bad)):
        result = compare(*pair)
        assert result.verdict in (Verdict.PASS, Verdict.INVALID)
        assert reports.to_html(reports.build(result))
    assert diff((honest, hostile)) in (ExitCode.DONE, ExitCode.INVALID)
    assert "Traceback" not in "".join(capsys.readouterr())


HOSTILE_LINES = {
    "depends on itself": {"deps": [1]},
    "same as itself": {"same": 1},
    "same as a later one": {"same": 2},
    "huge call": {"call": 10**30},
    "negative call": {"call": -1},
    "op an object": {"op": {"a": 1}},
    "meta.rng a number": {"meta": {"rng": 5}},
    "shape beyond memory": {"shape": [2**40, 2**20]},
    "a million axes": {"shape": [1] * 1_000_000},
    "statistics that do not belong": {"stats": {"n": 32, "l2": 1e300, "mean": 0, "min": 0, "max": 0, "nan": 0,
        "inf": 0}},
    "statistics with an overflow": {"stats": {"n": 32, "l2": 1e400, "mean": 0, "min": 0, "max": 0, "nan": 0, "inf": 0}},
    "more NaN than elements": {"stats": {"n": 32, "l2": 1, "mean": 0, "min": 0, "max": 0, "nan": 99, "inf": -67}},
    "another name": {"name": "000001|-|model.layer9|out"},
    "name with a step of words": {"name": "000001|soon|model.layer0|out"},
    "name with a step beyond all bounds": {"name": "000001|denoise:" + "9" * 900 + "|model.layer0|out"},
    "name as long as a book": {"name": "000001|-|" + "a." * 5000 + "b|out"},
    "sketch of another value": {"sk": "AAAAAAAA8D8=" * 256},
    "dtype of another width": {"dtype": "F64"},
    "dtype unknown": {"dtype": "F31"},
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE_LINES)
def test_events_that_lie_are_refused_or_differ(kind, tmp_path, capsys):
    honest, hostile = layers(tmp_path / "honest.trace"), layers(tmp_path / "hostile.trace")
    events = hostile / "events.jsonl"
    lines = events.read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), **HOSTILE_LINES[kind]}).replace("Infinity", "1e400")
    events.write_text("\n".join(lines) + "\n")
    for pair in ((honest, hostile), (hostile, honest)):
        result = compare(*pair)
        harmless = kind in ("op an object", "meta.rng a number", "huge call")
        assert result.verdict is not Verdict.PASS or harmless, kind
        assert reports.to_html(reports.build(result))
    assert diff((honest, hostile)) in ((ExitCode.DONE, *REFUSED) if harmless else REFUSED)
    assert "Traceback" not in "".join(capsys.readouterr())


def test_a_shard_that_leads_elsewhere_is_read_as_what_it_is(tmp_path):
    """A link to another file is no way to read it: what is no safetensors file is refused."""
    hostile = layers(tmp_path / "hostile.trace")
    secret = tmp_path / "secret.txt"
    secret.write_text("password = hunter2, and enough bytes to be a header")
    (hostile / "999999.safetensors").symlink_to(secret)
    result = compare(layers(tmp_path / "honest.trace"), hostile)
    assert result.verdict is Verdict.INVALID
    assert "hunter2" not in result.sentence()


def test_what_was_stored_is_what_is_compared(tmp_path):
    path = written(tmp_path / "a.safetensors", tensors())
    assert set(load_file(str(path))) == set(tensors())
    assert compare(path, path).verdict is Verdict.PASS
