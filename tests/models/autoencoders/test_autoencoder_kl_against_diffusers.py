"""AutoencoderKL beside diffusers' with the same weights: every block, gradients, tiles, slices, files."""

import pytest
import torch
from diffusers import AutoencoderKL as Reference
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution as ReferenceDistribution
from safetensors.torch import load_file, save_file

from helpers import assert_close
from lockstep.models.autoencoders.autoencoder_kl import AutoencoderKL, DiagonalGaussianDistribution

PLAIN = {
    "block_out_channels": (16, 32),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "layers_per_block": 2,
    "norm_num_groups": 8,
    "sample_size": 16,
}
CONFIGS = {
    "plain": PLAIN,
    "attention in every block": {
        **PLAIN,
        "down_block_types": ("DownEncoderBlock2D", "AttnDownEncoderBlock2D"),
        "up_block_types": ("AttnUpDecoderBlock2D", "UpDecoderBlock2D"),
        "layers_per_block": 1,
    },
    "no attention, no quant conv, sixteen channels": {
        **PLAIN,
        "mid_block_add_attention": False,
        "use_quant_conv": False,
        "use_post_quant_conv": False,
        "latent_channels": 16,
        "act_fn": "mish",
    },
    "one block": {"block_out_channels": (24,), "norm_num_groups": 6, "in_channels": 1, "out_channels": 1},
}
PUBLISHED = {
    "block_out_channels": [128, 256, 512, 512],
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "layers_per_block": 2,
    "act_fn": "silu",
    "norm_num_groups": 32,
}
PUBLISHED_VAES = {
    "SD 1.5": {"sample_size": 512},
    "SDXL": {"sample_size": 1024, "scaling_factor": 0.13025, "force_upcast": True},
    "FLUX.1": {
        "sample_size": 1024,
        "latent_channels": 16,
        "scaling_factor": 0.3611,
        "shift_factor": 0.1159,
        "use_quant_conv": False,
        "use_post_quant_conv": False,
    },
}


def make_pair(config):
    """Both models with the same weights, every one of them random."""
    torch.manual_seed(5)
    reference = Reference(**config).eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    ours = AutoencoderKL(**config).eval()
    ours.load_state_dict(reference.state_dict())
    return ours, reference


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
def pair(request):
    return make_pair(request.param)


def pictures(model, height=24, width=16):
    draw = torch.rand(2, model.config.in_channels, height, width, generator=torch.Generator().manual_seed(2))
    return draw * 2 - 1


def latents(model, height=6, width=5):
    return torch.randn(2, model.config.latent_channels, height, width, generator=torch.Generator().manual_seed(3))


def outputs_by_name(model, run):
    """The output of every module that both sides have, in the order of the calls."""
    seen = []

    def watch(name):
        return lambda _module, _inputs, output: (
            seen.append((name, output)) if isinstance(output, torch.Tensor) else None
        )

    handles = [module.register_forward_hook(watch(name)) for name, module in model.named_modules() if name]
    with torch.no_grad():
        run(model)
    for handle in handles:
        handle.remove()
    return [(name, output) for name, output in seen if not name.endswith(("dropout", "to_out.1"))]


def test_every_module(pair):
    got, wanted = (outputs_by_name(m, lambda m: (m.encode(pictures(m)), m.decode(latents(m)))) for m in pair)
    assert [name for name, _ in got] == [name for name, _ in wanted]
    for (name, a), (_, b) in zip(got, wanted, strict=True):
        assert_close(a.flatten(2) if name.endswith("group_norm") else a, b, what=name)


def test_encode_decode_forward(pair):
    ours, reference = pair
    x, z = pictures(ours), latents(ours)
    with torch.no_grad():
        assert_close(ours.encode(x).latent_dist.parameters, reference.encode(x).latent_dist.parameters)
        assert_close(ours.decode(z).sample, reference.decode(z).sample)
        assert_close(ours(x).sample, reference(x).sample)
        drawn = [m(x, sample_posterior=True, generator=torch.Generator().manual_seed(4)).sample for m in pair]
        assert_close(*drawn)
        assert torch.equal(ours.decode(z, return_dict=False)[0], ours.decode(z).sample)


def test_gradients(pair):
    ours, reference = pair
    x = pictures(ours)
    for model in pair:
        generator = torch.Generator().manual_seed(4)
        posterior = model.encode(x).latent_dist
        loss = (model.decode(posterior.sample(generator)).sample - x).square().mean() + 1e-2 * posterior.kl().mean()
        loss.backward()
    wanted = dict(reference.named_parameters())
    assert set(wanted) == {name for name, _ in ours.named_parameters()}
    for name, parameter in ours.named_parameters():
        # to_k.bias shifts every score of a row alike, so its gradient is rounding alone
        if name.endswith("to_k.bias"):
            assert parameter.grad.abs().max() < 1e-6
        else:
            assert_close(parameter.grad, wanted[name].grad, what=name)


@pytest.mark.parametrize("slicing", [False, True])
@pytest.mark.parametrize(("size", "overlap"), [(16, 0.25), (8, 0.5), (32, 0.125)])
def test_tiles_and_slices(size, overlap, slicing):
    ours, reference = make_pair(PLAIN)
    ours.enable_tiling(size, overlap)
    reference.enable_tiling()
    reference.tile_sample_min_size, reference.tile_latent_min_size = size, size // 2
    reference.tile_overlap_factor = overlap
    if slicing:
        ours.enable_slicing()
        reference.enable_slicing()
    x, z = pictures(ours, 50, 46), latents(ours, 21, 27)
    with torch.no_grad():
        assert_close(ours.encode(x).latent_dist.parameters, reference.encode(x).latent_dist.parameters)
        tiled = ours.decode(z).sample
        assert_close(tiled, reference.decode(z).sample)
        ours.disable_tiling()
        ours.disable_slicing()
        assert not torch.allclose(tiled, ours.decode(z).sample), "tiling did nothing"


def test_blending_of_tiles_is_exact():
    """With the same tiles, the blended picture is the reference's bit for bit."""
    ours, reference = make_pair({**PLAIN, "mid_block_add_attention": False})
    ours.enable_tiling()
    reference.enable_tiling()
    with torch.no_grad():
        z = latents(ours, 21, 27)
        assert torch.equal(ours.decode(z).sample, reference.decode(z).sample)


def test_distribution():
    parameters = torch.randn(3, 8, 4, 5) * 12
    other = torch.randn(3, 8, 4, 5)
    ours, reference = DiagonalGaussianDistribution(parameters), ReferenceDistribution(parameters)
    ours_too, reference_too = DiagonalGaussianDistribution(other), ReferenceDistribution(other)
    for name in ("mean", "logvar", "std", "var"):
        assert torch.equal(getattr(ours, name), getattr(reference, name)), name
    assert torch.equal(ours.mode(), reference.mode())
    assert_close(ours.kl(), reference.kl(), 1e-6)
    assert_close(ours_too.kl(ours), reference_too.kl(reference), 1e-6)
    sample = torch.randn(3, 4, 4, 5)
    assert_close(ours_too.nll(sample), reference_too.nll(sample), 1e-6)
    assert_close(ours_too.nll(sample, dims=(1,)), reference_too.nll(sample, dims=[1]), 1e-6)
    each, again = ([torch.Generator().manual_seed(seed) for seed in range(3)] for _ in range(2))
    assert torch.equal(ours.sample(each), reference.sample(again))
    one, two = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
    assert torch.equal(ours.sample(one), reference.sample(two))
    still = DiagonalGaussianDistribution(parameters, deterministic=True)
    assert torch.equal(still.sample(), still.mean)
    assert still.kl().item() == still.nll(sample).item() == 0


@pytest.mark.parametrize("name", PUBLISHED_VAES)
def test_names_and_shapes_of_published_configs(name):
    config = {**PUBLISHED, **PUBLISHED_VAES[name]}
    with torch.device("meta"):
        ours, reference = AutoencoderKL.from_config(config), Reference.from_config(config)
    shapes = [{(key, tuple(value.shape)) for key, value in m.state_dict().items()} for m in (ours, reference)]
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) == (244 if name == "FLUX.1" else 248)


def test_older_names_and_convolution_shapes_load(tmp_path):
    """The first published files: other names of the projections, which older ones still store as 1x1 convolutions."""
    ours, _ = make_pair(PLAIN)
    ours.save_pretrained(tmp_path)
    path = tmp_path / "diffusion_pytorch_model.safetensors"
    older = {}
    names = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    for name, tensor in load_file(path).items():
        for new, old in names.items():
            if f".{new}." in name:
                name = name.replace(f".{new}.", f".{old}.")
                if name.startswith("decoder") and tensor.ndim == 2:
                    tensor = tensor[..., None, None]
        older[name] = tensor.contiguous()
    assert sum(".query." in name for name in older) == 4
    save_file(older, path)
    loaded = AutoencoderKL.from_pretrained(tmp_path)
    for name, tensor in ours.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


def test_float16_with_force_upcast_equals_the_references_upcast():
    """The reference's pipelines turn the whole VAE to float32 and back; here one layer at a time is."""
    ours, reference = make_pair(PLAIN)
    halved, reference = ours.half(), reference.half().float()
    z, x = latents(ours).half(), pictures(ours).half()
    with torch.no_grad():
        assert halved.dtype == torch.float16
        decoded = halved.decode(z).sample
        assert decoded.dtype == torch.float32
        assert_close(decoded, reference.decode(z.float()).sample)
        encoded = halved.encode(x).latent_dist.parameters
        assert_close(encoded, reference.encode(x.float()).latent_dist.parameters)
        halved.fuse_qkv_projections()
        assert_close(halved.decode(z).sample, decoded)
        halved.unfuse_qkv_projections()
        assert torch.equal(halved.decode(z).sample, decoded)
    assert {p.dtype for p in halved.parameters()} == {torch.float16}
    plain = AutoencoderKL(**PLAIN, force_upcast=False).half()
    with torch.no_grad():
        assert plain.decode(z).sample.dtype == torch.float16
