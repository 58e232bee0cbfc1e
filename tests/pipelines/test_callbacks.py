"""Callbacks written for the reference: what they ask the pipeline for, set and return works as there."""

import threading

import diffusers
import numpy as np
import pytest
import torch

import lockstep
from pipelines import tiny
from pipelines.test_published import arguments_for, loaded

GIVEN = {"prompt": ["a cat", "red dog"], "num_inference_steps": 6, "height": 16, "width": 16, "output_type": "np"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("callbacks")
    return {kind: tiny.save_folder(root / kind, kind) for kind in ("sd1", "xl")}


def both(name, folders):
    return [loaded(library, name, folders) for library in (lockstep, diffusers)]


def compare(pipes, given, **options):
    pictures = [pipe(**given, **options, generator=torch.Generator().manual_seed(2)).images for pipe in pipes]
    assert np.abs(pictures[0] - pictures[1]).max() <= 1 / 255
    return pictures[0]


def stop_after_two(pipe, step, timestep, values):
    if step == 1:
        pipe._interrupt = True
    return values


def no_guidance_in_the_second_half(pipe, step, timestep, values):
    if step == int(pipe.num_timesteps * 0.5):
        for name in values:
            if name != "latents":
                values[name] = values[name].chunk(2)[-1]
        pipe._guidance_scale = 0.0
    return values


def more_guidance_at_each_step(pipe, step, timestep, values):
    pipe._guidance_scale += 1.0
    return values


@pytest.mark.parametrize("name", ["StableDiffusionPipeline", "StableDiffusionXLPipeline"])
def test_an_interrupted_loop_gives_the_picture_so_far(name, folders):
    pipes = both(name, folders)
    stopped = compare(pipes, GIVEN, callback_on_step_end=stop_after_two)
    assert not np.allclose(stopped, compare(pipes, GIVEN))  # the next run is whole again


@pytest.mark.parametrize(
    ("name", "tensors"),
    [("StableDiffusionPipeline", ["prompt_embeds"]),
     ("StableDiffusionXLPipeline", ["prompt_embeds", "add_text_embeds", "add_time_ids"])],
)  # fmt: skip
def test_guidance_can_be_turned_off_on_the_way(name, tensors, folders):
    pipes = both(name, folders)
    given = {**GIVEN, "guidance_scale": 6.0}
    options = {"callback_on_step_end_tensor_inputs": ["latents", *tensors]}
    changed = compare(pipes, given, callback_on_step_end=no_guidance_in_the_second_half, **options)
    assert not np.allclose(changed, compare(pipes, given))


def test_guidance_can_be_raised_on_the_way_and_is_told_afterwards(folders):
    pipes = both("StableDiffusionPipeline", folders)
    compare(pipes, {**GIVEN, "guidance_scale": 3.0}, callback_on_step_end=more_guidance_at_each_step)
    for pipe in pipes:
        assert pipe.guidance_scale == 3.0 + pipe.num_timesteps == 9.0
    with pytest.raises(AttributeError):
        _ = loaded(lockstep, "StableDiffusionPipeline", folders).num_timesteps


def test_what_a_callback_may_ask_for(folders):
    seen = []

    def look(pipe, step, timestep, values):
        seen.append((pipe.guidance_scale, pipe.num_timesteps, pipe.do_classifier_free_guidance, pipe.clip_skip))
        seen.append({name: tuple(value.shape) for name, value in values.items()})
        return {}

    for pipe in both("StableDiffusionPipeline", folders):
        pipe(**GIVEN, callback_on_step_end=look, callback_on_step_end_tensor_inputs=["latents", "prompt_embeds"])
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


@pytest.mark.parametrize("name", ["StableDiffusionControlNetPipeline", "StableDiffusionInpaintPipeline"])
def test_every_published_tensor_can_be_asked_for(name, folders):
    names = getattr(diffusers, name)._callback_tensor_inputs
    seen = []
    pipe = loaded(lockstep, name, folders)
    pipe(
        **arguments_for(name),
        callback_on_step_end=lambda p, i, t, values: seen.append(sorted(values)),
        callback_on_step_end_tensor_inputs=list(names),
    )
    assert seen[0] == sorted(names)


def test_each_thread_asks_its_own_run(folders):
    pipe = loaded(lockstep, "StableDiffusionPipeline", folders)
    told, barrier = {}, threading.Barrier(2, timeout=120)

    def run(scale):
        def look(pipe, step, timestep, values):
            if step == 1:
                barrier.wait()
                told[scale] = pipe.guidance_scale
                if scale == 3.0:
                    pipe._interrupt = True
            told[scale, "steps"] = step + 1

        pipe(**GIVEN, guidance_scale=scale, callback_on_step_end=look)

    threads = [threading.Thread(target=run, args=(scale,)) for scale in (3.0, 5.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == {3.0: 3.0, 5.0: 5.0, (3.0, "steps"): 2, (5.0, "steps"): 6}
