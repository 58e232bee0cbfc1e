"""A LoRA cut in another way than the model: fused and separate projections, convolutions of any kind, two experts."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from helpers import assert_close
from lockstep.errors import UnknownNameError, WeightsError
from lockstep.loaders.lora import read_lora
from lockstep.loaders.lora_algorithms import merged_weight

QKV = (("{}.qkv", ("{}.to_q", "{}.to_k", "{}.to_v")),)
UNEVEN = (("{}.linear1", ("{}.to_q", "{}.proj_mlp")),)


class Fused(nn.Module):
    """One layer for queries, keys and values; one for queries and a feed-forward."""

    fused_layers = (*QKV, *UNEVEN)

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.ModuleDict({"qkv": nn.Linear(6, 12), "out": nn.Linear(4, 6)})])
        self.single = nn.ModuleList([nn.ModuleDict({"linear1": nn.Linear(6, 11)})])


class Separate(nn.Module):
    """The same as layers of their own."""

    fused_layers = (*QKV, *UNEVEN)

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.ModuleDict({f"to_{part}": nn.Linear(6, 4) for part in "qkv"})])
        self.single = nn.ModuleList([nn.ModuleDict({"to_q": nn.Linear(6, 4), "proj_mlp": nn.Linear(6, 7)})])


class Convolutions(nn.Module):
    """Along one, two and three axes."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.Conv1d(2, 3, 3), nn.Conv2d(2, 3, 3), nn.Conv3d(2, 3, 3)


def layer(name, rows, inner, rank=2, dialect="peft"):
    """A pair of random matrices, by the dialect's names; and their product."""
    draw = torch.Generator().manual_seed(sum(map(ord, name)))
    down, up = (
        torch.randn(rank, *inner, generator=draw),
        torch.randn(rows, rank, *[1] * (len(inner) - 1), generator=draw),
    )
    ends = ("lora_A", "lora_B") if dialect == "peft" else ("lora_down", "lora_up")
    return {f"{name}.{ends[0]}.weight": down, f"{name}.{ends[1]}.weight": up}, up.flatten(1) @ down.flatten(1)


def written(tmp_path, *layers):
    file = tmp_path / "style.safetensors"
    save_file({name: tensor for tensors, _ in layers for name, tensor in tensors.items()}, file)
    return file


def merged(model, lora, name):
    weight = model.get_submodule(name).weight
    return (
        merged_weight(weight, [(one, 1.0) for one in lora.changes.get(("transformer", f"{name}.weight"), ())]) - weight
    )


@pytest.mark.parametrize("prefix", ["transformer.", "diffusion_model.", "", "lora_unet_", "lora_transformer_"])
def test_several_layers_of_a_file_add_to_one_of_the_model(tmp_path, prefix):
    flat = prefix.endswith("_")
    name = f"{prefix}blocks_0_to_" if flat else f"{prefix}blocks.0.to_"
    dialect = "kohya" if flat else "peft"
    q, v = layer(f"{name}q", 4, (6,), dialect=dialect), layer(f"{name}v", 4, (6,), rank=3, dialect=dialect)
    model = Fused()
    lora = read_lora(written(tmp_path, q, v), {"transformer": model}, "transformer")
    got = merged(model, lora, "blocks.0.qkv")
    assert_close(got, torch.cat([q[1], torch.zeros(4, 6), v[1]]), 1e-6)


def test_one_layer_of_a_file_adds_to_several_of_the_model(tmp_path):
    qkv, uneven = layer("transformer.blocks.0.qkv", 12, (6,)), layer("transformer.single.0.linear1", 11, (6,))
    model = Separate()
    lora = read_lora(written(tmp_path, qkv, uneven), {"transformer": model}, "transformer")
    for k, part in enumerate("qkv"):
        assert_close(merged(model, lora, f"blocks.0.to_{part}"), qkv[1][4 * k : 4 * k + 4], 1e-6, part)
    assert_close(merged(model, lora, "single.0.to_q"), uneven[1][:4], 1e-6)
    assert_close(merged(model, lora, "single.0.proj_mlp"), uneven[1][4:], 1e-6)


def test_parts_of_different_sizes_lie_behind_one_another(tmp_path):
    first, second = layer("transformer.single.0.to_q", 4, (6,)), layer("transformer.single.0.proj_mlp", 7, (6,))
    model = Fused()
    lora = read_lora(written(tmp_path, first, second), {"transformer": model}, "transformer")
    assert_close(merged(model, lora, "single.0.linear1"), torch.cat([first[1], second[1]]), 1e-6)
    with pytest.raises(WeightsError, match="part 2 of 2 of 'single.0.linear1'.*which the file does not have"):
        read_lora(written(tmp_path, second), {"transformer": model}, "transformer")


def test_convolutions_along_any_number_of_axes(tmp_path):
    model = Convolutions()
    layers = {
        name: layer(f"transformer.{name}", 3, (2, *[3] * axes)) for axes, name in enumerate(["one", "two", "three"], 1)
    }
    lora = read_lora(written(tmp_path, *layers.values()), {"transformer": model}, "transformer")
    for name, (_, product) in layers.items():
        assert_close(merged(model, lora, name).flatten(1), product, 1e-6, name)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (("transformer.blocks.0.qkv", 11, (6,)), "made for another model"),
        (("transformer.blocks.0.qkv", 12, (5,)), "made for another model"),
        (("transformer.blocks.0.to_z", 4, (6,)), "transformer has no such layer"),
        (("lora_te2_blocks_0_qkv", 12, (6,)), "this pipeline has no text_encoder_2"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, made, words):
    with pytest.raises(WeightsError, match=words):
        read_lora(written(tmp_path, layer(*made)), {"transformer": Separate()}, "transformer")


def test_a_lora_for_one_of_two_experts(tmp_path):
    from blocks.test_choice_in_loop import experts

    pipe = experts()
    file = written(tmp_path, layer("diffusion_model.first", 32, (23,)))
    before = [pipe.transformer.first.weight.clone(), pipe.transformer_2.first.weight.clone()]
    pipe.load_lora_weights(file, adapter_name="low", component="transformer_2")
    assert torch.equal(pipe.transformer.first.weight, before[0])
    assert not torch.equal(pipe.transformer_2.first.weight, before[1])
    pipe.load_lora_weights(file, adapter_name="high")
    assert not torch.equal(pipe.transformer.first.weight, before[0])
    pipe.unload_lora_weights()
    assert torch.equal(pipe.transformer_2.first.weight, before[1])
    with pytest.raises(UnknownNameError, match="transformer_2"):
        pipe.load_lora_weights(file, component="transformer_3")
