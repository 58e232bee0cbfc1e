"""The command as a person or a script uses it: what it prints, what it writes, how it leaves."""

import errno
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from lockstep import kernels
from lockstep.cli.pipelines import level_of, make_guider
from lockstep.cli.preview import TerminalPicture
from lockstep.errors import InputError, UnknownNameError
from lockstep.media import read_manifest
from lockstep.schedulers.names import find_scheduler
from pipelines import tiny

QUICK = ["--height", "16", "--width", "16", "--num-inference-steps", "2"]


def test_generate_writes_a_png_that_replay_makes_again(lockstep, folder, tmp_path):
    code, out, _ = lockstep("generate", "a cat", "-m", folder, "--seed", 3, "-n", 2, "-o", "cat.png", *QUICK)
    assert code == 0
    assert "cat-0.png" in out
    assert (tmp_path / "cat-1.png").is_file()
    code, out, _ = lockstep("replay", "cat-1.png", "-o", "again.png")
    assert code == 0
    assert "identical" in out
    pixels = [np.asarray(Image.open(tmp_path / name)) for name in ("cat-1.png", "again.png")]
    assert np.array_equal(*pixels)


def test_another_scheduler_and_guider_are_replayed_too(lockstep, folder):
    choices = ["--scheduler", "euler_a", "--guider", "AdaptiveProjectedGuidance:eta=0.5,guidance_scale=3"]
    code, *_ = lockstep("generate", "a cat", "-m", folder, "--seed", 3, *choices, *QUICK)
    assert code == 0
    code, out, _ = lockstep("replay", "picture.png", "--json")
    assert (code, json.loads(out)["identical"]) == (0, True)


def test_a_replay_with_other_weights_says_so(lockstep, folder, tmp_path):
    import shutil

    lockstep("generate", "a cat", "-m", folder, "--seed", 3, *QUICK)
    shutil.copytree(folder, tmp_path / "other")
    tiny.unet(seed=99).save_pretrained(tmp_path / "other" / "unet")
    code, _, err = lockstep("replay", "picture.png", "-m", "other")
    assert code == 5
    assert "weights of unet" in err


def test_a_replay_of_a_foreign_picture_is_refused(lockstep, tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "plain.png")
    code, _, err = lockstep("replay", "plain.png")
    assert code == 3
    assert "no Lockstep manifest" in err
    assert lockstep("replay", "nowhere.png")[0] == 3


def test_json_says_where_the_pictures_are(lockstep, folder):
    code, out, _ = lockstep("generate", "a cat", "-m", folder, "--json", *QUICK)
    told = json.loads(out)
    assert code == 0
    assert told["pictures"][0]["path"] == "picture.png"
    assert isinstance(told["pictures"][0]["seed"], int)
    assert 0.05 < told["peak_gigabytes"] < 50


def test_fp32_on_the_processor_is_computed_by_our_own_kernels_unless_said(lockstep, folder):
    there = kernels.library() is not None
    assert level_of("auto", "float32", None) == ("exact" if there else "off")
    assert level_of("auto", "bfloat16", "cpu") == "off"
    assert level_of("auto", "float32", "meta") == "off"
    assert level_of("off", "float32", None) == "off"
    code, *_ = lockstep("generate", "a cat", "-m", folder, "--seed", 3, "--dtype", "float32", *QUICK)
    assert code == 0
    code, out, _ = lockstep("replay", "picture.png", "--json")
    assert (code, json.loads(out)["identical"]) == (0, True)
    manifest = read_manifest("picture.png")
    assert manifest.get("accelerated", {}).get("unet") == ("exact" if there else None)


def test_memory_is_bounded_where_our_kernels_compute(lockstep, folder):
    code, _, err = lockstep("generate", "a cat", "-m", folder, "--max-memory", "40GB", "--speed", "high", *QUICK)
    assert code == 2
    assert "--max-memory goes with" in err
    code, _, err = lockstep("generate", "a cat", "-m", folder, "--max-memory", "banana", *QUICK)
    assert code == 2
    assert "--max-memory wants a number of bytes" in err
    if kernels.library() is not None:
        code, _, err = lockstep("generate", "a cat", "-m", folder, "--max-memory", "40GB", *QUICK)
        assert code == 0
        assert "GB of memory" in err


def test_prompts_from_a_file(lockstep, folder, tmp_path):
    (tmp_path / "prompts.txt").write_text("a cat\n# not this\n\na red dog\n")
    code, out, _ = lockstep("generate", "--from", "prompts.txt", "-m", folder, "-o", "sheet", "--json", *QUICK)
    assert code == 0
    assert [entry["prompt"] for entry in json.loads(out)["pictures"]] == ["a cat", "a red dog"]
    assert len(list((tmp_path / "sheet").glob("*.png"))) == 2


def test_pictures_go_in_by_their_path(lockstep, folder, tmp_path):
    Image.new("RGB", (16, 16), "red").save(tmp_path / "start.png")
    code, *_ = lockstep(
        "generate", "a cat", "-m", folder, "--image", "start.png", "--strength", "0.6", "--num-inference-steps", "4"
    )
    assert code == 0


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["generate", "a cat", "-m", "{folder}", "--hieght", "16"], 2, "did you mean '--height'"),
        (["generate", "a cat", "-m", "{folder}", "--height", "tall"], 2, "'tall'"),
        (["generate", "a cat", "-m", "{folder}", "--height", "15"], 2, "multiple of 2 for this model"),
        (["generate", "a cat", "--guider", "Tangential"], 2, "did you mean 'TangentialClassifierFreeGuidance'"),
        (["generate", "a cat", "--scheduler", "flow"], 6, "wants a scheduler for diffusion, as its DDIMScheduler is"),
        (["generate", "-m", "{folder}"], 2, "prompt"),
        (["generate", "a cat", "-m", "{folder}", "-o", "cat.bmp"], 2, ".png"),
        (["generate", "a cat", "-m", "{folder}", "--scheduler", "eulre"], 2, "did you mean 'euler'"),
        (["generate", "a cat", "-m", "{folder}", "--sampler", "dpm++_3m"], 2, "did you mean 'dpm++_2m'"),
        (["generate", "a cat", "-m", "{folder}", "--steps", "2", "--num-inference-steps", "2"], 2, "twice"),
        (["generate", "a cat", "-m", "{folder}", "--variant", "fp16"], 3, "diffusion_pytorch_model.fp16.safetensors"),
        (["generate", "a cat", "-m", "{folder}", "--image", "nowhere.png"], 3, "nowhere.png"),
        (["generate", "a cat", "-m", "no/such/folder"], 3, "no/such/folder"),
        (["generate", "a", "cat", "-m", "{folder}"], 2, "quotes"),
        (["generate", "a cat", "-m", "{folder}", "--sed", "3"], 2, "did you mean '--seed'"),
        (["generate", "a cat", "-m", "{folder}", "--prompt", "a dog"], 2, "one of them"),
        (["generate", "a cat", "-m", "{folder}", "--height", "16", "--height", "24"], 2, "twice"),
        (["generate", "a cat", "-m", "{folder}", "--latents", "x"], 2, "Unknown option"),
        (["generate", "a cat", "-m", "{folder}", "--output-type", "np"], 2, "Unknown option"),
        (["generate", "a cat", "-m", "{folder}", "--device", "gpu"], 2, "gpu"),
        (["generate", "a cat", "-m", "{folder}", "--guider", "AdaptiveProjected:eta"], 2, "name=value"),
        (["generate", "--from", "{folder}/unet/diffusion_pytorch_model.safetensors", "-m", "{folder}"], 2, "UTF-8"),
        (["generate", "a cat", "-m", "{folder}", "-o", "{folder}/model_index.json/a.png"], 2, "cannot be made"),
        (["replay", "{folder}/model_index.json"], 3, "not a picture"),
        (["schema", "{folder}", "--workflow", "text2video"], 2, "text2image"),
    ],
)
def test_mistakes_have_a_message_and_a_code(lockstep, folder, tmp_path, words, code, told):
    got, _, err = lockstep(*[word.format(folder=folder) for word in words])
    assert got == code, err
    assert told in err
    assert "Traceback" not in err
    assert not list(tmp_path.glob("*.png"))


def test_errors_as_json(lockstep):
    code, out, _ = lockstep("generate", "a cat", "-m", "no/such/folder", "--json")
    assert code == 3
    assert json.loads(out)["error"] == "NotFoundError"


def test_usage_errors_as_json_too(lockstep):
    code, out, _ = lockstep("generate", "a cat", "--seed", "x", "--json")
    assert (code, json.loads(out)["exit_code"]) == (2, 2)


def test_what_cannot_be_written_is_told_before_anything_is_computed(lockstep, folder, tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(torch.nn.Module, "__call__", lambda *_, **__: pytest.fail("a model ran"))
    code, _, err = lockstep("generate", "a cat", "-m", folder, "-o", "/proc/a.png", *QUICK)
    assert code == 2
    assert "cannot be written" in err


@pytest.mark.parametrize(("target", "code"), [("| head -1", 0), ("> /dev/full", 6)])
def test_output_that_ends_early_is_no_bug(target, code):
    command = f"{sys.executable} -m lockstep schema lockstep/emoji {target}"
    ended = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=120)
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr
    assert ("No space left" in ended.stderr) == (code == 6)


def test_an_ending_alone_is_no_name(lockstep, folder):
    code, _, err = lockstep("generate", "a cat", "-m", folder, "-o", ".png", *QUICK)
    assert code == 2
    assert "Give it a name: my.png" in err


def test_pictures_are_kept_when_a_later_prompt_fails(lockstep, folder, tmp_path, monkeypatch):
    from lockstep.errors import NonFiniteError
    from lockstep.pipelines.common.decode import Decode

    decode, calls = Decode.__call__, []

    def fail_the_second_time(self, components, state):
        calls.append(1)
        if len(calls) == 2:
            raise NonFiniteError("planted")
        return decode(self, components, state)

    monkeypatch.setattr(Decode, "__call__", fail_the_second_time)
    (tmp_path / "prompts.txt").write_text("a cat\na dog\n")
    assert lockstep("generate", "--from", "prompts.txt", "-m", folder, "-o", "p.png", *QUICK)[0] == 4
    assert (tmp_path / "p-0.png").is_file()
    assert not (tmp_path / "p-1.png").exists()


def test_quiet_says_only_where_the_pictures_are_and_a_prompt_may_look_like_an_option(lockstep, folder):
    code, out, err = lockstep("generate", "-m", folder, "-q", *QUICK, "--", "--a cat")
    assert (code, err) == (0, "")
    assert out.startswith("picture.png")


def test_a_run_from_a_picture_is_replayed_from_that_picture(lockstep, folder, tmp_path):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(tmp_path / "in.png")
    words = ["--image", "in.png", "--seed", 3, "--num-inference-steps", 4]
    assert lockstep("generate", "a cat", "-m", folder, *words)[0] == 0
    assert lockstep("replay", "picture.png")[0] == 0
    (tmp_path / "in.png").rename(tmp_path / "moved.png")
    code, _, err = lockstep("replay", "picture.png")
    assert (code, "--input image=" in err) == (5, True)
    assert lockstep("replay", "picture.png", "--input", "image=moved.png")[0] == 0
    Image.new("RGB", (16, 16)).save(tmp_path / "in.png")
    code, _, err = lockstep("replay", "picture.png")
    assert (code, "pixels differ" in err) == (5, True)


def test_controlnets_from_the_command_line(lockstep, folder, tmp_path):
    from lockstep import ControlNetModel, UNet2DConditionModel

    unet = UNet2DConditionModel.from_pretrained(folder, subfolder="unet")
    ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=(8, 16)).save_pretrained(tmp_path / "net")
    Image.new("RGB", (16, 16), "red").save(tmp_path / "edges.png")
    both = ["--controlnet", "net", "--control-image", "edges.png"] * 2
    words = [*both, "--controlnet-conditioning-scale", "0.5,0.2", "--num-inference-steps", 2]
    code, _, err = lockstep("generate", "a cat", "-m", folder, *words)
    assert code == 0, err
    code, _, err = lockstep("replay", "picture.png")
    assert code == 0, err
    (tmp_path / "net").rename(tmp_path / "moved")
    code, _, err = lockstep("replay", "picture.png")
    assert (code, "'controlnet'" in err, "not there now" in err) == (5, True, True)


def test_replay_takes_a_model_that_was_given_from_where_it_was(lockstep, folder, tmp_path):
    from lockstep import AutoencoderKL, DiffusionPipeline, UNet2DConditionModel

    other = UNet2DConditionModel.from_pretrained(folder, subfolder="unet")
    other.conv_in.weight.data *= 1.5
    other.save_pretrained(tmp_path / "other")
    pipe = DiffusionPipeline.from_pretrained(folder)
    pipe.unet = UNet2DConditionModel.from_pretrained(tmp_path / "other")
    pipe("a cat", num_inference_steps=2, seed=1).save(tmp_path / "given.png")
    assert lockstep("replay", "given.png")[0] == 0
    pipe.vae = AutoencoderKL.from_config(pipe.vae.config)
    pipe("a cat", num_inference_steps=2, seed=1).save(tmp_path / "made.png")
    code, _, err = lockstep("replay", "made.png")
    assert (code, "'vae'" in err, "save_pretrained" in err) == (5, True, True)


def test_schema_and_blocks_read_no_weights(lockstep, folder, tmp_path):
    import shutil

    shutil.copytree(folder, tmp_path / "bare", ignore=shutil.ignore_patterns("*.safetensors"))
    code, out, _ = lockstep("schema", "bare", "--json")
    told = json.loads(out)
    assert code == 0
    assert {"prompt", "guidance_scale", "strength"} <= {entry["name"] for entry in told["inputs"]}
    assert lockstep("schema", "bare")[0] == 0
    code, out, _ = lockstep("blocks", "bare")
    assert code == 0
    assert "SchedulerStep" in out
    code, out, _ = lockstep("blocks", "bare", "--workflow", "text2image", "--mermaid")
    assert out.startswith(("flowchart", "graph"))
    code, out, _ = lockstep("blocks", "bare", "--json")
    assert "denoise" in json.loads(out)["blocks"]["parts"]


def test_env_and_version(lockstep):
    code, out, _ = lockstep("env", "--json")
    facts = json.loads(out)
    assert code == 0
    assert isinstance(facts["native bf16"], bool)
    assert lockstep("--version")[1].startswith("lockstep ")


@pytest.mark.parametrize(
    "words",
    [
        ["--model", "{folder}", "--help"],
        ["--help", "--model", "{folder}"],
        ["a cat", "--strength", "0.5", "--help", "-m", "{folder}"],
        ["--help", "-m", "{folder}", "--", "a cat"],
    ],
)
def test_help_lists_the_inputs_of_the_model_wherever_it_stands(lockstep, folder, words):
    code, out, _ = lockstep("generate", *[word.format(folder=folder) for word in words])
    assert code == 0
    assert "--guidance-scale, --cfg" in out
    assert "lockstep generate" in out
    assert f"({folder})" in "".join(out.split("\n"))


def test_help_and_schema_tell_what_is_true_of_the_model(lockstep):
    _, out, _ = lockstep("generate", "--help")
    assert "--timesteps" not in out, "its DDIM takes no grid of timesteps"
    entries = {entry["name"]: entry for entry in json.loads(lockstep("schema", "--json")[1])["inputs"]}
    assert entries["num_inference_steps"]["default"] == 2, "as its folder says"
    assert entries["height"]["multiple_of"] == 8


def test_help_for_a_model_that_is_not_there_says_so(lockstep):
    code, out, _ = lockstep("generate", "-m", "no/such/folder", "--help")
    assert code == 0
    assert "--seed" in out
    assert "cannot be shown" in out


def test_second_names_and_variants_mean_the_same_picture(lockstep, folder, tmp_path):
    from lockstep import DiffusionPipeline

    DiffusionPipeline.from_pretrained(folder).save_pretrained(tmp_path / "half", variant="fp16")
    size = ["--height", "16", "--width", "16", "--seed", "1"]
    first = ["--num-inference-steps", "3", "--guidance-scale", "2", "--scheduler", "euler"]
    second = ["--steps", "3", "--cfg", "2", "--sampler", "euler", "--variant", "fp16"]
    assert lockstep("generate", "a cat", "-m", folder, *size, *first, "-o", "first.png")[0] == 0
    assert lockstep("generate", "a cat", "-m", "half", *size, *second, "-o", "second.png")[0] == 0
    assert np.array_equal(*[np.asarray(Image.open(tmp_path / name)) for name in ("first.png", "second.png")])
    assert lockstep("replay", "second.png")[0] == 0


def test_a_family_that_lockstep_does_not_run_is_told_by_name(lockstep, folder, tmp_path):
    (tmp_path / "other").mkdir()
    index = {**json.loads((folder / "model_index.json").read_text()), "_class_name": "KandinskyPipeline"}
    (tmp_path / "other/model_index.json").write_text(json.dumps(index))
    code, _, err = lockstep("generate", "a cat", "-m", "other")
    assert code == 6
    assert "KandinskyPipeline" in err
    assert "StableDiffusionXLPipeline" in err


def test_schedulers_are_listed_under_the_names_that_generate_takes(lockstep):
    code, out, _ = lockstep("schedulers", "--json")
    told = json.loads(out)
    assert code == 0
    for row in told:
        for name in [row["class"], *row["names"], *(f"{row['names'][0]}_{grid}" for grid in row["grids"])]:
            assert find_scheduler(name)[0].__name__ == row["class"]
    assert len(told) > 15
    assert "EulerDiscreteScheduler" in lockstep("schedulers")[1]


def test_help_needs_no_torch():
    code = (
        "import sys; sys.argv = ['lockstep', '--help']\nfrom lockstep.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_threads_wait_without_spinning_unless_told_otherwise(monkeypatch, capsys):
    from lockstep.cli import main

    monkeypatch.setattr(sys, "argv", ["lockstep", "--version"])
    for told, wanted in ((None, "PASSIVE"), ("ACTIVE", "ACTIVE")):
        environment = {} if told is None else {"OMP_WAIT_POLICY": told}
        monkeypatch.setattr("os.environ", environment)
        with pytest.raises(SystemExit):
            main()
        assert environment["OMP_WAIT_POLICY"] == wanted


def test_names_of_schedulers_and_guiders():
    def found(name):
        kind, settings = find_scheduler(name)
        return kind.__name__, settings

    karras = {"use_karras_sigmas": True}
    assert found("euler") == ("EulerDiscreteScheduler", {})
    assert found("dpm") == found("DPM++ 2M") == found("dpmpp-2m") == ("DPMSolverMultistepScheduler", {})
    assert found("DPM++ 2M Karras") == ("DPMSolverMultistepScheduler", karras)
    assert found("DDIMScheduler") == found("ddim") == ("DDIMScheduler", {})
    assert found("EulerDiscrete_karras") == ("EulerDiscreteScheduler", karras)
    with pytest.raises(InputError, match="DDIMScheduler has no karras sigmas"):
        find_scheduler("ddim_karras")
    assert make_guider("ClassifierFreeZeroStar:zero_init_steps=2").config.zero_init_steps == 2
    with pytest.raises(UnknownNameError):
        make_guider("NoSuch")
    with pytest.raises(UnknownNameError, match="eta"):
        make_guider("AdaptiveProjectedGuidance:etta=1")


def test_a_picture_in_the_terminal_has_its_colours():
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=20)
    console.print(TerminalPicture(Image.new("RGB", (8, 8), (255, 0, 0)), 8))
    assert "38;2;255;0;0" in console.file.getvalue()


@pytest.mark.parametrize("command", [["inspect"], ["lora", "inspect"], ["convert"]])
def test_a_file_of_somebody_else_is_told_without_a_traceback(lockstep, command, tmp_path, monkeypatch):
    closed = tmp_path / "closed.safetensors"
    closed.write_bytes(b"x" * 100)
    plain = io.open

    def of_somebody_else(path, *arguments, **named):
        if str(path) == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return plain(path, *arguments, **named)

    monkeypatch.setattr("builtins.open", of_somebody_else)
    monkeypatch.setattr("io.open", of_somebody_else)
    code, _, err = lockstep(*command, closed, *(["out.safetensors"] if command == ["convert"] else []))
    assert code == 3
    assert "closed.safetensors: Permission denied" in err.replace("\n", "")
