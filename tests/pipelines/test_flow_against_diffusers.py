"""Flux and Stable Diffusion 3 beside diffusers on the same folders: embeddings, first latents, every step, pictures."""

import functools

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

import lockstep
from helpers import assert_close, relative_l2
from lockstep.errors import InputError
from lockstep.models.modeling import current_cache_context
from lockstep.schedulers import exchanged
from pipelines import tiny_flow

pytestmark = pytest.mark.filterwarnings("ignore:.*FluxPosEmbed.*:FutureWarning")  # theirs uses what it deprecates
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
    flux = {kind: tiny_flow.save_flux(root / kind, kind) for kind in ("dev", "schnell", "fill", "kontext")}
    sd3 = {kind: tiny_flow.save_sd3(root / kind, kind) for kind in tiny_flow.SD3_KINDS}
    short = {"tokenizer_3": None, "text_encoder_3": None}
    dynamic = lockstep.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
    return {
        **flux,
        **sd3,
        "without_t5": tiny_flow.save_sd3(root / "without_t5", **short),
        "dynamic": tiny_flow.save_sd3(root / "dynamic", scheduler=dynamic),
    }


@functools.cache
def load(folder, name):
    """Our pipeline and theirs, by one published name."""
    ours = getattr(lockstep, name).from_pretrained(folder)
    without = {"text_encoder_3": None, "tokenizer_3": None} if folder.name == "without_t5" else {}
    theirs = getattr(diffusers, name).from_pretrained(folder, **without)
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


@pytest.mark.slow
def test_flux_kontext_sizes_of_the_training(folders):
    ours, _ = load(folders["kontext"], "FluxKontextPipeline")
    stop = {"output": ["reference_latents", "reference_size", "height", "width"]}
    made = ours(prompt="red", image=picture((32, 64)), height=16, width=32, max_area=2048, **stop)
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


def test_a_callback_is_told_the_scale_that_the_model_was_taught(folders):
    seen = []
    for side in load(folders["dev"], "FluxPipeline"):
        arguments = {**arguments_for((16, 16), 1), **TRUE_GUIDANCE["true"]}
        side(
            **arguments,
            callback_on_step_end=lambda pipe, *_: seen.append((pipe.guidance_scale, pipe.num_timesteps)) or {},
        )
    assert seen == [(2.0, 4)] * 8


def test_flux_painting_in_a_crop(folders):
    ours, theirs = load(folders["dev"], "FluxInpaintPipeline")
    large, hole = picture().resize((40, 40)), mask().resize((40, 40))
    arguments = {"image": large, "mask_image": hole, "padding_mask_crop": 2, **arguments_for((16, 16), 1)}
    got, wanted = (side(**arguments, generator=torch.Generator().manual_seed(1)).images[0] for side in (ours, theirs))
    assert got.size == wanted.size == (40, 40)
    assert np.abs(np.asarray(got, int) - np.asarray(wanted, int)).max() <= 1


GUIDED = {"guided": {"guidance_scale": 5.0, "negative_prompt": "blue"}, "plain": {"guidance_scale": 1.0}}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("guidance", list(GUIDED))
@pytest.mark.parametrize("kind", [*tiny_flow.SD3_KINDS, "without_t5", "dynamic"])
def test_sd3_text_to_image(folders, kind, guidance, size, batch):
    ours, theirs = load(folders[kind], "StableDiffusion3Pipeline")
    compare(ours, theirs, arguments_for(SIZES[size], batch, **negative_for(GUIDED[guidance], batch)))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("size", "strength"), [("square", 0.6), ("odd", 0.7), ("odd", 1.0)])
@pytest.mark.parametrize("name", ["StableDiffusion3Img2ImgPipeline", "StableDiffusion3InpaintPipeline"])
def test_sd3_from_pictures(folders, name, size, strength, batch):
    ours, theirs = load(folders["sd35_medium"], name)
    guidance = negative_for(GUIDED["guided" if batch == 2 else "plain"], batch)
    arguments = arguments_for(SIZES[size], batch, strength=strength, **guidance)
    arguments["image"] = [picture(SIZES[size], k) for k in range(batch)] if batch > 1 else picture()
    if name == "StableDiffusion3InpaintPipeline":
        arguments["mask_image"] = [mask(SIZES[size])] * batch if batch > 1 else mask()
        theirs.vae.decode = tiny_flow.shifted(theirs.vae)
    compare(ours, theirs, arguments)


@pytest.mark.parametrize("steps", [7, 12])
def test_sd3_leaves_out_layers(folders, steps):
    ours, theirs = load(folders["sd35_medium"], "StableDiffusion3Pipeline")
    skip = {"skip_guidance_layers": [0, 1], "skip_layer_guidance_scale": 2.0, "skip_layer_guidance_stop": 0.5}
    arguments = {**arguments_for((16, 16), 2), "num_inference_steps": steps, "guidance_scale": 4.0}
    compare(ours, theirs, {**arguments, **skip})
    with pytest.raises(InputError, match="0 to 2"):
        ours(**arguments, skip_guidance_layers=[3])
    with pytest.raises(InputError, match="guidance_scale"):
        ours(**{**arguments, "guidance_scale": 1.0}, skip_guidance_layers=[1])


def test_sd3_many_arguments(folders):
    ours, theirs = load(folders["sd35_medium"], "StableDiffusion3Pipeline")
    arguments = arguments_for((24, 40), 2, num_images_per_prompt=2, max_sequence_length=12, clip_skip=1)
    arguments |= {"prompt_2": ["house", "dog"], "prompt_3": ["cat", "red"], "negative_prompt": ["blue", "red"]}
    arguments |= {"negative_prompt_2": ["big", "small"], "negative_prompt_3": ["noise", "3d"], "guidance_scale": 3.0}
    compare(ours, theirs, arguments)
    compare(ours, theirs, arguments_for((24, 40), 1, sigmas=[1.0, 0.7, 0.2]) | {"num_inference_steps": 3})
    wanted = theirs.encode_prompt(PROMPTS, None, None, num_images_per_prompt=2, negative_prompt=["", "blue"])
    mine = ours.encode_prompt(PROMPTS, None, None, num_images_per_prompt=2, negative_prompt=["", "blue"])
    for got, other in zip(mine, wanted, strict=True):
        assert_close(got, other)
    names = ("prompt_embeds", "negative_prompt_embeds", "pooled_prompt_embeds", "negative_pooled_prompt_embeds")
    ready = dict(zip(names, wanted, strict=True))
    compare(ours, theirs, {"height": 24, "width": 40, "num_inference_steps": 3, **ready})
    ours, theirs = load(folders["dynamic"], "StableDiffusion3Pipeline")
    compare(ours, theirs, arguments_for((24, 40), 1, mu=1.4))


@pytest.mark.parametrize("left", ["text_encoder", "text_encoder_2", "text_encoder_3"])
def test_sd3_does_without_all_encoders_but_one(folders, left):
    whole, _ = load(folders["sd35_medium"], "StableDiffusion3Pipeline")
    names = [f"{kind}{ending}" for kind in ("tokenizer", "text_encoder") for ending in ("", "_2", "_3")]
    kept = (left, left.replace("text_encoder", "tokenizer"))
    alone = lockstep.StableDiffusion3Pipeline.from_pretrained(
        folders["sd35_medium"], **{name: None for name in names if name not in kept}
    )
    got = alone(PROMPTS, height=16, width=16, num_inference_steps=1, output=["prompt_embeds", "pooled_prompt_embeds"])
    wanted = whole(
        PROMPTS, height=16, width=16, num_inference_steps=1, output=["prompt_embeds", "pooled_prompt_embeds"]
    )
    parts = {
        "text_encoder": (slice(0, 77), slice(0, 16), slice(0, 16)),
        "text_encoder_2": (slice(0, 77), slice(16, 32), slice(16, 32)),
        "text_encoder_3": (slice(77, None), slice(None), slice(0, 0)),
    }
    rows, columns, pooled = parts[left]
    assert got["prompt_embeds"].shape == wanted["prompt_embeds"].shape
    assert_close(got["prompt_embeds"][:, rows, columns], wanted["prompt_embeds"][:, rows, columns])
    got["prompt_embeds"][:, rows, columns] = 0
    assert not got["prompt_embeds"].any()
    assert torch.equal(got["pooled_prompt_embeds"][:, pooled], wanted["pooled_prompt_embeds"][:, pooled])
    assert got["pooled_prompt_embeds"].shape == wanted["pooled_prompt_embeds"].shape
    with pytest.raises(InputError, match="at most"):
        alone("cat", height=128, width=16)


FLOW = {"use_flow_sigmas": True, "prediction_type": "flow_prediction"}
SOLVERS = {"dpm": "DPMSolverMultistepScheduler", "unipc": "UniPCMultistepScheduler"}


@pytest.mark.parametrize(
    ("kind", "name", "solver"),
    [
        *[("dev", "FluxPipeline", solver) for solver in SOLVERS],
        ("schnell", "FluxPipeline", "unipc"),  # theirs refuses a static shift in DPM-Solver
        *[(kind, "StableDiffusion3Pipeline", solver) for kind in ("sd3", "dynamic") for solver in SOLVERS],
    ],
)
def test_solvers_take_the_folders_own_shift(folders, kind, name, solver):
    """`exchanged` alone; theirs has to be told in three further arguments."""
    ours, theirs = (type(side)(**side.components) for side in load(folders[kind], name))
    scheduler, shift = SOLVERS[solver], {"flow_shift": ours.scheduler.config.shift}
    ours.scheduler = exchanged(ours.scheduler, getattr(lockstep, scheduler))
    theirs.scheduler = getattr(diffusers, scheduler).from_config(theirs.scheduler.config, **FLOW, **shift)
    for side in (ours, theirs):
        side.set_progress_bar_config(disable=True)
    compare(ours, theirs, {**arguments_for((24, 40), 1), "num_inference_steps": 6})


STEPS = {  # twice as many steps, and how much nearer they lead at least: of the first order 2, of the second 4
    "EulerDiscreteScheduler": ((15, 30), 1.8),
    "HeunDiscreteScheduler": ((10, 20), 3.6),
    "DPMSolverMultistepScheduler": ((10, 20), 2.4),
    "DPMSolverSinglestepScheduler": ((10, 20), 2.4),
    "UniPCMultistepScheduler": ((10, 20), 2.4),
}


@pytest.mark.parametrize(
    "kind", ["dev", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("schnell", "sd3", "dynamic"))]
)
def test_every_sampler_goes_to_the_same_picture_at_the_pace_of_its_order(folders, kind):
    """All of them solve one equation: a wrong sign, shift or scale would lead elsewhere, or more slowly."""
    name = "FluxPipeline" if kind in ("dev", "schnell") else "StableDiffusion3Pipeline"
    ours = getattr(lockstep, name).from_pretrained(folders[kind])
    ours.set_progress_bar_config(disable=True)
    with torch.no_grad():  # random weights would make a wild function of the time, which no solver follows in 20 steps
        ours.transformer.time_text_embed.timestep_embedder.linear_2.weight.zero_()
    own = ours.scheduler
    arguments = {**arguments_for((16, 16), 1), "guidance_scale": 1.0, "output_type": "latent", "seed": 3}

    def made(method, steps):
        ours.scheduler = exchanged(own, getattr(lockstep, method))
        return ours(**{**arguments, "num_inference_steps": steps}).images

    wanted = made("HeunDiscreteScheduler", 60)
    for method, (counts, gain) in STEPS.items():
        few, many = (float(relative_l2(made(method, count), wanted)) for count in counts)
        assert many < 0.015, f"{method}: {many:.2g}"
        assert few >= gain * many, f"{method}: {few:.2g}, then {many:.2g}"
    ours.scheduler = exchanged(own, lockstep.LCMScheduler)
    assert ours(**arguments).images.isfinite().all()


LAYERS = {
    "skip": ("SkipLayerGuidance", {"skip_layer_guidance_layers": [0], "skip_layer_guidance_stop": 1.0}),
    "perturbed": ("PerturbedAttentionGuidance", {"perturbed_guidance_layers": [1], "perturbed_guidance_stop": 1.0}),
    "smoothed": ("SmoothedEnergyGuidance", {"seg_guidance_layers": [0]}),
    "zero": ("ClassifierFreeZeroStarGuidance", {}),
    "projected": ("AdaptiveProjectedGuidance", {}),
    "magnitude": ("MagnitudeAwareGuidance", {}),
}


@pytest.mark.parametrize("guider", list(LAYERS))
@pytest.mark.parametrize("kind", ["dev", "sd35_medium"])
def test_guiders_reach_into_transformers(folders, kind, guider):
    name = "FluxPipeline" if kind == "dev" else "StableDiffusion3Pipeline"
    loaded, _ = load(folders[kind], name)
    ours = type(loaded)(**loaded.components)
    ours.set_progress_bar_config(disable=True)
    plain = ours(**arguments_for((16, 16), 1), output_type="latent", seed=1).images
    made, settings = LAYERS[guider]
    ours.guider = getattr(lockstep, made)(**settings)
    seen = []
    model = ours.transformer
    block = model.transformer_blocks[0]
    handle = block.register_forward_hook(lambda *_: seen.append(current_cache_context()))
    guided = ours(**arguments_for((16, 16), 1), output_type="latent", seed=1).images
    handle.remove()
    assert guided.isfinite().all()
    assert not torch.allclose(guided, plain)
    branches = {part for name in seen for part in name.split("+")}
    assert {"pred_cond", "pred_uncond"} <= branches  # each branch has a name by which caches are kept apart
    if "layers" in str(settings):
        assert len(branches) == 3
        wrong = {key: [7] if key.endswith("layers") else value for key, value in settings.items()}
        ours.guider = getattr(lockstep, made)(**wrong)
        block.register_forward_pre_hook(lambda *_: pytest.fail("a model ran")).remove
        with pytest.raises(InputError, match="layers 0 to"):
            ours(**arguments_for((16, 16), 1))
        block._forward_pre_hooks.clear()


def test_a_skipped_block_lets_text_and_picture_pass(folders):
    """Theirs hands them over in the wrong order for Flux; the model's own argument says what is right."""
    ours, theirs = load(folders["sd35_medium"], "StableDiffusion3Pipeline")
    steps = {**arguments_for((16, 16), 1), "num_inference_steps": 4, "guidance_scale": 4.0}
    interval = {"skip_layer_guidance_start": 0.0, "skip_layer_guidance_stop": 1.0}
    wanted = theirs(
        **steps,
        **interval,
        skip_guidance_layers=[0, 1],
        output_type="latent",
        generator=torch.Generator().manual_seed(1),
    ).images
    guided = type(ours)(**ours.components)
    guided.set_progress_bar_config(disable=True)
    guided.guider = lockstep.SkipLayerGuidance(4.0, skip_layer_guidance_layers=[0, 1], **interval)
    got = guided(**steps, output_type="latent", generator=torch.Generator().manual_seed(1)).images
    assert_close(got, wanted, 1e-5)
    flux, _ = load(folders["dev"], "FluxPipeline")
    model, seen = flux.transformer, []
    skipping = lockstep.SkipLayerGuidance(1.0, skip_layer_guidance_layers=[1], skip_layer_guidance_stop=1.0)
    handle = model.single_transformer_blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[:2]))
    before = model.transformer_blocks[1].register_forward_pre_hook(lambda _, args: seen.append(args[:2]))
    flux.guider, kept = skipping, flux.guider
    flux(**arguments_for((16, 16), 1), output_type="latent", seed=1)
    flux.guider = kept
    handle.remove()
    before.remove()
    pairs = list(zip(seen[::2], seen[1::2], strict=True))
    passed = [all(torch.equal(one, other) for one, other in zip(*pair, strict=True)) for pair in pairs]
    assert any(passed)
    assert not all(passed)


STEERED = {
    "text2image": "FluxControlNet",
    "image2image": "FluxControlNetImg2Img",
    "inpainting": "FluxControlNetInpaint",
}


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    root = tmp_path_factory.mktemp("nets")
    made = {"one": tiny_flow.flux_net(1), "union": tiny_flow.flux_net(3, num_mode=3)}
    for name, net in made.items():
        net.save_pretrained(root / name)
    return root


def with_nets(folders, nets, task, names):
    """Both sides with the same ControlNets."""
    found = []
    for library in (lockstep, diffusers):
        loaded = [library.FluxControlNetModel.from_pretrained(nets / name) for name in names]
        kind = getattr(library, f"{STEERED[task]}Pipeline")
        held = loaded[0] if len(loaded) == 1 else library.FluxMultiControlNetModel(loaded)
        pipe = kind.from_pretrained(folders["dev"], controlnet=held)
        pipe.set_progress_bar_config(disable=True)
        found.append(pipe)
    return found


# theirs fails with several nets, and with a union and a batch, where a picture is given to start from
CONTROLLED = [
    *[(task, ("one",), batch) for task in STEERED for batch in (1, 2)],
    *[(task, ("union",), 1) for task in STEERED],
    *[("text2image", names, 2) for names in (("union",), ("one", "one"))],
]


@pytest.mark.parametrize(("task", "names", "batch"), CONTROLLED)
def test_flux_controlnets(folders, nets, task, names, batch):
    ours, theirs = with_nets(folders, nets, task, names)
    size = (24, 40) if batch == 1 else (16, 16)
    arguments = arguments_for(size, batch, guidance_scale=4.0, control_guidance_end=0.8)
    control = picture(size, 9)
    several = len(names) > 1
    arguments["control_image"] = [control, picture(size, 8)] if several else control
    arguments["controlnet_conditioning_scale"] = [0.5, 0.9] if several else 0.6
    if names == ("union",):
        arguments["control_mode"] = 2
    if task == "text2image":
        arguments |= negative_for({"negative_prompt": "blue", "true_cfg_scale": 2.0}, batch)
    else:
        arguments |= {"image": picture(size), "strength": 0.8}
    if task == "inpainting":
        arguments["mask_image"] = mask(size)
    compare(ours, theirs, arguments)


def test_flux_controlnets_are_checked_before_anything_runs(folders, nets):
    ours = lockstep.FluxPipeline.from_pretrained(folders["dev"])
    with pytest.raises(InputError, match="needs a ControlNet"):
        ours("cat", control_image=picture())
    ours.controlnet = lockstep.FluxControlNetModel.from_pretrained(nets / "union")
    for name in ours.model_names:
        getattr(ours, name).register_forward_pre_hook(lambda *_: pytest.fail("a model ran"))
    with pytest.raises(InputError, match="0 to 2"):
        ours("cat", control_image=picture())
    with pytest.raises(InputError, match="has to be before"):
        ours("cat", control_image=picture(), control_mode=1, control_guidance_start=0.9, control_guidance_end=0.2)


SD3_NETS = {
    "plain": {},
    "told the pooled text": {"force_zeros_for_pooled_projection": False},
    "3.5 large": {
        "joint_attention_dim": None,
        "use_pos_embed": False,
        "force_zeros_for_pooled_projection": False,
        "pos_embed_type": None,
    },
}


@pytest.mark.parametrize(
    ("names", "batch"), [(("plain",), 1), (("told the pooled text",), 2), (("3.5 large",), 1), (("plain", "plain"), 2)]
)
def test_sd3_controlnets(folders, tmp_path, names, batch):
    for index, name in enumerate(names):
        tiny_flow.sd3_net(index, **SD3_NETS[name]).save_pretrained(tmp_path / str(index))
    sides = []
    for library in (lockstep, diffusers):
        loaded = [library.SD3ControlNetModel.from_pretrained(tmp_path / str(index)) for index in range(len(names))]
        held = loaded[0] if len(loaded) == 1 else library.SD3MultiControlNetModel(loaded)
        pipe = library.StableDiffusion3ControlNetPipeline.from_pretrained(folders["sd3"], controlnet=held)
        pipe.set_progress_bar_config(disable=True)
        sides.append(pipe)
    ours, theirs = sides
    tiny_flow.likeliest(theirs.vae)
    size, several = (24, 40) if batch == 1 else (16, 16), len(names) > 1
    arguments = arguments_for(size, batch, guidance_scale=4.0, control_guidance_end=0.8)
    arguments |= negative_for({"negative_prompt": "blue"}, batch)
    arguments["control_image"] = [picture(size, 9), picture(size, 8)] if several else picture(size, 9)
    arguments["controlnet_conditioning_scale"] = [0.5, 0.9] if several else 0.6
    compare(ours, theirs, arguments)
    plain = lockstep.StableDiffusion3Pipeline.from_pretrained(folders["sd3"])
    with pytest.raises(InputError, match="needs a ControlNet"):
        plain("cat", control_image=picture())
