"""Who trains, watches, patches, compiles or changes an accelerated model gets what torch gives."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from lockstep import AutoencoderKL, FluxTransformer2DModel, UNet2DConditionModel, WanTransformer3DModel, kernels
from lockstep.kernels import operators
from lockstep.models import fast_layers, frugal
from lockstep.models.examples import example_call

pytestmark = pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled here")

UNET = {
    "sample_size": 8, "block_out_channels": (32, 64), "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"), "layers_per_block": 1, "cross_attention_dim": 24,
    "attention_head_dim": 2, "norm_num_groups": 8,
}  # fmt: skip
SDXL = {
    "use_linear_projection": True, "addition_embed_type": "text_time", "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 64,
}  # fmt: skip
VAE = {
    "block_out_channels": (32, 64), "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2, "norm_num_groups": 8, "latent_channels": 4,
}  # fmt: skip
FLUX = {
    "num_layers": 1, "num_single_layers": 1, "num_attention_heads": 2, "attention_head_dim": 32,
    "joint_attention_dim": 32, "pooled_projection_dim": 32, "in_channels": 16, "axes_dims_rope": (8, 12, 12),
}  # fmt: skip
WAN = {
    "num_layers": 1, "num_attention_heads": 2, "attention_head_dim": 32, "ffn_dim": 64, "text_dim": 32, "freq_dim": 32,
}  # fmt: skip
MODELS = {
    "unet": lambda: UNet2DConditionModel(**UNET),
    "scale_shift": lambda: UNet2DConditionModel(**UNET, resnet_time_scale_shift="scale_shift"),
    "sdxl": lambda: UNet2DConditionModel(**UNET, **SDXL),
    "vae": lambda: AutoencoderKL(**VAE),
    "flux": lambda: FluxTransformer2DModel(**FLUX),
    "wan": lambda: WanTransformer3DModel(**WAN),
}


def made(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    return model, example_call(model, size=4)


@pytest.fixture
def unet():
    return made("unet")


def distance(a, b):
    return float((a - b).norm() / b.norm())


def near(a, b, scale=0.0):
    return a is not None and float((a - b).norm()) <= 1e-5 * (float(b.norm()) + scale)


def inputs_of(call):
    parts = [cell.cell_contents for cell in call.__closure__]
    parts += [one for part in parts if isinstance(part, dict) for one in part.values()]
    return [one for one in parts if isinstance(one, torch.Tensor) and one.is_floating_point() and one.ndim > 1]


def gradient(model, call, leaf):
    leaf.requires_grad_(True)
    call(model).square().sum().backward()
    found, leaf.grad = leaf.grad, None
    leaf.requires_grad_(False)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_one_kind_of_parameter_or_input_alone_has_torchs_gradient(name):
    model, call = made(name)
    call(model).square().sum().backward()
    kinds = {".".join(key.split(".")[-3:]): (key, one) for key, one in model.named_parameters() if one.grad is not None}
    exact = {key: one.grad.clone() for key, one in kinds.values()}
    most = max(float(one.norm()) for one in exact.values())
    model.zero_grad()
    model.requires_grad_(False)
    given = inputs_of(call)
    plain = [gradient(model, call, one) for one in given]
    model.accelerate()
    for key, one in kinds.values():
        assert near(gradient(model, call, one), exact[key], most), key
    for one, known in zip(given, plain, strict=True):
        assert near(gradient(model, call, one), known)


def test_an_operator_refuses_what_it_would_give_no_gradient():
    x, weight, bias = torch.randn(1, 32, 4, 4), torch.ones(32, requires_grad=True), torch.zeros(32)
    with pytest.raises(RuntimeError, match="has no gradient"):
        operators.group_norm(x, 8, weight, bias, 1e-5, False)
    with torch.no_grad():
        operators.group_norm(x, 8, weight, bias, 1e-5, False)


@torch.no_grad()
@pytest.mark.parametrize("name", ["unet", "scale_shift", "vae", "flux", "wan"])
def test_hooks_see_and_change_what_they_do_without_acceleration(name):
    plain, call = made(name)
    fast = copy.deepcopy(plain).accelerate()
    for (key, one), other in zip(plain.named_modules(), fast.modules(), strict=True):
        results = []
        for model, module in ((plain, one), (fast, other)):
            seen = []

            def scaled(module, given, output, seen=seen):
                seen.append(output)
                return output * 1.1 if isinstance(output, torch.Tensor) else output

            handle = module.register_forward_hook(scaled)
            results.append(([call(model)], seen))
            handle.remove()
        (whole, seen), (whole_fast, seen_fast) = results
        assert len(seen) == len(seen_fast), key
        pairs = [*zip(whole_fast, whole, strict=True), *zip(seen_fast, seen, strict=True)]
        assert all(near(a, b) for a, b in pairs if isinstance(b, torch.Tensor)), key


@torch.no_grad()
def test_hooks_on_all_modules_see_every_module(unet):
    model, call = unet
    counts = []
    for one in (model, copy.deepcopy(model).accelerate()):
        seen = []
        handle = nn.modules.module.register_module_forward_hook(lambda *given, seen=seen: seen.append(given[0]))
        call(one)
        handle.remove()
        counts.append(len(seen))
    assert counts[0] == counts[1]


@torch.no_grad()
def test_a_forward_that_is_put_into_a_layer_is_called(unet):
    model, call = unet
    fast = copy.deepcopy(model).accelerate()
    for one in (model, fast):
        block = one.down_blocks[0].attentions[0].transformer_blocks[0]
        for layer in (block.ff.net[0].proj, block.attn1.to_out[0], one.down_blocks[0].resnets[0].conv1):
            layer.forward = lambda x, layer=layer: type(layer).forward(layer, x) * 0.1
    assert near(call(fast), call(model))


@torch.no_grad()
@pytest.mark.parametrize("name", ["unet", "vae"])
def test_weights_in_another_order_are_read_in_it(name):
    model, call = made(name)
    exact = call(model)
    call(model.accelerate())
    assert near(call(model.to(memory_format=torch.channels_last)), exact)
    conv = nn.Conv2d(64, 64, 3, padding=1).to(memory_format=torch.channels_last)
    x = torch.randn(1, 64, 8, 8)
    known = conv(x)
    conv.__class__ = fast_layers.FastConvolution
    assert near(conv(x), known)
    linear = nn.Linear(64, 64, bias=False)
    linear.__class__ = fast_layers.FastLinear
    linear(torch.randn(2, 64))
    linear.weight.data = linear.weight.data.t()  # the same place and count of changes
    rows = torch.randn(2, 64)
    assert near(linear(rows), nn.functional.linear(rows, linear.weight))


def test_weights_at_the_same_place_after_a_change_of_dtype_are_new(unet):
    model, call = unet
    with torch.no_grad():
        call(model.accelerate())
        model.half().float()
        assert near(call(model), call(copy.deepcopy(model).accelerate("off")))


@pytest.mark.parametrize("zeroed", [True, False])
def test_a_fused_step_is_noticed(unet, zeroed):
    model, call = unet
    with torch.no_grad():
        call(model.accelerate())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    call(model).square().mean().backward()
    with torch.no_grad():
        call(model)  # between the gradient and the step
    optimizer.step()
    if zeroed:
        optimizer.zero_grad()
    with torch.no_grad():
        assert near(call(model), call(copy.deepcopy(model).accelerate("off")))


@torch.no_grad()
@pytest.mark.parametrize("mode", ["circular", "reflect"])
def test_what_a_convolution_is_may_change(unet, mode):
    model, call = unet
    call(model.accelerate())
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d) and layer.padding == (1, 1):
            layer.padding_mode, layer._reversed_padding_repeated_twice = mode, [1, 1, 1, 1]
    for layer in (one for one in model.modules() if isinstance(one, nn.GroupNorm)):
        layer.eps = 0.1
    assert near(call(model), call(copy.deepcopy(model).accelerate("off")))


def test_a_compiled_model_notices_other_weights(unet):
    model, call = unet
    with torch.no_grad():
        compiled = torch.compile(model.accelerate(), backend="eager", fullgraph=True)
        before = call(compiled)
        assert 0 < distance(before, call(copy.deepcopy(model).accelerate("off"))) < 5e-6
        for parameter in model.parameters():
            parameter.mul_(1.1)
        assert near(call(compiled), call(copy.deepcopy(model).accelerate("off")))


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_transforms_of_functions_are_torchs(unet):
    model, _ = unet
    fast = copy.deepcopy(model).accelerate()
    x, text, map, time = (torch.randn(1, *size) for size in ((4, 8, 8), (5, 24), (32, 8, 8), (128,)))
    resnets = (one.down_blocks[0].resnets[0] for one in (fast, model))  # torch's attention has no such gradient
    found, known = (torch.func.jvp(lambda v, one=one: one(v, time), (map,), (map,)) for one in resnets)
    assert near(found[0], known[0])
    assert near(found[1], known[1])
    mapped = torch.func.vmap(lambda v: fast(v, torch.tensor(5), text).sample)(torch.stack([x, 2 * x]))
    assert near(mapped[1], model(2 * x, torch.tensor(5), text).sample)


@torch.no_grad()
@pytest.mark.parametrize("name", ["unet", "vae"])
def test_what_was_prepared_is_in_no_pickle(name):
    model, call = made(name)
    plain = len(pickle.dumps(model))
    exact = call(model.accelerate())
    file = io.BytesIO()
    pickle.dump(model, file)
    assert file.tell() < 1.1 * plain
    assert torch.equal(call(pickle.loads(file.getvalue())), exact)


def test_what_is_told_follows_the_weights(unet):
    model, _ = unet
    layers = model.accelerate().acceleration.layers
    assert layers > 50
    assert model.to(torch.bfloat16).acceleration.layers == 0
    assert "torch computes all layers" in str(model.acceleration)
    assert model.float().acceleration.layers == layers


class Twice(torch.nn.Module):
    def forward(self, weight):
        return 2 * weight


@pytest.mark.parametrize(
    "steps", ["off", "again", "again off", "removed", "removed off", "off removed", "again removed"]
)
@pytest.mark.parametrize(
    "name", ["mid_block.resnets.0.conv1", "mid_block.attentions.0.transformer_blocks.0.attn1.to_q"]
)
def test_a_parametrization_may_come_after_acceleration(unet, name, steps):
    unet, call = unet
    plain = copy.deepcopy(unet)
    unet.accelerate()
    for model in (unet, plain):
        parametrize.register_parametrization(model.get_submodule(name), "weight", Twice())
    assert frugal.to_come(unet) >= 0
    for step in steps.split():
        if step == "removed":
            for model in (unet, plain):
                parametrize.remove_parametrizations(model.get_submodule(name), "weight", leave_parametrized=False)
        else:
            unet.accelerate("off" if step == "off" else "exact")
        with torch.no_grad():
            assert distance(call(unet), call(plain)) < 5e-6
    unet.accelerate("off")
    assert not isinstance(unet.get_submodule(name), fast_layers.Fast)
