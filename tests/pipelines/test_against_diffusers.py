"""Whole pipelines beside diffusers on the same weights: embeddings, first latents, every timestep and step,
pictures."""

import copy
import functools
import inspect

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

import lockstep
from helpers import assert_close
from pipelines import tiny

PROMPTS = ["a photo of a cat", "red dog on a blue background, 3d style", "house"]
SCHEDULERS = {
    "ddim": ("DDIMScheduler", {}),
    "euler": ("EulerDiscreteScheduler", {}),
    "euler_a": ("EulerAncestralDiscreteScheduler", {}),
    "dpm": ("DPMSolverMultistepScheduler", {"use_karras_sigmas": True}),
    "unipc": ("UniPCMultistepScheduler", {}),
    "pndm": ("PNDMScheduler", {"skip_prk_steps": True}),
    "heun": ("HeunDiscreteScheduler", {}),
    "lcm": ("LCMScheduler", {}),
}
THEIR_CLASS = {
    ("sd", "text2image"): diffusers.StableDiffusionPipeline,
    ("sd", "image2image"): diffusers.StableDiffusionImg2ImgPipeline,
    ("sd", "inpainting"): diffusers.StableDiffusionInpaintPipeline,
    ("xl", "text2image"): diffusers.StableDiffusionXLPipeline,
    ("xl", "image2image"): diffusers.StableDiffusionXLImg2ImgPipeline,
    ("xl", "inpainting"): diffusers.StableDiffusionXLInpaintPipeline,
}


def picture(seed=0):
    pixels = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((16, 16), Image.Resampling.BICUBIC)


def mask():
    pixels = np.zeros((16, 16), np.uint8)
    pixels[4:12, 6:14] = 255
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    made = {kind: tiny.save_folder(root / kind, kind) for kind in tiny.CLASSES}
    return made | {"sd1_9": tiny.save_folder(root / "sd1_9", "sd1", in_channels=9)}


@functools.cache
def load_both(folder, their_class):
    ours, theirs = lockstep.DiffusionPipeline.from_pretrained(folder), their_class.from_pretrained(folder)
    for side in (ours, theirs):
        side.set_progress_bar_config(disable=True)
    return ours, theirs, ours.scheduler.config, theirs.scheduler.config


def both_pipelines(folder, kind, workflow, scheduler):
    """Our pipeline and theirs on one folder with one kind of scheduler."""
    name, options = SCHEDULERS[scheduler]
    ours, theirs, config, their_config = load_both(folder, THEIR_CLASS[("xl" if kind == "xl" else "sd", workflow)])
    ours.scheduler = getattr(lockstep, name).from_config(config, **options)
    theirs.scheduler = getattr(diffusers, name).from_config(their_config, **options)
    return ours, theirs


def watch_steps(record):
    """A step callback that both libraries take."""

    def callback(pipe, step, timestep, values):
        record.append((float(timestep), values["latents"].clone()))
        return {}

    return {"callback_on_step_end": callback, "callback_on_step_end_tensor_inputs": ["latents"]}


def compare(ours, theirs, arguments, *, tolerance=1e-5):
    steps, their_steps = [], []
    got = ours(**arguments, generator=torch.Generator().manual_seed(7), output_type="np", **watch_steps(steps)).images
    wanted = theirs(
        **arguments, generator=torch.Generator().manual_seed(7), output_type="np", **watch_steps(their_steps)
    ).images
    assert len(steps) == len(their_steps)
    for index, ((t, latents), (their_t, their_latents)) in enumerate(zip(steps, their_steps, strict=True)):
        assert t == pytest.approx(their_t, abs=1e-4), f"timesteps differ at step {index}"
        assert_close(latents, their_latents, tolerance, f"latents after step {index}")
    assert np.abs(got - wanted).max() <= 1 / 255, "pictures differ"


def arguments_for(kind, workflow, batch, guidance):
    size = {} if workflow == "image2image" else {"height": 16, "width": 16}
    arguments = {
        "prompt": PROMPTS[:batch] if batch > 1 else PROMPTS[0],
        "num_inference_steps": 4,
        "guidance_scale": guidance,
        **size,
    }
    if guidance > 1:
        arguments["negative_prompt"] = ["blue"] * batch if batch > 1 else "blue"
    if workflow != "text2image":
        arguments |= {"image": [picture(k) for k in range(batch)] if batch > 1 else picture(), "strength": 0.75}
    if workflow == "inpainting":
        arguments["mask_image"] = [mask()] * batch if batch > 1 else mask()
    return arguments


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("guidance", [1.0, 6.0])
@pytest.mark.parametrize("workflow", ["text2image", "image2image", "inpainting"])
@pytest.mark.parametrize("kind", ["sd1", "sd2", "xl"])
def test_workflows(folders, kind, workflow, guidance, batch):
    ours, theirs = both_pipelines(folders[kind], kind, workflow, "ddim")
    compare(ours, theirs, arguments_for(kind, workflow, batch, guidance))


@pytest.mark.parametrize("workflow", ["text2image", "image2image"])
@pytest.mark.parametrize("scheduler", [name for name in SCHEDULERS if name != "ddim"])
@pytest.mark.parametrize("kind", ["sd1", "sd2", "xl"])
def test_schedulers(folders, kind, scheduler, workflow):
    ours, theirs = both_pipelines(folders[kind], kind, workflow, scheduler)
    arguments = arguments_for(kind, workflow, 3 if scheduler == "euler_a" else 1, 6.0)
    compare(ours, theirs, {**arguments, "num_inference_steps": 6})


@pytest.mark.parametrize("strength", [1.0, 0.5])
def test_painting_with_nine_channels(folders, strength):
    ours, theirs = both_pipelines(folders["sd1_9"], "sd1", "inpainting", "euler")
    compare(ours, theirs, {**arguments_for("sd1", "inpainting", 1, 6.0), "strength": strength})


def test_painting_at_full_strength_and_with_a_crop(folders):
    ours, theirs = both_pipelines(folders["sd1"], "sd1", "inpainting", "ddim")
    arguments = {**arguments_for("sd1", "inpainting", 1, 6.0), "strength": 1.0}
    compare(ours, theirs, arguments)
    large, hole = picture().resize((32, 32)), mask().resize((32, 32))
    arguments |= {"image": large, "mask_image": hole, "padding_mask_crop": 2}
    seed = {"generator": torch.Generator().manual_seed(1)}
    got = ours(**arguments, **seed).images[0]
    wanted = theirs(**arguments, generator=torch.Generator().manual_seed(1)).images[0]
    assert got.size == wanted.size == (32, 32)
    assert np.abs(np.asarray(got, int) - np.asarray(wanted, int)).max() <= 1


@pytest.mark.parametrize("kind", ["sd1", "xl"])
def test_pictures_per_prompt_rescale_and_clip_skip(folders, kind):
    ours, theirs = both_pipelines(folders[kind], kind, "text2image", "ddim")
    arguments = arguments_for(kind, "text2image", 3, 6.0)
    skip = {"clip_skip": 1} if kind == "xl" else {}  # theirs fails for 1.x with this version of transformers
    compare(ours, theirs, {**arguments, "num_images_per_prompt": 2, "guidance_rescale": 0.6, **skip})


def test_clip_skip_takes_an_earlier_layer_and_the_final_norm(folders):
    ours, theirs = both_pipelines(folders["sd1"], "sd1", "text2image", "ddim")
    tokens = theirs.tokenizer(PROMPTS[0], padding="max_length", return_tensors="pt").input_ids
    with torch.no_grad():
        layers = theirs.text_encoder(tokens, output_hidden_states=True).hidden_states
        wanted = theirs.text_encoder.final_layer_norm(layers[-2])
    assert_close(ours(PROMPTS[0], clip_skip=1, output="prompt_embeds"), wanted)


def test_eta_and_custom_grids(folders):
    ours, theirs = both_pipelines(folders["sd1"], "sd1", "text2image", "ddim")
    compare(ours, theirs, {**arguments_for("sd1", "text2image", 1, 6.0), "eta": 0.7})
    ours, theirs = both_pipelines(folders["sd1"], "sd1", "text2image", "dpm")
    ours.scheduler = lockstep.DPMSolverMultistepScheduler.from_config(ours.scheduler.config, use_karras_sigmas=False)
    theirs.scheduler = diffusers.DPMSolverMultistepScheduler.from_config(
        theirs.scheduler.config, use_karras_sigmas=False
    )
    compare(ours, theirs, {**arguments_for("sd1", "text2image", 1, 6.0), "timesteps": [901, 700, 401, 100]})
    ours, theirs = both_pipelines(folders["sd1"], "sd1", "text2image", "euler")
    compare(ours, theirs, {**arguments_for("sd1", "text2image", 1, 6.0), "sigmas": [14.0, 5.0, 1.0, 0.2]})


def test_ready_embeddings(folders):
    ours, theirs = both_pipelines(folders["sd1"], "sd1", "text2image", "ddim")
    embeds, negative = theirs.encode_prompt(PROMPTS[:2], "cpu", 1, True, ["", "blue"])
    mine = ours(PROMPTS[:2], negative_prompt=["", "blue"], output=["prompt_embeds", "negative_prompt_embeds"])
    assert_close(mine["prompt_embeds"], embeds)
    assert_close(mine["negative_prompt_embeds"], negative)
    arguments = {
        "num_inference_steps": 3,
        "height": 16,
        "width": 16,
        "prompt_embeds": embeds,
        "negative_prompt_embeds": negative,
    }
    compare(ours, theirs, arguments)


def test_xl_sizes_and_two_prompts(folders):
    ours, theirs = both_pipelines(folders["xl"], "xl", "text2image", "euler")
    arguments = arguments_for("xl", "text2image", 1, 6.0)
    sizes = {"original_size": (64, 48), "crops_coords_top_left": (3, 5), "target_size": (32, 32)}
    negative = {
        "negative_original_size": (16, 16),
        "negative_target_size": (8, 8),
        "negative_crops_coords_top_left": (1, 2),
    }
    compare(ours, theirs, {**arguments, **sizes, **negative, "prompt_2": "green house", "negative_prompt_2": "noise"})
    arguments.pop("negative_prompt")
    compare(ours, theirs, arguments)


def test_xl_base_hands_over_to_a_refiner(folders):
    base, their_base = both_pipelines(folders["xl"], "xl", "text2image", "euler")
    arguments = {**arguments_for("xl", "text2image", 1, 6.0), "num_inference_steps": 8, "denoising_end": 0.6}
    compare(base, their_base, arguments)
    seeds = [torch.Generator().manual_seed(3) for _ in range(2)]
    latents = base(**arguments, generator=seeds[0], output_type="latent").images
    assert_close(latents, their_base(**arguments, generator=seeds[1], output_type="latent").images)
    rest = {"prompt": "a cat", "image": latents, "num_inference_steps": 8, "denoising_start": 0.6}
    for folder in (folders["xl"], folders["refiner"]):  # the same model goes on, or the refiner does
        ours, theirs = both_pipelines(folder, "xl", "image2image", "euler")
        compare(ours, theirs, {**rest, "guidance_scale": 4.0})


def test_xl_paints_on_from_what_another_model_began(folders):
    ours, theirs = both_pipelines(folders["xl"], "xl", "inpainting", "euler")
    arguments = {**arguments_for("xl", "inpainting", 1, 6.0), "num_inference_steps": 8}
    seeds = [torch.Generator().manual_seed(3) for _ in range(2)]
    begun = [
        pipe(**arguments, denoising_end=0.5, generator=seed, output_type="latent").images
        for pipe, seed in zip((ours, theirs), seeds, strict=True)
    ]
    assert_close(*begun)
    compare(ours, theirs, {**arguments, "image": begun[1], "denoising_start": 0.5})
    compare(ours, theirs, {**arguments, "image": begun[1][0], "denoising_start": 0.5})


@pytest.mark.parametrize("guidance", [{"guidance_scale": 1.0}, {"negative_prompt": "blue"}, {}])
def test_the_refiner_is_told_an_aesthetic_score(folders, guidance):
    ours, theirs = both_pipelines(folders["refiner"], "xl", "image2image", "euler")
    assert isinstance(ours, lockstep.StableDiffusionXLPipeline)
    scores = {"aesthetic_score": 7.0, "negative_aesthetic_score": 1.5}
    compare(ours, theirs, {"prompt": PROMPTS[:2], "image": picture(), "strength": 0.6, **scores, **guidance})


def test_a_saved_refiner_stays_one(folders, tmp_path):
    lockstep.DiffusionPipeline.from_pretrained(folders["refiner"]).save_pretrained(tmp_path)
    again = diffusers.DiffusionPipeline.from_pretrained(tmp_path)
    assert type(again).__name__ == "StableDiffusionXLImg2ImgPipeline"
    assert again.config.requires_aesthetics_score


THEIR_CONTROL = {
    ("sd1", "text2image"): diffusers.StableDiffusionControlNetPipeline,
    ("sd1", "image2image"): diffusers.StableDiffusionControlNetImg2ImgPipeline,
    ("sd1", "inpainting"): diffusers.StableDiffusionControlNetInpaintPipeline,
    ("xl", "text2image"): diffusers.StableDiffusionXLControlNetPipeline,
    ("xl", "image2image"): diffusers.StableDiffusionXLControlNetImg2ImgPipeline,
    ("xl", "inpainting"): diffusers.StableDiffusionXLControlNetInpaintPipeline,
}


@pytest.fixture(scope="module")
def controlled(folders, tmp_path_factory):
    """Folders of each kind with one ControlNet, and with two."""
    found, small = {}, {"conditioning_embedding_out_channels": (8, 16)}
    for kind in ("sd1", "xl"):
        unet = lockstep.UNet2DConditionModel.from_pretrained(folders[kind], subfolder="unet")
        nets = [tiny.randomize(lockstep.ControlNetModel.from_unet(unet, **small), seed) for seed in (9, 10)]
        for count, controlnet in ((1, nets[0]), (2, nets)):
            found[kind, count] = tmp_path_factory.mktemp(f"{kind}-control{count}")
            pipe = lockstep.DiffusionPipeline.from_pretrained(folders[kind], controlnet=controlnet)
            pipe.save_pretrained(found[kind, count])
    return found


def compare_controlled(folder, kind, workflow, arguments, pictures):
    ours, theirs, *_ = load_both(folder, THEIR_CONTROL[kind, workflow])
    plain = workflow == "text2image"
    steps, their_steps = [], []
    seeds = [torch.Generator().manual_seed(7) for _ in range(2)]
    ours(**arguments, control_image=pictures, generator=seeds[0], **watch_steps(steps))
    theirs(
        **arguments, **{"image" if plain else "control_image": pictures}, generator=seeds[1], **watch_steps(their_steps)
    )
    for index, ((_, latents), (_, wanted)) in enumerate(zip(steps, their_steps, strict=True)):
        assert_close(latents, wanted, 1e-5, f"latents after step {index}")


@pytest.mark.parametrize("guess", [False, True])
@pytest.mark.parametrize("guidance", [1.0, 5.0])
@pytest.mark.parametrize("kind", ["sd1", "xl"])
def test_controlnet(controlled, kind, guidance, guess):
    arguments = {"controlnet_conditioning_scale": 0.7, "guess_mode": guess, "control_guidance_end": 0.75}
    arguments |= arguments_for(kind, "text2image", 1, guidance)
    compare_controlled(controlled[kind, 1], kind, "text2image", arguments, picture(5))


@pytest.mark.parametrize("workflow", ["image2image", "inpainting"])
@pytest.mark.parametrize("kind", ["sd1", "xl"])
def test_controlnet_with_a_start_picture(controlled, kind, workflow):
    arguments = {**arguments_for(kind, workflow, 1, 5.0), "controlnet_conditioning_scale": 0.7}
    compare_controlled(controlled[kind, 1], kind, workflow, arguments, picture(5))


@pytest.mark.parametrize(("kind", "workflow"), THEIR_CONTROL)
def test_two_controlnets(controlled, kind, workflow):
    arguments = {"controlnet_conditioning_scale": [0.7, 0.3], "control_guidance_end": [0.5, 1.0]}
    arguments |= arguments_for(kind, workflow, 1, 5.0)
    compare_controlled(controlled[kind, 2], kind, workflow, arguments, [picture(5), picture(6)])


def test_the_control_picture_decides_on_the_size(controlled):
    arguments = {"prompt": "a cat", "num_inference_steps": 2}
    wide = picture(5).resize((32, 16))
    compare_controlled(controlled["sd1", 1], "sd1", "text2image", arguments, wide)
    ours, *_ = load_both(controlled["sd1", 1], THEIR_CONTROL["sd1", "text2image"])
    assert ours(**arguments, control_image=wide, image=picture()).images[0].size == (32, 16)


def test_what_lockstep_saves_diffusers_loads(folders, tmp_path):
    ours = lockstep.StableDiffusionPipeline.from_pretrained(folders["sd1"])
    ours.save_pretrained(tmp_path / "again")
    theirs = diffusers.StableDiffusionPipeline.from_pretrained(tmp_path / "again", safety_checker=None)
    ours.set_progress_bar_config(disable=True)
    theirs.set_progress_bar_config(disable=True)
    compare(ours, theirs, arguments_for("sd1", "text2image", 1, 6.0))


def test_scheduler_configs_keep_their_meaning(folders):
    ours, theirs = both_pipelines(folders["sd2"], "sd2", "text2image", "unipc")
    assert ours.scheduler.config.prediction_type == theirs.scheduler.config.prediction_type == "v_prediction"
    assert inspect.signature(ours).parameters
    assert copy.deepcopy(ours.scheduler.config) == ours.scheduler.config
