"""`high`: layers in bf16 as far as a measured bound allows, told, and back."""

import copy

import pytest
import torch

from lockstep import (
    AutoencoderKL,
    CLIPTextModel,
    FluxTransformer2DModel,
    UNet2DConditionModel,
    WanTransformer3DModel,
    kernels,
)
from lockstep.errors import InputError
from lockstep.models import accelerated, bf16_layers, fast_layers, remembered
from lockstep.models.examples import example_call, text_call

own = kernels.library()
pytestmark = pytest.mark.skipif(own is None or not own.bf16, reason="no kernels for bf16 here")
UNET = {
    "sample_size": 16,
    "block_out_channels": (32, 64),
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "layers_per_block": 1,
    "cross_attention_dim": 24,
    "attention_head_dim": 2,
    "norm_num_groups": 8,
}


@pytest.fixture(scope="module")
def original():
    torch.manual_seed(0)
    return UNet2DConditionModel(**UNET).eval()


@pytest.fixture
def unet(original):
    return copy.deepcopy(original)


def distance(model, exact, call):
    with torch.no_grad():
        result = call(model)
    return float((result - exact).norm() / exact.norm())


def test_the_bound_holds_and_what_was_found_is_told(unet):
    call = example_call(unet)
    with torch.no_grad():
        exact = call(unet)
    errors = {}
    for bound in (0.02, 0.004, 0.0005):
        found = unet.accelerate("high", bound=bound).acceleration
        errors[bound] = distance(unet, exact, call)
        assert errors[bound] <= bound * 1.01
        assert found.bf16.error == pytest.approx(errors[bound], rel=0.01)
        assert len(found.bf16.in_bf16) + len(found.bf16.kept) == len(bf16_layers.able(unet))
        assert "bf16" in str(found)
    assert errors[0.02] > errors[0.004] > errors[0.0005] > 1e-5, "more is allowed, more is done in bf16"
    with torch.no_grad():
        assert torch.equal(call(unet.accelerate("off")), exact)
    assert not any("in_bf16" in module.__dict__ for module in unet.modules())


def test_another_input_is_about_as_far_off(unet):
    unet.accelerate("high")
    random = torch.Generator().manual_seed(5)
    given = torch.randn(2, 4, 24, 24, generator=random), torch.tensor([3, 900]), torch.randn(2, 7, 24, generator=random)
    with torch.no_grad():
        high = unet(*given).sample
        exact = unet.accelerate("off")(*given).sample
    assert 1e-4 < float((high - exact).norm() / exact.norm()) < 2 * bf16_layers.BOUND


def test_the_prediction_of_a_layer_is_what_it_does(unet):
    """The effect by one backward pass, against the effect of the layer alone in bf16."""
    call = example_call(unet)
    unet.accelerate()
    layers = bf16_layers.able(unet)
    effects = bf16_layers.measure(unet, call, layers)
    with torch.no_grad():
        exact = call(unet)
    names = (
        "down_blocks.0.resnets.0.conv1",
        "mid_block.resnets.0.conv2",
        "mid_block.attentions.0.transformer_blocks.0.ff.net.0",
    )
    for name in names:
        bf16_layers.switch(layers[name], True)
        alone = distance(unet, exact, call)
        bf16_layers.switch(layers[name], False)
        assert 0.4 < alone / effects[name].squared ** 0.5 < 2.5, name


def test_a_sensitive_layer_stays(unet):
    """What everything else passes through is kept in fp32 before others, where not all can be bf16."""
    name = "up_blocks.1.resnets.1.conv2"
    with torch.no_grad():
        unet.get_submodule(name).weight.mul_(100)  # then most of the result is what this layer says
    found = unet.accelerate("high", bound=0.002).acceleration.bf16
    assert name in found.kept[:3]
    assert found.in_bf16


def test_what_an_example_does_not_call_is_not_touched():
    torch.manual_seed(0)
    vae = AutoencoderKL(
        block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=8, latent_channels=4,
    ).eval()  # fmt: skip
    found = vae.accelerate("high").acceleration
    assert found.bf16.in_bf16
    assert not [name for name in found.bf16.in_bf16 if name.startswith("encoder.")]


@pytest.mark.parametrize("kind", ["flux", "wan"])
def test_transformers_at_every_level(kind):
    torch.manual_seed(0)
    if kind == "flux":
        model = FluxTransformer2DModel(
            num_layers=1, num_single_layers=1, num_attention_heads=2, attention_head_dim=32, joint_attention_dim=32,
            pooled_projection_dim=32, in_channels=16, axes_dims_rope=(8, 12, 12),
        ).eval()  # fmt: skip
    else:
        model = WanTransformer3DModel(
            num_layers=2, num_attention_heads=2, attention_head_dim=32, ffn_dim=64, text_dim=32, freq_dim=32
        ).eval()
    call = example_call(model, size=8)
    with torch.no_grad():
        exact = call(model)
        assert 0 < distance(model.accelerate(), exact, call) < 5e-6
        assert 1e-4 < distance(model.accelerate("high"), exact, call) < 0.015
        assert torch.equal(call(model.accelerate("off")), exact)


def test_without_bf16_it_is_exact_and_says_so(unet, monkeypatch, caplog):
    monkeypatch.setattr(accelerated, "why_not_high", lambda: "no bf16 here")
    unet.accelerate("high")
    assert "as 'exact', not as 'high': no bf16 here" in caplog.text
    assert unet.acceleration.level == "exact"
    assert not any(getattr(module, "in_bf16", False) for module in unet.modules())


def test_wrong_bounds_are_refused(unet):
    for bound in (0, -1, 2, "much", True):
        with pytest.raises(InputError, match="bound"):
            unet.accelerate("high", bound=bound)
    with pytest.raises(InputError, match="high"):
        unet.accelerate("exact", bound=0.01)


def test_gradients_are_torchs_own(unet):
    call = example_call(unet)
    call(unet).sum().backward()
    plain = unet.conv_in.weight.grad.clone()
    unet.zero_grad()
    call(unet.accelerate("high")).sum().backward()
    assert torch.equal(unet.conv_in.weight.grad, plain)


def test_weights_that_change_are_prepared_again(unet):
    call = example_call(unet)
    with torch.no_grad():
        call(unet.accelerate("high"))
        assert isinstance(unet.conv_out, fast_layers.FastConvolution)
        for parameter in unet.parameters():
            parameter.mul_(1.1)
        high = call(unet)
        exact = call(unet.accelerate("off"))
    assert float((high - exact).norm() / exact.norm()) < 2 * bf16_layers.BOUND


def test_the_choice_of_a_large_model_is_remembered_for_its_weights_and_bound(unet, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_ENGINES", str(tmp_path))
    monkeypatch.setattr(remembered, "LARGE", 1)
    measured, choose = [], bf16_layers.choose
    monkeypatch.setattr(bf16_layers, "choose", lambda *given: measured.append(given[2]) or choose(*given))
    call = example_call(unet)
    first = unet.accelerate("high", bound=0.01).acceleration.bf16
    with torch.no_grad():
        computed = call(unet)
    assert unet.accelerate("high", bound=0.01).acceleration.bf16 == first
    assert measured == [0.01]
    with torch.no_grad():
        assert torch.equal(call(unet), computed)
    unet.accelerate("high", bound=0.02)
    assert measured == [0.01, 0.02]
    unet.accelerate("high", bound=0.02, example=call)  # of one's own: measured
    assert len(measured) == 3
    with torch.no_grad():
        unet.conv_in.weight[0, 0, 0, 0] += 1e-3
    unet.accelerate("high", bound=0.01)
    assert len(measured) == 4
    for place in tmp_path.iterdir():
        place.write_text("{")
    unet.accelerate("high", bound=0.01)
    assert len(measured) == 5


def test_small_models_leave_nothing_on_disk(unet, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_ENGINES", str(tmp_path))
    unet.accelerate("high", bound=0.01)
    assert not list(tmp_path.iterdir())


def test_a_looser_bound_never_gives_fewer_layers_however_the_errors_jump():
    errors = [0.0, *torch.rand(200, generator=torch.Generator().manual_seed(0)).mul(0.05).tolist()]
    errors[40], errors[150:160] = 0.0001, [float("nan")] * 10
    found = [bf16_layers.most_within(lambda count: errors[count], 200, bound / 1000) for bound in range(1, 60)]
    counts = [count for count, _ in found]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == 200
    assert all(error <= bound / 1000 for (_, error), bound in zip(found, range(1, 60), strict=True))


def test_a_choice_by_a_text_is_remembered_for_the_text(unet, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_ENGINES", str(tmp_path))
    monkeypatch.setattr(remembered, "LARGE", 1)
    encoder = CLIPTextModel(hidden_size=24, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2).eval()
    call = text_call(unet, encoder, torch.tensor([[5, 6, 7]]))
    computed = []
    monkeypatch.setattr(
        bf16_layers, "choose", lambda *given: computed.append(1) or bf16_layers.Choice((), (), 0.0, 1.0)
    )
    monkeypatch.setattr(remembered, "able", lambda model: {})
    for example in (
        call,
        text_call(unet, encoder, torch.tensor([[5, 6, 7]])),
        None,
        text_call(unet, encoder, torch.tensor([[8]])),
    ):
        unet.accelerate("high", example=example)
    assert len(computed) == 3
    assert text_call(unet.mid_block, encoder, torch.tensor([[5]])) is None


def test_a_text_is_the_same_whatever_the_speed_of_its_encoder(unet):
    torch.manual_seed(0)
    encoder = CLIPTextModel(hidden_size=24, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2).eval()
    texts = [
        text_call(unet, encoder.accelerate(level), torch.tensor([[5, 6, 7]])).text for level in ("off", "exact", "high")
    ]
    assert torch.equal(texts[0], texts[1])
    assert torch.equal(texts[0], texts[2])
