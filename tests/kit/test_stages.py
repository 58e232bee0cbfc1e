"""`lockstep parity stages`: the order, the first that fails, the command that goes on, the result that is kept."""

import json

import pytest
import torch

from kit.scaffold import edited, importable, sides, written
from lockstep.cli.exit_codes import ExitCode
from lockstep.errors import InputError, UnknownNameError
from lockstep.kit.stages import StageSide, measured_floor, stage_names, walk_stages


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return written(tmp_path_factory.mktemp("staged") / "dew-models", ("pipeline", "dew"))


@pytest.fixture(scope="module")
def floor(home, tmp_path_factory):
    with importable(home):
        import reference_dew_pipeline

        return measured_floor(StageSide(*reference_dew_pipeline.build()), tmp_path_factory.mktemp("floor"))


PIPELINES = ("dew", "_pipeline", "build")


def test_all_stages_pass_and_the_result_is_what_check_asks_for(home, lockstep, tmp_path):
    with importable(home):
        code, out, err = lockstep(
            "parity",
            "stages",
            *sides(home, *PIPELINES),
            "--family",
            "dew",
            "--package",
            home.root,
            "-o",
            tmp_path / "o",
        )
        assert code == 0, out + err
        assert [line.split()[:2] for line in out.splitlines() if line.startswith(("encode", "decode", "denoise"))] == [
            ["encode", "PASS"],
            ["decode", "PASS"],
            ["denoise", "PASS"],
        ]
        kept = json.loads(home.file("result", "dew").read_text())
        assert kept["reference"] == "tests/reference_dew_pipeline.py:build"
        assert "src/dew_models/transformer_dew.py" in kept["sources"]
        code, out, _ = lockstep("check", "dew", "--package", home.root, "--no-run")
        assert code == 0, out


@pytest.mark.slow  # it looks for the cause, too
def test_it_stops_at_the_first_that_is_wrong_and_says_how_to_go_on(home, lockstep, tmp_path):
    wrong = (
        "        return VaeImageProcessor(do_convert_rgb=True)",
        "        pixels = 0.9 * pixels\n        return VaeImageProcessor(do_convert_rgb=True)",
    )
    with edited(home.file("decoders", "dew"), wrong), importable(home):
        code, out, _ = lockstep("parity", "stages", *sides(home, *PIPELINES), "-o", tmp_path / "o")
        assert code == ExitCode.BUG
        assert "decode  BUG" in out
        assert "denoise" not in out.partition("Goes on with")[0]
        assert "pitfall 15, decoder config" in out
        command = next(line for line in out.splitlines() if line.startswith("Goes on with"))
        assert "lockstep parity explain" in command
        assert "--from decode" in command
        traces = command.partition("explain ")[2].partition("#")[0].split()
        code, out, _ = lockstep("parity", "explain", *traces)
        assert code == ExitCode.BUG
    with importable(home):
        code, out, _ = lockstep(
            "parity", "stages", *sides(home, *PIPELINES), "-o", tmp_path / "o", "--from", "decode", "--json"
        )
        assert code == 0
        assert [row["stage"] for row in json.loads(out)["stages"]] == ["decode", "denoise"]


OTHER_ORDER = (
    ("torch.cat([negative, words])", "torch.cat([words, negative])"),
    ("without, with_prompt = both", "with_prompt, without = both"),
)


@pytest.mark.parametrize(
    "changes", [OTHER_ORDER, pytest.param(OTHER_ORDER[:1], marks=pytest.mark.slow)], ids=["both ends", "one end"]
)
def test_the_prompt_first_is_a_fault_only_if_the_guidance_takes_it_for_the_negative(home, floor, tmp_path, changes):
    with edited(home.file("reference_pipeline", "dew"), *changes), importable(home):
        import port_dew_pipeline
        import reference_dew_pipeline

        both = [StageSide(*module.build()) for module in (reference_dew_pipeline, port_dew_pipeline)]
        results = list(walk_stages(*both, tmp_path, floor=floor, evaluations=0))
    if changes == OTHER_ORDER:
        assert [one.passed for one in results] == [True] * 3, [one.sentence() for one in results]
        assert "halves of the batch are exchanged" in results[0].notes[0]
        assert results[2].comparison.coverage.fraction > 0.9
    else:
        assert [(one.stage, one.verdict, one.pitfalls) for one in results] == [("encode", "BUG", [3])]


KEPT_BY_SCHEDULER = (
    ("scheduler=FlowMatchEulerDiscreteScheduler(", "scheduler=Kept("),
    (
        "def pipeline():",
        "class Kept(FlowMatchEulerDiscreteScheduler):\n    runs = 0\n\n"
        "    def set_timesteps(self, *args, **words):\n        super().set_timesteps(*args, **words)\n"
        "        self.sigmas, Kept.runs = self.sigmas * (1 + 0.01 * Kept.runs), Kept.runs + 1\n\n\ndef pipeline():",
    ),
)
KEPT_BY_GUIDER = (
    ("    pipe.set_progress_bar_config", "    pipe.guider = Drift(4.0)\n    pipe.set_progress_bar_config"),
    (
        "def pipeline():",
        "from lockstep import ClassifierFreeGuidance\n\n\nclass Drift(ClassifierFreeGuidance):\n    seen = 0\n\n"
        "    def combine(self, cond, uncond):\n        Drift.seen += 1\n"
        "        return self.extrapolate(cond, uncond, self.guidance_scale * (1 + 0.01 * Drift.seen))\n\n\n"
        "def pipeline():",
    ),
)


@pytest.mark.parametrize(
    ("changes", "number"), [(KEPT_BY_SCHEDULER, 7), (KEPT_BY_GUIDER, 9)], ids=["scheduler", "guider"]
)
def test_what_is_kept_from_run_to_run_is_named(home, floor, tmp_path, changes, number):
    with edited(home.file("port_pipeline", "dew"), *changes), importable(home):
        import port_dew_pipeline
        import reference_dew_pipeline

        both = [StageSide(*module.build()) for module in (reference_dew_pipeline, port_dew_pipeline)]
        both[1].call()
        (failed,) = walk_stages(*both, tmp_path, "denoise", floor, evaluations=0)
    assert "does not repeat itself" in failed.sentence()
    assert failed.pitfalls == [number], failed.sentence()


def test_timesteps_counted_to_one_are_no_difference(home, floor, tmp_path):
    changes = (
        ("self.sigmas[:-1] * 1000, 0", "self.sigmas[:-1], 0"),
        ("timestep.expand(2)", "1000 * timestep.expand(2)"),
    )
    with edited(home.file("reference_pipeline", "dew"), *changes), importable(home):
        import port_dew_pipeline
        import reference_dew_pipeline

        both = [StageSide(*module.build()) for module in (reference_dew_pipeline, port_dew_pipeline)]
        (result,) = walk_stages(*both, tmp_path, "denoise", floor, evaluations=0)
    assert result.passed, result.sentence()
    assert any("count from 0 to 1000 instead of to 1" in reason for reason in result.comparison.reasons)


def test_a_side_that_raises_is_a_verdict(home, lockstep, tmp_path):
    with edited(home.file("denoise", "dew"), ("components.denoiser(sample", "components.vae(sample")), importable(home):
        code, out, _ = lockstep("parity", "stages", *sides(home, *PIPELINES), "-o", tmp_path / "o")
    assert code == ExitCode.RAISED
    assert "pitfall 8, component access" in out


def test_a_model_is_one_stage(home, lockstep, tmp_path):
    with importable(home):
        code, out, _ = lockstep("parity", "stages", *sides(home, "dew"), "-o", tmp_path / "o", "--json")
    assert code == 0
    assert [(row["stage"], row["verdict"]) for row in json.loads(out)["stages"]] == [("model", "PASS")]


def test_what_cannot_be_compared_is_refused_before_anything_runs(home, tmp_path):
    with importable(home):
        import reference_dew
        import reference_dew_pipeline

        pipe, model = StageSide(*reference_dew_pipeline.build()), StageSide(*reference_dew.build_model())
        with pytest.raises(InputError, match="both as pipelines, or both as models"):
            stage_names(pipe, model)
        with pytest.raises(UnknownNameError, match="did you mean 'decode'"):
            list(walk_stages(pipe, pipe, tmp_path, begin="decod"))
        short = StageSide(pipe.target, lambda: pipe.target("a", "b", 2, 4.0, 16, torch.Generator().manual_seed(0)))
        with pytest.raises(InputError, match="takes 2 steps: a schedule of realistic length has at least 4"):
            list(walk_stages(short, short, tmp_path))


def test_a_folder_is_run_by_both_libraries(folder, lockstep, tmp_path):
    words = ["--height", "16", "--width", "16", "--steps", "4", "-o", tmp_path / "o", "--json"]
    code, out, err = lockstep("parity", "stages", folder, folder, *words)
    assert code == 0, out + err
    assert [row["verdict"] for row in json.loads(out)["stages"]] == ["PASS"] * 3
