"""AutoencoderTiny beside diffusers' with the same weights."""

import pytest
import torch
from diffusers import AutoencoderTiny as Reference

from helpers import assert_close
from lockstep.models.autoencoders.autoencoder_tiny import AutoencoderTiny

CONFIGS = {
    "taesd": {},
    "sixteen channels, swish, bilinear": {"latent_channels": 16, "act_fn": "swish", "upsample_fn": "bilinear"},
    "grey, gelu, own depths": {
        "in_channels": 1,
        "out_channels": 1,
        "act_fn": "gelu",
        "num_encoder_blocks": (2, 1, 1, 0),
        "num_decoder_blocks": (1, 0, 2, 1),
        "latent_magnitude": 2,
        "latent_shift": 0.25,
    },
}


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
def pair(request):
    config = {"encoder_block_out_channels": (12,) * 4, "decoder_block_out_channels": (8,) * 4, **request.param}
    torch.manual_seed(1)
    reference = Reference(**config).eval()
    ours = AutoencoderTiny(**config).eval()
    ours.load_state_dict(reference.state_dict())
    return ours, reference


def pictures(model, *size):
    return torch.rand(2, model.config.in_channels, *size, generator=torch.Generator().manual_seed(2)) * 2 - 1


def latents(model, *size):
    return torch.randn(2, model.config.latent_channels, *size, generator=torch.Generator().manual_seed(3)) * 2


def outputs_of_layers(model, run):
    seen = []
    layers = [*model.encoder.layers, *model.decoder.layers]
    handles = [layer.register_forward_hook(lambda _, __, out: seen.append(out)) for layer in layers]
    run()
    for handle in handles:
        handle.remove()
    return seen


def test_every_layer(pair):
    ours, _ = pair
    got, wanted = (
        outputs_of_layers(m, lambda m=m: (m.encode(pictures(m, 32, 48)), m.decode(latents(m, 4, 6)))) for m in pair
    )
    assert len(got) == len(wanted) == len(ours.encoder.layers) + len(ours.decoder.layers)
    for index, (a, b) in enumerate(zip(got, wanted, strict=True)):
        assert_close(a, b, what=f"layer {index}")


def test_encode_decode_forward(pair):
    ours, reference = pair
    x, z = pictures(ours, 32, 48), latents(ours, 4, 6)
    assert_close(ours.encode(x).latents, reference.encode(x).latents)
    assert_close(ours.decode(z).sample, reference.decode(z).sample)
    assert_close(ours(x).sample, reference(x).sample)
    assert torch.equal(ours(x, return_dict=False)[0], ours(x).sample)


def test_latents_to_bytes_and_back(pair):
    ours, reference = pair
    z = latents(ours, 4, 6) * 3
    assert torch.equal(ours.scale_latents(z), reference.scale_latents(z))
    assert torch.equal(ours.unscale_latents(z), reference.unscale_latents(z))


def test_gradients(pair):
    ours, reference = pair
    for model in pair:
        model.encode(pictures(model, 16, 16)).latents.square().sum().backward()
        model.decode(latents(model, 2, 3)).sample.square().sum().backward()
    wanted = dict(reference.named_parameters())
    for name, parameter in ours.named_parameters():
        assert_close(parameter.grad, wanted[name].grad, what=name)


@pytest.mark.parametrize("overlap", [0.25, 0.5])
@pytest.mark.parametrize("slicing", [False, True])
def test_tiles_and_slices(overlap, slicing):
    config = {"encoder_block_out_channels": (12,) * 4, "decoder_block_out_channels": (8,) * 4}
    reference = Reference(**config).eval()
    ours = AutoencoderTiny(**config).eval()
    ours.load_state_dict(reference.state_dict())
    ours.enable_tiling(64, overlap)
    reference.enable_tiling()
    reference.tile_sample_min_size, reference.tile_latent_min_size, reference.tile_overlap_factor = 64, 8, overlap
    if slicing:
        ours.enable_slicing()
        reference.enable_slicing()
    x, z = pictures(ours, 160, 136), latents(ours, 19, 21)
    with torch.no_grad():
        assert_close(ours.encode(x).latents, reference.encode(x).latents)
        assert_close(ours.decode(z).sample, reference.decode(z).sample)
        tiled = ours.decode(z).sample
        ours.disable_tiling()
        ours.disable_slicing()
        assert not torch.allclose(tiled, ours.decode(z).sample), "tiling did nothing"


def test_folders_go_both_ways(pair, tmp_path):
    ours, reference = pair
    ours.save_pretrained(tmp_path / "ours")
    reference.save_pretrained(tmp_path / "theirs")
    here = AutoencoderTiny.from_pretrained(tmp_path / "theirs")
    there = Reference.from_pretrained(tmp_path / "ours")
    wanted = reference.state_dict()
    for name, value in here.state_dict().items():
        assert torch.equal(value, wanted[name]), name
    for name, value in there.state_dict().items():
        assert torch.equal(value, wanted[name]), name
    x = pictures(ours, 16, 16)
    assert_close(here(x).sample, there(x).sample)


def test_names_and_shapes_of_the_published_config():
    with torch.device("meta"):
        ours, reference = AutoencoderTiny(), Reference()
    shapes = [{(name, tuple(t.shape)) for name, t in m.state_dict().items()} for m in (ours, reference)]
    assert shapes[0] == shapes[1]
