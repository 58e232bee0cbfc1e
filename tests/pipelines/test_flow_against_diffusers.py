"""Flux and Stable Diffusion 3 beside diffusers on the same folders: embeddings, first latents, every step, pictures."""

import functools

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

import lockstep
from helpers import assert_close
from pipelines import tiny_flow

PROMPTS = ["a photo of a cat", "red dog on a blue background, 3d style"]
SIZES = {"square": (16, 16), "odd": (24, 40)}


def picture(size=(16, 16), seed=0):
    pixels = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize(size[::-1], Image.Resampling.BICUBIC)


def mask(size=(16, 16)):
    pixels = np.zeros(size, np.uint8)
    pixels[size[0] // 4 : size[0] // 2 + 1, size[1] // 3 : -3] = 255
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("flow")
    return {kind: tiny_flow.save_flux(root / kind, kind) for kind in ("dev", "schnell", "fill", "kontext")}


@functools.cache
def load(folder, name):
    """Our pipeline and theirs, by one published name."""
    ours = getattr(lockstep, name).from_pretrained(folder)
    theirs = getattr(diffusers, name).from_pretrained(folder)
    for side in (ours, theirs):
        side.set_progress_bar_config(disable=True)
    return ours, theirs


def compare(ours, theirs, arguments, tolerance=1e-5):
    """Timesteps, sigmas, latents after each step, pictures; from one generator, then from one for each sample."""
    runs = []
    for side in (ours, theirs):
        steps = []

        def watch(pipe, step, timestep, values, steps=steps):
            steps.append((float(timestep), values["latents"].clone()))
            return {}

        made = side(
            **arguments,
            generator=torch.Generator().manual_seed(7),
            output_type="np",
            callback_on_step_end=watch,
            callback_on_step_end_tensor_inputs=["latents"],
        )
        runs.append((steps, made.images))
    (steps, pictures), (their_steps, their_pictures) = runs
    assert len(steps) == len(their_steps) > 0
    for index, ((t, latents), (their_t, their_latents)) in enumerate(zip(steps, their_steps, strict=True)):
        assert t == pytest.approx(their_t, rel=1e-6), f"timesteps differ at step {index}"
        assert_close(latents, their_latents, tolerance, f"latents after step {index}")
    assert pictures.shape == their_pictures.shape
    assert np.abs(pictures - their_pictures).max() <= 1 / 255, "pictures differ"


def arguments_for(size, batch, **more):
    prompts = PROMPTS[:batch] if batch > 1 else PROMPTS[0]
    return {"prompt": prompts, "height": size[0], "width": size[1], "num_inference_steps": 4, **more}


TRUE_GUIDANCE = {
    "distilled": {"guidance_scale": 4.0},
    "true": {"negative_prompt": "blue", "true_cfg_scale": 3.0, "guidance_scale": 2.0},
    "ignored": {"true_cfg_scale": 3.0},
}


def negative_for(guidance, batch):
    """Theirs takes one negative prompt for each prompt."""
    words = guidance.get("negative_prompt")
    return guidance if words is None or batch == 1 else {**guidance, "negative_prompt": [words] * batch}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("guidance", list(TRUE_GUIDANCE))
@pytest.mark.parametrize("kind", ["dev", "schnell"])
def test_flux_text_to_image(folders, kind, guidance, size, batch):
    ours, theirs = load(folders[kind], "FluxPipeline")
    compare(ours, theirs, arguments_for(SIZES[size], batch, **negative_for(TRUE_GUIDANCE[guidance], batch)))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("size", "strength"), [("square", 0.6), ("odd", 0.7), ("odd", 1.0), ("square", 0.3)])
@pytest.mark.parametrize("name", ["FluxImg2ImgPipeline", "FluxInpaintPipeline"])
def test_flux_from_pictures(folders, name, size, strength, batch):
    ours, theirs = load(folders["dev"], name)
    guidance = TRUE_GUIDANCE["true" if batch == 1 else "distilled"]
    arguments = arguments_for(SIZES[size], batch, strength=strength, **guidance)
    arguments["image"] = [picture(SIZES[size], k) for k in range(batch)] if batch > 1 else picture()
    if name == "FluxInpaintPipeline":
        arguments["mask_image"] = [mask(SIZES[size])] * batch if batch > 1 else mask()
    compare(ours, theirs, arguments)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("size", "strength"), [("square", 1.0), ("odd", 0.7)])
def test_flux_fill(folders, size, strength, batch):
    ours, theirs = load(folders["fill"], "FluxFillPipeline")
    assert type(lockstep.DiffusionPipeline.from_pretrained(folders["fill"], load=False)) is type(ours)
    arguments = arguments_for(SIZES[size], batch, strength=strength, guidance_scale=30.0)
    arguments |= {"image": picture(), "mask_image": mask()}
    compare(ours, theirs, arguments)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("guidance", ["distilled", "true"])
@pytest.mark.parametrize(
    "given",
    [{}, {"image": picture((24, 40)), "_auto_resize": False}, {"image": picture((36, 20)), "_auto_resize": False}],
)
def test_flux_kontext(folders, given, guidance, batch):
    ours, theirs = load(folders["kontext"], "FluxKontextPipeline")
    more = negative_for(TRUE_GUIDANCE[guidance], batch)
    compare(ours, theirs, arguments_for((24, 40), batch, max_area=24 * 40, **more, **given))


def test_flux_kontext_sizes_of_the_training(folders):
    ours, _ = load(folders["kontext"], "FluxKontextPipeline")
    stop = {"output": ["reference_latents", "reference_size", "height", "width"]}
    made = ours("red", image=picture((32, 64)), height=16, width=32, max_area=2048, **stop)
    assert (made["height"], made["width"]) == (32, 64)
    assert made["reference_size"] == (688 // 8, 1504 // 8) or made["reference_size"] == (720 // 8, 1456 // 8)


def test_flux_many_arguments(folders):
    ours, theirs = load(folders["dev"], "FluxPipeline")
    arguments = arguments_for((24, 40), 2, num_images_per_prompt=2, max_sequence_length=12, prompt_2=["house", "dog"])
    arguments |= {"negative_prompt": ["blue", "red"], "negative_prompt_2": ["big", "small"], "true_cfg_scale": 2.0}
    compare(ours, theirs, arguments)
    compare(ours, theirs, arguments_for((24, 40), 1, sigmas=[1.0, 0.7, 0.2]) | {"num_inference_steps": 3})
    embeds, pooled, places = theirs.encode_prompt(PROMPTS, num_images_per_prompt=2)
    mine = ours.encode_prompt(PROMPTS, num_images_per_prompt=2)
    for got, wanted in zip(mine, (embeds, pooled, places), strict=True):
        assert_close(got, wanted, 1e-5) if wanted.any() else None
        assert got.shape == wanted.shape
    noise = torch.randn(4, 15, 16, generator=torch.Generator().manual_seed(1))
    ready = {"prompt_embeds": embeds, "pooled_prompt_embeds": pooled, "latents": noise}
    compare(ours, theirs, {"height": 24, "width": 40, "num_inference_steps": 3, **ready})
    assert torch.equal(
        ours(**ready, height=24, width=40, num_inference_steps=1, output="img_ids")[:, 0], torch.zeros(15)
    )


def test_flux_painting_in_a_crop(folders):
    ours, theirs = load(folders["dev"], "FluxInpaintPipeline")
    large, hole = picture().resize((40, 40)), mask().resize((40, 40))
    arguments = {"image": large, "mask_image": hole, "padding_mask_crop": 2, **arguments_for((16, 16), 1)}
    got, wanted = (side(**arguments, generator=torch.Generator().manual_seed(1)).images[0] for side in (ours, theirs))
    assert got.size == wanted.size == (40, 40)
    assert np.abs(np.asarray(got, int) - np.asarray(wanted, int)).max() <= 1


def test_flux_defaults_are_the_published_ones(folders):
    import inspect

    for name in (
        "FluxPipeline",
        "FluxImg2ImgPipeline",
        "FluxInpaintPipeline",
        "FluxFillPipeline",
        "FluxKontextPipeline",
    ):
        ours = inspect.signature(getattr(lockstep, name).__call__).parameters
        theirs = inspect.signature(getattr(diffusers, name).__call__).parameters
        for argument in ("num_inference_steps", "guidance_scale", "strength", "max_sequence_length"):
            if argument in theirs:
                assert ours[argument].default == theirs[argument].default, (name, argument)
        ordered = [n for n in theirs if n in ours and n != "self"]
        positional = [n for n, p in ours.items() if p.kind is p.POSITIONAL_OR_KEYWORD and n != "self"]
        assert positional == ordered[: len(positional)], name
