"""Components of diffusers and transformers in our pipelines, and ours in theirs: the same latents either way."""

import diffusers
import pytest
import torch
import transformers

import lockstep
from lockstep.errors import InputError
from pipelines import tiny

CALL = {"num_inference_steps": 3, "guidance_scale": 5.0, "height": 16, "width": 16, "output_type": "latent"}
PROMPT = "a red cat"


def start():
    return torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save_folder(tmp_path_factory.mktemp("sd1"))


@pytest.fixture(scope="module")
def theirs(folder):
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)
    pipe.set_progress_bar_config(disable=True)
    return pipe


@pytest.fixture
def ours(folder):
    pipe = lockstep.StableDiffusionPipeline.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_our_pipeline_takes_their_components_and_shares_the_weights(theirs, ours):
    factor = theirs.vae_scale_factor
    size = {"height": 8 * factor, "width": 8 * factor}
    wanted = theirs(PROMPT, latents=start(), **{**CALL, **size}).images
    parts = {name: getattr(theirs, name) for name in ("vae", "text_encoder", "tokenizer", "unet", "scheduler")}
    given = lockstep.StableDiffusionPipeline(**parts)
    given.set_progress_bar_config(disable=True)
    got = given(PROMPT, latents=start(), **{**CALL, **size}).images
    assert torch.linalg.norm(got - wanted) <= 1e-5 * torch.linalg.norm(wanted)
    for name, part in parts.items():
        setattr(ours, name, part)
        assert type(getattr(ours, name)).__module__.startswith("lockstep.")
    assert dict(ours.scheduler.config).items() >= {"beta_end": 0.012, "steps_offset": 1}.items()
    for name in ("vae", "text_encoder", "unet"):
        mine, other = ({p.data_ptr() for p in getattr(pipe, name).parameters()} for pipe in (ours, theirs))
        assert mine == other


def test_their_pipeline_takes_our_components(theirs, ours):
    factor = theirs.vae_scale_factor
    size = {"height": 8 * factor, "width": 8 * factor}
    wanted = theirs(PROMPT, latents=start(), **{**CALL, **size}).images
    parts = {name: getattr(ours, name) for name in ("vae", "text_encoder", "tokenizer", "unet", "scheduler")}
    mixed = diffusers.StableDiffusionPipeline(
        **parts, safety_checker=None, feature_extractor=None, requires_safety_checker=False
    )
    mixed.set_progress_bar_config(disable=True)
    got = mixed(PROMPT, latents=start(), **{**CALL, **size}).images
    assert torch.linalg.norm(got - wanted) <= 1e-5 * torch.linalg.norm(wanted)
    picture = mixed(PROMPT, latents=start(), **{**CALL, **size, "output_type": "np"}).images
    assert picture.shape == (1, 8 * factor, 8 * factor, 3)


def test_a_scheduler_of_theirs_keeps_its_options(theirs, ours):
    ours.scheduler = diffusers.DPMSolverMultistepScheduler.from_config(theirs.scheduler.config, use_karras_sigmas=True)
    assert isinstance(ours.scheduler, lockstep.DPMSolverMultistepScheduler)
    assert ours.scheduler.config.use_karras_sigmas is True


def test_what_cannot_be_taken_over_is_told_with_its_origin(ours):
    class Own(diffusers.DDIMScheduler):
        pass

    with pytest.raises(InputError, match=r"child of diffusers's DDIMScheduler"):
        ours.scheduler = Own()
    with pytest.raises(InputError, match=r"transformers\..*BertModel.*no class of that name"):
        ours.text_encoder = transformers.BertModel(
            transformers.BertConfig(hidden_size=8, num_attention_heads=1, num_hidden_layers=1, intermediate_size=8)
        )
    with pytest.raises(InputError, match=r"'unet' wants UNet2DConditionModel, got diffusers\..*AutoencoderTiny"):
        ours.unet = diffusers.AutoencoderTiny()


def test_a_reader_of_pictures_is_taken_over_by_its_files(ours):
    ours.feature_extractor = transformers.CLIPImageProcessorPil(size=30, crop_size=24)
    assert type(ours.feature_extractor).__module__.startswith("lockstep.")
    assert ours.feature_extractor.config.crop_size == {"height": 24, "width": 24}
