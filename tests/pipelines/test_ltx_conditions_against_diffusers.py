"""LTX-Video held to pictures and videos, beside diffusers' LTXConditionPipeline: first latents, every step, videos."""

import diffusers
import pytest
import torch
from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXVideoCondition

import lockstep
from helpers import assert_close
from lockstep.errors import InputError
from lockstep.pipelines.common import held
from lockstep.pipelines.common.denoise import ScaleModelInput
from lockstep.pipelines.ltx_video import conditions
from pipelines import tiny_ltx_video
from pipelines.test_wan_against_diffusers import compare, picture

SIZE = {"height": 32, "width": 64, "num_frames": 33, "num_inference_steps": 4, "max_sequence_length": 12}
GUIDED = {"prompt": "red dog on a blue background, 3d style", "negative_prompt": "blue house", "guidance_scale": 3.0}
NAME = "LTXConditionPipeline"


def frames(count, seed=0):
    return [picture(seed + k, size=(64, 32)) for k in range(count)]


HELD = {  # what is given -> the conditions
    "a first picture": [{"image": picture()}],
    "a weak first picture": [{"image": picture(), "strength": 0.4}],
    "a later picture": [{"image": picture(), "frame_index": 16, "strength": 0.8}],
    "first and last pictures": [{"image": picture(1)}, {"image": picture(2), "frame_index": 32}],
    "a first video": [{"video": frames(9)}],
    "a later video, longer than fits": [{"video": frames(30), "frame_index": 8, "strength": 0.9}],
    "a later video of two latents": [{"video": frames(9), "frame_index": 16}],
}


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    folder = tiny_ltx_video.save_ltx(tmp_path_factory.mktemp("held"), "0.9.5")
    index = folder / "model_index.json"
    index.write_text(index.read_text().replace("LTXPipeline", NAME))
    loaded = [lockstep.DiffusionPipeline.from_pretrained(folder), getattr(diffusers, NAME).from_pretrained(folder)]
    for side in loaded:
        side.set_progress_bar_config(disable=True)
    return loaded


def held_alike(sides, given, **more):
    """The same conditions in the classes of both."""
    ours, theirs = sides
    kinds = {ours: lockstep.LTXVideoCondition, theirs: LTXVideoCondition}

    def call(side):
        return lambda **arguments: side(**arguments, conditions=[kinds[side](**one) for one in given])

    return compare(call(ours), call(theirs), {**SIZE, **GUIDED, **more})


@pytest.mark.parametrize("given", list(HELD))
def test_held_to_pictures_and_videos(sides, given):
    found = held_alike(sides, HELD[given], decode_timestep=0.05, decode_noise_scale=0.025)
    assert found.manifest["workflow"] == "condition2video"
    assert found.manifest["inputs"]["conditions"][0]["strength"] == HELD[given][0].get("strength", 1.0)


@pytest.mark.parametrize(
    "given",
    [{}, {"image": picture(), "frame_index": 8}, {"video": frames(9), "strength": 0.5, "image_cond_noise_scale": 0.0}],
    ids=["text alone", "a picture", "a video"],
)
def test_without_a_list_of_conditions(sides, given):
    theirs = {**given, **({"video": [given["video"]]} if "video" in given else {})}
    arguments = {**SIZE, **GUIDED, "guidance_scale": 1.0}
    compare(lambda **told: sides[0](**told, **given), lambda **told: sides[1](**told, **theirs), arguments)


def test_latents_that_are_made_anew_in_part(sides):
    start = torch.randn(1, tiny_ltx_video.CHANNELS, 5, 1, 2, generator=torch.Generator().manual_seed(1))
    found = held_alike(sides, [{"image": picture()}], latents=start, denoise_strength=0.5)
    assert len(found.manifest["timesteps"]) == 2


def test_latents_come_out_as_the_autoencoder_has_them(sides):
    arguments = {**SIZE, **GUIDED, "image": picture(), "frame_index": 8, "output_type": "latent"}
    made = [side(**arguments, generator=torch.Generator().manual_seed(7)).frames for side in sides]
    assert made[0].shape == made[1].shape == (1, tiny_ltx_video.CHANNELS, 5, 1, 2)
    assert_close(made[0], made[1], 1e-5)


PLANTED = {
    "all tokens have the step's time": (
        conditions.PredictHeld, "times", lambda self, state, t, n: t.expand(n)[:, None].float(),
    ),
    "no noise on what is held": (held.NoiseHeld, "__call__", ScaleModelInput.__call__),
    "later pictures at the begin": (
        conditions, "token_places",
        lambda components, state, frames, begin, samples, real=conditions.token_places: real(
            components, state, frames, 0, samples
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("error", list(PLANTED))
def test_a_planted_error_is_seen(sides, monkeypatch, error):
    monkeypatch.setattr(*PLANTED[error])
    with pytest.raises(AssertionError, match="latents after step 0"):
        held_alike(sides, HELD["first and last pictures"])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"conditions": lockstep.LTXVideoCondition()}, "an 'image' or a 'video'"),
        ({"conditions": lockstep.LTXVideoCondition(image=picture()), "image": picture()}, "not both"),
        ({"image": picture(), "frame_index": 33}, "one of the 33 frames"),
        ({"image": picture(), "strength": 1.5}, "at most 1"),
        ({"image": [picture(), picture()], "frame_index": [0]}, "1 values for 2"),
        ({"latents": torch.zeros(1, 8, 5, 1, 2)}, "nothing of given 'latents' stays"),
        ({"latents": torch.zeros(1, 10, 8), "denoise_strength": 0.5}, r"\[1, 8, 5, 1, 2\]"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(sides, given, told):
    with pytest.raises(InputError, match=told):
        sides[0](**SIZE, prompt="a cat", **given)
