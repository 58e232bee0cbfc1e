"""Accelerated models compute what they did, by other kernels; names, files, gradients and adapters stay as they are."""

import contextlib
import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from lockstep import AutoencoderKL, UNet2DConditionModel, kernels, memory
from lockstep.errors import InputError, UnknownNameError, UnsupportedError
from lockstep.kernels import operators
from lockstep.models import acceleration, fast_layers, frugal
from lockstep.models.unets.unet_2d_blocks import Attention

pytestmark = pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled here")


@pytest.fixture(params=["default", "scale_shift"])
def unet(request):
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
        resnet_time_scale_shift=request.param,
    ).eval()


@pytest.fixture
def vae():
    torch.manual_seed(0)
    return AutoencoderKL(
        block_out_channels=(32, 64),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=8,
        latent_channels=4,
    ).eval()


def predict(unet, size=16):
    random = torch.Generator().manual_seed(1)
    sample, text = torch.randn(2, 4, size, size, generator=random), torch.randn(2, 7, 24, generator=random)
    return unet(sample, torch.tensor([5, 700]), text).sample


def distance(a, b):
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("size", [16, 18])
def test_the_unet_computes_the_same(unet, size):
    with torch.no_grad():
        before = predict(unet, size)
        after = predict(unet.accelerate(), size)
        assert 0 < distance(after, before) < 5e-6
        assert torch.equal(predict(unet.accelerate("off"), size), before)


def test_the_autoencoder_computes_the_same_both_ways(vae):
    pixels, latents = torch.randn(1, 3, 24, 20), torch.randn(2, 4, 12, 10)
    with torch.no_grad():
        encoded, decoded = vae.encode(pixels).latent_dist.mean, vae.decode(latents).sample
        vae.accelerate()
        assert 0 < distance(vae.encode(pixels).latent_dist.mean, encoded) < 5e-6
        assert 0 < distance(vae.decode(latents).sample, decoded) < 5e-6


def test_names_files_and_classes_stay(unet, tmp_path):
    names = list(unet.state_dict())
    unet.accelerate()
    assert list(unet.state_dict()) == names
    assert isinstance(unet.conv_in, torch.nn.Conv2d)
    unet.save_pretrained(tmp_path)
    assert type(UNet2DConditionModel.from_pretrained(tmp_path).conv_in) is torch.nn.Conv2d


def test_what_was_found_is_told(unet):
    found = unet.accelerate().acceleration
    assert found.layers > 50
    assert not found.left
    assert 0 < found.error < 5e-6
    assert "exact" in str(found)
    assert unet.accelerate("off").acceleration is None


def test_changed_weights_are_noticed(unet):
    with torch.no_grad():
        predict(unet.accelerate())
        for parameter in unet.parameters():
            parameter.mul_(1.1)
        accelerated = predict(unet)
        assert distance(accelerated, predict(unet.accelerate("off"))) < 5e-6


def test_gradients_are_torchs_own(unet):
    predict(unet).sum().backward()
    plain = {name: parameter.grad.clone() for name, parameter in unet.named_parameters()}
    unet.zero_grad()
    predict(unet.accelerate()).sum().backward()
    for name, parameter in unet.named_parameters():
        assert torch.equal(parameter.grad, plain[name]), name


def test_other_dtypes_are_computed_as_before(unet):
    unet = unet.to(torch.bfloat16)
    inputs = torch.randn(1, 4, 16, 16).bfloat16(), 3, torch.randn(1, 7, 24).bfloat16()
    with torch.no_grad():
        before = unet(*inputs).sample
        assert torch.equal(unet.accelerate()(*inputs).sample, before)


@pytest.mark.parametrize("level", ["exact", "high"])
def test_autocast_and_empty_batches_are_torchs_own(unet, level):
    inputs = torch.randn(1, 4, 16, 16), 3, torch.randn(1, 7, 24)
    empty = torch.randn(0, 4, 16, 16), 3, torch.randn(0, 7, 24)
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            before = unet(*inputs).sample
        unet.accelerate(level, example=lambda model: model(*inputs).sample)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(unet(*inputs).sample, before)
        assert unet(*empty).sample.shape == (0, 4, 16, 16)


def test_a_copy_is_independent(unet):
    with torch.no_grad():
        other = copy.deepcopy(unet.accelerate())
        other.accelerate("off")
        assert distance(predict(unet), predict(other)) < 5e-6
        assert isinstance(unet.conv_out, fast_layers.FastConvolution)


@pytest.mark.parametrize("unet", ["default"], indirect=True)
def test_torch_compile_keeps_the_operators(unet):
    with torch.no_grad():
        before = predict(unet)
        compiled = torch.compile(unet.accelerate(), backend="aot_eager", fullgraph=True)
        assert distance(predict(compiled), before) < 5e-6


def test_a_layer_that_is_not_exact_stays_with_torch(unet, monkeypatch):
    right = fast_layers.operators.convolution
    monkeypatch.setattr(fast_layers.operators, "convolution", lambda *args: right(*args) * 1.001)
    with torch.no_grad():
        before = predict(unet)
        found = unet.accelerate().acceleration
        assert "down_blocks.0.resnets.0.conv1" in found.left
        assert distance(predict(unet), before) < 5e-6


def test_a_wrong_level_and_a_machine_without_kernels_are_told(unet, monkeypatch):
    with pytest.raises(UnknownNameError, match="exact"):
        unet.accelerate("exakt")
    monkeypatch.setattr(acceleration.kernels, "why_not", lambda: "no compiler")
    with pytest.raises(UnsupportedError, match="no compiler"):
        unet.accelerate()


def test_a_frugal_model_prepares_what_it_uses_and_computes_the_same(vae):
    latents = torch.randn(1, 4, 12, 10)
    with torch.no_grad():
        decoded = vae.decode(latents).sample
        vae.accelerate(frugal=True)
        assert not any(layer.is_prepared for layer in frugal.layers_of(vae))
        assert distance(vae.decode(latents).sample, decoded) < 5e-6
    used = {name for name, layer in vae.named_modules() if getattr(layer, "is_prepared", False)}
    assert "decoder.conv_in" in used
    assert "encoder.conv_in" not in used
    assert not any(layer.stored for layer in frugal.layers_of(vae) if isinstance(layer, fast_layers.FastConvolution))
    frugal.let_go(vae)
    assert not any(layer.is_prepared for layer in frugal.layers_of(vae))
    with torch.no_grad():
        assert distance(vae.decode(latents).sample, decoded) < 5e-6


def test_transformed_weights_are_kept_within_the_room_the_small_ones_first(vae):
    vae.accelerate(frugal=True)
    layers = [one for one in frugal.layers_of(vae) if isinstance(one, fast_layers.FastConvolution)]
    before = frugal.to_come(vae)
    for room in (0, 200_000, 10**9):
        frugal.keep_within([vae], room)
        assert frugal.to_come(vae) - before <= room
    assert all(layer.stored for layer in layers)
    frugal.keep_within([vae], 200_000)
    kept = [layer.in_channels * layer.out_channels for layer in layers if layer.stored and layer.kind() == "winograd"]
    left = [layer.in_channels * layer.out_channels for layer in layers if not layer.stored]
    assert max(kept) <= min(left)


def test_pages_that_were_written_to_stay_in_memory(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(torch.ones(2**20).numpy().tobytes())
    mapped = torch.from_file(str(path), shared=False, size=2**20)
    mapped[: 2**19] += 1
    memory.page_out(mapped)
    assert torch.equal(mapped, torch.cat([torch.full((2**19,), 2.0), torch.ones(2**19)]))
    own = torch.randn(2**20)
    copied = own.clone()
    memory.page_out(own)
    assert torch.equal(own, copied)


def test_frugal_is_for_our_own_kernels(vae):
    with pytest.raises(InputError, match="frugal"):
        vae.accelerate(frugal=True, engine="inductor")


def test_half_precision_is_told_to_be_torchs(unet):
    found = unet.to(torch.bfloat16).accelerate().acceleration
    assert found.layers == 0
    assert str(found) == "exact: torch computes all layers, our own kernels take fp32 on the processor"
    assert unet.float().accelerate().acceleration.layers > 50


def test_an_example_that_cannot_be_called_is_refused(unet):
    with pytest.raises(InputError, match="'example' wants a function"):
        unet.accelerate("high", example="x")


def test_who_watches_a_part_of_a_transformer_sees_it_without_the_residual(unet):
    attention = unet.down_blocks[0].attentions[0].transformer_blocks[0].attn1
    seen = []
    with torch.no_grad(), torch_hook(attention, seen):
        before = predict(unet)
        after = predict(unet.accelerate())
    assert distance(after, before) < 5e-6
    assert distance(seen[1], seen[0]) < 5e-6


@contextlib.contextmanager
def torch_hook(module, seen):
    handle = module.register_forward_hook(lambda module, given, result: seen.append(result))
    yield
    handle.remove()


def cross_attentions(unet):
    return [module for module in unet.modules() if isinstance(module, Attention) and module.is_cross_attention]


def told(unet, text):
    sample = torch.randn(2, 4, 16, 16, generator=torch.Generator().manual_seed(1))
    return unet(sample, torch.tensor([5, 700]), text).sample


@torch.no_grad()
def test_keys_and_values_of_a_text_are_computed_once_and_again_for_another(unet, monkeypatch):
    unet.accelerate()
    projections = {id(layer) for one in cross_attentions(unet) for layer in (one.to_k, one.to_v)}
    computed, forward = [], fast_layers.FastLinear.forward
    counted = lambda self, *given: (id(self) in projections and computed.append(self), forward(self, *given))[1]  # noqa: E731
    monkeypatch.setattr(fast_layers.FastLinear, "forward", counted)
    text = torch.randn(2, 7, 24)
    first = told(unet, text)
    assert len(computed) == len(projections) > 0
    assert torch.equal(told(unet, text.clone()), first)
    assert len(computed) == len(projections)
    text[1, 6, 23] += 1e-3  # the same tensor, another text
    second = told(unet, text)
    assert len(computed) == 2 * len(projections)
    assert not torch.equal(second, first)
    assert torch.equal(second, told(copy.deepcopy(unet).accelerate("off").accelerate(), text))


@torch.no_grad()
@pytest.mark.parametrize("part", ["to_k", "to_v"])
def test_a_kept_text_notices_other_weights_watchers_and_the_end_of_acceleration(unet, part):
    unet.accelerate()
    text = torch.randn(2, 7, 24)
    told(unet, text)
    layer = getattr(cross_attentions(unet)[0], part)
    layer.weight.mul_(2)
    after = told(unet, text)
    exact = told(copy.deepcopy(unet).accelerate("off"), text)
    assert distance(after, exact) < 5e-6
    seen = []
    with torch_hook(layer, seen):
        told(unet, text)
    assert len(seen) == 1
    frugal.let_go(unet)
    assert all(one._text is None for one in cross_attentions(unet))
    unet.accelerate("off")
    assert not any("_text" in module.__dict__ for module in unet.modules())


@torch.no_grad()
def test_threads_with_texts_of_their_own_get_their_own_results(unet):
    unet.accelerate()
    texts = [torch.randn(2, 7, 24) for _ in range(3)]
    exact = [told(unet, text) for text in texts]
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda place: torch.no_grad()(told)(unet, texts[place % 3]), range(24)))
    assert all(torch.equal(result, exact[place % 3]) for place, result in enumerate(results))


@torch.no_grad()
@pytest.mark.parametrize("copies", [2, 3])
def test_samples_that_come_again_are_computed_once_until_the_text_is_read(unet, copies, monkeypatch):
    latents, text = torch.randn(2, 4, 16, 16), torch.randn(2 * copies, 7, 24)
    unet.accelerate()
    alone = [unet(latents, 5, text[2 * place : 2 * place + 2]).sample for place in range(copies)]
    batches, attend = [], operators.attention
    noted = lambda query, *rest: (batches.append(len(query)), attend(query, *rest))[1]  # noqa: E731
    monkeypatch.setattr(operators, "attention", noted)
    together = unet(torch.cat([latents] * copies), 5, text).sample
    assert torch.equal(together, torch.cat(alone))
    assert batches[0] == 2
    assert set(batches[1:]) == {2 * copies}
    seen = []
    with torch_hook(unet.down_blocks[0].attentions[0].transformer_blocks[0].attn1.to_q, seen):
        assert torch.equal(unet(torch.cat([latents] * copies), 5, text).sample, together)
    assert len(seen[0]) == 2 * copies


@torch.no_grad()
def test_strides_and_sizes_that_torch_refuses_are_refused():
    conv = torch.nn.Conv2d(4, 32, 3, stride=2)
    conv.__class__ = fast_layers.FastConvolution
    assert conv.kind() == "patches"
    with pytest.raises(RuntimeError, match="Kernel size can't be greater"):
        conv(torch.randn(1, 4, 2, 2))
