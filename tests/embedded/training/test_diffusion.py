"""The diffusion stage: resume to the bit, the noise path, the shares of the draws."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from lockstep.embedded.training.diffusion import DiffusionData, DiffusionTraining, train_diffusion
from lockstep.embedded.training.drawing import draw_rows
from lockstep.embedded.training.settings import CONFIGS, DiffusionSettings
from lockstep.errors import ConfigError, InputError, NotFoundError, UnknownNameError, WeightsError
from lockstep.schedulers import DDIMScheduler
from lockstep.training.checkpoint import load_checkpoint
from lockstep.training.loop import Run
from lockstep.training.noise import generator_of
from lockstep.training.settings import build_settings


def run_to(work, settings, name, steps, **options):
    return train_diffusion(work, settings, run_name=name, teacher_folder=work / "teacher", steps=steps, **options)


def assert_same_checkpoint(one, other):
    first, second = load_file(one), load_file(other)
    assert first.keys() == second.keys()
    different = [name for name in first if not torch.equal(first[name], second[name])]
    assert not different, f"{len(different)} of {len(first)} tensors differ, first {different[0]}"


def test_a_resumed_run_is_equal_to_the_bit(work, settings):
    whole = run_to(work, settings, "whole", 6)
    run_to(work, settings, "stopped", 3)
    assert_same_checkpoint(run_to(work, settings, "stopped", 6), whole)
    assert load_checkpoint(whole)[1]["step"] == 6


def test_kill_9_in_the_middle_then_resume(work, settings, tmp_path, as_toml):
    """The process saves every step and is killed at a moment of nobody's choosing."""
    often = dataclasses.replace(settings, cadence=dataclasses.replace(settings.cadence, checkpoint_minutes=0))
    config = tmp_path / "tiny.toml"
    config.write_text(as_toml(often))
    command = [sys.executable, "-m", "lockstep", "train", "emoji", "diffusion", "--work", work]
    command += ["--teacher", work / "teacher", "--run", "killed", "--config", config, "--steps", "100000"]
    checkpoint = work / "runs" / "killed" / "checkpoint.safetensors"
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) as process:
        deadline = time.monotonic() + 120
        while not (checkpoint.is_file() and load_checkpoint(checkpoint)[1]["step"] >= 3):
            assert process.poll() is None, process.stderr.read().decode()
            assert time.monotonic() < deadline, "no checkpoint after two minutes"
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    killed_at = load_checkpoint(checkpoint)[1]["step"]
    resumed = run_to(work, often, "killed", killed_at + 3)
    assert_same_checkpoint(resumed, run_to(work, settings, "not killed", killed_at + 3))


def test_a_second_process_in_the_same_run_is_refused(work, settings):
    with Run(work / "runs" / "busy").held(), pytest.raises(InputError, match="Another process is training"):
        run_to(work, settings, "busy", 1)


def test_decay_starts_from_another_run_and_leaves_it_alone(work, settings):
    constant = run_to(work, settings, "constant", 3)
    before = load_file(constant)
    run_to(work, settings, "half shipped", 4, start_from="constant", decay_steps=3)
    shipped = run_to(work, settings, "half shipped", None)
    facts = load_checkpoint(shipped)[1]
    assert (facts["step"], facts["decay_from"], facts["decay_steps"]) == (6, 3, 3)
    assert_same_checkpoint(shipped, run_to(work, settings, "shipped", None, start_from="constant", decay_steps=3))
    assert all(torch.equal(value, before[name]) for name, value in load_file(constant).items())
    straight = load_file(run_to(work, settings, "straight on", 6, start_from="constant"))
    assert not torch.equal(straight["weights.unet.conv_in.weight"], load_file(shipped)["weights.unet.conv_in.weight"])


def test_start_from_a_run_that_is_not_there(work, settings):
    with pytest.raises(NotFoundError, match="no run 'nowhere'"):
        run_to(work, settings, "child", 1, start_from="nowhere")


def test_a_checkpoint_of_other_sizes_is_refused(work, settings):
    run_to(work, settings, "sizes", 1)
    wider = dataclasses.replace(settings, unet={**settings.unet, "block_out_channels": [32, 32]})
    with pytest.raises(WeightsError, match="another model"):
        run_to(work, wider, "sizes", 2)


def test_the_step_trains_on_the_path_that_the_scheduler_samples(work, settings):
    """A model that knew the clean latents would, by the scheduler's own x0 formula, have no loss at all."""
    training = DiffusionTraining(work, settings, Run(work / "runs" / "path"), work / "teacher")
    draw = generator_of(settings.seed, 5)
    clean = training.data.latents[draw_rows(training.data.weights, settings.batch_size, draw)]
    alpha_bar = DDIMScheduler(**settings.scheduler).alphas_cumprod
    assert alpha_bar[-1] == 0, "the last timestep has to be pure noise"

    def know(modules, noisy, timesteps, tokens):
        alpha, sigma = (part.sqrt().view(-1, 1, 1, 1) for part in (alpha_bar[timesteps], 1 - alpha_bar[timesteps]))
        return (alpha * noisy - clean) / sigma  # x0 = alpha x_t - sigma v

    training.forward = know
    assert training.loss_at(5).item() < 1e-6
    training.forward = lambda modules, noisy, timesteps, tokens: know(modules, noisy, (timesteps - 20).clamp(0), tokens)
    assert training.loss_at(5).item() > 1e-3


def test_captions_steps_and_noise_depend_on_seed_and_step_alone(work, settings):
    one = DiffusionTraining(work, settings, Run(work / "runs" / "alone"), work / "teacher")
    first = one.loss_at(7).item()
    one.loss_at(8)
    assert one.loss_at(7).item() == first
    assert one.loss_at(9).item() != first


def test_favourites_are_drawn_more_often(work, settings):
    mixture = dataclasses.replace(settings.mixture, favourites=["dog"], favour=3.0)
    plain = DiffusionData(work, settings, work / "tokenizer")
    data = DiffusionData(work, dataclasses.replace(settings, mixture=mixture), work / "tokenizer")
    is_dog = torch.tensor([data.table.concepts[item.concept].names[0] == "dog" for item in data.items])
    assert 0 < is_dog.sum() < len(is_dog)
    more = data.weights / plain.weights
    torch.testing.assert_close(more[is_dog], 3 * more[~is_dog][:1].expand(int(is_dog.sum())))
    assert data.weights.sum().item() == pytest.approx(1)
    with pytest.raises(UnknownNameError, match="dgo.*did you mean 'dog'"):
        data.favoured(data.weights, dataclasses.replace(mixture, favourites=["dgo"]))


def test_mixture_that_draws_nothing(work, settings):
    with pytest.raises(ConfigError, match="draws nothing"):
        run_to(
            work,
            dataclasses.replace(settings, mixture=dataclasses.replace(settings.mixture, styles={"crayon": 1.0})),
            "none",
            1,
        )


def test_evaluation_gives_numbers_and_a_sheet(work, settings):
    from PIL import Image

    every = dataclasses.replace(settings, cadence=dataclasses.replace(settings.cadence, evaluate_steps=1))
    run_to(work, every, "evaluated", 2)
    folder = work / "runs" / "evaluated"
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    evaluated = [line for line in lines if "eval_loss" in line]
    assert [line["step"] for line in evaluated] == [1, 2]
    assert all(0 <= line["top1"] <= line["top5"] <= 1 and line["eval_loss"] > 0 for line in evaluated)
    with Image.open(folder / "sheets" / "0000002.png") as sheet:
        assert sheet.width == 8 * 132 + 4


def test_evaluating_does_not_change_the_run(work, settings):
    every = dataclasses.replace(settings, cadence=dataclasses.replace(settings.cadence, evaluate_steps=1))
    assert_same_checkpoint(run_to(work, every, "looked at", 3), run_to(work, settings, "not looked at", 3))


def test_the_shipped_settings_can_be_built():
    from lockstep.training.settings import load_settings

    settings = load_settings(DiffusionSettings, CONFIGS / "emoji.toml")
    assert settings.scheduler["prediction_type"] == "v_prediction"
    with pytest.raises(ConfigError, match="did you mean 'batch_size'"):
        build_settings(DiffusionSettings, {"batch_sise": 3}, "typo.toml")
