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


def test_attentions_are_counted_as_there(theirs, ours):
    for name in ("unet", "vae"):
        assert list(getattr(ours, name).attn_processors) == list(getattr(theirs, name).attn_processors)


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


@pytest.mark.parametrize("kind", ["AsymmetricAutoencoderKL", "ConsistencyDecoderVAE"])
def test_an_autoencoder_of_a_class_that_is_not_here_is_used_as_it_is(folder, kind, tmp_path, caplog):
    torch.manual_seed(0)
    other = getattr(diffusers, kind)(**AUTOENCODERS[kind]).eval()
    pipes = [
        library.StableDiffusionImg2ImgPipeline.from_pretrained(folder, vae=other, safety_checker=None)
        for library in (lockstep, diffusers)
    ]
    call = {"image": torch.rand(1, 3, 16, 16), "num_inference_steps": 4, "strength": 0.5, "output_type": "latent"}
    latents = []
    for pipe in pipes:
        pipe.set_progress_bar_config(disable=True)
        latents.append(pipe(PROMPT, generator=torch.Generator().manual_seed(1), **call).images)
    assert torch.linalg.norm(latents[0] - latents[1]) <= 1e-5 * torch.linalg.norm(latents[1])
    assert "is used as it is" in caplog.text
    drawn = [pipes[0](PROMPT, seed=1, **{**call, "output_type": "pt"}).images for _ in range(2)]
    assert torch.equal(*drawn)
    pipes[0].save_pretrained(tmp_path)
    again = diffusers.StableDiffusionImg2ImgPipeline.from_pretrained(tmp_path)
    assert type(again.vae).__name__ == kind
    with pytest.raises(InputError, match="wants AutoencoderKL or AutoencoderTiny"):
        pipes[0].vae = diffusers.UNet2DModel(norm_num_groups=8, block_out_channels=(8, 8, 8, 8))


def test_a_decoder_that_keeps_what_is_not_painted_is_told_picture_and_mask(folder):
    torch.manual_seed(0)
    other = diffusers.AsymmetricAutoencoderKL(**AUTOENCODERS["AsymmetricAutoencoderKL"]).eval()
    mask = torch.zeros(1, 1, 16, 16)
    mask[..., 8:] = 1
    call = {"image": torch.rand(1, 3, 16, 16), "mask_image": mask, "height": 16, "width": 16, "num_inference_steps": 3}
    pictures = []
    for library in (lockstep, diffusers):
        pipe = library.StableDiffusionInpaintPipeline.from_pretrained(folder, vae=other, safety_checker=None)
        pipe.set_progress_bar_config(disable=True)
        generator = torch.Generator().manual_seed(1)
        pictures.append(pipe(PROMPT, generator=generator, **call, output_type="pt").images)
        if library is lockstep:
            pair = pipe(PROMPT, num_images_per_prompt=2, seed=1, **call, output_type="pt").images
            assert torch.allclose(pair[1:], pipe(PROMPT, seed=2, **call, output_type="pt").images, atol=1e-5)
    assert torch.allclose(*pictures, atol=1e-4)
    plain = pipe.vae.decode(torch.zeros(1, 4, 8, 8)).sample
    told = pipe.vae.decode(torch.zeros(1, 4, 8, 8), image=call["image"], mask=mask).sample
    assert not torch.allclose(plain, told, atol=1e-3), "the decoder makes nothing of what it is told"


AUTOENCODERS = {
    "AsymmetricAutoencoderKL": {
        "down_block_types": ("DownEncoderBlock2D",) * 2, "down_block_out_channels": (8, 16),
        "layers_per_down_block": 1, "up_block_types": ("UpDecoderBlock2D",) * 2, "up_block_out_channels": (8, 16),
        "layers_per_up_block": 1, "norm_num_groups": 4,
    },
    "ConsistencyDecoderVAE": {
        "encoder_block_out_channels": (8, 16), "encoder_down_block_types": ("DownEncoderBlock2D",) * 2,
        "encoder_norm_num_groups": 4, "decoder_add_attention": False, "decoder_block_out_channels": (8, 16),
        "decoder_down_block_types": ("ResnetDownsampleBlock2D",) * 2, "decoder_norm_num_groups": 4,
        "decoder_downsample_padding": 1, "decoder_in_channels": 7, "decoder_layers_per_block": 1,
        "decoder_norm_eps": 1e-05, "decoder_num_train_timesteps": 1024, "decoder_out_channels": 6,
        "decoder_resnet_time_scale_shift": "scale_shift", "decoder_time_embedding_type": "learned",
        "decoder_up_block_types": ("ResnetUpsampleBlock2D",) * 2, "scaling_factor": 1,
    },
}  # fmt: skip
