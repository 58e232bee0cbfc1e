"""Editing with Qwen-Image beside diffusers on the same folders: embeddings of words and pictures, steps, results."""

import functools
import json

import diffusers
import numpy as np
import pytest
import torch
import transformers
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit, pipeline_qwenimage_edit_plus

import lockstep
from helpers import assert_close
from lockstep.errors import InputError
from pipelines import tiny_qwen_image
from pipelines.test_flow_against_diffusers import compare, picture

AREA, SEEN = 64 * 64, 32 * 96  # at which pictures are read and seen: a megapixel, as published, would take minutes
PROMPTS = ["make the cat red", "ein Hund, 一只狗"]
SMALL = {
    "QwenImageEditPipeline": {"max_area": AREA},
    "QwenImageEditPlusPipeline": {"max_area": AREA, "seen_area": SEEN},
}


@pytest.fixture(scope="module", autouse=True)
def small_pictures():
    """The reference says the number of pixels in its code."""
    whole, each = (one.calculate_dimensions for one in (pipeline_qwenimage_edit, pipeline_qwenimage_edit_plus))
    patch = pytest.MonkeyPatch()
    patch.setattr(pipeline_qwenimage_edit, "calculate_dimensions", lambda area, ratio: whole(AREA, ratio))
    sizes = {1024 * 1024: AREA, 384 * 384: SEEN}
    patch.setattr(pipeline_qwenimage_edit_plus, "calculate_dimensions", lambda area, ratio: each(sizes[area], ratio))
    yield
    patch.undo()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root, save = tmp_path_factory.mktemp("qwen_image_edit"), tiny_qwen_image.save_qwen_image_edit
    return {"edit": save(root / "edit"), "2511": save(root / "2511", zero_cond_t=True)}


class WithoutVideos(transformers.Qwen2VLProcessor):
    """Theirs without the part that wants torchvision."""

    def check_argument_for_proper_class(self, name, argument):
        return type(argument)


def their_processor(folder):
    pictures = transformers.Qwen2VLImageProcessorPil.from_pretrained(folder)
    return WithoutVideos(pictures, transformers.Qwen2Tokenizer.from_pretrained(folder), None)


@functools.cache
def load(folder, name="QwenImageEditPipeline"):
    ours = getattr(lockstep, name).from_pretrained(folder)
    theirs = getattr(diffusers, name).from_pretrained(folder, processor=their_processor(folder / "processor"))
    for side in (ours, theirs):
        side.set_progress_bar_config(disable=True)
    encoder = theirs.text_encoder
    forward, mark = encoder.forward, encoder.config.image_token_id

    def told(input_ids, **more):
        """With transformers 5 theirs forgets to say which tokens are a picture's (huggingface/diffusers#14194)."""
        return forward(input_ids=input_ids, mm_token_type_ids=(input_ids == mark).int(), **more)

    encoder.forward = told
    return ours, theirs


class AtArea:
    """Ours, told to read pictures at the same number of pixels."""

    def __init__(self, side):
        self.side = side

    def __call__(self, **arguments):
        return self.side(**arguments, **SMALL[type(self.side).__name__])


def compared(sides, arguments):
    compare(AtArea(sides[0]), sides[1], {"num_inference_steps": 3, **arguments})


@pytest.mark.parametrize("kind", ["edit", "2511"])
@pytest.mark.parametrize("name", list(SMALL))
@pytest.mark.parametrize("guidance", [{}, {"negative_prompt": " ", "true_cfg_scale": 3.0}])
def test_editing(folders, kind, name, guidance):
    compared(load(folders[kind], name), {"image": picture((30, 52)), "prompt": PROMPTS[0], **guidance})


def test_a_size_of_its_own_and_several_pictures(folders):
    sides = load(folders["edit"])
    given = {"height": 24, "width": 40, "num_images_per_prompt": 2}
    compared(sides, {"image": picture((40, 40)), "prompt": PROMPTS[0], **given})
    two = [picture((64, 64)), picture((64, 64), 1)]  # in lists theirs shows the language model pictures as they are
    compared(sides, {"image": two, "prompt": PROMPTS, "negative_prompt": ["", "blue"]})


def test_several_pictures_for_one_prompt(folders):
    sides = load(folders["2511"], "QwenImageEditPlusPipeline")
    three = [picture((32, 48)), picture((60, 20), 1), picture((40, 40), 2)]
    compared(sides, {"image": three, "prompt": PROMPTS[1], "negative_prompt": "", "num_images_per_prompt": 2})


def test_embeddings_see_the_picture(folders):
    ours, theirs = load(folders["edit"])
    shown = picture((64, 64))
    wanted, mask = theirs.encode_prompt(PROMPTS[0], image=[shown])
    got = ours(shown, PROMPTS[0], max_area=AREA, output=["prompt_embeds"])["prompt_embeds"]
    assert mask is None
    assert_close(got, wanted, 1e-5)
    assert_close(ours.encode_prompt(PROMPTS[0], shown, max_area=AREA)[0], wanted, 1e-5)
    other = ours(picture((64, 64), 3), PROMPTS[0], max_area=AREA, output=["prompt_embeds"])["prompt_embeds"]
    assert not torch.allclose(got, other)


def test_other_forms_of_a_picture(folders):
    ours, _ = load(folders["edit"])
    shown, more = picture((64, 64)), {"max_area": AREA, "num_inference_steps": 2, "seed": 1, "output_type": "latent"}
    wanted = ours(shown, PROMPTS[0], **more).images
    pixels = np.asarray(shown, np.float32) / 255
    assert_close(ours(pixels, PROMPTS[0], **more).images, wanted, 1e-5)
    assert_close(ours(torch.from_numpy(pixels).permute(2, 0, 1), PROMPTS[0], **more).images, wanted, 1e-5)


def test_a_saved_processor_is_read_by_both(folders, tmp_path):
    ours, theirs = load(folders["edit"])
    ours.save_pretrained(tmp_path)
    again = lockstep.DiffusionPipeline.from_pretrained(tmp_path)
    assert type(again) is lockstep.QwenImageEditPipeline
    newer = tmp_path / "newer"
    ours.processor.tokenizer.save_pretrained(newer)
    said = {"image_processor": theirs.processor.image_processor.to_dict(), "processor_class": "Qwen2VLProcessor"}
    (newer / "processor_config.json").write_text(json.dumps(said))
    processors = ours.processor, again.processor, lockstep.Qwen2VLProcessor.from_pretrained(newer)
    there, shown = their_processor(tmp_path / "processor"), picture((30, 52))
    wanted = there(text=["a<|image_pad|>b"], images=[shown], return_tensors="pt")
    for processor in processors:
        ids, seen = processor("a<|image_pad|>b", [shown])
        assert ids == wanted["input_ids"][0].tolist()
        assert torch.equal(seen.image_grid_thw, wanted["image_grid_thw"])
        assert_close(seen.pixel_values, wanted["pixel_values"], 1e-6)


SETTINGS = [{}, {"min_pixels": 3136, "max_pixels": 12845056}, {"size": {"longest_edge": 9000, "shortest_edge": 900}}]


@pytest.mark.parametrize("size", [(28, 28), (100, 37), (300, 200), (9, 1500), (5, 4)])
def test_pictures_as_the_tower_reads_them(size):
    for settings in SETTINGS:
        ours, theirs = lockstep.Qwen2VLImageProcessor(**settings), transformers.Qwen2VLImageProcessorPil(**settings)
        got, wanted = ours(picture(size)), theirs([picture(size)], return_tensors="pt")
        assert torch.equal(got.image_grid_thw, wanted["image_grid_thw"])
        assert_close(got.pixel_values, wanted["pixel_values"], 1e-6)


def test_what_does_not_fit_is_refused_before_anything_runs(folders):
    ours = lockstep.QwenImageEditPipeline.from_pretrained(folders["edit"])
    for name in ours.model_names:
        getattr(ours, name).register_forward_pre_hook(lambda *_: pytest.fail("a model ran"))
    for arguments, word in (
        ({}, "image"),
        ({"image": picture(), "height": 20}, "multiple of 8"),
        ({"image": "cat.png"}, "image"),
        ({"image": picture(), "max_area": 10}, "max_area"),
    ):
        with pytest.raises(InputError, match=word):
            ours(prompt="cat", **arguments)
    with pytest.raises(InputError, match="200 times"):
        lockstep.Qwen2VLImageProcessor()(picture((2, 500)))
    with pytest.raises(InputError, match="PIL"):
        lockstep.Qwen2VLImageProcessor()([torch.zeros(3, 8, 8)])
