"""LoRA files for Flux, Stable Diffusion 3 and Wan in the dialects of their tools: each adds to the weights what its
layers say, and what the reference adds where it reads the file."""

import diffusers
import pytest
import torch
from safetensors.torch import save_file

import lockstep
from helpers import assert_close
from lockstep.errors import UnknownNameError, WeightsError
from lockstep.loaders.weight_map import WeightMap
from lockstep.models.transformers.transformer_flux_map import flux_rows
from lockstep.models.transformers.transformer_ltx_video_map import ltx_rows
from lockstep.models.transformers.transformer_sd3_map import sd3_rows
from lockstep.models.transformers.transformer_wan_map import wan_rows
from lockstep.models.transformers.transformer_z_image_map import z_image_rows
from lockstep.models.weights import in_memory
from pipelines import tiny_flow, tiny_ltx_video, tiny_qwen_image, tiny_video, tiny_z_image

RANK = 3
ROWS = {"flux": flux_rows, "sd3": sd3_rows, "wan": wan_rows, "z_image": z_image_rows, "ltx": ltx_rows}
PIPELINES = {
    "flux": lambda: lockstep.FluxPipeline(**tiny_flow.flux_parts()),
    "sd3": lambda: lockstep.StableDiffusion3Pipeline(**tiny_flow.sd3_parts()),
    "wan": lambda: lockstep.WanImageToVideoPipeline(**tiny_video.parts("image")),
    "z_image": lambda: lockstep.ZImagePipeline(**tiny_z_image.z_image_parts()),
    "ltx": lambda: lockstep.LTXPipeline(**tiny_ltx_video.ltx_parts()),
}
LAYERS = {  # in the makers' names
    "flux": ("double_blocks.0.img_attn.qkv", "double_blocks.1.txt_attn.proj", "double_blocks.0.img_mod.lin", "img_in",
             "single_blocks.0.linear1", "single_blocks.1.linear2", "double_blocks.1.txt_mlp.0", "final_layer.linear",
             "single_blocks.0.modulation.lin", "final_layer.adaLN_modulation.1"),
    "sd3": ("joint_blocks.0.x_block.attn.qkv", "joint_blocks.0.x_block.attn2.qkv",
            "joint_blocks.1.context_block.mlp.fc1", "joint_blocks.0.x_block.adaLN_modulation.1",
            "joint_blocks.2.context_block.adaLN_modulation.1",
            "joint_blocks.1.context_block.attn.proj", "final_layer.adaLN_modulation.1", "context_embedder"),
    "wan": ("blocks.0.self_attn.q", "blocks.1.self_attn.o", "blocks.0.cross_attn.v", "blocks.1.cross_attn.k_img",
            "blocks.0.ffn.0", "blocks.1.ffn.2", "time_projection.1", "text_embedding.0", "head.head",
            "img_emb.proj.1"),
    "z_image": ("layers.0.attention.qkv", "noise_refiner.0.attention.out", "context_refiner.0.feed_forward.w2",
                "layers.1.adaLN_modulation.0", "x_embedder", "final_layer.linear", "cap_embedder.1",
                "t_embedder.mlp.2"),
    "ltx": ("transformer_blocks.0.attn1.to_q", "transformer_blocks.1.attn2.to_out.0",
            "transformer_blocks.0.ff.net.0.proj", "patchify_proj", "adaln_single.linear",
            "adaln_single.emb.timestep_embedder.linear_1", "proj_out", "caption_projection.linear_2"),
}  # fmt: skip
KINDS = list(ROWS)


@pytest.fixture(scope="module")
def pipes():
    made = {kind: make() for kind, make in PIPELINES.items()}
    for pipe in made.values():
        pipe.set_progress_bar_config(disable=True)
    return made


def pairs(shapes, seed=0):
    """The two thin matrices of every layer."""
    draw = torch.Generator().manual_seed(seed)
    return {
        name: (torch.randn(RANK, shape[1], generator=draw), torch.randn(shape[0], RANK, generator=draw))
        for name, shape in shapes.items()
    }


def original_layers(kind, model, nowhere):
    """The makers' layers of a model that are matrices, with their shapes."""
    table = WeightMap(ROWS[kind](model.config), kind)
    theirs = table.to_theirs(in_memory(model.state_dict(), nowhere))
    return table, {n.removesuffix(".weight"): t.info.shape for n, t in theirs.items() if is_matrix(n, t)}


def is_matrix(name, tensor):
    return name.endswith(".weight") and len(tensor.info.shape) == 2


def expected(kind, model, nowhere, products):
    """What products in the makers' layout add to the model's layers."""
    table, layers = original_layers(kind, model, nowhere)
    whole = {f"{name}.weight": products.get(name, torch.zeros(shape)) for name, shape in layers.items()}
    theirs = {n: t for n, t in table.to_theirs(in_memory(model.state_dict(), nowhere)).items() if n not in whole}
    ours = table.to_ours({**theirs, **in_memory(whole, nowhere)})
    matrices = {name.removesuffix(".weight"): t.make() for name, t in ours.items() if is_matrix(name, t)}
    return {name: tensor for name, tensor in matrices.items() if tensor.any()}


def written(dialect, layers):
    """A file's tensors: the thin matrices under the names of a dialect, and how much of their product counts."""
    tensors, scale = {}, 1.0
    for name, (down, up) in layers.items():
        if dialect == "kohya":  # and musubi, of the same author
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
    report = pipe.load_lora_weights(path)
    assert report.applied == report.total
    after = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    pipe.unload_lora_weights()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    changed = {name: after[name] - before[name] for name in before if not torch.equal(after[name], before[name])}
    return {name.removesuffix(".weight"): difference for name, difference in changed.items()}


def same(got, wanted, tolerance=1e-5):
    assert set(got) == set(wanted)
    for name, tensor in wanted.items():
        assert_close(got[name], tensor, tolerance, name)


@pytest.mark.parametrize("dialect", ["kohya", "bfl", "comfyui"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_in_the_makers_names(pipes, tmp_path, kind, dialect):
    pipe = pipes[kind]
    _, shapes = original_layers(kind, pipe.transformer, tmp_path)
    layers = pairs({name: shapes[name] for name in LAYERS[kind]})
    tensors, scale = written(dialect, layers)
    save_file(tensors, tmp_path / "one.safetensors")
    products = {name: scale * up @ down for name, (down, up) in layers.items()}
    same(loaded(pipe, tmp_path / "one.safetensors"), expected(kind, pipe.transformer, tmp_path, products))


def test_files_of_xlabs(pipes, tmp_path):
    model = pipes["flux"].transformer
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
    same(loaded(pipes["flux"], tmp_path / "xlabs.safetensors"), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_diffusers(pipes, tmp_path, kind):
    names = {
        "flux": ("transformer_blocks.0.attn.to_q", "single_transformer_blocks.1.proj_mlp", "norm_out.linear"),
        "sd3": ("transformer_blocks.0.attn2.to_q", "transformer_blocks.1.ff_context.net.2", "norm_out.linear"),
        "wan": ("blocks.0.attn1.to_out.0", "blocks.1.attn2.add_k_proj", "condition_embedder.time_proj"),
        "z_image": ("layers.0.attention.to_q", "context_refiner.0.feed_forward.w1", "all_final_layer.2-1.linear"),
        "ltx": ("transformer_blocks.0.attn1.to_q", "time_embed.linear", "proj_in"),
    }[kind]
    layers = pairs({name: tuple(pipes[kind].transformer.get_submodule(name).weight.shape) for name in names})
    tensors = {
        f"transformer.{n}.lora_{k}.weight": t for n, two in layers.items() for k, t in zip("AB", two, strict=True)
    }
    save_file(tensors, tmp_path / "one.safetensors")
    same(loaded(pipes[kind], tmp_path / "one.safetensors"), {name: up @ down for name, (down, up) in layers.items()})


TRAINED = {  # the layers that trainers change, under their published names
    "ZImagePipeline": [
        *[
            f"{stack}.0.{end}"
            for stack in ("layers", "noise_refiner")
            for end in (
                "attention.to_q",
                "attention.to_v",
                "attention.to_out.0",
                "feed_forward.w1",
                "adaLN_modulation.0",
            )
        ],
        "cap_embedder.1",
    ],
    "QwenImagePipeline": [
        *[
            f"transformer_blocks.{k}.attn.{end}"
            for k in (0, 1)
            for end in ("to_q", "to_out.0", "add_k_proj", "to_add_out")
        ],
        *[f"transformer_blocks.0.{end}" for end in ("img_mod.1", "txt_mod.1", "img_mlp.net.0.proj", "txt_mlp.net.2")],
    ],
}
SAVE = {"ZImagePipeline": tiny_z_image.save_z_image, "QwenImagePipeline": tiny_qwen_image.save_qwen_image}


DIALECTS = [
    (pipeline, one) for one in ("kohya", "comfyui", "diffusers", "with an adapter's name") for pipeline in TRAINED
]


@pytest.mark.parametrize(("pipeline", "dialect"), [*DIALECTS, ("QwenImagePipeline", "lightx2v")])
def test_files_as_the_reference_reads_them(tmp_path, pipeline, dialect):
    folder = SAVE[pipeline](tmp_path / "model")
    ours, theirs = (getattr(library, pipeline).from_pretrained(folder) for library in (lockstep, diffusers))
    names = TRAINED[pipeline]
    tensors = {}
    for name, two in pairs({name: ours.transformer.get_submodule(name).weight.shape for name in names}).items():
        if dialect == "kohya":
            flat, parts = f"lora_unet_{name.replace('.', '_')}", ("lora_down", "lora_up")
            tensors[f"{flat}.alpha"] = torch.tensor(2.0)
        elif dialect == "lightx2v":
            flat, parts = name, ("lora_down", "lora_up")
            tensors[f"{flat}.alpha"] = torch.tensor(2.0)
        else:
            flat = f"{'transformer' if dialect == 'diffusers' else 'diffusion_model'}.{name}"
            parts = ("lora_A.default", "lora_B.default") if "adapter" in dialect else ("lora_A", "lora_B")
        tensors |= {f"{flat}.{part}.weight": t for part, t in zip(parts, two, strict=True)}
    save_file(tensors, tmp_path / "one.safetensors")
    added = loaded(ours, tmp_path / "one.safetensors")
    before = {name: theirs.transformer.get_submodule(name).weight.clone() for name in names}
    theirs.load_lora_weights(tmp_path / "one.safetensors")
    theirs.fuse_lora()
    theirs.unload_lora_weights()
    same(added, {name: theirs.transformer.get_submodule(name).weight - before[name] for name in names}, 1e-4)


@pytest.mark.parametrize("prefix", ["transformer", "diffusion_model"])
def test_files_for_ltx_video_as_the_reference_reads_them(tmp_path, prefix):
    folder = tiny_ltx_video.save_ltx(tmp_path / "model")
    ours, theirs = (library.LTXPipeline.from_pretrained(folder) for library in (lockstep, diffusers))
    ends = ("attn1.to_q", "attn1.to_out.0", "attn2.to_k", "ff.net.0.proj", "ff.net.2")
    names = [f"transformer_blocks.{block}.{end}" for block in (0, 1) for end in ends]
    layers = pairs({name: ours.transformer.get_submodule(name).weight.shape for name in names})
    parts = ("lora_A", "lora_B")
    save_file(
        {f"{prefix}.{n}.{part}.weight": t for n, two in layers.items() for part, t in zip(parts, two, strict=True)},
        tmp_path / "one.safetensors",
    )
    added = loaded(ours, tmp_path / "one.safetensors")
    before = {name: theirs.transformer.get_submodule(name).weight.clone() for name in names}
    theirs.load_lora_weights(tmp_path / "one.safetensors")
    theirs.fuse_lora()
    theirs.unload_lora_weights()
    same(added, {name: theirs.transformer.get_submodule(name).weight - before[name] for name in names}, 1e-4)


@pytest.mark.parametrize("kind", ["flux", "sd3"])
def test_text_encoders_by_kohyas_numbers(pipes, tmp_path, kind):
    """CLIP first, and T5 third, whether the pipeline has it third or second."""
    pipe = pipes[kind]
    wanted, tensors = {}, {}
    names = {"te1": ("text_encoder", "text_model.encoder.layers.0.self_attn.q_proj")}
    names["te3"] = ("text_encoder_3" if kind == "sd3" else "text_encoder_2", "encoder.block.1.layer.0.SelfAttention.q")
    if kind == "sd3":
        names["te2"] = ("text_encoder_2", "text_model.encoder.layers.1.mlp.fc2")
    for start, (component, layer) in names.items():
        shape = pipe.components[component].get_submodule(layer).weight.shape
        ((down, up),) = pairs({layer: shape}).values()
        flat = f"lora_{start}_{layer.replace('.', '_')}"
        tensors |= {f"{flat}.lora_down.weight": down, f"{flat}.lora_up.weight": up, f"{flat}.alpha": torch.tensor(1.0)}
        wanted[component, layer] = up @ down / RANK
    before = {key: pipe.components[key[0]].get_submodule(key[1]).weight.clone() for key in wanted}
    save_file(tensors, tmp_path / "text.safetensors")
    report = pipe.load_lora_weights(tmp_path / "text.safetensors")
    assert report.applied == report.total == len(tensors)
    for (component, layer), change in wanted.items():
        got = pipe.components[component].get_submodule(layer).weight
        assert_close(got, before[component, layer] + change, 1e-6, layer)
    pipe.unload_lora_weights()


# ---- Wan ----


def distilled(pipe, nowhere, norms=True):
    """A file as those that make few steps of many have it: layers, and differences of biases, norms, modulations."""
    _, shapes = original_layers("wan", pipe.transformer, nowhere)
    layers = pairs({name: shapes[name] for name in LAYERS["wan"] if name != "head.head"})
    tensors, _ = written("comfyui", layers)
    wanted = expected("wan", pipe.transformer, nowhere, {name: up @ down for name, (down, up) in layers.items()})
    draw = torch.Generator().manual_seed(5)
    model = pipe.transformer
    differences = {
        "blocks.0.self_attn.q.diff_b": "blocks.0.attn1.to_q.bias",
        "blocks.1.cross_attn.k_img.diff_b": "blocks.1.attn2.add_k_proj.bias",
        "blocks.0.ffn.0.diff_b": "blocks.0.ffn.net.0.proj.bias",
        "time_projection.1.diff_b": "condition_embedder.time_proj.bias",
        "head.head.diff": "proj_out",
        "head.head.diff_b": "proj_out.bias",
    }
    if norms:
        differences |= {
            "blocks.0.self_attn.norm_q.diff": "blocks.0.attn1.norm_q",
            "blocks.1.cross_attn.norm_k_img.diff": "blocks.1.attn2.norm_added_k",
            "blocks.0.norm3.diff": "blocks.0.norm2",
            "blocks.0.norm3.diff_b": "blocks.0.norm2.bias",
            "patch_embedding.diff": "patch_embedding",
            "blocks.0.diff_m": "blocks.0.scale_shift_table",
            "head.diff_m": "scale_shift_table",
        }
    for theirs, ours in differences.items():
        lone = ours.endswith(("bias", "table"))
        shape = model.get_parameter(ours if lone else f"{ours}.weight").shape
        wanted[ours] = tensors[f"diffusion_model.{theirs}"] = torch.randn(shape, generator=draw)
    return tensors, wanted


def test_distilled_files_with_differences_of_everything(pipes, tmp_path):
    tensors, wanted = distilled(pipes["wan"], tmp_path)
    save_file(tensors, tmp_path / "lightx2v.safetensors")
    same(loaded(pipes["wan"], tmp_path / "lightx2v.safetensors"), wanted)


@pytest.mark.filterwarnings("ignore")  # peft's and the reference's own
@pytest.mark.parametrize("dialect", ["distilled", "comfyui", "kohya"])
def test_wan_as_the_reference_loads_it(pipes, tmp_path, dialect):
    """Fused into the reference's transformer, as far as it reads such a file: norms and modulations it leaves out."""
    pipe = pipes["wan"]
    _, shapes = original_layers("wan", pipe.transformer, tmp_path)  # it wants every layer to be there
    names = [name for name in shapes if dialect != "kohya" or name.startswith("blocks.")]
    tensors, _ = written(dialect, pairs({name: shapes[name] for name in names}))
    if dialect == "distilled":
        tensors |= distilled(pipe, tmp_path, norms=False)[0]
        for end in ("down", "up"):
            del tensors[f"diffusion_model.head.head.lora_{end}.weight"]
    save_file(tensors, tmp_path / "one.safetensors")
    model = diffusers.WanTransformer3DModel(**pipe.transformer.config)
    model.load_state_dict(pipe.transformer.state_dict())
    theirs = diffusers.WanImageToVideoPipeline(None, None, None, None, None, None, model)
    theirs.load_lora_weights(str(tmp_path), weight_name="one.safetensors", adapter_name="one")
    theirs.fuse_lora(components=["transformer"])
    fused = {n.replace(".base_layer", ""): t for n, t in theirs.transformer.state_dict().items() if "lora_" not in n}
    before = pipe.transformer.state_dict()
    got = loaded(pipe, tmp_path / "one.safetensors")
    assert set(fused) == set(before)
    for name, tensor in fused.items():
        assert_close(before[name] + got.get(name.removesuffix(".weight"), 0), tensor, 1e-5, name)


def test_wan_experts_and_files_for_other_versions(tmp_path):
    """Each expert by itself, and layers that 2.2 does not have are told."""
    pipe = lockstep.WanImageToVideoPipeline(**tiny_video.parts("image experts"))
    tensors, _ = distilled(lockstep.WanImageToVideoPipeline(**tiny_video.parts("image")), tmp_path)
    save_file(tensors, tmp_path / "one.safetensors")
    before = [{n: t.clone() for n, t in model.state_dict().items()} for model in (pipe.transformer, pipe.transformer_2)]
    with pytest.warns(UserWarning, match="25 of 31 tensors applied; not applied: 6 because transformer_2 has no such"):
        report = pipe.load_lora_weights(tmp_path / "one.safetensors", "low", load_into_transformer_2=True)
    assert {name.split(".")[-3 if "lora" in name else -2] for names in report.left.values() for name in names} == {
        "k_img", "norm_k_img", "1",
    }  # fmt: skip
    assert all(torch.equal(t, before[0][n]) for n, t in pipe.transformer.state_dict().items())
    assert not all(torch.equal(t, before[1][n]) for n, t in pipe.transformer_2.state_dict().items())
    pipe.unload_lora_weights()
    assert all(torch.equal(t, before[1][n]) for n, t in pipe.transformer_2.state_dict().items())
    with pytest.raises(UnknownNameError, match="transformer_2"):
        lockstep.FluxPipeline(**tiny_flow.flux_parts()).load_lora_weights(
            tmp_path / "one.safetensors", load_into_transformer_2=True
        )
    with pytest.raises(WeightsError, match="made for another model"):
        lockstep.FluxPipeline(**tiny_flow.flux_parts()).load_lora_weights(tmp_path / "one.safetensors")
