"""The exported folder: standard files, half precision, and the same latents in diffusers."""

import json

import pytest
import torch

from helpers import relative_l2
from lockstep.embedded.training.autoencoder import train_autoencoder
from lockstep.embedded.training.diffusion import train_diffusion
from lockstep.embedded.training.export import export, in_half
from lockstep.embedded.training.tokenizer import MAX_LENGTH, encode_batch, load_tokenizer
from lockstep.errors import InputError, NonFiniteError, NotFoundError
from lockstep.training.sampling import sample_latents


@pytest.fixture(scope="module")
def exported(work, settings, autoencoder_settings, tmp_path_factory):
    train_diffusion(work, settings, run_name="exported", teacher_folder=work / "teacher", steps=3)
    for part in ("decoder", "encoder"):
        train_autoencoder(work, autoencoder_settings, part, work / "teacher")
    target = tmp_path_factory.mktemp("export") / "model"
    target.mkdir()
    (target / "README.md").write_text("a card that stays")
    return export(work, target, settings, autoencoder_settings, run_name="exported")


def test_the_layout_is_the_standard_one(exported):
    found = {path.relative_to(exported).as_posix() for path in exported.rglob("*") if path.is_file()}
    assert found >= {
        "README.md", "model_index.json", "scheduler/scheduler_config.json", "text_encoder/config.json",
        "text_encoder/model.safetensors", "tokenizer/vocab.json", "tokenizer/merges.txt", "unet/config.json",
        "unet/diffusion_pytorch_model.safetensors", "vae/config.json", "vae/diffusion_pytorch_model.safetensors",
    }  # fmt: skip
    index = json.loads((exported / "model_index.json").read_text())
    assert index["_class_name"] == "StableDiffusionPipeline"
    assert index["safety_checker"] == [None, None]
    scheduler = json.loads((exported / "scheduler/scheduler_config.json").read_text())
    assert scheduler["rescale_betas_zero_snr"] is True
    assert scheduler["timestep_spacing"] == "trailing"
    assert not list(exported.parent.glob(".model*")), "the temporary folder is gone"


@pytest.fixture(scope="module")
def reference(exported):
    from diffusers import StableDiffusionPipeline

    pipeline = StableDiffusionPipeline.from_pretrained(exported, dtype=torch.float32, safety_checker=None)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


PROMPTS = ["a dog", "a purple cat, flat style on a green background"]


def test_diffusers_gives_the_same_latents(exported, reference, settings):
    from lockstep.models.text_encoders.clip import CLIPTextModel
    from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel

    models = {
        "unet": UNet2DConditionModel.from_pretrained(exported / "unet", dtype=torch.float32),
        "text_encoder": CLIPTextModel.from_pretrained(exported / "text_encoder", dtype=torch.float32),
    }
    tokenizer = load_tokenizer(exported / "tokenizer")
    tokens, empty = (torch.from_numpy(encode_batch(tokenizer, texts)) for texts in (PROMPTS, [""]))
    noise = torch.stack([torch.randn(4, 16, 16, generator=torch.Generator().manual_seed(index)) for index in range(2)])
    ours = sample_latents(
        models, settings.scheduler, tokens, empty, shape=(4, 16, 16), steps=4, guidance=4.0, seed=0, noise=noise
    )
    theirs = reference(PROMPTS, num_inference_steps=4, guidance_scale=4.0, latents=noise, output_type="latent").images
    assert relative_l2(ours, theirs) < 1e-4


def test_diffusers_decodes_the_same_pictures(exported, reference):
    from lockstep.models.autoencoders.autoencoder_tiny import AutoencoderTiny

    ours = AutoencoderTiny.from_pretrained(exported / "vae", dtype=torch.float32)
    latents = torch.randn(1, 4, 16, 16)
    with torch.inference_mode():
        wanted = reference.vae.decode(latents).sample
        assert relative_l2(ours.decode(latents).sample, wanted) < 1e-5
        assert wanted.shape[-1] == 128


def test_diffusers_tokenizes_alike(exported, reference):
    tokenizer = load_tokenizer(exported / "tokenizer")
    for text in ["a Dog", "two   unknownwordish things, flat style", ""]:
        theirs = reference.tokenizer(text, padding="max_length", truncation=True, max_length=MAX_LENGTH).input_ids
        assert encode_batch(tokenizer, [text])[0].tolist() == theirs


def test_a_folder_that_grows_too_large_is_refused(work, settings, autoencoder_settings, exported, tmp_path):
    with pytest.raises(InputError, match="the limit is 0.1 MB"):
        export(work, tmp_path / "large", settings, autoencoder_settings, run_name="exported", limit_mb=0.1)
    assert not list((tmp_path / "large").iterdir()), "nothing is written"


def test_a_value_that_half_precision_cannot_hold_is_refused():
    layer = torch.nn.Linear(2, 2)
    torch.nn.init.constant_(layer.weight, 1e6)
    with pytest.raises(NonFiniteError, match="bfloat16"):
        in_half("unet", layer, torch.float16)


def test_a_run_that_is_not_there(work, settings, autoencoder_settings, tmp_path):
    with pytest.raises(NotFoundError, match="no checkpoint"):
        export(work, tmp_path / "none", settings, autoencoder_settings, run_name="nowhere")
