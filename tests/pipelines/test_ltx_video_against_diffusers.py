"""LTX-Video beside diffusers on the same folders: embeddings, first latents, sigmas, every step, videos."""

import functools

import diffusers
import pytest
import torch
from diffusers.models.autoencoders import autoencoder_kl_ltx

import lockstep
from helpers import assert_close
from lockstep.errors import InputError
from lockstep.pipelines.ltx_video import before_denoise, denoise
from pipelines import tiny_ltx_video
from pipelines.test_wan_against_diffusers import compare, picture

PROMPTS = ["a photo of a cat", "red dog on a blue background, 3d style"]
SIZE = {"height": 32, "width": 64, "num_frames": 9, "num_inference_steps": 4, "max_sequence_length": 12}
SIZES = {
    "odd": {"height": 96, "width": 32, "num_frames": 17},
    "one frame": {"num_frames": 1},
    "frames that are no whole latents": {"num_frames": 16},
    "another rate": {"frame_rate": 12},
}
GUIDANCE = {
    "guided": {"guidance_scale": 3.0, "negative_prompt": "blue house"},
    "plain": {"guidance_scale": 1.0},
    "rescaled": {"guidance_scale": 5.0, "guidance_rescale": 0.7},
}
RUNS = [
    ("0.9.0", "guided", 1),
    ("0.9.0", "guided", 2),
    ("0.9.0", "rescaled", 2),
    ("0.9.0", "plain", 1),
    ("0.9.5", "guided", 2),
    ("0.9.5", "plain", 1),
]
NAMES = {"text": "LTXPipeline", "image": "LTXImageToVideoPipeline"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("ltx")
    return functools.cache(lambda version: tiny_ltx_video.save_ltx(root / version, version))


@functools.cache
def load(folder, name="LTXPipeline"):
    """Our pipeline and theirs, by one published name."""
    sides = [getattr(library, name).from_pretrained(folder) for library in (lockstep, diffusers)]
    for side in sides:
        side.set_progress_bar_config(disable=True)
    return sides


def arguments_for(batch=1, **more):
    words = more.get("negative_prompt")
    if words is not None and batch > 1:
        more["negative_prompt"] = [words] * batch
    return {"prompt": PROMPTS[:batch] if batch > 1 else PROMPTS[1], **SIZE, **more}


@pytest.mark.parametrize(("version", "guidance", "batch"), RUNS)
def test_text_to_video(folders, version, guidance, batch):
    times = {"decode_timestep": 0.05, "decode_noise_scale": 0.025} if version == "0.9.5" else {}
    found = compare(*load(folders(version)), arguments_for(batch, **GUIDANCE[guidance], **times))
    assert found.manifest["workflow"] == "text2video"


@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("start", ["text", "image"])
def test_odd_sizes(folders, start, size):
    given = {"image": picture()} if start == "image" else {}
    compare(*load(folders("0.9.0"), NAMES[start]), arguments_for(**SIZES[size], **given))


@pytest.mark.parametrize(("version", "guidance", "batch"), RUNS)
def test_image_to_video(folders, version, guidance, batch):
    pictures = [picture(k) for k in range(batch)] if batch > 1 else picture(size=(40, 50))
    times = {"decode_timestep": 0.05} if version == "0.9.5" else {}
    arguments = arguments_for(batch, image=pictures, **GUIDANCE[guidance], **times)
    found = compare(*load(folders(version), "LTXImageToVideoPipeline"), arguments)
    assert found.manifest["workflow"] == "image2video"
    if (guidance, batch) == ("plain", 1):
        whole = load(folders(version))[0]
        same = whole(**arguments, generator=torch.Generator().manual_seed(7), output_type="np")
        assert (same.frames == found.frames).all()


def test_times_of_the_decoder_by_prompt(folders):
    times = {"decode_timestep": [0.05, 0.3], "decode_noise_scale": [0.0, 0.2]}
    compare(*load(folders("0.9.5")), arguments_for(2, **times))


def test_noise_inside_the_decoder_follows_the_generator(folders, monkeypatch):
    """Theirs draws it from the global generator; put on the call's, it is the same."""
    ours, theirs = load(folders("0.9.1"))
    resnet = autoencoder_kl_ltx.LTXVideoResnetBlock3d
    forward, drawn = resnet.forward, torch.Generator()
    monkeypatch.setattr(resnet, "forward", lambda self, x, temb=None, generator=None: forward(self, x, temb, drawn))
    arguments = {**arguments_for(decode_timestep=0.05), "output_type": "pt"}
    wanted = theirs(**arguments, generator=drawn.manual_seed(3)).frames
    assert_close(ours(**arguments, generator=torch.Generator().manual_seed(3)).frames, wanted, 1e-5)
    assert not torch.equal(ours(**arguments, generator=torch.Generator().manual_seed(4)).frames, wanted)


def test_embeddings_first_latents_and_grid(folders):
    ours, theirs = load(folders("0.9.0"))
    given = {"negative_prompt": ["blue", "a red house"], "max_sequence_length": 12}
    mine, wanted = (side.encode_prompt(PROMPTS, **given) for side in (ours, theirs))
    for got, other in zip(mine, wanted, strict=True):
        assert got.dtype == other.dtype
        assert_close(got.float(), other.float(), 1e-5)
    assert ours.encode_prompt(PROMPTS[0], do_classifier_free_guidance=False)[2:] == (None, None)
    names = ("prompt_embeds", "prompt_attention_mask", "negative_prompt_embeds", "negative_prompt_attention_mask")
    ready = dict(zip(names, wanted, strict=True))
    noise = torch.randn(2, 4, tiny_ltx_video.CHANNELS, generator=torch.Generator().manual_seed(1))
    arguments = {**{name: value for name, value in SIZE.items() if name != "max_sequence_length"}, **ready}
    compare(ours, theirs, {**arguments, "latents": noise})
    drawn = torch.Generator().manual_seed(3)
    start = ours(**arguments, generator=drawn, checkpoints={"preloop": lockstep.Checkpoint(stop=True)})
    drawn = torch.Generator().manual_seed(3)
    assert torch.equal(
        start.state.latents, theirs.prepare_latents(2, 8, 32, 64, 9, torch.float32, torch.device("cpu"), drawn)
    )
    assert start.state.timesteps[-1] == pytest.approx(100.0)  # shift_terminal


def test_several_videos_of_a_prompt(folders):
    compare(*load(folders("0.9.0")), arguments_for(1, num_videos_per_prompt=2, negative_prompt="red"))


def test_latents_of_an_image_run_can_be_given(folders):
    noise = torch.randn(1, 4, tiny_ltx_video.CHANNELS, generator=torch.Generator().manual_seed(1))
    compare(*load(folders("0.9.0"), "LTXImageToVideoPipeline"), arguments_for(image=picture(), latents=noise))


PLANTED = {
    "the first frame has noise": (denoise.PredictTokens, "times", lambda self, state, t, n: t.expand(n)),
    "the first frame moves": (denoise.StepTokens, "held", staticmethod(lambda components, state: 0)),
    "tokens counted without frames": (before_denoise.SetVideoTimesteps, "tokens", lambda self, *_: 2),
}


@pytest.mark.parametrize("error", list(PLANTED))
def test_a_planted_error_is_seen(folders, monkeypatch, error):
    monkeypatch.setattr(*PLANTED[error])
    with pytest.raises(AssertionError, match=r"latents after step 0|timesteps differ"):
        compare(*load(folders("0.9.0"), "LTXImageToVideoPipeline"), arguments_for(image=picture()))


def test_what_does_not_fit_is_refused_before_anything_runs(folders):
    ours = lockstep.LTXPipeline.from_pretrained(folders("0.9.5"))
    for name in ours.model_names:
        getattr(ours, name).register_forward_pre_hook(lambda *_: pytest.fail("a model ran"))
    embeds = torch.ones(1, 5, tiny_ltx_video.TEXT_WIDTH)
    for arguments, word in (
        ({"prompt": "cat", "height": 40}, "multiple of 32"),
        ({"prompt": "cat", "latents": torch.zeros(1, 3, 8), **SIZE}, r"\[1, 4, 8\]"),
        ({"prompt": "cat", "decode_timestep": [0.1, 0.2]}, "2 numbers for 1"),
        ({"prompt": "cat", "image": picture(), "strength": 0.5}, "strength"),
        ({"prompt_embeds": embeds}, "prompt_attention_mask"),
        ({"prompt_embeds": embeds[..., 1:], "prompt_attention_mask": torch.ones(1, 5)}, "16 channels"),
        ({"prompt": "cat", "frame_rate": 0}, "frame_rate"),
    ):
        with pytest.raises(InputError, match=word):
            ours(**arguments)


def test_latents_stay_fp32_in_half_precision(folders):
    made = []
    for library in (lockstep, diffusers):
        side = library.LTXPipeline.from_pretrained(folders("0.9.0")).to(torch.bfloat16)
        side.set_progress_bar_config(disable=True)
        generator = torch.Generator().manual_seed(3)
        made.append(side(**arguments_for(), generator=generator, output_type="latent").frames)
    assert made[0].dtype == made[1].dtype == torch.float32
    assert_close(made[0], made[1], 0.02)
