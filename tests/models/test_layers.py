"""The shared layers beside diffusers'."""

import pytest
import torch
from diffusers.models import embeddings, resnet
from diffusers.models.downsampling import Downsample2D as ReferenceDownsample
from diffusers.models.upsampling import Upsample2D as ReferenceUpsample

from helpers import assert_close
from lockstep.errors import ConfigError
from lockstep.models.layers import (
    Downsample2D,
    ResnetBlock2D,
    TimestepEmbedding,
    Timesteps,
    Upsample2D,
    get_activation,
)


@pytest.mark.parametrize("width", [2, 7, 32, 320])
@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("shift", [0, 0.5])
@pytest.mark.parametrize("scale", [1, 1000])
def test_sinusoids_are_the_same_bits(width, flip, shift, scale):
    timesteps = torch.tensor([0, 1, 13.5, 981])
    wanted = embeddings.get_timestep_embedding(timesteps, width, flip, shift, scale)
    assert torch.equal(Timesteps(width, flip, shift, scale)(timesteps), wanted)


def test_sinusoids_of_half_precision_timesteps_are_fp32():
    assert Timesteps(8, True, 0)(torch.tensor([981.0], dtype=torch.bfloat16)).dtype == torch.float32


@pytest.mark.parametrize("condition", [None, 6])
@pytest.mark.parametrize("post", [None, "silu"])
def test_timestep_embedding(condition, post):
    ours = TimestepEmbedding(8, 16, act_fn="gelu", post_act_fn=post, cond_proj_dim=condition)
    theirs = embeddings.TimestepEmbedding(8, 16, act_fn="gelu", post_act_fn=post, cond_proj_dim=condition)
    theirs.load_state_dict(ours.state_dict())
    given = (torch.randn(2, 8), None if condition is None else torch.randn(2, condition))
    assert torch.equal(ours(*given), theirs(*given))


@pytest.mark.parametrize(("kind", "time"), [("default", None), ("default", 12), ("scale_shift", 12)])
@pytest.mark.parametrize(("width_in", "width_out"), [(16, 16), (16, 24)])
def test_resnet(kind, width_in, width_out, time):
    shared = {"in_channels": width_in, "out_channels": width_out, "temb_channels": time, "groups": 8, "eps": 1e-4}
    ours = ResnetBlock2D(**shared, act_fn="mish", time_scale_shift=kind, output_scale_factor=1.5)
    theirs = resnet.ResnetBlock2D(**shared, non_linearity="mish", time_embedding_norm=kind, output_scale_factor=1.5)
    theirs.load_state_dict(ours.state_dict())
    given = (torch.randn(2, width_in, 6, 5), None if time is None else torch.randn(2, time))
    assert_close(ours(*given), theirs(*given), 1e-6)


def test_dropout_acts_in_training_alone():
    block = ResnetBlock2D(in_channels=8, out_channels=8, temb_channels=None, groups=4, dropout=0.5)
    hidden = torch.randn(1, 8, 4, 4)
    assert not torch.equal(block.train()(hidden), block(hidden))
    assert torch.equal(block.eval()(hidden), block(hidden))


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("size", [(6, 8), (5, 7)])
def test_downsample(padding, size):
    ours, theirs = Downsample2D(4, padding), ReferenceDownsample(4, use_conv=True, padding=padding, name="op")
    theirs.load_state_dict(ours.state_dict())
    hidden = torch.randn(1, 4, *size)
    assert torch.equal(ours(hidden), theirs(hidden))


@pytest.mark.parametrize("size", [None, (7, 9)])
def test_upsample(size):
    ours, theirs = Upsample2D(4), ReferenceUpsample(4, use_conv=True)
    theirs.load_state_dict(ours.state_dict())
    hidden = torch.randn(1, 4, 4, 5)
    assert torch.equal(ours(hidden, size), theirs(hidden, size))


def test_unknown_activation():
    with pytest.raises(ConfigError, match="one of gelu, mish, relu, silu, swish, got 'softsign'"):
        get_activation("softsign")
