"""What a pipeline is made of: components as scripts hand them on, loading, letting go, refusals before a run."""

import inspect
import logging

import diffusers
import numpy as np
import pytest
import torch

import lockstep
from lockstep.errors import InputError, NotFoundError
from lockstep.notes import say_once
from pipelines import tiny
from pipelines.test_against_diffusers import picture

SMALL = {"num_inference_steps": 2, "height": 16, "width": 16, "output_type": "np"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("inventory")
    return {kind: tiny.save_folder(root / kind, kind) for kind in ("sd1", "xl")}


def loaded(name, folder, **options):
    pipe = getattr(lockstep, name).from_pretrained(folder, **options)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_components_are_what_another_pipeline_is_made_with(folders):
    text = loaded("StableDiffusionPipeline", folders["sd1"])
    assert {"guider", "controlnet"}.isdisjoint(text.components)
    edited = lockstep.StableDiffusionImg2ImgPipeline(**text.components)
    assert edited.unet is text.unet
    text.guider = lockstep.AdaptiveProjectedGuidance(guidance_scale=3.0)
    assert text.components["guider"] is text.guider
    assert lockstep.StableDiffusionImg2ImgPipeline(**text.components).guider is text.guider
    net = lockstep.ControlNetModel.from_unet(text.unet, conditioning_embedding_out_channels=(8, 16))
    text.controlnet = net
    assert text.components["controlnet"] is net
    assert "guider" in text.all_components


def test_a_component_that_a_pipeline_never_had_may_be_none(folders):
    pipe = loaded("StableDiffusionXLPipeline", folders["xl"])
    pipe.safety_checker = None
    assert pipe("a cat", **SMALL).images.shape == (1, 16, 16, 3)


def test_loaded_components_are_let_go_and_come_back(folders):
    pipe = loaded("StableDiffusionPipeline", folders["sd1"])
    before = pipe("a cat", **SMALL, seed=1).images
    pipe.unload_components(["unet", "vae"])
    assert pipe.components["unet"] is pipe.components["vae"] is None
    assert np.array_equal(pipe("a cat", **SMALL, seed=1).images, before)
    assert pipe.components["unet"] is not None
    pipe.unload_components()
    assert all(pipe.components[name] is None for name in pipe.pretrained_component_names if name in pipe._unloaded)
    pipe.unet = tiny.unet()
    with pytest.raises(InputError, match="was given"):
        pipe.unload_components("unet")
    assert pipe.config_component_names == ["guider"]
    assert pipe.default_call_parameters["num_inference_steps"] == 50
    assert pipe.get_component_spec("vae").subfolder == "vae"
    with pytest.raises(InputError, match="not both"):
        pipe.load_components("vae", workflow="text2image")


def test_what_is_loaded_is_told_where_it_is_asked_for(folders, caplog):
    with caplog.at_level(logging.INFO, "lockstep"):
        loaded("StableDiffusionPipeline", folders["sd1"])
    told = [record.message for record in caplog.records if record.message.startswith("Loaded")]
    assert len(told) == 5
    assert any("unet as UNet2DConditionModel" in line for line in told)


@pytest.mark.parametrize("kind", ["sd1", "xl"])
def test_prompts_are_encoded_without_the_other_models(kind, folders):
    name = tiny.CLASSES[kind]
    whole = loaded(name, folders[kind])
    parts = {part: model for part, model in whole.components.items() if "text" in part or "tokenizer" in part}
    alone = getattr(lockstep, name)(**parts)
    theirs = getattr(diffusers, name).from_pretrained(folders[kind])
    for guided in (True, False):
        call = {"prompt": ["a cat", "red dog"], "device": "cpu", "num_images_per_prompt": 2}
        call |= {"do_classifier_free_guidance": guided}
        ours, wanted = (pipe.encode_prompt(**call) for pipe in (alone, theirs))
        for one, other in zip(ours, wanted, strict=True):
            if guided or one is not None:
                assert torch.allclose(one, other, atol=1e-5)


def test_projections_are_fused_and_taken_apart(folders):
    pipe = loaded("StableDiffusionPipeline", folders["sd1"])
    before = pipe("a cat", **SMALL, seed=1).images
    pipe.fuse_qkv_projections()
    assert any(getattr(module, "fused_projections", False) for module in pipe.unet.modules())
    assert np.abs(pipe("a cat", **SMALL, seed=1).images - before).max() < 1e-4
    pipe.unfuse_qkv_projections()
    assert np.array_equal(pipe("a cat", **SMALL, seed=1).images, before)


def test_a_variant_that_is_not_there_is_told_as_scripts_know_it(folders):
    for library in (lockstep, diffusers):
        with pytest.raises(ValueError, match="You are trying to load the model files of the `variant=fp16`"):
            library.StableDiffusionPipeline.from_pretrained(folders["sd1"], variant="fp16")


def test_pickles_are_read_where_a_person_says_so(folders, tmp_path, monkeypatch):
    pipe = loaded("StableDiffusionPipeline", folders["sd1"])
    pipe.save_pretrained(tmp_path, safe_serialization=False)
    with pytest.raises(NotFoundError, match="LOCKSTEP_ALLOW_PICKLE"):
        loaded("StableDiffusionPipeline", tmp_path)
    before = pipe("a cat", **SMALL, seed=1).images
    for options in ({"allow_pickle": True}, {"use_safetensors": False}, {"allow_pickle": True, "load": False}):
        assert np.array_equal(
            loaded("StableDiffusionPipeline", tmp_path, **options)("a cat", **SMALL, seed=1).images, before
        )
    monkeypatch.setenv("LOCKSTEP_ALLOW_PICKLE", "1")
    assert loaded("StableDiffusionPipeline", tmp_path).unet is not None
    with pytest.raises(NotFoundError):
        loaded("StableDiffusionPipeline", tmp_path, use_safetensors=True)


def test_a_scheduler_that_steps_otherwise_is_refused_before_anything_runs(folders):
    pipe = loaded("StableDiffusionPipeline", folders["sd1"])
    pipe.scheduler = lockstep.CogVideoXDPMScheduler()
    with pytest.raises(InputError, match="old_pred_original_sample"):
        pipe.run("a cat", **SMALL)


def test_a_scheduler_that_adds_no_noise_starts_from_no_picture(folders):
    class Deaf(lockstep.EulerDiscreteScheduler):
        add_noise = lockstep.SchedulerMixin.add_noise

    pipe = loaded("StableDiffusionImg2ImgPipeline", folders["sd1"], scheduler=Deaf())
    with pytest.raises(InputError, match="adds no noise"):
        pipe.run("a cat", image=picture())


@pytest.mark.filterwarnings("ignore:__array_wrap__")  # theirs
@pytest.mark.parametrize(
    "name",
    ["HeunDiscreteScheduler", "KDPM2DiscreteScheduler", "KDPM2AncestralDiscreteScheduler", "DPMSolverSDEScheduler"],
)
def test_a_grid_of_fewer_trained_timesteps(name):
    ours, theirs = (getattr(library, name)() for library in (lockstep, diffusers))
    for scheduler in (ours, theirs):
        scheduler.set_timesteps(6, num_train_timesteps=500)
    assert torch.allclose(ours.timesteps.float(), theirs.timesteps.float())
    assert torch.allclose(ours.sigmas, theirs.sigmas)
    names = list(inspect.signature(theirs.set_timesteps).parameters)
    assert [one for one in inspect.signature(ours.set_timesteps).parameters if one in names] == names


@pytest.fixture(autouse=True)
def nothing_said_yet():
    say_once.cache_clear()


def test_a_modular_folder_of_the_reference_is_loaded_and_saved_as_one(folders, tmp_path):
    theirs = diffusers.ModularPipeline.from_pretrained(str(folders["xl"]))
    theirs.load_components(
        names=["unet", "vae", "text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2", "scheduler"]
    )
    theirs.save_pretrained(str(tmp_path / "theirs"), overwrite_modular_index=True)
    ours = lockstep.ModularPipeline.from_pretrained(tmp_path / "theirs")
    assert type(ours) is lockstep.StableDiffusionXLPipeline
    ours.set_progress_bar_config(disable=True)
    before = ours("a cat", **SMALL, seed=1).images
    ours.save_pretrained(tmp_path / "ours")
    again = lockstep.ModularPipeline.from_pretrained(tmp_path / "ours")
    assert (tmp_path / "ours" / "modular_model_index.json").exists()
    assert np.array_equal(again("a cat", **SMALL, seed=1).images, before)


def test_a_manifest_tells_what_it_records(folders):
    made = loaded("StableDiffusionPipeline", folders["sd1"])("a cat", **SMALL, seed=1)
    assert {"pipeline", "seed", "weights"} <= set(made.manifest) == set(made.manifest.keys())


def test_pictures_are_prepared_as_there(folders):
    ours = loaded("StableDiffusionPipeline", folders["sd1"])
    theirs = diffusers.StableDiffusionPipeline.from_pretrained(folders["sd1"])
    assert ours.vae_scale_factor == theirs.vae_scale_factor
    prepared = [pipe.image_processor.preprocess(picture()) for pipe in (ours, theirs)]
    assert torch.equal(*prepared)
    array = np.random.default_rng(0).random((1, 4, 4, 3))
    assert np.array_equal(
        lockstep.DiffusionPipeline.numpy_to_pil(array)[0], diffusers.DiffusionPipeline.numpy_to_pil(array)[0]
    )


def test_a_modular_pipeline_loads_what_and_as_it_is_told(folders):
    pipe = lockstep.ModularPipeline.from_pretrained(folders["xl"])
    assert isinstance(pipe, lockstep.ModularPipeline)
    assert all(pipe.components[name] is None for name in pipe.pretrained_component_names)
    pipe.load_components(["unet"], torch_dtype=torch.float16)
    assert pipe.unet.dtype is torch.float16
    assert pipe.components["vae"] is None
    pipe.load_components(workflow="text2image")
    assert pipe.components["vae"].dtype is torch.float16
    for kind in (lockstep.DiffusionPipeline, lockstep.StableDiffusionXLPipeline):
        assert issubclass(kind, lockstep.ModularPipeline)

    class Own(lockstep.ModularPipeline):
        """A child has no such powers."""

    assert not isinstance(pipe, Own)


def test_a_workflow_leaves_its_blocks_alone(folders):
    pipe = lockstep.ModularPipeline.from_pretrained(folders["xl"], workflow="text2image")
    assert "image" not in [param.name for param in pipe.inputs]
    again = pipe.blocks.init_pipeline(str(folders["xl"]))
    assert again.component_names == pipe.component_names
    with pytest.raises(InputError, match="Available workflows"):
        lockstep.ModularPipeline.from_pretrained(folders["xl"], workflow="text2video")


def test_a_scheduler_whose_step_hands_everything_on(folders):
    class Counting(lockstep.EulerAncestralDiscreteScheduler):
        def step(self, *args, **kwargs):
            seen.append(float(args[1]))
            return super().step(*args, **kwargs)

    seen = []
    pipe = loaded("StableDiffusionPipeline", folders["sd1"])
    wanted = []
    for kind in (lockstep.EulerAncestralDiscreteScheduler, Counting):
        pipe.scheduler = kind.from_config(pipe.scheduler.config)
        wanted.append(pipe("a cat", **SMALL, seed=1).images)
    assert np.array_equal(*wanted)  # the generator is among what it hands on
    assert len(seen) == 2
