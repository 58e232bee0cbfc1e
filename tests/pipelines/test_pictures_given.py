"""Pictures as scripts give them: tensors of either range, processors of one's own, and rows that stay themselves."""

import diffusers
import pytest
import torch
from diffusers.image_processor import VaeImageProcessor as Theirs
from PIL import Image

import lockstep
from lockstep.errors import InputError, UnsupportedError
from lockstep.images import VaeImageProcessor as Ours
from lockstep.notes import say_once
from pipelines import tiny

PROMPT = "a red cat"
CALL = {"num_inference_steps": 2, "output_type": "pt"}
# as many groups as channels
WIDE = {
    "block_out_channels": (16, 32), "latent_channels": 4, "norm_num_groups": 16, "sample_size": 32,
    "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
}  # fmt: skip


def picture(seed: int = 0, side: int = 16) -> torch.Tensor:
    return torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(seed))


def generators(count: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save_folder(tmp_path_factory.mktemp("sd1"))


def loaded(kind, folder, **parts):
    pipe = kind.from_pretrained(folder, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_a_wholly_masked_picture_is_the_same_alone_and_in_a_batch(folder):
    """One colour and a norm for each channel: what kernels differ by in memory's order is all that is left of it."""
    parts = {"unet": tiny.unet(9), "vae": tiny.randomize(lockstep.AutoencoderKL(**WIDE), 3)}
    pipe = loaded(lockstep.StableDiffusionInpaintPipeline, folder, **parts)
    image, mask = Image.effect_noise((16, 16), 80).convert("RGB"), Image.new("L", (16, 16), 255)
    call = {**CALL, "height": 16, "width": 16}
    alone = pipe(PROMPT, image=image, mask_image=mask, generator=generators(1)[0], **call).images[0]
    for given in ({"image": [image] * 3, "mask_image": [mask] * 3}, {"image": image, "mask_image": mask}):
        prompts = [PROMPT, "a dog", "a very long prompt of the house " * 20]
        batch = pipe(prompts, **given, generator=generators(3), **call).images[0]
        assert (batch - alone).abs().max() < 1e-4


@pytest.mark.filterwarnings("ignore:Passing `image` as torch tensor")
def test_a_tensor_from_minus_one_to_one_is_taken_as_it_is(folder, caplog):
    say_once.cache_clear()  # another test of this process may have heard it
    pictures = picture()
    call = {"strength": 0.75, **CALL, "num_inference_steps": 4}
    got = {}
    for library in (lockstep, diffusers):
        pipe = loaded(library.StableDiffusionImg2ImgPipeline, folder, safety_checker=None)
        for name, image in (("plain", pictures), ("normalized", pictures * 2 - 1)):
            seeded = torch.Generator().manual_seed(1)
            got[library, name] = pipe(PROMPT, image=image, generator=seeded, **call).images
    assert (got[lockstep, "normalized"] - got[lockstep, "plain"]).abs().max() < 1e-4
    assert (got[lockstep, "normalized"] - got[diffusers, "normalized"]).abs().max() < 1e-4
    assert "values from -1 to 1" in caplog.text
    with pytest.raises(InputError, match="0 to 1, got -1.99"):
        loaded(lockstep.StableDiffusionImg2ImgPipeline, folder)(PROMPT, image=pictures * 4 - 2, **call)


def test_a_processor_of_ones_own_takes_the_place_of_the_pipelines(folder):
    call = {"strength": 0.75, **CALL, "num_inference_steps": 4}
    got = []
    for library, processors in ((lockstep, (Ours, Theirs)), (diffusers, (Theirs,))):
        for source in processors:
            pipe = loaded(library.StableDiffusionImg2ImgPipeline, folder, safety_checker=None)
            pipe.image_processor = source(do_resize=False, do_normalize=False)
            seeded = torch.Generator().manual_seed(1)
            got.append(pipe(PROMPT, image=picture(), generator=seeded, **call).images)
    for other in got[1:]:
        assert (got[0] - other).abs().max() < 1e-4
    pipe = loaded(lockstep.StableDiffusionImg2ImgPipeline, folder)
    usual = pipe(PROMPT, image=picture(), generator=torch.Generator().manual_seed(1), **call).images
    assert (usual - got[0]).abs().max() > 1e-3
    with pytest.raises(InputError, match="'mask_processor' wants a method 'preprocess', str has none"):
        pipe.mask_processor = "grey"
    pipe.image_processor = pipe.image_processor
    pipe.image_processor = None
    assert pipe.image_processor.config.do_normalize
    assert pipe.mask_processor.config.do_binarize


def test_a_scheduler_of_another_scaling_runs_as_there_and_is_told(folder, caplog):
    made = []
    for library in (lockstep, diffusers):
        pipe = loaded(library.StableDiffusionPipeline, folder, safety_checker=None)
        pipe.scheduler = library.EDMEulerScheduler.from_config(pipe.scheduler.config)
        latents = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
        made.append(pipe(PROMPT, latents=latents, num_inference_steps=2, output_type="latent").images)
    assert torch.linalg.norm(made[0] - made[1]) < 1e-5 * torch.linalg.norm(made[1])
    assert "draws noise" in caplog.text
    with pytest.raises(UnsupportedError, match="wants a scheduler for diffusion"):
        loaded(lockstep.StableDiffusionPipeline, folder).scheduler = lockstep.FlowMatchEulerDiscreteScheduler()


def test_heun_runs_on_a_grid_of_two_steps(folder):
    made = []
    for library in (lockstep, diffusers):
        pipe = loaded(library.StableDiffusionPipeline, folder, safety_checker=None)
        pipe.scheduler = library.HeunDiscreteScheduler.from_config(pipe.scheduler.config, timestep_spacing="linspace")
        latents = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
        made.append(pipe(PROMPT, latents=latents, num_inference_steps=2, output_type="latent").images)
    assert torch.linalg.norm(made[0] - made[1]) < 1e-5 * torch.linalg.norm(made[1])


def test_pictures_of_several_nets_for_several_prompts(folder):
    """A list in the list belongs to a prompt, not to a net."""
    given = [[picture(1)[0], picture(2)[0]], [picture(3)[0], picture(4)[0]]]
    small = {"conditioning_embedding_out_channels": (8, 16)}
    mine = [tiny.randomize(lockstep.ControlNetModel.from_unet(tiny.unet(), **small), seed) for seed in (8, 9)]
    made = []
    for library in (lockstep, diffusers):
        nets = mine
        if library is diffusers:
            nets = [diffusers.ControlNetModel.from_config(dict(net.config)) for net in mine]
            for net, own in zip(nets, mine, strict=True):
                net.load_state_dict(own.state_dict())
        pipe = loaded(library.StableDiffusionControlNetPipeline, folder, controlnet=nets, safety_checker=None)
        latents = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
        call = {"latents": latents, "num_inference_steps": 2, "output_type": "latent"}
        made.append(pipe(["a cat", "a dog"], image=given, **call).images)
    assert torch.linalg.norm(made[0] - made[1]) < 1e-5 * torch.linalg.norm(made[1])
    pipe = loaded(lockstep.StableDiffusionControlNetPipeline, folder, controlnet=mine)
    with pytest.raises(InputError, match="for each of 2 ControlNets for each prompt, got 1"):
        pipe(["a cat", "a dog"], image=[given[0][:1], given[1]])


def test_latents_cannot_be_masked(folder):
    pipe = loaded(lockstep.StableDiffusionInpaintPipeline, folder)
    pipe.unet = lockstep.UNet2DConditionModel.from_config({**pipe.unet.config, "in_channels": 9})  # sees what stays
    with pytest.raises(InputError, match="give 'masked_image_latents' too"):
        pipe(PROMPT, image=torch.randn(1, 4, 8, 8), mask_image=Image.new("L", (16, 16), 255), height=16, width=16)
