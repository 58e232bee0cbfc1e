"""Z-Image beside diffusers on the same folders: embeddings, first latents, sigmas, every step, pictures."""

import functools

import diffusers
import pytest
import torch

import lockstep
from helpers import assert_close
from lockstep.errors import InputError
from lockstep.pipelines.z_image import blocks, denoise
from pipelines import tiny_z_image
from pipelines.test_flow_against_diffusers import compare, mask, picture

PROMPTS = ["a photo of a cat", "red dog on a blue background, 3d style: ein Hund, 一只狗"]
SIZES = {"square": (16, 16), "odd": (24, 40)}
GUIDANCE = {
    "guided": {"guidance_scale": 4.0, "negative_prompt": "blue house"},
    "no negative prompt": {"guidance_scale": 1.0},
    "plain": {"guidance_scale": 0.0},
    "bounded": {"guidance_scale": 5.0, "cfg_normalization": 0.9, "cfg_truncation": 0.6},
    "as long as it is": {"guidance_scale": 3.0, "cfg_normalization": True},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("z_image")
    return {
        "base": tiny_z_image.save_z_image(root / "base", shift=6.0),
        "turbo": tiny_z_image.save_z_image(root / "turbo"),
        "dynamic": tiny_z_image.save_z_image(root / "dynamic", use_dynamic_shifting=True),
    }


@functools.cache
def load(folder, name="ZImagePipeline"):
    """Our pipeline and theirs, by one published name."""
    sides = [getattr(library, name).from_pretrained(folder) for library in (lockstep, diffusers)]
    for side in sides:
        side.set_progress_bar_config(disable=True)
    return sides


def arguments_for(size, batch, **more):
    """Theirs writes its template into the list of prompts that it is given, so that each call gets its own."""
    words = more.get("negative_prompt")
    if words is not None and batch > 1:
        more["negative_prompt"] = [words] * batch
    height, width = size
    return {"prompt": PROMPTS[:batch], "height": height, "width": width, "num_inference_steps": 4, **more}


class EachItsOwn:
    """Both sides called with copies of the lists."""

    def __init__(self, side):
        self.side = side

    def __call__(self, **arguments):
        return self.side(**{name: list(v) if isinstance(v, list) else v for name, v in arguments.items()})


def compared(sides, arguments, tolerance=1e-5):
    compare(*(EachItsOwn(side) for side in sides), arguments, tolerance)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("guidance", list(GUIDANCE))
@pytest.mark.parametrize("kind", ["base", "turbo", "dynamic"])
def test_text_to_image(folders, kind, guidance, size, batch):
    compared(load(folders[kind]), arguments_for(SIZES[size], batch, **GUIDANCE[guidance]))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("size", "strength"), [("square", 0.6), ("odd", 0.7), ("odd", 1.0), ("square", 0.3)])
@pytest.mark.parametrize("name", ["ZImageImg2ImgPipeline", "ZImageInpaintPipeline"])
def test_from_pictures(folders, name, size, strength, batch):
    guidance = GUIDANCE["guided" if batch == 1 else "plain"]
    arguments = arguments_for(SIZES[size], batch, strength=strength, **guidance)
    arguments["image"] = [picture(SIZES[size], k) for k in range(batch)] if batch > 1 else picture(SIZES[size])
    if name == "ZImageInpaintPipeline":
        arguments["mask_image"] = [mask(SIZES[size])] * batch if batch > 1 else mask(SIZES[size])
    compared(load(folders["base"], name), arguments)


@pytest.mark.parametrize("kind", ["turbo", "dynamic"])
@pytest.mark.parametrize("name", ["ZImageImg2ImgPipeline", "ZImageInpaintPipeline"])
def test_a_picture_without_a_size_is_made_at_its_own(folders, name, kind):
    arguments = {"prompt": PROMPTS[:1], "image": picture((29, 43)), "num_inference_steps": 4}
    if name == "ZImageInpaintPipeline":
        arguments["mask_image"] = mask((29, 43))
    compared(load(folders[kind], name), arguments)


def test_many_arguments(folders):
    sides = load(folders["turbo"])
    ours = sides[0]
    arguments = arguments_for((24, 40), 2, num_images_per_prompt=2, negative_prompt="red", max_sequence_length=12)
    compared(sides, arguments)
    compared(sides, arguments_for((24, 40), 1, sigmas=[1.0, 0.7, 0.2]) | {"num_inference_steps": 3})
    mine, wanted = (side.encode_prompt(list(PROMPTS), negative_prompt=["blue", "a red house"]) for side in sides)
    for got, other in zip([*mine[0], *mine[1]], [*wanted[0], *wanted[1]], strict=True):
        assert_close(got, other, 1e-5)
    assert ours.encode_prompt(PROMPTS[0], do_classifier_free_guidance=False)[1] == []
    noise = torch.randn(2, 4, 6, 10, generator=torch.Generator().manual_seed(1))
    ready = {"prompt_embeds": wanted[0], "negative_prompt_embeds": wanted[1], "latents": noise}
    compared(sides, {"height": 24, "width": 40, "num_inference_steps": 3, **ready})


def test_embeddings_come_with_a_mask_and_can_be_given_back(folders):
    ours, _ = load(folders["turbo"])
    arguments = {"height": 16, "width": 16, "num_inference_steps": 2, "output_type": "latent", "seed": 1}
    names = ["prompt_embeds", "negative_prompt_embeds", "prompt_embeds_mask", "negative_prompt_embeds_mask"]
    made = ours(PROMPTS, negative_prompt=["", "blue"], **arguments, output=names)
    assert made["prompt_embeds"].shape == made["negative_prompt_embeds"].shape
    assert made["prompt_embeds_mask"].sum(1).tolist() != made["negative_prompt_embeds_mask"].sum(1).tolist()
    assert not made["prompt_embeds"][~made["prompt_embeds_mask"]].any()
    wanted = ours(PROMPTS, negative_prompt=["", "blue"], **arguments).images
    assert torch.equal(ours(**{name: made[name] for name in names}, **arguments).images, wanted)
    for changes, word in (
        ({"prompt_embeds_mask": made["prompt_embeds_mask"][:, 1:]}, "prompt_embeds_mask"),
        ({"negative_prompt_embeds_mask": None}, "ends in zeros"),
        ({"negative_prompt_embeds": list(made["negative_prompt_embeds"])[:1], names[3]: None}, "a row for each of 2"),
    ):
        with pytest.raises(InputError, match=word):
            ours(**{name: made[name] for name in names} | changes, **arguments)


def test_what_does_not_fit_is_refused_before_anything_runs(folders):
    ours = lockstep.ZImagePipeline.from_pretrained(folders["turbo"])
    for name in ours.model_names:
        getattr(ours, name).register_forward_pre_hook(lambda *_: pytest.fail("a model ran"))
    for arguments, word in (
        ({"height": 20}, "multiple of 8"),
        ({"height": 1024}, "at most 512"),
        ({"max_sequence_length": 600}, "at most 576"),
        ({"cfg_truncation": -1.0}, "cfg_truncation"),
        ({"guidance_scale": -1.0}, "guidance_scale"),
        ({"latents": torch.zeros(1, 4, 5, 5), "height": 16, "width": 16}, r"\[1, 4, 4, 4\]"),
        ({"image": picture((2, 2))}, "smaller"),
    ):
        with pytest.raises(InputError, match=word):
            ours("cat", **arguments)
    narrow = torch.ones(1, 5, 15)
    with pytest.raises(InputError, match="16 channels"):
        ours(prompt_embeds=narrow, negative_prompt_embeds=narrow)


def test_a_long_prompt_is_cut_as_theirs(folders):
    arguments = {**arguments_for((16, 16), 1), "prompt": ["a red dog " * 40], "max_sequence_length": 33}
    compared(load(folders["turbo"]), arguments)


def test_latents_stay_fp32_in_half_precision(folders):
    made = []
    for library in (lockstep, diffusers):
        side = library.ZImagePipeline.from_pretrained(folders["turbo"]).to(torch.bfloat16)
        side.set_progress_bar_config(disable=True)
        generator = torch.Generator().manual_seed(3)
        made.append(
            side(**arguments_for((16, 16), 1), guidance_scale=2.0, generator=generator, output_type="latent").images
        )
    assert made[0].dtype == made[1].dtype == torch.float32
    assert_close(made[0], made[1], 0.02)


@pytest.mark.parametrize("kind", ["turbo", "dynamic"])
def test_the_grid_is_theirs_to_the_last_bit(folders, kind):
    """The model is told 1000 - t: near the noise a last bit of t is many of that."""
    grids = []
    for steps in (6, 9, 28):
        stop = {"checkpoints": {"preloop": lockstep.Checkpoint(stop=True)}}
        for side, more in zip(load(folders[kind]), (stop, {"output_type": "latent"}), strict=True):
            arguments = {**arguments_for((16, 16), 1, guidance_scale=0.0), "num_inference_steps": steps, **more}
            found = EachItsOwn(side)(**arguments)
            grids.append(found.state.timesteps if side.__module__.startswith("lockstep") else side.scheduler.timesteps)
    for ours, theirs in zip(grids[::2], grids[1::2], strict=True):
        assert torch.equal(ours, theirs)


PLANTED = {
    "the time runs backwards": (denoise, "way", lambda t: t.float() / 1000),
    "the prediction keeps its sign": (denoise.PredictZImage, "denoise", lambda *given: -predicted(*given)),
    "guidance is never bounded": (denoise, "length", lambda prediction: prediction.new_ones(len(prediction), 1, 1, 1)),
    "another grid": (blocks.SpacedInFp32, "spaced", lambda self, steps: torch.linspace(1.0, 0.1, steps).tolist()),
}
predicted = denoise.PredictZImage.denoise


@pytest.mark.parametrize("error", list(PLANTED))
def test_a_planted_error_is_seen(folders, monkeypatch, error):
    monkeypatch.setattr(*PLANTED[error])
    with pytest.raises(AssertionError, match=r"latents after step \d|timesteps differ"):
        compared(load(folders["turbo"]), arguments_for((16, 16), 1, **GUIDANCE["bounded"]))
