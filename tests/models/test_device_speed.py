"""What is done for accelerators, on the processor and on `meta`: right by its numbers, reversible, honest."""

import pytest
import torch

from lockstep import FluxTransformer2DModel, UNet2DConditionModel
from lockstep.errors import InputError, UnsupportedError
from lockstep.models import device_speed
from lockstep.models.examples import example_call
from lockstep.models.fp8_layers import Fp8Linear, fp8_missing


@pytest.fixture
def flux():
    torch.manual_seed(0)
    return FluxTransformer2DModel(
        num_layers=2, num_single_layers=3, num_attention_heads=2, attention_head_dim=32, joint_attention_dim=32,
        pooled_projection_dim=32, in_channels=16, axes_dims_rope=(8, 12, 12),
    ).eval()  # fmt: skip


@pytest.fixture
def unet():
    torch.manual_seed(0)
    return UNet2DConditionModel(
        sample_size=8, block_out_channels=(16, 32), down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), layers_per_block=2, cross_attention_dim=16,
        attention_head_dim=2, norm_num_groups=4,
    ).eval()  # fmt: skip


def distance(a, b):
    return float((a - b).norm() / b.norm())


def test_blocks_that_repeat_are_found_once_and_outermost(flux, unet):
    found = device_speed.repeated_blocks(flux)
    assert [type(one).__name__ for one in found] == ["FluxTransformerBlock"] * 2 + ["FluxSingleTransformerBlock"] * 3
    blocks = device_speed.repeated_blocks(unet)
    inside = [part for block in blocks for part in block.modules() if part is not block]
    assert blocks
    assert not any(block is part for block in blocks for part in inside)


def test_compiled_regions_compute_the_same_and_are_undone(flux):
    call = example_call(flux, size=4)
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    with torch.no_grad():
        before = call(flux)
        found = device_speed.speed_up(flux, "exact", call, 0.02, backend=backend)
        assert found.regions == 5  # two double blocks and three single ones
        assert distance(call(flux), before) < 1e-6
        kinds = len(seen)
        assert 0 < kinds < 5  # one graph for all blocks that are alike
        device_speed.slow_down(flux)
        assert torch.equal(call(flux), before)
    assert len(seen) == kinds


def test_convolutions_have_their_channels_last_and_the_same_numbers(unet):
    call = example_call(unet, size=8)
    with torch.no_grad():
        before = call(unet)
        device_speed._lay_out(unet, torch.channels_last)
        assert unet.conv_in.weight.is_contiguous(memory_format=torch.channels_last)
        assert distance(call(unet), before) < 1e-6
        device_speed.slow_down(unet)
    assert unet.conv_in.weight.is_contiguous()


def test_fp8_is_taken_within_the_bound_and_told(flux, caplog):
    call = example_call(flux, size=4)
    with torch.no_grad():
        before = call(flux)
        layers, error = device_speed._in_fp8(flux, torch.device("cpu"), call, 0.2)
        assert layers > 20
        assert 1e-3 < error < 0.2
        assert distance(call(flux), before) == pytest.approx(error, rel=0.2)
        assert "fp8" in str(device_speed.DeviceSpeed("high", "cuda", 5, layers, error, 0.2))
        device_speed.slow_down(flux)
        assert torch.equal(call(flux), before)
        assert device_speed._in_fp8(flux, torch.device("cpu"), call, 1e-4) == (0, 0.0)
        assert "more than 0.0001" in caplog.text
        assert not any(isinstance(module, Fp8Linear) for module in flux.modules())


def test_fp8_sees_changed_weights_and_leaves_gradients_to_torch():
    torch.manual_seed(0)
    layer = torch.nn.Linear(32, 48)
    layer.__class__ = Fp8Linear
    x = torch.randn(2, 5, 32)
    with torch.no_grad():
        first = layer(x)
        layer.weight.mul_(2)
        assert distance(layer(x) - layer.bias, 2 * (first - layer.bias)) < 1e-5
    layer(x).sum().backward()
    assert layer.weight.grad is not None
    assert fp8_missing(torch.device("mps")) is not None


def test_a_model_on_another_device_is_not_given_kernels_of_the_processor(flux):
    found = flux.to("meta").accelerate().acceleration
    assert isinstance(found, device_speed.DeviceSpeed)
    assert found.regions == 0  # nothing compiles for meta
    assert flux.accelerate("off").acceleration is None
    with pytest.raises(InputError, match="stream_blocks"):
        flux.accelerate(frugal=True)


def test_streamed_blocks_compute_the_same_and_leave_again(flux):
    call = example_call(flux, size=4)
    with torch.no_grad():
        before = call(flux)
        assert torch.equal(call(flux.stream_blocks("cpu")), before)
        assert torch.equal(call(flux.stream_blocks(None)), before)
    assert not flux.transformer_blocks[0]._forward_hooks


def test_streamed_blocks_are_on_the_device_only_while_they_compute(flux):
    seen = []
    block = flux.transformer_blocks[1]
    weights = block.ff.net[2].weight.data.clone()
    flux.stream_blocks("meta")
    block.ff.register_forward_pre_hook(lambda *_: seen.append(block.ff.net[2].weight.device.type))
    text, picture = torch.empty(1, 7, 64, device="meta"), torch.empty(1, 16, 64, device="meta")
    turns = torch.empty(23, 32, device="meta"), torch.empty(23, 32, device="meta")
    block(picture, text, torch.empty(1, 64, device="meta"), turns)
    assert seen == ["meta"] * len(seen)
    assert seen
    assert torch.equal(block.ff.net[2].weight, weights)  # in main memory, as they were
    assert flux.x_embedder.weight.device.type == "meta"


def test_a_model_without_blocks_that_repeat_cannot_be_streamed():
    from lockstep.models.streamed import Streamed

    with pytest.raises(UnsupportedError, match="as a whole"):
        Streamed(torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.device("cpu"))


def test_a_device_that_is_none_is_refused(flux):
    with pytest.raises(InputError, match="'xx' is no device"):
        flux.stream_blocks("xx")
