"""Accelerated models where a process is not as usual: other default dtypes, modes of the dispatcher, lazy tensors."""

import copy

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from lockstep import UNet2DConditionModel, kernels
from lockstep.kernels import calls, operators, trial

pytestmark = pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled here")


@pytest.fixture
def unet():
    torch.manual_seed(0)
    return UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(32, 64),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=24,
        attention_head_dim=2,
        norm_num_groups=8,
    ).eval()


@pytest.fixture(params=[torch.float64, torch.bfloat16])
def default_dtype(request):
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(torch.float32)


def inputs():
    random = torch.Generator().manual_seed(1)

    def noise(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float32)

    return noise(2, 4, 16, 16), torch.tensor([5, 700]), noise(2, 7, 24)


@torch.no_grad()
def predict(unet, *given):
    return unet(*given).sample


def distance(a, b):
    return float((a - b).norm() / b.norm())


def test_room_for_a_kernel_is_fp32_whatever_the_default(default_dtype):
    assert calls.aligned(64).dtype == torch.float32
    assert trial.wrong_results(kernels.found()) == []


@pytest.mark.parametrize("level", ["exact", "high"])
def test_another_default_dtype_changes_nothing(unet, default_dtype, level):
    unet.float()
    given = inputs()
    torch_says = predict(copy.deepcopy(unet), *given)
    assert distance(predict(unet.accelerate(level), *given), torch_says) < (5e-6 if level == "exact" else 0.05)
    assert unet.acceleration.layers > 100


def test_a_default_device_is_not_that_of_a_kernel(unet):
    given = inputs()
    torch_says = predict(copy.deepcopy(unet), *given)
    with torch.device("meta"):
        assert calls.aligned(64).device.type == "cpu"
        assert distance(predict(unet.accelerate(), *given), torch_says) < 5e-6


class Counting(TorchDispatchMode):
    seen = ()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen = {*self.seen, function}
        return function(*args, **(kwargs or {}))


def test_in_a_mode_of_the_dispatcher_torch_computes(unet):
    given = inputs()
    torch_says = predict(unet, *given)
    unet.accelerate()
    with Counting() as mode:
        assert torch.equal(predict(unet, *given), torch_says)
    assert torch.ops.aten.convolution.default in mode.seen
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert predict(unet, *map(mode.from_tensor, given)).shape == torch_says.shape
    assert 0 < distance(predict(unet, *given), torch_says) < 5e-6


def test_what_is_accelerated_in_a_mode_is_tried_by_our_kernels(unet):
    with Counting(), torch.autocast("cpu"):
        told = unet.accelerate().acceleration
    assert told.error != told.torch_error
    with FakeTensorMode():
        fake = UNet2DConditionModel.from_config(unet.config).accelerate()
        assert fake.acceleration.layers == 0


def test_tensors_that_are_negated_when_they_are_read_and_zeros_without_memory_are_torchs(unet):
    sample, time, text = inputs()
    plain = copy.deepcopy(unet)
    unet.accelerate()
    predict(unet, sample, time, text)  # keeps what it has made of the text
    negated = torch._neg_view(text)
    assert not operators.takes(negated)
    assert distance(predict(unet, sample, time, negated), predict(plain, sample, time, -text)) < 5e-6
    nothing = torch._efficientzerotensor(text.shape), torch._efficientzerotensor(sample.shape)
    by_text = predict(unet, sample, time, nothing[0]), predict(plain, sample, time, torch.zeros_like(text))
    by_sample = predict(unet, nothing[1], time, text), predict(plain, torch.zeros_like(sample), time, text)
    assert distance(*by_text) < 5e-6
    assert distance(*by_sample) < 5e-6


def test_negated_weights_are_torchs(unet):
    before, layer = predict(unet, *inputs()), unet.mid_block.attentions[0].transformer_blocks[0].attn1.to_q
    layer.weight = torch.nn.Parameter(torch._neg_view(-layer.weight.detach()))
    assert distance(predict(unet.accelerate(), *inputs()), before) < 5e-6
    assert unet.acceleration.left == ()  # the others of its kind are ours


@pytest.mark.parametrize("missing", ["weight", "bias"])
def test_a_group_norm_without_its_weight_or_bias_is_torchs(unet, missing):
    plain = copy.deepcopy(unet)
    unet.accelerate()
    for one in (unet, plain):
        setattr(one.mid_block.resnets[0].norm1, missing, None)
    assert distance(predict(unet, *inputs()), predict(plain, *inputs())) < 5e-6
