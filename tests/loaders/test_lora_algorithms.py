"""LoRA and its relatives: what each formula makes of a weight, by hand from its definition and against peft."""

import itertools

import peft
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from helpers import assert_close
from lockstep.errors import FileFormatError, WeightsError
from lockstep.loaders.lora import read_lora
from lockstep.loaders.lora_algorithms import merged_weight

OUT, IN, RANK = 12, 8, 2


class Net(nn.Module):
    """A matrix, a convolution and a norm, and two layers that some files keep as one."""

    fused_layers = (("{}.both", ("{}.first", "{}.second")),)

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(IN, OUT)
        self.conv = nn.Conv2d(IN, OUT, 3)
        self.norm = nn.LayerNorm(OUT)
        self.block = nn.ModuleDict({"first": nn.Linear(IN, 5), "second": nn.Linear(IN, 7)})


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def changed(tmp_path, tensors, strength=1.0, model=None, metadata=None):
    """The model's parameters after a file of these tensors was merged into it."""
    model = model or Net()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, tmp_path / "x.safetensors", metadata)
    lora = read_lora(tmp_path / "x.safetensors", {"unet": model})
    assert lora.report.applied == lora.report.total == len(tensors)
    got = {
        path: merged_weight(model.get_parameter(path), [(change, strength) for change in changes])
        for (_, path), changes in lora.changes.items()
    }
    return model, got


@pytest.mark.parametrize("strength", [1.0, 0.3, -1.0])
@pytest.mark.parametrize("alpha", [None, 1.0, 4.0])
def test_lora_by_hand(tmp_path, strength, alpha):
    up, down = draw(OUT, RANK), draw(RANK, IN)
    tensors = {"lora_unet_line.lora_up.weight": up, "lora_unet_line.lora_down.weight": down}
    tensors |= {} if alpha is None else {"lora_unet_line.alpha": torch.tensor(alpha)}
    model, got = changed(tmp_path, tensors, strength)
    wanted = model.line.weight.detach().clone()
    for o, i, r in itertools.product(range(OUT), range(IN), range(RANK)):
        wanted[o, i] += strength * ((alpha or RANK) / RANK) * up[o, r] * down[r, i]
    assert_close(got["line.weight"], wanted, 1e-6)


def test_convolutions_with_and_without_a_middle_by_hand(tmp_path):
    up, down, mid = draw(OUT, RANK, 1, 1), draw(RANK, IN, 1, 1), draw(RANK, RANK, 3, 3)
    name = "lora_unet_conv"
    model, got = changed(
        tmp_path,
        {f"{name}.lora_up.weight": up, f"{name}.lora_down.weight": down, f"{name}.lora_mid.weight": mid},
    )
    x = draw(1, IN, 5, 5)
    apart = nn.functional.conv2d(nn.functional.conv2d(nn.functional.conv2d(x, down), mid), up)
    assert_close(nn.functional.conv2d(x, got["conv.weight"] - model.conv.weight), apart, 1e-5)
    wide = draw(RANK, IN, 3, 3)
    model, got = changed(tmp_path, {f"{name}.lora_up.weight": up, f"{name}.lora_down.weight": wide})
    apart = nn.functional.conv2d(nn.functional.conv2d(x, wide), up)
    assert_close(nn.functional.conv2d(x, got["conv.weight"] - model.conv.weight), apart, 1e-5)


def test_loha_and_lokr_by_hand(tmp_path):
    w = {"hada_w1_a": draw(OUT, RANK), "hada_w1_b": draw(RANK, IN), "hada_w2_a": draw(OUT, RANK, seed=1),
         "hada_w2_b": draw(RANK, IN, seed=1), "alpha": torch.tensor(1.0)}  # fmt: skip
    model, got = changed(tmp_path, {f"lora_unet_line.{k}": v for k, v in w.items()}, 0.5)
    wanted = model.line.weight.detach().clone()
    for o, i in itertools.product(range(OUT), range(IN)):
        first = sum(w["hada_w1_a"][o, r] * w["hada_w1_b"][r, i] for r in range(RANK))
        wanted[o, i] += 0.5 * (1 / RANK) * first * sum(w["hada_w2_a"][o, r] * w["hada_w2_b"][r, i] for r in range(RANK))
    assert_close(got["line.weight"], wanted, 1e-6)
    w = {"lokr_w1": draw(3, 2), "lokr_w2_a": draw(4, RANK), "lokr_w2_b": draw(RANK, 4), "alpha": torch.tensor(1.0)}
    model, got = changed(tmp_path, {f"lora_unet_line.{k}": v for k, v in w.items()})
    wanted = model.line.weight.detach().clone()
    w2 = w["lokr_w2_a"] @ w["lokr_w2_b"]
    for o, i in itertools.product(range(OUT), range(IN)):
        wanted[o, i] += (1 / RANK) * w["lokr_w1"][o // 4, i // 4] * w2[o % 4, i % 4]
    assert_close(got["line.weight"], wanted, 1e-6)
    whole = {"lokr_w1": draw(3, 2), "lokr_w2": draw(4, 4), "alpha": torch.tensor(1.0)}  # alpha counts for nothing
    model, got = changed(tmp_path, {f"lora_unet_line.{k}": v for k, v in whole.items()})
    assert_close(got["line.weight"] - model.line.weight, torch.kron(whole["lokr_w1"], whole["lokr_w2"]), 1e-5)


@pytest.mark.parametrize("layer", ["line", "conv"])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("LoHa", {}), ("LoHa", {"use_effective_conv2d": True}),
        ("LoKr", {}), ("LoKr", {"use_effective_conv2d": True, "decompose_both": True}),
        ("LoKr", {"decompose_factor": 2}),
    ],
)  # fmt: skip
def test_relatives_against_peft(tmp_path, kind, settings, layer):
    model = Net()
    weight = model.get_parameter(f"{layer}.weight").detach().clone()
    config = getattr(peft, f"{kind}Config")(r=RANK, alpha=3, target_modules=[layer], init_weights=False, **settings)
    torch.manual_seed(3)
    theirs = peft.inject_adapter_in_model(config, model)
    wrapped = theirs.get_submodule(layer)
    delta = wrapped.get_delta_weight("default").detach()
    tensors = {
        f"lora_unet_{layer}.{key.removesuffix('.default')}": value.detach()
        for key, value in wrapped.named_parameters()
        if key.startswith(("hada_", "lokr_"))
    }
    tensors[f"lora_unet_{layer}.alpha"] = torch.tensor(3.0)
    if not any(name.endswith("_b") for name in tensors):  # two whole factors have no rank: LyCORIS leaves alpha out
        delta = delta * RANK / 3
    plain = Net()
    plain.get_parameter(f"{layer}.weight").data = weight
    _, got = changed(tmp_path, tensors, model=plain)
    assert_close(got[f"{layer}.weight"], weight + delta, 1e-6)


@pytest.mark.filterwarnings("ignore:Adapter 'default'")  # peft counts the bias of B among its matrices
@pytest.mark.parametrize("dora", [True, False])
@pytest.mark.parametrize("layer", ["line", "conv"])
def test_dora_and_biases_against_peft(tmp_path, layer, dora):
    model = Net()
    before = Net()
    before.load_state_dict(model.state_dict())
    config = peft.LoraConfig(
        r=RANK, lora_alpha=3, target_modules=[layer], use_dora=dora, init_lora_weights=False, lora_bias=not dora
    )
    torch.manual_seed(0)
    theirs = peft.inject_adapter_in_model(config, model)
    if dora:
        theirs.get_submodule(layer).lora_magnitude_vector["default"].weight.data.mul_(1.3)
    tensors = {f"unet.{name}": value.detach() for name, value in peft.get_peft_model_state_dict(theirs).items()}
    settings = '{"unet.lora_alpha": 3, "unet.use_dora": true}'
    _, got = changed(tmp_path, tensors, model=before, metadata={"lora_adapter_metadata": settings})
    before.get_parameter(f"{layer}.weight").data = got[f"{layer}.weight"]
    if not dora:
        before.get_parameter(f"{layer}.bias").data = got[f"{layer}.bias"]
    x = draw(1, IN) if layer == "line" else draw(1, IN, 5, 5)
    assert_close(before.get_submodule(layer)(x), theirs.get_submodule(layer)(x).detach(), 1e-5)


def test_dora_of_other_trainers_by_hand(tmp_path):
    up, down = draw(OUT, RANK), draw(RANK, IN)
    for magnitude, axis in ((draw(OUT, 1).abs(), 1), (draw(1, IN).abs(), 0)):
        tensors = {"lora_up.weight": up, "lora_down.weight": down, "dora_scale": magnitude}
        model, got = changed(tmp_path, {f"lora_unet_line.{k}": v for k, v in tensors.items()}, 0.6)
        weight = model.line.weight.detach()
        whole = weight + up @ down
        whole = magnitude * whole / whole.pow(2).sum(axis, keepdim=True).sqrt()
        assert_close(got["line.weight"], weight + 0.6 * (whole - weight), 1e-6)


def test_full_differences_biases_norms_and_ia3_by_hand(tmp_path):
    delta, bias = draw(OUT, IN, 3, 3), draw(OUT)
    model, got = changed(tmp_path, {"lora_unet_conv.diff": delta, "lora_unet_conv.diff_b": bias}, 0.5)
    assert_close(got["conv.weight"], model.conv.weight + 0.5 * delta, 1e-6)
    assert_close(got["conv.bias"], model.conv.bias + 0.5 * bias, 1e-6)
    model, got = changed(tmp_path, {"lora_unet_norm.w_norm": bias, "lora_unet_norm.b_norm": 2 * bias})
    assert_close(got["norm.weight"], model.norm.weight + bias, 1e-6)
    assert_close(got["norm.bias"], model.norm.bias + 2 * bias, 1e-6)
    for vector, on_input in ((draw(1, IN), True), (draw(OUT, 1), False)):
        tensors = {"lora_unet_line.weight": vector, "lora_unet_line.on_input": torch.tensor(on_input)}
        model, got = changed(tmp_path, tensors, 0.5)
        assert_close(got["line.weight"], model.line.weight * (1 + 0.5 * vector), 1e-6)


def test_relatives_on_a_layer_that_the_model_has_in_parts(tmp_path):
    up, down, magnitude = draw(OUT, RANK), draw(RANK, IN), draw(OUT, 1).abs()
    tensors = {"lora_up.weight": up, "lora_down.weight": down, "dora_scale": magnitude}
    model, got = changed(tmp_path, {f"diffusion_model.block.both.{k}": v for k, v in tensors.items()})
    weight = torch.cat([model.block["first"].weight, model.block["second"].weight]).detach() + up @ down
    wanted = magnitude * weight / weight.norm(dim=1, keepdim=True)
    assert_close(torch.cat([got["block.first.weight"], got["block.second.weight"]]), wanted, 1e-6)
    tensors["dora_scale"] = draw(1, IN)
    with pytest.raises(WeightsError, match="norms go over columns"):
        changed(tmp_path, {f"diffusion_model.block.both.{k}": v for k, v in tensors.items()})


def test_rank_stabilised_and_patterned_alphas(tmp_path):
    up, down = draw(OUT, 4), draw(4, IN)
    tensors = {"unet.line.lora_A.weight": down, "unet.line.lora_B.weight": up}
    for settings, scale in (
        ('{"unet.lora_alpha": 6, "unet.use_rslora": true}', 6 / 2),
        ('{"unet.lora_alpha": 6, "unet.alpha_pattern": {"line": 2}}', 2 / 4),
        ('{"unet.lora_alpha": 6, "unet.alpha_pattern": {"ine": 2}}', 6 / 4),
    ):
        model, got = changed(tmp_path, tensors, metadata={"lora_adapter_metadata": settings})
        assert_close(got["line.weight"], model.line.weight + scale * up @ down, 1e-6, settings)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"hada_w1_a": (OUT, 2), "hada_w1_b": (2, IN)}, "it is a LoHa and has no 'hada_w2_a, hada_w2_b' matrix"),
        ({"lora_up.weight": (IN, 2), "lora_down.weight": (2, OUT)}, "wanted a change of shape"),
        ({"lora_up.weight": (OUT, 2), "lora_down.weight": (3, IN)}, "wanted a change of shape"),
        ({"lokr_w1": (3, 2), "lokr_w2": (4, 5)}, "wanted a change of shape"),
        ({"lora_up.weight": (OUT, 2), "lora_down.weight": (2, IN), "dora_scale": (5, 1)}, "wanted a change of shape"),
        ({"alpha": ()}, "it has only alpha"),
        ({"lora_up.weight": (OUT, 2), "lora_down.weight": (2, IN), "alpha": (2,)}, "alpha of .* one number, got .2."),
    ],
)
def test_what_makes_no_change_is_refused(tmp_path, tensors, words):
    save_file({f"lora_unet_line.{k}": torch.ones(shape) for k, shape in tensors.items()}, tmp_path / "x.safetensors")
    with pytest.raises(WeightsError, match=words):
        read_lora(tmp_path / "x.safetensors", {"unet": Net()})


def test_integers_without_a_scale_are_refused(tmp_path):
    tensors = {"lora_unet_line.lora_up.weight": torch.ones(OUT, 2, dtype=torch.int8),
               "lora_unet_line.lora_down.weight": torch.ones(2, IN)}  # fmt: skip
    save_file(tensors, tmp_path / "x.safetensors")
    with pytest.raises(WeightsError, match="int8: numbers that are quantised without a scale"):
        read_lora(tmp_path / "x.safetensors", {"unet": Net()})


@pytest.mark.parametrize("nothing", ["alpha", "up", "rank"])
def test_what_changes_nothing_is_said(tmp_path, nothing):
    rank = 0 if nothing == "rank" else 2
    tensors = {"lora_up.weight": torch.ones(OUT, rank), "lora_down.weight": torch.ones(rank, IN)}
    tensors |= {"alpha": torch.tensor(0.0)} if nothing == "alpha" else {}
    tensors |= {"lora_up.weight": torch.zeros(OUT, rank)} if nothing == "up" else {}
    save_file({f"lora_unet_line.{name}": tensor for name, tensor in tensors.items()}, tmp_path / "x.safetensors")
    report = read_lora(tmp_path / "x.safetensors", {"unet": Net()}).report
    assert not report.has_effect
    assert "1 layers change nothing (an alpha or matrices of zero): 'lora_unet_line'" in str(report)


@pytest.mark.parametrize("settings", ['{"unet.lora_alpha": "abc"}', "[1, 2]"])
def test_settings_that_are_wrong_are_refused(tmp_path, settings):
    tensors = {"unet.line.lora_A.weight": torch.ones(2, IN), "unet.line.lora_B.weight": torch.ones(OUT, 2)}
    save_file(tensors, tmp_path / "x.safetensors", {"lora_adapter_metadata": settings})
    with pytest.raises(FileFormatError, match="has to"):
        read_lora(tmp_path / "x.safetensors", {"unet": Net()})
