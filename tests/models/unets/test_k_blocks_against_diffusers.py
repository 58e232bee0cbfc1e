"""The UNet of k-diffusion's blocks, which the latent upscaler is, beside the reference."""

import diffusers
import pytest
import torch

import lockstep
from helpers import assert_close
from lockstep.errors import ConfigError
from pipelines import tiny

CONFIG = tiny.K_UNET


def inputs(rows=2):
    torch.manual_seed(3)
    text, condition = torch.randn(rows, 7, 16), torch.randn(rows, CONFIG["time_cond_proj_dim"])
    return (torch.randn(rows, 8, 16, 24), torch.tensor(-0.7), text), {"timestep_cond": condition}


@pytest.fixture(scope="module")
def pair():
    theirs = tiny.randomize(diffusers.UNet2DConditionModel(**CONFIG), 1)
    ours = lockstep.UNet2DConditionModel(**CONFIG).eval()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("mask", [None, torch.tensor([[1, 1, 1, 0, 0, 1, 0]] * 2)])
def test_the_prediction_is_that_of_the_reference(pair, mask):
    ours, theirs = pair
    args, kwargs = inputs()
    with torch.no_grad():
        got, wanted = (model(*args, **kwargs, encoder_attention_mask=mask).sample for model in (ours, theirs))
    assert_close(got, wanted)


def test_gradients_are_those_of_the_reference(pair):
    args, kwargs = inputs(1)
    for model in pair:
        model.zero_grad()
        model(*args, **kwargs).sample.square().mean().backward()
    ours, theirs = (dict(model.named_parameters()) for model in pair)
    for name, parameter in theirs.items():
        if parameter.grad is not None and not name.endswith("to_k.bias"):  # which moves all scores alike: rounding
            assert_close(ours[name].grad, parameter.grad, 1e-4, name)


def test_a_folder_goes_both_ways(pair, tmp_path):
    ours, _ = pair
    ours.save_pretrained(tmp_path)
    args, kwargs = inputs()
    again = lockstep.UNet2DConditionModel.from_pretrained(tmp_path)
    theirs = diffusers.UNet2DConditionModel.from_pretrained(tmp_path)
    with torch.no_grad():
        wanted = ours(*args, **kwargs).sample
        assert torch.equal(again(*args, **kwargs).sample, wanted)
        assert_close(theirs(*args, **kwargs).sample, wanted)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"mid_block_type": "UNetMidBlock2DCrossAttn"}, "mid_block_type None"),
        ({"down_block_types": ("DownBlock2D", *CONFIG["down_block_types"][1:])}, "K blocks go with K blocks"),
        ({"block_out_channels": (32, 32, 48, 48)}, "multiples of 32"),
        ({"block_out_channels": (32, 32, 32, 32)}, "as wide as the time embedding"),
        ({"down_block_types": ("DownBlock2D",) * 4, "up_block_types": ("UpBlock2D",) * 4}, "norm_num_groups"),
    ],
)
def test_what_cannot_fit_together_is_refused(change, told):
    with pytest.raises(ConfigError, match=told):
        lockstep.UNet2DConditionModel(**CONFIG | change)
