"""CLIP's vision transformer, its pictures and the safety checker beside transformers and diffusers."""

import numpy as np
import pytest
import torch
import transformers
from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker as TheirChecker
from PIL import Image

import lockstep
from helpers import assert_close
from lockstep.errors import InputError

CONFIG = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 30,
    "patch_size": 6, "projection_dim": 24, "hidden_act": "quick_gelu",
}  # fmt: skip


def randomized(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return model.eval()


def pixels(count=2):
    return torch.randn(count, 3, 30, 30, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["CLIPVisionModel", "CLIPVisionModelWithProjection"])
def test_every_layer_is_that_of_transformers(name, tmp_path):
    theirs = randomized(getattr(transformers, name)(transformers.CLIPVisionConfig(**CONFIG)))
    theirs.save_pretrained(tmp_path)
    ours = getattr(lockstep, name).from_pretrained(tmp_path)
    with torch.no_grad():
        got = ours(pixels(), output_hidden_states=True)
        wanted = theirs(pixels(), output_hidden_states=True)
    assert len(got.hidden_states) == len(wanted.hidden_states) == 4
    for index, (one, other) in enumerate(zip(got.hidden_states, wanted.hidden_states, strict=True)):
        assert_close(one, other, 1e-5, f"layer {index}")
    assert_close(got.last_hidden_state, wanted.last_hidden_state)
    field = "image_embeds" if name.endswith("Projection") else "pooler_output"
    assert_close(getattr(got, field), getattr(wanted, field))


def test_what_is_saved_here_transformers_loads(tmp_path):
    ours = randomized(lockstep.CLIPVisionModelWithProjection(**CONFIG))
    ours.save_pretrained(tmp_path)
    theirs = transformers.CLIPVisionModelWithProjection.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        assert_close(ours(pixels()).image_embeds, theirs(pixels()).image_embeds)


def test_pixels_of_another_size_are_refused():
    with pytest.raises(InputError, match="CLIPImageProcessor"):
        lockstep.CLIPVisionModel(**CONFIG)(torch.zeros(1, 3, 8, 8))


@pytest.mark.parametrize("size", [(40, 33), (224, 224), (20, 51), (300, 17)])
def test_pictures_are_read_as_transformers_reads_them(size, tmp_path):
    options = {"size": {"shortest_edge": 30}, "crop_size": {"height": 30, "width": 30}}
    ours, theirs = lockstep.CLIPImageProcessor(**options), transformers.CLIPImageProcessorPil(**options)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (*size, 3), dtype=np.uint8))
    wanted = theirs([picture], return_tensors="pt").pixel_values
    assert_close(ours([picture]).pixel_values, wanted)
    theirs.save_pretrained(tmp_path)
    again = lockstep.CLIPImageProcessor.from_pretrained(tmp_path)
    assert_close(again(picture)["pixel_values"], wanted)


def test_a_picture_smaller_than_the_crop_is_padded():
    options = {"do_resize": False, "crop_size": {"height": 31, "width": 30}}
    ours, theirs = lockstep.CLIPImageProcessor(**options), transformers.CLIPImageProcessorPil(**options)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (12, 50, 3), dtype=np.uint8))
    assert_close(ours(picture).pixel_values, theirs([picture], return_tensors="pt").pixel_values)


@pytest.mark.parametrize("threshold", [-0.05, 0.0, 0.05, 0.5])
def test_the_safety_checker_finds_what_theirs_finds(threshold, tmp_path):
    theirs = randomized(TheirChecker(transformers.CLIPConfig(projection_dim=24, vision_config=CONFIG)))
    with torch.no_grad():
        theirs.concept_embeds_weights.add_(threshold)
        theirs.special_care_embeds_weights.add_(threshold)
    theirs.save_pretrained(tmp_path)
    ours = lockstep.StableDiffusionSafetyChecker.from_pretrained(tmp_path)
    images = torch.rand(6, 3, 4, 4)
    got, flags = ours(clip_input=pixels(6), images=images.clone())
    wanted, their_flags = theirs(clip_input=pixels(6), images=images.clone())
    assert flags == their_flags
    assert torch.equal(got, wanted)
    ours.save_pretrained(tmp_path / "again")
    assert TheirChecker.from_pretrained(tmp_path / "again")(clip_input=pixels(6), images=images.clone())[1] == flags
