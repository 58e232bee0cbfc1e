"""LoRA files for Flux in the dialects of its tools: each adds the same to the weights as its layers say."""

import pytest
import torch
from safetensors.torch import save_file

import lockstep
from helpers import assert_close
from lockstep.loaders.weight_map import WeightMap
from lockstep.models.transformers.transformer_flux_map import flux_rows
from lockstep.models.weights import in_memory
from pipelines import tiny_flow

RANK = 3


@pytest.fixture(scope="module")
def pipe():
    made = lockstep.FluxPipeline(**tiny_flow.flux_parts())
    made.set_progress_bar_config(disable=True)
    return made


def pairs(shapes, seed=0):
    """The two thin matrices of every layer."""
    draw = torch.Generator().manual_seed(seed)
    return {
        name: (torch.randn(RANK, shape[1], generator=draw), torch.randn(shape[0], RANK, generator=draw))
        for name, shape in shapes.items()
    }


def original_layers(model, nowhere):
    """The makers' layers of a model that are matrices, with their shapes."""
    table = WeightMap(flux_rows(model.config), "FLUX")
    theirs = table.to_theirs(in_memory(model.state_dict(), nowhere))
    return table, {n.removesuffix(".weight"): t.info.shape for n, t in theirs.items() if len(t.info.shape) == 2}


def expected(model, nowhere, products):
    """What products in the makers' layout add to the model's layers."""
    table, layers = original_layers(model, nowhere)
    whole = {f"{name}.weight": products.get(name, torch.zeros(shape)) for name, shape in layers.items()}
    theirs = {n: t for n, t in table.to_theirs(in_memory(model.state_dict(), nowhere)).items() if n not in whole}
    ours = table.to_ours({**theirs, **in_memory(whole, nowhere)})
    return {name.removesuffix(".weight"): tensor.make() for name, tensor in ours.items() if len(tensor.info.shape) == 2}


KOHYA = {n: n for n in ("double_blocks.0.img_attn.qkv", "double_blocks.1.txt_attn.proj", "double_blocks.0.img_mod.lin",
                        "single_blocks.0.linear1", "single_blocks.1.linear2", "double_blocks.1.txt_mlp.0", "img_in",
                        "single_blocks.0.modulation.lin", "final_layer.linear")}  # fmt: skip


def written(dialect, layers):
    """A file's tensors: the thin matrices under the names of a dialect, and how much of their product counts."""
    tensors, scale = {}, 1.0
    for name, (down, up) in layers.items():
        if dialect == "kohya":
            flat, scale = f"lora_unet_{name.replace('.', '_')}", 2.0 / RANK
            tensors |= {
                f"{flat}.lora_down.weight": down,
                f"{flat}.lora_up.weight": up,
                f"{flat}.alpha": torch.tensor(2.0),
            }
        elif dialect == "bfl":
            tensors |= {f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up}
        else:
            tensors |= {f"diffusion_model.{name}.lora_down.weight": down, f"diffusion_model.{name}.lora_up.weight": up}
    return tensors, scale


def loaded(pipe, path):
    """What a file adds to each layer of the transformer."""
    model = pipe.transformer
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    pipe.load_lora_weights(path)
    after = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    pipe.unload_lora_weights()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    changed = {name: after[name] - before[name] for name in before if not torch.equal(after[name], before[name])}
    return {name.removesuffix(".weight"): difference for name, difference in changed.items()}


def same(got, wanted):
    assert set(got) == set(wanted)
    for name, tensor in wanted.items():
        assert_close(got[name], tensor, 1e-5, name)


@pytest.mark.parametrize("dialect", ["kohya", "bfl", "comfyui"])
def test_files_in_the_makers_names(pipe, tmp_path, dialect):
    _, shapes = original_layers(pipe.transformer, tmp_path)
    layers = pairs({name: shapes[name] for name in KOHYA})
    tensors, scale = written(dialect, layers)
    save_file(tensors, tmp_path / "one.safetensors")
    products = {name: scale * up @ down for name, (down, up) in layers.items()}
    wanted = {n: t for n, t in expected(pipe.transformer, tmp_path, products).items() if t.any()}
    same(loaded(pipe, tmp_path / "one.safetensors"), wanted)


def test_files_of_xlabs(pipe, tmp_path):
    model = pipe.transformer
    width = model.x_embedder.out_features
    shapes = dict.fromkeys(("qkv_lora1", "qkv_lora2", "qkv_lora"), (3 * width, width))
    shapes |= {"proj_lora1": (width, width), "proj_lora2": (width, width), "proj_lora": (width, 5 * width)}
    layers = pairs(shapes)
    tensors = {}
    for name, (down, up) in layers.items():
        block = "double_blocks.1" if name[-1] in "12" else "single_blocks.0"
        tensors |= {f"{block}.processor.{name}.down.weight": down, f"{block}.processor.{name}.up.weight": up}
    save_file(tensors, tmp_path / "xlabs.safetensors")
    product = {name: up @ down for name, (down, up) in layers.items()}
    wanted = {}
    for name, parts in (
        ("qkv_lora1", [f"transformer_blocks.1.attn.to_{x}" for x in "qkv"]),
        ("qkv_lora2", [f"transformer_blocks.1.attn.add_{x}_proj" for x in "qkv"]),
        ("qkv_lora", [f"single_transformer_blocks.0.attn.to_{x}" for x in "qkv"]),
        ("proj_lora1", ["transformer_blocks.1.attn.to_out.0"]),
        ("proj_lora2", ["transformer_blocks.1.attn.to_add_out"]),
        ("proj_lora", ["single_transformer_blocks.0.proj_out"]),
    ):
        wanted |= dict(zip(parts, product[name].chunk(len(parts)), strict=True))
    same(loaded(pipe, tmp_path / "xlabs.safetensors"), wanted)


def test_files_of_diffusers(pipe, tmp_path):
    names = ("transformer_blocks.0.attn.to_q", "single_transformer_blocks.1.proj_mlp", "norm_out.linear")
    layers = pairs({name: tuple(pipe.transformer.get_submodule(name).weight.shape) for name in names})
    tensors = {
        f"transformer.{n}.lora_{k}.weight": t for n, two in layers.items() for k, t in zip("AB", two, strict=True)
    }
    save_file(tensors, tmp_path / "one.safetensors")
    same(loaded(pipe, tmp_path / "one.safetensors"), {name: up @ down for name, (down, up) in layers.items()})
