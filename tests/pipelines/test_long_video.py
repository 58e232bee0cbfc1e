"""Long video by chunks: boundaries proven by injecting what a single run has, frames as they are ready, interrupts."""

import numpy as np
import pytest
import torch

import lockstep
from helpers import assert_close
from lockstep import Checkpoint
from lockstep.errors import InputError, InterruptedRun
from pipelines import tiny_video

CHUNK = {"height": 16, "width": 32, "frames_per_chunk": 13, "overlap_frames": 5, "max_sequence_length": 12}
GIVEN = {"prompt": "a cat", "num_inference_steps": 3, **CHUNK}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_video.save_wan(tmp_path_factory.mktemp("wan"))


@pytest.fixture
def long(folder):
    pipe = lockstep.WanLongVideoBlocks().init_pipeline(str(folder))
    pipe.set_progress_bar_config(disable=True)
    return pipe


def saved_at(pipe, names, **given):
    points = {name: Checkpoint(save=True) for name in names}
    out = pipe(**given, checkpoints=points)
    return out, {name: point.data for name, point in points.items()}


def test_a_single_chunk_is_the_plain_pipeline(long, folder):
    plain = lockstep.WanPipeline.from_pretrained(folder)
    plain.set_progress_bar_config(disable=True)
    same = {"prompt": "a cat", "num_inference_steps": 3, "height": 16, "width": 32, "max_sequence_length": 12}
    wanted = plain(**same, num_frames=13, seed=1, output_type="np").frames
    assert np.array_equal(long(**GIVEN, num_frames=13, seed=1, output_type="np").frames, wanted)


def test_a_chunk_is_a_single_run_held_to_what_came_before(long, folder):
    """Chunk 1 by hand: a plain run from its noise, its first latents replaced at every step by the known ones."""
    names = ["chunks.000.finish", "chunks.001.latents", "chunks.001.denoise.002.step"]
    _, at = saved_at(long, names, **GIVEN, num_frames=21, seed=1, output_type="latent")
    known = at["chunks.000.finish"]["shared_latents"]
    noise = at["chunks.001.latents"]["latents"]
    assert known.shape[2] == 2
    assert torch.equal(known, at["chunks.000.finish"]["latents"][:, :, -2:])
    plain = lockstep.WanPipeline.from_pretrained(folder)
    plain.set_progress_bar_config(disable=True)
    same = {"prompt": "a cat", "num_inference_steps": 3, "height": 16, "width": 32, "max_sequence_length": 12}

    def held(latents, sigma):
        known_now = (1 - sigma) * known + sigma * noise[:, :, :2]
        return torch.cat([known_now, latents[:, :, 2:]], dim=2)

    scheduler = lockstep.UniPCMultistepScheduler(**tiny_video.SCHEDULER)
    scheduler.set_timesteps(3)
    sigmas = scheduler.sigmas

    def callback(pipe, step, timestep, values):
        return {"latents": held(values["latents"], sigmas[step + 1]) if step < 2 else values["latents"]}

    single = plain(
        **same, num_frames=13, latents=held(noise, sigmas[0]), output_type="latent", callback_on_step_end=callback
    ).frames
    assert_close(at["chunks.001.denoise.002.step"]["latents"], single, 1e-5)


def test_injecting_the_latents_of_a_boundary_goes_on_as_the_run_did(long):
    given = {**GIVEN, "num_frames": 29, "seed": 1, "output_type": "np"}
    whole = long(**given).frames
    assert whole.shape == (1, 29, 16, 32, 3)
    point = Checkpoint(save=True)
    long(**given, checkpoints={"chunks.000.finish": point})
    again = Checkpoint(load=True, data=point.data, components=point.components)
    assert np.array_equal(long(**given, checkpoints={"chunks.000.finish": again}).frames, whole)


def test_frames_over_a_boundary_are_decoded_as_one_video(long):
    given = {**GIVEN, "num_frames": 21, "seed": 1}
    latents = long(**given, output_type="latent").frames
    frames = long(**given, output_type="pt").frames
    vae = long.vae
    with torch.no_grad():
        whole = vae.decode(vae.denormalize_latents(latents)).sample
    assert torch.equal(frames, (whole.transpose(1, 2) * 0.5 + 0.5).clamp(0, 1)[:, :21])


def test_frames_are_handed_over_as_they_are_ready_and_need_not_be_kept(long):
    given = {**GIVEN, "num_frames": 29, "seed": 1, "output_type": "np"}
    events = list(long.stream(**given, keep_frames=False))
    parts = [event.value for event in events if event.kind == "frames"]
    steps = [index for index, event in enumerate(events) if event.kind == "step"]
    first = next(index for index, event in enumerate(events) if event.kind == "frames")
    assert first < steps[-1]  # while later chunks are still to be made
    assert events[-1].value.frames is None
    assert np.array_equal(np.concatenate(parts, axis=1)[:, :29], long(**given).frames)


def test_an_interrupt_keeps_what_is_finished(long):
    given = {**GIVEN, "num_frames": 29, "seed": 1, "output_type": "np"}
    whole = long(**given).frames
    run = long.run(**given)
    run.observers.append(lambda event: run.interrupt() if event.path == "chunks.001.denoise" else None)
    with pytest.raises(InterruptedRun) as stopped:
        run.result()
    assert np.array_equal(stopped.value.state.frames, whole[:, :13])


def test_a_chunk_that_brings_nothing_new_is_refused(long):
    with pytest.raises(InputError, match="nothing new"):
        long(**{**GIVEN, "overlap_frames": 13}, num_frames=29)


def test_frames_stream_into_a_file(long, tmp_path):
    from lockstep import media

    with media.writer(tmp_path / "long.gif", fps=8) as video:
        for event in long.stream(**GIVEN, num_frames=21, seed=1, output_type="pil", keep_frames=False):
            for frame in event.value[0] if event.kind == "frames" else ():
                video.add(frame)
    assert len(media.kind_named("video").load(tmp_path / "long.gif")) == 21
