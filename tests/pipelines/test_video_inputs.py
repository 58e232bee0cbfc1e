"""Videos: what cannot work is told before a model runs, what is rounded is said, and what was built is saved."""

import inspect

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

import lockstep
from helpers import assert_close
from lockstep.errors import InputError, LoadError, MachineError
from lockstep.notes import say_once
from pipelines import test_guarantees, tiny_video
from pipelines.test_against_diffusers import watch_steps
from pipelines.test_wan_against_diffusers import _words_without_ftfy, picture  # noqa: F401

CALL = {"prompt": "a cat", "height": 16, "width": 16, "num_inference_steps": 2, "max_sequence_length": 12, "seed": 1}
LONG = {"frames_per_chunk": 9, "overlap_frames": 5}
ENDLESS = 10**13


def quiet(pipe):
    pipe.set_progress_bar_config(disable=True)
    return pipe


def wan(kind="text", name="WanPipeline"):
    return quiet(getattr(lockstep, name)(**tiny_video.parts(kind)))


def long_wan(**options):
    return quiet(lockstep.WanLongVideoBlocks().init_pipeline(**tiny_video.parts("text"), **options))


@pytest.fixture(scope="module")
def helios(tmp_path_factory):
    return quiet(
        lockstep.HeliosPipeline.from_pretrained(test_guarantees.save_helios(tmp_path_factory.mktemp("helios")))
    )


def untouched(pipe, monkeypatch):
    """The pipeline, in which no model may run."""
    for name in pipe.model_names:
        if isinstance(getattr(pipe, name), torch.nn.Module):
            monkeypatch.setattr(getattr(pipe, name), "forward", lambda *_, **__: pytest.fail("a model ran"))
    for name in ("encode", "decode_stream"):
        monkeypatch.setattr(pipe.vae, name, lambda *_, **__: pytest.fail("the autoencoder ran"))
    return pipe


def heard(caplog, call):
    say_once.cache_clear()  # another test of this process may have heard it
    caplog.clear()
    call()
    return caplog.text


@pytest.mark.parametrize("output_type", ["np", "pil", "pt", "latent"])
def test_a_video_that_cannot_be_kept_is_refused_before_a_model_runs(helios, output_type, monkeypatch):
    for pipe, more in ((untouched(helios, monkeypatch), {}), (untouched(long_wan(), monkeypatch), LONG)):
        with pytest.raises(MachineError, match=f"video of {ENDLESS} frames of 16 x 16 pixels.*keep_frames=False"):
            pipe(**CALL, **more, num_frames=ENDLESS, output_type=output_type)


def test_a_video_that_nobody_keeps_may_be_endless(helios):
    for pipe, more in ((helios, {}), (long_wan(), LONG)):
        events = iter(pipe.run(**CALL, **more, num_frames=ENDLESS, output_type="np", keep_frames=False))
        parts = [next(event for event in events if event.kind == "frames") for _ in range(2)]
        assert all(part.value.shape[2:] == (16, 16, 3) for part in parts)


def test_latents_that_nobody_keeps_are_handed_over(helios):
    pipe = long_wan()
    given = {**CALL, **LONG, "num_frames": 13, "output_type": "latent"}
    events = list(pipe.stream(**given, keep_frames=False))
    assert events[-1].value.frames is None
    assert torch.equal(torch.cat([e.value for e in events if e.kind == "frames"], dim=2), pipe(**given).frames)


def test_too_large_a_video_is_told_as_one():
    with pytest.raises(MachineError, match=r"1 video of 10000000000001 frames of 16 x 16 pixels"):
        wan()(**CALL, num_frames=ENDLESS)
    with pytest.raises(MachineError, match=r"2 videos of 5 frames of 1600000 x 1600000 pixels"):
        wan()(**{**CALL, "height": 1600000, "width": 1600000}, num_frames=5, num_videos_per_prompt=2)
    with pytest.raises(InputError, match=r"a multiple of 16 \(16 is near\)"):
        wan()(**{**CALL, "height": 8}, num_frames=5)


def test_a_long_video_pipeline_survives_a_save(tmp_path):
    pipe = long_wan()
    pipe.save_pretrained(tmp_path)
    again = lockstep.DiffusionPipeline.from_pretrained(tmp_path)
    named = lockstep.WanPipeline.from_pretrained(tmp_path)
    plain = lockstep.WanPipeline.from_pretrained(tmp_path, blocks=lockstep.WanBlocks())
    given = {**CALL, **LONG, "num_frames": 13, "output_type": "latent"}
    wanted = pipe(**given).frames
    for one in (again, named):
        assert isinstance(quiet(one).blocks, lockstep.WanLongVideoBlocks)
        assert torch.equal(one(**given).frames, wanted)
    assert type(plain.blocks) is lockstep.WanBlocks
    assert diffusers.WanPipeline.from_pretrained(tmp_path).transformer is not None


def test_a_pipeline_of_the_usual_blocks_needs_no_further_index(tmp_path):
    wan().save_pretrained(tmp_path)
    assert not (tmp_path / "modular_model_index.json").exists()


def test_blocks_of_ones_own_are_asked_for_when_their_folder_is_loaded(tmp_path):
    class MyBlocks(lockstep.WanBlocks):
        """Others than the usual ones."""

    MyBlocks().init_pipeline(**tiny_video.parts("text")).save_pretrained(tmp_path)
    with pytest.raises(LoadError, match=r"blocks=MyBlocks\(\)"):
        lockstep.DiffusionPipeline.from_pretrained(tmp_path)
    assert isinstance(lockstep.DiffusionPipeline.from_pretrained(tmp_path, blocks=MyBlocks()).blocks, MyBlocks)


def test_a_video_can_start_from_latents(tmp_path):
    folder = tiny_video.save_wan(tmp_path)
    given = {
        "prompt": "a cat", "negative_prompt": "blue", "height": 32, "width": 48, "num_inference_steps": 4,
        "max_sequence_length": 12, "strength": 0.75,
        "latents": torch.randn(1, 4, 3, 4, 6, generator=torch.Generator().manual_seed(1)),
    }  # fmt: skip
    found = []
    for library in (lockstep, diffusers):
        steps = []
        pipe = quiet(library.WanVideoToVideoPipeline.from_pretrained(folder))
        made = pipe(**given, output_type="np", generator=torch.Generator().manual_seed(7), **watch_steps(steps)).frames
        found.append((steps, made))
    (steps, made), (their_steps, theirs) = found
    assert len(steps) == len(their_steps) == 3
    for (t, latents), (their_t, wanted) in zip(steps, their_steps, strict=True):
        assert t == pytest.approx(their_t, abs=1e-4)
        assert_close(latents, wanted, 1e-5)
    assert np.abs(made - theirs).max() <= 1 / 255


def test_latents_and_videos_to_start_from_are_checked_before_a_model_runs(monkeypatch):
    pipe, video = untouched(wan(name="WanVideoToVideoPipeline"), monkeypatch), [picture(k, (16, 16)) for k in range(5)]
    latents = torch.randn(1, 4, 2, 2, 2)
    for given, told in (
        ({}, "neither"),
        ({"video": video, "latents": latents}, "both"),
        ({"latents": latents[..., :1]}, r"\[1, 4, 2, 2, 2\]"),
        ({"latents": latents[:, :3]}, r"\[1, 4, 2, 2, 2\]"),
        ({"latents": latents.repeat(2, 1, 1, 1, 1)}, "1 samples"),
        ({"latents": latents[0, :1]}, r"\[1, 4, 1, 2, 2\]"),
    ):
        with pytest.raises(InputError, match=told):
            pipe(**CALL, **given)


SIXTEEN_BITS = [Image.fromarray(np.zeros((16, 16), np.uint16))] * 5
WRONG_VIDEOS = {
    "of 16 bits": SIXTEEN_BITS,
    "of no numbers": np.full((5, 16, 16, 3), np.nan, np.float32),
    "with channels first": torch.rand(3, 5, 16, 16),
}


@pytest.mark.parametrize("video", list(WRONG_VIDEOS))
def test_a_video_that_is_none_is_told_before_a_model_runs(video, helios, monkeypatch):
    for pipe in (wan(), helios):
        with pytest.raises(InputError):
            untouched(pipe, monkeypatch)(**CALL, video=WRONG_VIDEOS[video])


def test_helios_checks_its_pictures_before_a_model_runs(helios, monkeypatch):
    pipe = untouched(helios, monkeypatch)
    with pytest.raises(InputError):
        pipe(**CALL, image=SIXTEEN_BITS[0])
    with pytest.raises(InputError, match="not both"):
        pipe(**CALL, image=picture(0, (16, 16)), video=[picture(k, (16, 16)) for k in range(33)])


@pytest.mark.parametrize("kind", ["text", "experts"])
def test_ready_encodings_are_checked_before_a_model_runs(kind, monkeypatch):
    pipe = untouched(wan(kind), monkeypatch)
    given = {name: value for name, value in CALL.items() if name != "prompt"}
    with pytest.raises(InputError, match="16 channels"):
        pipe(**given, num_frames=5, prompt_embeds=torch.randn(1, 12, 15))
    with pytest.raises(InputError, match="16 channels"):
        pipe(**given, num_frames=5, prompt_embeds=torch.randn(12, 16))
    with pytest.raises(InputError, match="foo"):
        pipe(**CALL, num_frames=5, attention_kwargs={"foo": 1})


def test_encodings_of_a_picture_are_checked_before_a_model_runs(monkeypatch):
    pipe = untouched(wan("image", "WanImageToVideoPipeline"), monkeypatch)
    with pytest.raises(InputError, match="'image_embeds' has to be"):
        pipe(**CALL, num_frames=5, image=picture(0, (16, 16)), image_embeds=torch.randn(1, 5, 15))


def test_helios_checks_ready_encodings_before_a_model_runs(helios, monkeypatch):
    given = {name: value for name, value in CALL.items() if name != "prompt"}
    with pytest.raises(InputError, match="16 channels"):
        untouched(helios, monkeypatch)(**given, prompt_embeds=torch.randn(1, 12, 15))


def test_rounding_is_one_rule_and_said(helios, caplog):
    pipe, plain = long_wan(), wan()
    for asked, made in ((14, 13), (12, 13), (13, 13)):
        given = {**CALL, "num_frames": asked, "output_type": "np"}
        assert plain(**given).frames.shape[1] == made
        told = heard(caplog, lambda given=given: pipe(**given, **LONG))
        assert pipe(**given, **LONG).frames.shape[1] == made
        assert (f"num_frames={asked} is taken as {made}" in told) == (asked != made)


def test_overlaps_and_chunks_are_rounded_by_the_same_rule(caplog):
    given = {**CALL, "num_frames": 17, "output_type": "latent"}
    told = heard(caplog, lambda: long_wan()(**given, frames_per_chunk=10, overlap_frames=4))
    assert "frames_per_chunk=10 is taken as 9" in told
    assert "overlap_frames=4 is taken as 5" in told
    rounded = long_wan()(**given, frames_per_chunk=10, overlap_frames=4).frames
    assert torch.equal(long_wan()(**given, frames_per_chunk=9, overlap_frames=5).frames, rounded)


def test_whole_chunks_of_helios_are_said(helios, caplog):
    assert "1 frames is made as 33" in heard(caplog, lambda: helios(**CALL, num_frames=1))
    assert "is made as" not in heard(caplog, lambda: helios(**CALL, num_frames=33))


def test_bands_of_a_video_are_those_of_its_frames():
    from lockstep.guiders.frequency_decoupled import from_pyramid, laplacian_pyramid

    video = torch.randn(2, 4, 3, 8, 12, generator=torch.Generator().manual_seed(0))
    bands = laplacian_pyramid(video, 3)
    for frame in range(3):
        for band, alone in zip(bands, laplacian_pyramid(video[:, :, frame], 3), strict=True):
            assert torch.equal(band[:, :, frame], alone)
    assert_close(from_pyramid(bands), video, 1e-6)
    with pytest.raises(InputError, match="at least 6"):
        laplacian_pyramid(video[..., :4, :4], 3)


def test_guidance_by_bands_guides_videos():
    pipe = wan()
    given = {**CALL, "num_frames": 5, "height": 32, "width": 48, "output_type": "latent"}
    plain = pipe(**given, guidance_scale=3.0).frames
    pipe.guider = lockstep.FrequencyDecoupledGuidance(guidance_scales=[3.0, 3.0])
    assert_close(pipe(**given).frames, plain, 1e-5)  # one scale for every band is that scale
    pipe.guider = lockstep.FrequencyDecoupledGuidance(guidance_scales=[6.0, 3.0])
    assert not torch.allclose(pipe(**given).frames, plain)


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("WanPipeline", 5.0),
        ("WanImageToVideoPipeline", 5.0),
        ("HeliosPipeline", 5.0),
        ("StableDiffusion3Pipeline", 7.0),
        ("StableDiffusionPipeline", 7.5),
        ("StableDiffusionXLInpaintPipeline", 7.5),
        ("FluxPipeline", 3.5),
    ],
)
def test_the_signature_shows_the_scale_that_runs(name, scale):
    theirs = inspect.signature(getattr(diffusers, name).__call__).parameters["guidance_scale"].default
    assert inspect.signature(getattr(lockstep, name).__call__).parameters["guidance_scale"].default == scale == theirs


def test_the_scale_of_another_guider_is_shown_in_its_place():
    pipe = wan()
    assert inspect.signature(pipe).parameters["guidance_scale"].default == 5.0
    assert {entry["name"]: entry["default"] for entry in pipe.schema()["inputs"]}["guidance_scale"] == 5.0
    pipe.guider = lockstep.ClassifierFreeGuidance(guidance_scale=9.0)
    assert inspect.signature(pipe).parameters["guidance_scale"].default == 9.0
    assert pipe.default_call_parameters["guidance_scale"] == 9.0
    given = {**CALL, "num_frames": 5, "output_type": "latent"}
    assert torch.equal(pipe(**given).frames, pipe(**given, guidance_scale=9.0).frames)


def test_names_of_scripts_are_public():
    assert lockstep.InterruptedRun is lockstep.errors.InterruptedRun
    skipped = lockstep.LayerSkipConfig(indices=[1], skip_attention=False)
    pipe = wan()
    given = {**CALL, "num_frames": 5, "output_type": "latent"}
    plain = pipe(**given).frames
    pipe.guider = lockstep.SkipLayerGuidance(
        5.0, skip_layer_config=skipped, skip_layer_guidance_start=0.0, skip_layer_guidance_stop=1.0
    )
    assert not torch.equal(pipe(**given).frames, plain)
    assert lockstep.SmoothedEnergyGuidanceConfig(indices=[1]).fqn == "auto"
