"""What is Stable Diffusion's own; what every family gets from the mechanism is in test_guarantees.py."""

import inspect
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import lockstep
from helpers import assert_close
from lockstep import Checkpoint
from lockstep.errors import (
    InputError,
    LoadError,
    NotFoundError,
    UnknownNameError,
    UnsupportedError,
    WiringError,
)
from lockstep.pipelines.common import decode, denoise, start, timesteps, unet
from lockstep.pipelines.stable_diffusion import encoders
from pipelines import tiny

SMALL = {"height": 16, "width": 16, "num_inference_steps": 4}


@pytest.fixture
def pipe(folder):
    made = lockstep.StableDiffusionPipeline.from_pretrained(folder)
    made.set_progress_bar_config(disable=True)
    return made


@pytest.fixture
def counted(pipe):
    """The pipeline and a list that grows with every forward of one of its models."""
    calls = []
    for name in ("unet", "vae", "text_encoder"):
        getattr(pipe, name).register_forward_pre_hook(lambda *_, name=name: calls.append(name))
    return pipe, calls


def picture():
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"promt": "x"}, UnknownNameError, ["did you mean 'prompt'"]),
        ({}, InputError, ["prompt"]),
        ({"prompt": 3}, InputError, ["str", "int"]),
        ({"prompt": "x", "height": 63}, InputError, ["multiple of 2", "63"]),
        ({"prompt": "x", "num_inference_steps": 0}, InputError, ["at least 1", "0"]),
        ({"prompt": "x", "num_inference_steps": "many"}, InputError, ["num_inference_steps", "'many'"]),
        ({"prompt": "x", "strength": 0.5}, InputError, ["strength", "image"]),
        ({"prompt": "x", "output_type": "jpg"}, InputError, ["'pil'", "'jpg'"]),
        ({"prompt": ["x", "y"], "negative_prompt": ["z"]}, InputError, ["2", "1"]),
        ({"prompt": "x", "clip_skip": 9}, InputError, ["clip_skip", "3"]),
        ({"prompt": "x", "prompt_embeds": torch.zeros(1, 77, 16)}, InputError, ["not both"]),
        ({"prompt": "x", "timesteps": [3, 2], "sigmas": [1.0, 0.5]}, InputError, ["not both"]),
        ({"prompt": "x", "sigmas": [1.0, 0.5]}, InputError, ["sigmas", "DDIM"]),
        ({"prompt": "x", "control_image": Image.new("RGB", (16, 16))}, InputError, ["controlnet"]),
        ({"prompt": "x", "workflow": "text2video"}, UnknownNameError, ["text2image"]),
        ({"prompt": "x", "image": Image.new("RGB", (16, 16)), "strength": 0.01}, InputError, ["strength", "no step"]),
        ({"prompt": "x", "guidance_scale": float("inf")}, InputError, ["guidance_scale", "finite"]),
        ({"prompt": "x", "image": Image.new("RGB", (1, 1))}, InputError, ["1x1", "smaller"]),
        ({"prompt": "x", "image": np.full((16, 16, 3), 255.0)}, InputError, ["0 to 1", "255"]),
        ({"prompt": "x", "image": [Image.new("RGB", (16, 16))] * 2}, InputError, ["'image' has 2", "1 samples"]),
        ({"prompt": "x", "latents": torch.zeros(1, 4, 3, 3)}, InputError, ["[1, 4, 8, 8]", "[1, 4, 3, 3]"]),
        ({"prompt": ["x", "y"], "latents": torch.zeros(1, 4, 8, 8)}, InputError, ["1 rows", "2 samples"]),
        (
            {
                "prompt": "x",
                "image": Image.new("RGB", (16, 16)),
                "mask_image": Image.new("L", (16, 16)),
                "padding_mask_crop": 2,
            },
            InputError,
            ["all black"],
        ),
    ],
)
def test_mistakes_are_named_before_any_model_runs(counted, arguments, error, words):
    pipe, calls = counted
    with pytest.raises(error) as caught:
        pipe(**arguments)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert calls == []


def test_eta_with_a_scheduler_that_does_not_take_it(counted):
    pipe, calls = counted
    pipe.scheduler = lockstep.EulerDiscreteScheduler.from_config(pipe.scheduler.config)
    with pytest.raises(InputError, match="eta"):
        pipe("x", eta=0.5, **SMALL)
    assert calls == []


def test_the_signature_and_the_help_show_the_real_inputs(pipe):
    parameters = inspect.signature(pipe).parameters
    assert list(parameters)[0] == "prompt"
    assert {"guidance_scale", "num_inference_steps", "strength", "seed", "generator", "checkpoints"} <= set(parameters)
    assert parameters["num_inference_steps"].default == 50
    assert inspect.signature(pipe.__call__) == inspect.signature(pipe)
    assert "Number of denoising steps" in pipe.__doc__
    assert "Number of denoising steps" in type(pipe).__call__.__doc__
    schema = pipe.schema()
    assert schema["workflows"]["inpainting"] == ["image", "mask_image"]


class PlainLoop(lockstep.LoopSequentialPipelineBlocks):
    """Scale, predict, step."""

    block_classes = [denoise.ScaleModelInput, unet.PredictWithUNet, denoise.SchedulerStep]
    loop_over = "timesteps"


class HandMade(lockstep.SequentialPipelineBlocks):
    """Text to image, put together by hand."""

    roles = lockstep.StableDiffusionBlocks.roles
    block_classes = [
        *[unet.SetUNetGuidance, encoders.EncodePrompt, unet.EmbedGuidance, timesteps.SetTimesteps],
        *[start.PrepareLatents, PlainLoop, decode.Decode],
    ]
    pipeline_class_name = "StableDiffusionPipeline"


def test_classic_call_and_hand_made_blocks_are_bit_equal(pipe):
    by_hand = HandMade().init_pipeline(
        **{name: part for name, part in pipe.components.items() if part is not None and name != "controlnet"}
    )
    by_hand.set_progress_bar_config(disable=True)
    arguments = {"prompt": "a cat", "seed": 5, "output_type": "pt", **SMALL}
    assert torch.equal(pipe(**arguments).images, by_hand(**arguments).images)


def test_a_missing_producer_is_found_at_assembly(pipe):
    with pytest.raises(WiringError) as caught:
        pipe.remove_block("embed_guidance").remove_block("start")
    assert "latents" in str(caught.value) or "timesteps" in str(caught.value)


def test_a_text_to_image_load_leaves_out_what_it_does_not_need(folder):
    described = lockstep.DiffusionPipeline.from_pretrained(folder, load=False)
    assert isinstance(described, lockstep.StableDiffusionPipeline)
    assert "controlnet" not in described.blocks.get_workflow("text2image").component_names


@pytest.mark.parametrize(
    "scheduler",
    ["DDIMScheduler", "EulerDiscreteScheduler", "EulerAncestralDiscreteScheduler", "DPMSolverMultistepScheduler",
        "LCMScheduler",
     "DDPMScheduler", "UniPCMultistepScheduler", "HeunDiscreteScheduler", "PNDMScheduler", "TCDScheduler",
     "LMSDiscreteScheduler"],
)  # fmt: skip
def test_picture_k_of_a_batch_is_the_picture_of_its_seed_alone(pipe, scheduler):
    pipe.scheduler = getattr(lockstep, scheduler).from_config(pipe.scheduler.config)
    arguments = {"prompt": "a cat", "output_type": "latent", **SMALL}
    batch = pipe(**arguments, num_images_per_prompt=4, seed=10).images
    for k in (0, 3):
        alone = pipe(**arguments, seed=10 + k).images
        assert_close(batch[k : k + 1], alone, 1e-5, f"sample {k}")


def test_seeds_hold_for_pictures_and_masks_too(pipe):
    mask = Image.new("L", (16, 16), 255)
    for more in ({"image": picture(), "strength": 0.7}, {"image": picture(), "mask_image": mask, "strength": 0.8}):
        size = {} if "mask_image" not in more else {"height": 16, "width": 16}
        arguments = {"prompt": "a cat", "output_type": "latent", "num_inference_steps": 4, **more, **size}
        batch = pipe(**arguments, num_images_per_prompt=3, seed=10).images
        assert_close(batch[2:], pipe(**arguments, seed=12).images, 1e-5)


def test_an_unknown_checkpoint_lists_the_known_ones(pipe):
    with pytest.raises(UnknownNameError, match="preloop"):
        pipe("a cat", checkpoints={"prelop": Checkpoint(save=True)}, **SMALL)


def test_output_types(pipe):
    arguments = {"prompt": "a cat", "seed": 1, **SMALL}
    pil = pipe(**arguments).images[0]
    array = pipe(**arguments, output_type="np").images[0]
    tensor = pipe(**arguments, output_type="pt").images[0]
    assert np.array_equal(np.asarray(pil), (array * 255).round().astype(np.uint8))
    assert torch.allclose(torch.from_numpy(array).permute(2, 0, 1), tensor)
    assert pipe(**arguments, output_type="latent").images.shape == (1, 4, 8, 8)
    assert isinstance(pipe(**arguments, return_dict=False), tuple)


def test_a_long_prompt_is_read_whole(pipe):
    long = " ".join(["red cat"] * 120)
    embeds = pipe(long, output="prompt_embeds")
    assert embeds.shape[1] > 77
    assert embeds.shape[1] % 77 == 0
    other = pipe(long + " blue house", output="prompt_embeds")
    assert not torch.equal(embeds, other[:, : embeds.shape[1]])
    both = pipe(long, negative_prompt="dog", output=["prompt_embeds", "negative_prompt_embeds"])
    assert both["prompt_embeds"].shape == both["negative_prompt_embeds"].shape
    assert len(pipe(long, **SMALL).images) == 1


@pytest.mark.parametrize(
    "guider", ["AdaptiveProjectedGuidance", "ClassifierFreeZeroStarGuidance", "FrequencyDecoupledGuidance"]
)
def test_other_guiders_take_the_place_of_the_first(pipe, guider):
    plain = pipe("a cat", seed=1, output_type="latent", **SMALL).images
    pipe.guider = getattr(lockstep, guider)()
    assert not torch.allclose(pipe("a cat", seed=1, output_type="latent", **SMALL).images, plain)


def test_a_guider_without_a_scale_refuses_one(pipe):
    pipe.guider = lockstep.FrequencyDecoupledGuidance()
    with pytest.raises(InputError, match="guidance_scale"):
        pipe("a cat", guidance_scale=4.0, **SMALL)


def test_a_pipeline_with_the_tiny_autoencoder(pipe):
    pipe.vae = tiny.randomize(
        lockstep.AutoencoderTiny(encoder_block_out_channels=(8,) * 4, decoder_block_out_channels=(8,) * 4), 0
    )
    out = pipe("a cat", image=Image.new("RGB", (32, 32), "red"), strength=0.5, num_inference_steps=4, seed=0).images[0]
    assert out.size == (32, 32)


def test_ready_embeddings_need_no_text_encoder_and_latents_no_autoencoder(folder, pipe):
    wanted = pipe("a cat", seed=1, output_type="latent", **SMALL).images
    embeds = pipe("a cat", output=["prompt_embeds", "negative_prompt_embeds"])
    bare = {"text_encoder": None, "tokenizer": None, "vae": None, "safety_checker": None, "use_safetensors": True}
    small = lockstep.DiffusionPipeline.from_pretrained(folder, **bare)
    assert torch.equal(small(**embeds, seed=1, output_type="latent", num_inference_steps=4).images, wanted)
    with pytest.raises(InputError, match="pixels needs the autoencoder"):  # 16 pixels are how many latents?
        small(**embeds, output_type="latent", **SMALL)
    with pytest.raises(InputError, match="text_encoder"):
        small("a cat", output_type="latent")
    with pytest.raises(InputError, match="negative_prompt_embeds"):
        small(prompt_embeds=embeds["prompt_embeds"], output_type="latent")
    with pytest.raises(InputError, match="vae"):
        small(**embeds)


def test_hand_made_blocks_of_the_general_class_know_the_size_of_a_latent(folder, pipe):
    class Mine(lockstep.SequentialPipelineBlocks):
        """Text to image."""

        roles = HandMade.roles
        block_classes = HandMade.block_classes

    made = lockstep.DiffusionPipeline.from_pretrained(folder, blocks=Mine())
    assert torch.equal(
        made("a cat", seed=1, output_type="pt", **SMALL).images, pipe("a cat", seed=1, output_type="pt", **SMALL).images
    )


def test_saved_blocks_of_ones_own_are_asked_for(folder, tmp_path):
    class Mine(lockstep.SequentialPipelineBlocks):
        """Text to image."""

        roles = HandMade.roles
        block_classes = HandMade.block_classes

    lockstep.DiffusionPipeline.from_pretrained(folder, blocks=Mine()).save_pretrained(tmp_path)
    with pytest.raises(LoadError, match=r"blocks=Mine\(\)"):
        lockstep.DiffusionPipeline.from_pretrained(tmp_path)
    lockstep.DiffusionPipeline.from_pretrained(tmp_path, blocks=Mine())("a cat", **SMALL)


def test_a_mistyped_component_is_not_set(pipe):
    with pytest.raises(UnknownNameError, match="did you mean 'scheduler'"):
        pipe.schedular = pipe.scheduler
    pipe.my_note = "anything else may be kept on a pipeline"


def test_devices_are_checked(pipe):
    with pytest.raises(InputError, match="gpu"):
        pipe.to("gpu")


def test_previews_are_small_pictures(pipe):
    events = list(pipe.stream("a cat", preview=True, height=128, width=80, num_inference_steps=2))
    previews = [event.value for event in events if event.kind == "preview"]
    assert [shown[0].size for shown in previews] == [(40, 64)] * 2
    with torch.enable_grad():
        assert pipe.preview(torch.randn(1, 4, 8, 8))[0].size == (16, 16)


@pytest.mark.parametrize("more", [{}, {"image": Image.new("RGB", (16, 16))}])
def test_a_painting_model_wants_a_mask(tmp_path, more):
    painter = lockstep.DiffusionPipeline.from_pretrained(tiny.save_folder(tmp_path, in_channels=9))
    with pytest.raises(InputError, match="mask_image"):
        painter("a cat", **more)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"denoising_end": 0.0}, "denoising_end"),
        ({"denoising_end": 0.01}, "denoising_end"),
        ({"image": Image.new("RGB", (16, 16)), "denoising_start": 1.0}, "denoising_start"),
        ({"prompt_2": ["a", "b"]}, "prompt_2"),
        ({"original_size": (1, 2, 3)}, "original_size"),
    ],
)
def test_mistakes_with_xl_are_named_before_any_model_runs(xl_folder, arguments, words):
    pipe = lockstep.DiffusionPipeline.from_pretrained(xl_folder)
    for model in (pipe.unet, pipe.vae, pipe.text_encoder):
        model.register_forward_pre_hook(lambda *_: pytest.fail("a model ran"))
    with pytest.raises(InputError, match=words):
        pipe("a cat", num_inference_steps=5, **arguments)


@pytest.fixture(scope="module")
def xl_folder(tmp_path_factory):
    return tiny.save_folder(tmp_path_factory.mktemp("xl"), "xl")


@pytest.mark.parametrize("name", ["StableDiffusionInpaintPipeline", "StableDiffusionImg2ImgPipeline"])
def test_folders_under_the_fields_other_names(folder, tmp_path, name):
    shutil.copytree(folder, tmp_path / "named")
    index = json.loads((folder / "model_index.json").read_text())
    (tmp_path / "named" / "model_index.json").write_text(json.dumps({**index, "_class_name": name}))
    pipe = lockstep.DiffusionPipeline.from_pretrained(tmp_path / "named")
    assert type(pipe) is getattr(lockstep, name)
    pipe.save_pretrained(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "model_index.json").read_text())["_class_name"] == name


def test_several_controlnets_want_a_picture_and_numbers_each(folder):
    unet = lockstep.UNet2DConditionModel.from_pretrained(folder, subfolder="unet")
    nets = [lockstep.ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=(8, 16)) for _ in range(2)]
    pipe = lockstep.StableDiffusionPipeline.from_pretrained(folder, controlnet=nets)
    picture = Image.new("RGB", (16, 16))
    with pytest.raises(InputError, match="each of 2 ControlNets"):
        pipe("a cat", control_image=picture)
    with pytest.raises(InputError, match="controlnet_conditioning_scale"):
        pipe("a cat", control_image=[picture, picture], controlnet_conditioning_scale=[1.0])
    with pytest.raises(InputError, match="UNet2DConditionModel"):
        pipe.controlnet = [unet, unet]


def test_offload_tiling_and_slicing_are_harmless_here(pipe):
    arguments = {"prompt": "a cat", "seed": 1, "output_type": "pt", "num_images_per_prompt": 2, **SMALL}
    wanted = pipe(**arguments).images
    pipe.enable_model_cpu_offload()
    pipe.vae.enable_slicing()
    assert_close(pipe(**arguments).images, wanted, 1e-5)


def test_blocks_can_be_inserted_replaced_and_removed(pipe):
    seen = []

    class Watch(lockstep.ModularPipelineBlocks):
        """Looks at the latents."""

        inputs = [lockstep.InputParam.template("latents", required=True)]

        def __call__(self, components, state, i, t):
            seen.append(i)

    pipe.insert_block("denoise.watch", Watch, after="step")
    pipe("a cat", **SMALL)
    assert seen == [0, 1, 2, 3]
    pipe.remove_block("denoise.watch")
    pipe("a cat", **SMALL)
    assert len(seen) == 4


def test_a_safety_checker_that_is_named_and_not_there_can_be_left_away(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "sd")
    index = json.loads((tmp_path / "sd" / "model_index.json").read_text())
    index |= {
        "safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"],
        "feature_extractor": ["transformers", "CLIPImageProcessor"],
    }
    (tmp_path / "sd" / "model_index.json").write_text(json.dumps(index))
    with pytest.raises(NotFoundError, match="safety_checker"):
        lockstep.DiffusionPipeline.from_pretrained(tmp_path / "sd")
    without = {"safety_checker": None, "feature_extractor": None}
    assert len(lockstep.DiffusionPipeline.from_pretrained(tmp_path / "sd", **without)("a cat", **SMALL).images) == 1
    index["_class_name"] = "StableDifusionPipeline"
    (tmp_path / "sd" / "model_index.json").write_text(json.dumps(index))
    with pytest.raises(UnsupportedError, match="StableDiffusionPipeline"):
        lockstep.DiffusionPipeline.from_pretrained(tmp_path / "sd")


def test_lcm_guidance_embedding(folder, pipe):
    pipe.unet = tiny.unet(time_cond_proj_dim=8)
    calls = []
    pipe.unet.register_forward_pre_hook(lambda module, args, kwargs: calls.append(kwargs), with_kwargs=True)
    pipe("a cat", guidance_scale=3.0, **SMALL)
    assert len(calls) == 4
    assert calls[0]["timestep_cond"].shape == (1, 8)
    assert calls[0]["encoder_hidden_states"].shape[0] == 1
