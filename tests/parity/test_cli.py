"""`lockstep parity …` as a person runs it, on a tiny Stable Diffusion folder and on two small files of their own."""

import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lockstep.cli.app import run
from lockstep.cli.exit_codes import ExitCode
from lockstep.cli.parity.runs import RunRecipe, both, is_function

DOCS = Path(__file__).parents[2] / "docs" / "parity.md"


def lockstep(capsys, *words):
    """Exit code, standard output, standard error."""
    with pytest.raises(SystemExit) as leave:
        run(["parity", *map(str, words)])
    captured = capsys.readouterr()
    return leave.value.code, captured.out, captured.err


def as_json(capsys, *words):
    code, out, _ = lockstep(capsys, *words, "--json")
    return code, json.loads(out)


def walkthrough(kind):
    """A file of the documentation page, so that the page cannot rot."""
    text = DOCS.read_text(encoding="utf-8")
    return re.search(rf"```python\n# {kind}\n(.*?)```", text, re.DOTALL).group(1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """reference.py and port.py of the documentation, and a port without the fault."""
    folder = tmp_path_factory.mktemp("walk")
    (folder / "reference.py").write_text(walkthrough("reference.py"))
    (folder / "port.py").write_text(walkthrough("port.py"))
    assert 'approximate="tanh"' in walkthrough("port.py")
    (folder / "fixed.py").write_text(walkthrough("port.py").replace(', approximate="tanh"', ""))
    return folder


@pytest.fixture(scope="module")
def proven(files):
    """The walkthrough's proof: traces, floor and page, and what was printed."""
    printed = io.StringIO()
    words = "prove", f"{files}/reference.py:build", f"{files}/port.py:build", "-o", f"{files}/out/port"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(printed):
        patch.setenv("COLUMNS", "300")  # no path is broken in two
        with pytest.raises(SystemExit) as leave:
            run(["parity", *words])
    assert leave.value.code == ExitCode.BUG
    (files / "printed.txt").write_text(printed.getvalue().replace(f"{files}/", ""), encoding="utf-8")
    return files / "out" / "port"


def test_what_build_may_return(files, tmp_path, capsys):
    (tmp_path / "pipeline.py").write_text(walkthrough("pipeline.py"))
    target = f"{tmp_path}/pipeline.py:build"
    code, result = as_json(capsys, "prove", target, target, "-o", tmp_path / "out", "--runs", "ulp")
    assert (code, result["verdict"]) == (0, "PASS")
    shown = {node["key"] for node in result["nodes"]}
    assert {"-|@scheduler.timesteps|out", "denoise:00|unet|out", "denoise:03|@scheduler.step|out"} <= shown, shown


def test_zero_edit_proof_against_diffusers(folder, tmp_path, capsys):
    """One command records a diffusers pipeline and a Lockstep pipeline on the same weights and says PASS."""
    pytest.importorskip("diffusers")
    code, result = as_json(
        capsys, "prove", folder, "--steps", 2, "--height", 32, "--width", 32, "-o", tmp_path, "--runs", "ulp"
    )
    assert (code, result["verdict"]) == (0, "PASS"), result["sentence"]
    assert result["coverage"]["fraction"] >= 0.95
    assert result["coverage"]["captured"] > 1000
    assert "diffusers" in result["reference"]["libraries"]
    assert result["reference"]["modules"]["unet"]["class"] == "UNet2DConditionModel"
    assert "PASS" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert RunRecipe.of(tmp_path / "ref.trace").library == "diffusers"
    assert RunRecipe.of(tmp_path / "cand.trace").library == "lockstep"


def test_a_planted_fault_is_found_and_named(folder, tmp_path, capsys):
    """The same with a fault: another epsilon in one norm of one block."""
    code, result = as_json(
        capsys, "mutate", folder, "--fault", "norm_eps", "--at", "unet.down_blocks.0.resnets.0.norm1",
        "--steps", 1, "--height", 32, "--width", 32, "-o", tmp_path, "--runs", "ulp",
    )  # fmt: skip
    assert (code, result["found"], result["verdict"]) == (0, True, "BUG"), result
    assert result["first"] == "denoise:00|unet.down_blocks.0.resnets.0.norm1|out"
    assert result["causes"][0] == "norm_eps"


def test_walkthrough_names_the_cause(proven, capsys):
    code, result = as_json(capsys, "explain", proven / "ref.trace", proven / "cand.trace")
    assert (code, result["verdict"]) == (ExitCode.BUG, "BUG")
    assert result["first"]["key"] == "-|model.blocks.0/gelu.0|out"
    assert result["coverage"]["fraction"] == 1, "names differ everywhere: the weights tell what belongs together"
    cause = result["causes"][0]
    assert cause["name"] == "gelu_variant"
    assert cause["residual_before"] > 1e-4, "measured at the GELU itself, not where the residual dilutes it"
    assert cause["residual_after"] < 1e-6
    (proven / "r.json").write_text(json.dumps(result))
    code, again = as_json(capsys, "explain", proven / "r.json")
    assert again["causes"][0]["name"] == "gelu_variant"


def test_the_printed_command_reproduces_the_node_alone(proven, capsys):
    code, out, _ = lockstep(capsys, "diff", proven / "ref.trace", proven / "cand.trace")
    assert code == ExitCode.BUG
    line = next(line for line in out.splitlines() if "This node alone:" in line)
    *_, reference, candidate, option, key = line.replace("'", "").split()
    assert option == "--at"
    code, result = as_json(capsys, "zoom", reference, candidate, "--at", key)
    assert (code, result["first"]["key"]) == (ExitCode.BUG, key)
    assert result["first"]["exact"]
    assert result["first"]["structure"]["axes"]
    assert result["causes"][0]["name"] == "gelu_variant"
    assert not any("model.blocks.1" in node["key"] for node in result["nodes"]), "the run ends behind the node"


def test_the_fixed_port_passes(files, tmp_path, capsys):
    words = f"{files}/reference.py:build", f"{files}/fixed.py:build"
    code, out, _ = lockstep(capsys, "prove", *words, "-o", tmp_path, "--junit", tmp_path / "r.xml", "--runs", "ulp")
    assert code == 0
    assert "PASS" in out
    assert 'failures="0"' in (tmp_path / "r.xml").read_text()


def test_a_trace_of_another_framework_is_proven_against(files, proven, tmp_path, capsys):
    """The reference as names and tensors alone: the floor is measured and the cause tried on the port."""
    from safetensors.numpy import save_file

    from lockstep.parity import Trace

    code, _, _ = lockstep(capsys, "record", f"{files}/port.py:build", "-o", tmp_path / "full.trace", "--keep", "full")
    assert code == 0
    trace = Trace.open(tmp_path / "full.trace")
    foreign = {
        str(e.name): trace.array(e).copy() for e in trace.entries if not e.key.is_operation and e.key.slot == "out"
    }
    save_file(foreign, str(tmp_path / "foreign.safetensors"))
    code, told = as_json(
        capsys,
        "prove",
        tmp_path / "foreign.safetensors",
        f"{files}/fixed.py:build",
        "-o",
        tmp_path / "out",
        "--rounding",
    )
    assert (code, told["verdict"]) == (ExitCode.BUG, "BUG")
    assert told["causes"][0]["name"] == "gelu_variant"
    assert told["explained"].startswith(("PASS", "NOISE"))
    code, told = as_json(
        capsys, "prove", tmp_path / "foreign.safetensors", f"{files}/port.py:build", "-o", tmp_path / "same"
    )
    assert (code, told["verdict"]) == (0, "PASS")
    code, _, err = lockstep(capsys, "prove", tmp_path / "foreign.safetensors")
    assert code == 2
    assert "is a trace" in err


def test_record_floor_diff_by_hand(files, tmp_path, capsys):
    reference, candidate = tmp_path / "a.trace", tmp_path / "b.trace"
    code, facts = as_json(
        capsys, "record", f"{files}/reference.py:build", "-o", reference, "--keep", "model.blocks.1.*=full"
    )
    assert code == 0
    assert facts["values"] > 30
    assert as_json(capsys, "record", f"{files}/fixed.py:build", "-o", candidate)[0] == 0
    code, measured = as_json(capsys, "floor", reference, "--runs", "ulp,rerun")
    assert (code, measured["runs"]) == (0, ["ulp", "rerun"])
    assert 0 < measured["median"] < 1e-5
    code, _, _ = lockstep(capsys, "diff", reference, candidate, "--html", tmp_path / "page.html")
    assert code == 0
    assert (tmp_path / "page.html").is_file()
    stopped = as_json(capsys, "record", f"{files}/reference.py:build", "-o", reference, "--stop-at", "model.blocks.0")[
        1
    ]
    assert stopped["stopped_at"] == "model.blocks.0"
    assert stopped["values"] < facts["values"]


def test_injection_shows_own_errors_alone(proven, files, capsys, tmp_path):
    reference = tmp_path / "ref.trace"
    assert as_json(capsys, "record", f"{files}/reference.py:build", "-o", reference, "--keep", "full")[0] == 0
    faulty = f"{files}/reference.py:build"
    code, result = as_json(capsys, "inject", reference, faulty, "--at", "model.blocks.2")
    assert code == 0
    assert {n["key"].split("|")[1].split("/")[0].rsplit(".", 1)[0] for n in result["nodes"]} <= {
        "model.blocks",
        "model.blocks.2",
    }
    code, _, err = lockstep(capsys, "inject", reference, faulty, "--at", "model.nowhere")
    assert code == 2
    assert "model.nowhere" in err


@pytest.mark.parametrize(
    ("verdict", "flags", "code"),
    [("half", (), 0), ("half", ("--strict",), 10), ("other_input", (), 14), ("cut", (), 14)],
)
def test_exit_codes(verdict, flags, code, tmp_path, capsys):
    from lockstep.parity import TraceWriter

    values = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    for name, seed in (("a.trace", 1), ("b.trace", 2 if verdict == "other_input" else 1)):
        with TraceWriter(tmp_path / name, {"inputs": {"seed": seed}}) as writer:
            writer.put("-", "net", "out", values.astype(np.float16) if verdict == "half" else values)
    if verdict == "cut":
        events = tmp_path / "b.trace" / "events.jsonl"
        events.write_bytes(events.read_bytes()[:-20])
    got, out, _ = lockstep(capsys, "diff", tmp_path / "a.trace", tmp_path / "b.trace", *flags)
    assert got == code, out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("diff", "nothing.trace", "nothing.trace"), "There is nothing at"),
        (("floor", "{tmp}"), "does not say how it was recorded"),
        (("record", "{tmp}/absent.py:build"), "There is no file"),
        (("record", "{tmp}/odd.py:build", "-o", "{tmp}/t.trace"), "has to return (model, call)"),
        (("record", "{tmp}", "--library", "torch"), "--library is one of"),
        (("record", "{tmp}", "--keep", "full", "--keep", "sketch"), "PATTERN=full"),
        (("mutate", "x.py:y", "--fault", "norm_epss"), "norm_eps"),
        (("weights", "{tmp}", "{tmp}"), "no trace, no .safetensors"),
        (("frames", "{tmp}/no.png", "{tmp}/no.png"), "no picture"),
        (("explain", "{tmp}/odd.py"), "is no report"),
    ],
)
def test_mistakes_get_a_sentence_and_code_2_or_3(words, says, tmp_path, capsys):
    (tmp_path / "odd.py").write_text("def build():\n    return 7\n")
    code, out, err = lockstep(capsys, *(word.format(tmp=tmp_path) for word in words))
    assert code in (2, 3)
    assert says in " ".join((out + err).split())
    assert "Traceback" not in err


def test_both_libraries_are_told_the_guidance_that_the_folder_names(tmp_path):
    (tmp_path / "guider").mkdir()
    (tmp_path / "guider" / "guider_config.json").write_text('{"guidance_scale": 4.0}')
    assert [r.guidance_scale for r in both(RunRecipe(str(tmp_path), "diffusers"), None, "lockstep")] == [4.0, 4.0]
    asked = RunRecipe(str(tmp_path), "diffusers", guidance_scale=2.0)
    assert [r.guidance_scale for r in both(asked, None, "lockstep")] == [2.0, 2.0]
    assert [r.guidance_scale for r in both(RunRecipe("file.py:build"), "other.py:build", "lockstep")] == [None, None]


def test_what_is_a_function_and_what_a_model():
    assert is_function("port.py:build")
    assert is_function("package.module:build")
    assert not is_function("runwayml/stable-diffusion-v1-5")
    assert not is_function("./folder")
    assert not is_function("C:/models/sd")


def test_weights_of_files(tmp_path, capsys):
    from lockstep.parity.trace.container import write_safetensors

    generator = np.random.default_rng(0)
    names = ("to_q", "to_k", "to_v")
    parts = {f"attn.{n}.weight": generator.standard_normal((8, 8)).astype(np.float32) for n in names}
    matrix = generator.standard_normal((4, 6)).astype(np.float32)

    def save(path, tensors):
        path.parent.mkdir(exist_ok=True)
        rows = [(name, "F32", values.shape, np.ascontiguousarray(values).tobytes()) for name, values in tensors.items()]
        write_safetensors(path, rows, {})

    save(tmp_path / "a" / "model.safetensors", {**parts, "proj.weight": matrix})
    save(tmp_path / "b.safetensors", {"attn.qkv.weight": np.concatenate(list(parts.values())), "proj.weight": matrix.T})
    code, result = as_json(capsys, "weights", tmp_path / "a", tmp_path / "b.safetensors")
    assert code == 0
    assert result["counts"] == {"transposed": 1, "fused": 1}
    save(tmp_path / "c.safetensors", {**parts, "proj.weight": matrix + 1})
    code, result = as_json(capsys, "weights", tmp_path / "a", tmp_path / "c.safetensors")
    assert code == ExitCode.DIFFERENT
    assert result["matches"] == [{"kind": "different", "reference": ["proj.weight"], "candidate": ["proj.weight"]}]


def test_frames_of_pictures_and_videos(tmp_path, capsys):
    generator = np.random.default_rng(0)
    video = generator.integers(0, 255, (12, 16, 20, 3), np.uint8)
    other = video.copy()
    other[7, 4:8, 4:8] = 255 - other[7, 4:8, 4:8]
    np.save(tmp_path / "a.npy", video[None])
    np.save(tmp_path / "b.npy", other[None])
    code, result = as_json(
        capsys, "frames", tmp_path / "a.npy", tmp_path / "b.npy", "--at", "0,7", "-o", tmp_path / "out"
    )
    assert code == ExitCode.DIFFERENT
    assert [row["frame"] for row in result["frames"] if row["largest"]] == [7]
    with Image.open(result["files"]["side_by_side"]) as sheet:
        assert sheet.size == (60, 36)
        heat = np.asarray(sheet)[20:, 40:]
        assert heat[4:8, 4:8].max() > 200
        assert heat[10:].max() < 10
    with Image.open(result["files"]["flip"]) as flip:
        assert (flip.n_frames, flip.size) == (2, (40, 16))
    Image.fromarray(video[0]).save(tmp_path / "a.png")
    code, out, _ = lockstep(capsys, "frames", tmp_path / "a.png", tmp_path / "a.png", "-o", tmp_path / "out")
    assert (code, "equal" in out) == (0, True)


def test_help_is_fast_and_has_examples():
    code = (
        "import sys; from lockstep.cli.app import app; from typer.testing import CliRunner;"
        "result = CliRunner().invoke(app, ['parity', 'diff', '--help']); assert 'Examples' in result.output, "
        "result.output;"
        "heavy = {'torch', 'numpy', 'diffusers'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_promised_command_is_there(capsys):
    code, out, _ = lockstep(capsys, "--help")
    assert code == 0
    for name in (
        "record",
        "floor",
        "diff",
        "prove",
        "zoom",
        "inject",
        "config",
        "weights",
        "explain",
        "frames",
        "mutate",
    ):
        assert re.search(rf"│ {name}\b", out), name
