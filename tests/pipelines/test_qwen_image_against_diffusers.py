"""Qwen-Image beside diffusers on the same folders: embeddings, first latents, sigmas, every step, pictures."""

import functools

import diffusers
import pytest
import torch

import lockstep
from helpers import assert_close
from lockstep.errors import InputError
from pipelines import tiny_qwen_image
from pipelines.test_flow_against_diffusers import arguments_for, compare, mask, negative_for, picture

PROMPTS = ["a photo of a cat", "red dog on a blue background, 3d style: ein Hund, 一只狗"]
SIZES = {"square": (16, 16), "odd": (24, 40)}
GUIDANCE = {
    "plain": {},
    "guided": {"negative_prompt": "blue house"},
    "weaker, by an empty one": {"negative_prompt": " ", "true_cfg_scale": 1.5},
    "ignored": {"negative_prompt": "blue", "true_cfg_scale": 1.0},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_qwen_image.save_qwen_image(tmp_path_factory.mktemp("qwen_image"))


@functools.cache
def load(folder, name="QwenImagePipeline"):
    """Our pipeline and theirs, by one published name."""
    sides = [getattr(library, name).from_pretrained(folder) for library in (lockstep, diffusers)]
    for side in sides:
        side.set_progress_bar_config(disable=True)
    return sides


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("guidance", list(GUIDANCE))
def test_text_to_image(folder, guidance, size, batch):
    arguments = arguments_for(SIZES[size], batch, **negative_for(GUIDANCE[guidance], batch))
    compare(*load(folder), {**arguments, "prompt": PROMPTS[:batch]})


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("size", "strength"), [("odd", 0.7), ("square", 1.0)])
@pytest.mark.parametrize("name", ["QwenImageImg2ImgPipeline", "QwenImageInpaintPipeline"])
def test_from_pictures(folder, name, size, strength, batch):
    guidance = GUIDANCE["guided" if batch == 1 else "plain"]
    arguments = arguments_for(SIZES[size], batch, strength=strength, **guidance)
    arguments["image"] = [picture(SIZES[size], k) for k in range(batch)] if batch > 1 else picture(SIZES[size])
    if name == "QwenImageInpaintPipeline":
        arguments["mask_image"] = [mask(SIZES[size])] * batch if batch > 1 else mask(SIZES[size])
    compare(*load(folder, name), arguments)


def test_many_arguments(folder):
    sides = load(folder)
    more = {"num_images_per_prompt": 2, "negative_prompt": ["red", "a blue house"], "max_sequence_length": 12}
    compare(*sides, {**arguments_for((24, 40), 2, **more), "prompt": PROMPTS})
    compare(*sides, arguments_for((24, 40), 1, sigmas=[1.0, 0.7, 0.2]) | {"num_inference_steps": 3})
    for prompts in (PROMPTS[:1], PROMPTS):
        got, wanted = (side.encode_prompt(prompts) for side in sides)
        assert_close(got[0], wanted[0], 1e-5)
        assert (got[1] is None) == (wanted[1] is None) == (len(prompts) == 1)
    assert torch.equal(got[1].long(), wanted[1].long())
    ready = {"prompt_embeds": wanted[0], "prompt_embeds_mask": wanted[1]}
    noise = torch.randn(2, 15, 16, generator=torch.Generator().manual_seed(1))
    compare(*sides, {"height": 24, "width": 40, "num_inference_steps": 3, "latents": noise, **ready})
    long = {**arguments_for((16, 16), 1), "prompt": ["a red dog " * 40], "max_sequence_length": 33}
    compare(*sides, long)


def test_branches_in_one_batch_or_one_by_one(folder):
    ours, _ = load(folder)
    given = {**arguments_for((16, 16), 1), "negative_prompt": "a very long text of many words", "seed": 1}
    one, other = (ours(**given, output_type="latent", batch_guidance=how).images for how in (True, False))
    assert_close(one, other, 1e-5)


def test_a_guider_of_ones_own_stays_as_it_was_made(folder):
    ours = lockstep.QwenImagePipeline.from_pretrained(folder)
    given = {**arguments_for((16, 16), 1), "output_type": "latent", "seed": 1}
    plain, guided = ours(**given).images, ours(**given, negative_prompt="").images
    assert not torch.equal(plain, guided)
    ours.guider = lockstep.ClassifierFreeGuidance(guidance_scale=4.0)
    assert torch.equal(ours(**given).images, guided)
    ours.guider = lockstep.ClassifierFreeGuidance(guidance_scale=2.0)
    assert not torch.equal(ours(**given).images, guided)
    assert torch.equal(ours(**given, true_cfg_scale=4.0, negative_prompt="").images, guided)


def test_what_does_not_fit_is_refused_before_anything_runs(folder):
    ours = lockstep.QwenImagePipeline.from_pretrained(folder)
    for name in ours.model_names:
        getattr(ours, name).register_forward_pre_hook(lambda *_: pytest.fail("a model ran"))
    for arguments, word in (
        ({"height": 20}, "multiple of 8"),
        ({"max_sequence_length": 1025}, "at most 1024"),
        ({"true_cfg_scale": -1.0}, "true_cfg_scale"),
        ({"latents": torch.zeros(1, 5, 16), "height": 16, "width": 16}, r"\[1, 4, 16\]"),
    ):
        with pytest.raises(InputError, match=word):
            ours("cat", **arguments)
    with pytest.raises(InputError, match="16 channels"):
        ours(prompt_embeds=torch.ones(1, 5, 15))


def test_half_precision(folder):
    made = []
    for library in (lockstep, diffusers):
        side = library.QwenImagePipeline.from_pretrained(folder).to(torch.bfloat16)
        side.set_progress_bar_config(disable=True)
        given = {**arguments_for((16, 16), 1), "negative_prompt": "blue"}
        made.append(side(**given, generator=torch.Generator().manual_seed(3), output_type="latent").images)
    assert made[0].dtype == made[1].dtype
    assert_close(made[0].float(), made[1].float(), 0.05)
