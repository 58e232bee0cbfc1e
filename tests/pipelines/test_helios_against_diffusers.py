"""Helios (Base, Mid, Distilled) beside diffusers on the same weights: every chunk, stage, timestep and step, videos."""

import functools
import types

import diffusers
import numpy as np
import pytest
import torch
from diffusers.pipelines.helios import pipeline_helios, pipeline_helios_pyramid

import lockstep
from helpers import assert_close
from lockstep.errors import InputError, InterruptedRun
from lockstep.pipelines.common.chunks import sample_block_noise
from pipelines import tiny_video
from pipelines.test_wan_against_diffusers import PROMPTS, compare, picture

# the reference's schedulers hand tensors to numpy
pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__ must accept:DeprecationWarning")
GAMMA = 0.25  # at the published one the reference finds no factor of the block noise on a processor
SIZE = {
    "height": 64, "width": 64, "num_frames": 10, "num_latent_frames_per_chunk": 2, "history_sizes": [4, 2, 1],
    "max_sequence_length": 12,
}  # fmt: skip
KINDS = {
    "Base": ({"stages": 1, "stage_range": [0, 1]}, {}, {"num_inference_steps": 3, "guidance_scale": 5.0}),
    "Mid": (
        {}, {"is_cfg_zero_star": True}, {"pyramid_num_inference_steps_list": [3, 2, 2], "guidance_scale": 5.0},
    ),
    "Distilled": (
        {"time_shift_type": "linear"}, {"is_distilled": True},
        {"pyramid_num_inference_steps_list": [2, 2, 2], "guidance_scale": 1.0},
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _words_without_ftfy(monkeypatch):
    """The reference cannot clean a prompt without a package that is not here; these prompts need none."""
    for module in (pipeline_helios, pipeline_helios_pyramid):
        monkeypatch.setattr(module, "ftfy", types.SimpleNamespace(fix_text=str), raising=False)


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Both pipelines of a kind, from one folder."""

    @functools.cache
    def load(kind):
        folder = tmp_path_factory.mktemp(kind)
        tiny_video.save_helios(folder, KINDS[kind][0], KINDS[kind][1], GAMMA)
        ours = lockstep.DiffusionPipeline.from_pretrained(folder)
        theirs = getattr(diffusers, type(ours).__name__).from_pretrained(folder)
        for side in (ours, theirs):
            side.set_progress_bar_config(disable=True)
        return ours, theirs

    return load


def arguments_for(kind, batch=1, **more):
    # the reference cannot fit CFG-Zero* to a prediction of a single patch
    wide = {"width": 128} if kind == "Mid" else {}
    given = {"prompt": PROMPTS if batch > 1 else PROMPTS[0], **SIZE, **wide, **KINDS[kind][2], **more}
    if given["guidance_scale"] > 1:
        given["negative_prompt"] = ["blue"] * batch if batch > 1 else "blue"
    return given


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("kind", list(KINDS))
def test_text_to_video(sides, kind, batch):
    ours, theirs = sides(kind)
    found = compare(ours, theirs, arguments_for(kind, batch))
    assert type(ours).__name__ == ("HeliosPipeline" if kind == "Base" else "HeliosPyramidPipeline")
    assert found.manifest["workflow"] == "text2video"
    assert found.frames.shape[1] == 9  # two chunks of five, as far as whole latents go


@pytest.mark.parametrize("kind", list(KINDS))
def test_image_to_video(sides, kind):
    compare(*sides(kind), arguments_for(kind, image=picture(size=(64, 64))))


@pytest.mark.parametrize("kind", list(KINDS))
def test_video_to_video(sides, kind):
    compare(*sides(kind), arguments_for(kind, video=[picture(k, (64, 64)) for k in range(11)]))


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("Base", {"is_skip_first_chunk": True, "num_frames": 15}),
        ("Mid", {"use_zero_init": False}),
        ("Mid", {"zero_steps": 0}),
        ("Distilled", {"is_amplify_first_chunk": True}),
        ("Distilled", {"num_frames": 1}),
    ],
)
def test_other_settings(sides, kind, more):
    compare(*sides(kind), arguments_for(kind, **more))


@pytest.mark.parametrize("kind", list(KINDS))
def test_grids(sides, kind):
    ours, theirs = (side.scheduler for side in sides(kind))
    for stage in range(ours.config.stages):
        for steps in (1, 2, 5):
            for side in (ours, theirs):
                side.set_timesteps(steps, stage_index=stage, mu=0.6)
            assert torch.allclose(ours.timesteps.double(), theirs.timesteps.double(), atol=1e-6)
            assert torch.allclose(ours.sigmas.double(), theirs.sigmas.double(), atol=1e-8)
    for name in ("ori_start_sigmas",):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))


def test_latents_of_all_chunks(sides):
    ours, theirs = sides("Base")
    drawn = lambda: torch.Generator().manual_seed(3)  # noqa: E731
    given = arguments_for("Base")
    got = ours(**given, generator=drawn(), output_type="latent").frames
    assert_close(got, theirs(**given, generator=drawn(), output_type="latent").frames)


def test_block_noise(sides):
    _, theirs = sides("Mid")
    drawn = lambda: torch.Generator().manual_seed(3)  # noqa: E731
    shape = (2, 3, 4, 6, 8)
    wanted = theirs.sample_block_noise(*shape, (1, 2, 2), torch.device("cpu"), drawn())
    assert_close(sample_block_noise(shape, GAMMA, (2, 2), drawn()), wanted)
    noise = sample_block_noise((1, 1, 400, 20, 20), 1 / 3, (2, 2), drawn())
    blocks = noise.unfold(3, 2, 2).unfold(4, 2, 2).reshape(-1, 4).double()
    wanted = torch.eye(4).double() * (4 / 3) - 1 / 3
    assert torch.allclose(blocks.T @ blocks / len(blocks), wanted, atol=0.03)
    assert float(blocks.sum(1).abs().max()) < 0.01
    alone = [sample_block_noise((1, *shape[1:]), 1 / 3, (2, 2), torch.Generator().manual_seed(k)) for k in (0, 1)]
    both = sample_block_noise(shape, 1 / 3, (2, 2), [torch.Generator().manual_seed(k) for k in (0, 1)])
    assert torch.equal(both, torch.cat(alone))


def test_the_published_gamma_runs_and_the_first_frame_need_not_be_kept(sides):
    ours, _ = sides("Mid")
    scheduler = ours.scheduler
    ours.scheduler = lockstep.HeliosScheduler.from_config(scheduler.config, gamma=1 / 3)
    assert ours(**arguments_for("Mid"), seed=1, keep_first_frame=False).frames.shape == (1, 9, 64, 128, 3)
    ours.scheduler = scheduler


def test_frames_are_handed_over_and_an_interrupt_keeps_them(sides):
    ours, _ = sides("Distilled")
    given = arguments_for("Distilled", num_frames=15)
    whole = ours(**given, seed=2).frames
    parts = [event.value for event in ours.stream(**given, seed=2, keep_frames=False) if event.kind == "frames"]
    assert [part.shape[1] for part in parts] == [1, 4] * 3
    assert np.array_equal(np.concatenate(parts, axis=1)[:, : whole.shape[1]], whole)
    run = ours.run(**given, seed=2)
    run.observers.append(
        lambda event: run.interrupt() if event.kind == "frames" and "chunks.001" in event.path else None
    )
    with pytest.raises(InterruptedRun) as stopped:
        run.result()
    kept = stopped.value.state.frames
    assert np.array_equal(kept, whole[:, :6])


@pytest.mark.parametrize(
    ("kind", "more", "word"),
    [
        ("Mid", {"pyramid_num_inference_steps_list": [2, 2]}, "3 stages"),
        ("Mid", {"height": 80}, "multiple of 64"),
        ("Base", {"history_sizes": [4, 2]}, "three numbers"),
        ("Base", {"video": [picture()] * 3}, "5 frames at least"),
    ],
)
def test_mistakes_are_named_before_any_model_runs(sides, kind, more, word):
    ours, _ = sides(kind)
    hooks = [getattr(ours, name).register_forward_pre_hook(lambda *_: pytest.fail("ran")) for name in ours.model_names]
    try:
        with pytest.raises(InputError, match=word):
            ours(**arguments_for(kind, **more))
    finally:
        for hook in hooks:
            hook.remove()
