"""Scripts that write the denoising loop themselves: the parts of a call that they take by name, as published."""

import diffusers
import pytest
import torch

import lockstep
from helpers import assert_close
from lockstep.errors import InputError


@pytest.fixture(scope="module")
def pipes(folder):
    made = [
        library.StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)
        for library in (lockstep, diffusers)
    ]
    for pipe in made:
        pipe.set_progress_bar_config(disable=True)
    return made


def noise(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_loop_by_hand_makes_the_same_latents(pipes):
    made = []
    for pipe in pipes:
        embeds, negative = pipe.encode_prompt("a cat", "cpu", 1, True)
        pipe.scheduler.set_timesteps(3)
        latents = pipe.prepare_latents(1, 4, 32, 32, torch.float32, "cpu", noise())
        extra = pipe.prepare_extra_step_kwargs(noise(1), 0.0)
        with pipe.progress_bar(total=3) as bar, torch.no_grad():
            for t in pipe.scheduler.timesteps:
                both = pipe.scheduler.scale_model_input(torch.cat([latents] * 2), t)
                without, with_it = pipe.unet(both, t, torch.cat([negative, embeds]))[0].chunk(2)
                latents = pipe.scheduler.step(without + 7.5 * (with_it - without), t, latents, **extra)[0]
                bar.update()
        made.append(latents)
    assert_close(made[0], made[1], 1e-5)


def test_first_latents(pipes):
    generators = [noise(1), noise(2)]
    ours, theirs = (pipe.prepare_latents(2, 4, 32, 48, torch.float32, "cpu", [noise(1), noise(2)]) for pipe in pipes)
    assert torch.equal(ours, theirs)
    given = torch.randn(1, 4, 4, 4)
    assert torch.equal(*(pipe.prepare_latents(1, 4, 32, 32, torch.float32, "cpu", None, given) for pipe in pipes))
    with pytest.raises(InputError, match="a generator for each of 3 pictures, got 2"):
        pipes[0].prepare_latents(3, 4, 32, 32, torch.float32, "cpu", generators)


@pytest.mark.parametrize("name", ["DDIMScheduler", "EulerDiscreteScheduler", "DPMSolverMultistepScheduler"])
def test_options_of_a_step_are_those_that_the_scheduler_takes(pipes, name):
    found = []
    for pipe, library in zip(pipes, (lockstep, diffusers), strict=True):
        before, pipe.scheduler = pipe.scheduler, getattr(library, name).from_config(pipe.scheduler.config)
        found.append(set(pipe.prepare_extra_step_kwargs(noise(), 0.3)))
        pipe.scheduler = before
    assert found[0] == found[1]


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", ["DDIMScheduler", "HeunDiscreteScheduler"])
def test_the_end_of_the_grid_that_a_strength_leaves(folder, name, strength):
    found = []
    for library in (lockstep, diffusers):
        pipe = library.StableDiffusionImg2ImgPipeline.from_pretrained(folder, safety_checker=None)
        pipe.scheduler = getattr(library, name).from_config(pipe.scheduler.config)
        pipe.scheduler.set_timesteps(10)
        timesteps, count = pipe.get_timesteps(10, strength, "cpu")
        found.append(([float(t) for t in timesteps], count))
    assert found[0] == found[1]


def test_the_autoencoder_in_full_precision(folder):
    pipe = lockstep.StableDiffusionPipeline.from_pretrained(folder, dtype="bfloat16")
    pipe.upcast_vae()
    assert (pipe.vae.dtype, pipe.unet.dtype) == (torch.float32, torch.bfloat16)


def test_a_bar_over_something(pipes):
    assert list(pipes[0].progress_bar(range(3))) == [0, 1, 2]
    with pytest.raises(InputError, match="wants something to go over"):
        pipes[0].progress_bar()


def test_the_config_names_the_components(pipes, folder):
    ours, theirs = (dict(pipe.config) for pipe in pipes)
    for name in ("unet", "vae", "scheduler", "text_encoder"):
        assert ours[name] == theirs[name] == getattr(pipes[0].config, name)
    assert ours["safety_checker"] == (None, None)
    assert ours["requires_safety_checker"] == theirs["requires_safety_checker"]
    again = lockstep.AutoPipelineForText2Image.from_pipe(lockstep.AutoPipelineForImage2Image.from_pipe(pipes[0]))
    assert dict(again.config) == ours
    assert type(pipes[0]).load_config(folder)["unet"] == ["diffusers", "UNet2DConditionModel"]


@pytest.mark.parametrize("more", [3, -5])
def test_a_table_of_tokens_of_another_length(folder, more):
    pipe = lockstep.StableDiffusionPipeline.from_pretrained(folder)
    before = pipe.text_encoder.get_input_embeddings().weight.clone()
    table = pipe.text_encoder.resize_token_embeddings(len(before) + more)
    assert table is pipe.text_encoder.get_input_embeddings()
    assert len(table.weight) == pipe.text_encoder.config.vocab_size == len(before) + more
    kept = min(len(before), len(table.weight))
    assert torch.equal(table.weight[:kept], before[:kept])
    assert_close(table.weight[kept:], before.mean(0).expand(max(more, 0), -1), 1e-6)
    with pytest.raises(InputError, match="at least one row"):
        pipe.text_encoder.resize_token_embeddings(0)
