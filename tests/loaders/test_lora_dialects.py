"""One LoRA in every dialect: the same weights come out, everything is counted, and what has no place is told."""

import pytest
import torch
from safetensors.torch import save_file

import lockstep
from lockstep.errors import WeightsError
from lockstep.loaders.lora import open_lora, read_lora
from lockstep.loaders.lora_names import dialect_of
from pipelines import tiny

RANK = 2
BLOCK = "down_blocks.1.attentions.0.transformer_blocks.0"
ORIGINAL = "input_blocks.3.1.transformer_blocks.0"
LAYERS = {f"{BLOCK}.attn1.to_q": (32, 32), f"{BLOCK}.attn1.to_out.0": (32, 32), f"{BLOCK}.ff.net.0.proj": (256, 32)}
TEXT = {"text_model.encoder.layers.1.self_attn.q_proj": (16, 16), "text_model.encoder.layers.1.mlp.fc1": (32, 16)}


@pytest.fixture(scope="module")
def pipe(tmp_path_factory):
    pipe = lockstep.DiffusionPipeline.from_pretrained(tiny.save_folder(tmp_path_factory.mktemp("xl"), "xl"))
    pipe.set_progress_bar_config(disable=True)
    return pipe


def pairs(layers, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return {n: (torch.randn(RANK, i, generator=draw), torch.randn(o, RANK, generator=draw))
            for n, (o, i) in layers.items()}  # fmt: skip


def flat(name):
    return name.replace(".", "_")


def comfy(name):
    return f"diffusion_model.{name}".replace(BLOCK, ORIGINAL)


NAMINGS = {
    "diffusers with peft": ("unet.{}", "text_encoder.{}", "text_encoder_2.{}", "lora_A.weight", "lora_B.weight"),
    "peft": ("unet.base_model.model.{}", "text_encoder.{}", "text_encoder_2.{}", "lora_A.default.weight",
             "lora_B.default.weight"),
    "diffusers before peft": ("unet.{}", "text_encoder.{}", "text_encoder_2.{}", "lora.down.weight", "lora.up.weight"),
    "kohya": ("lora_unet_{}", "lora_te1_{}", "lora_te2_{}", "lora_down.weight", "lora_up.weight"),
    "OneTrainer": ("lora_transformer_{}", "lora_te1_{}", "lora_te2_{}", "lora_down.weight", "lora_up.weight"),
    "LyCORIS": ("lycoris_{}", "lora_te1_{}", "lora_te2_{}", "lora_down.weight", "lora_up.weight"),
    "ComfyUI": ("diffusion_model.{}", "text_encoders.clip_l.transformer.{}", "text_encoders.clip_g.transformer.{}",
                "lora_A.weight", "lora_B.weight"),
}  # fmt: skip


def tensors_in(dialect, original=False):
    unet, first, second, down_end, up_end = NAMINGS[dialect]
    tensors = {}
    for pattern, layers, seed in ((unet, LAYERS, 0), (first, TEXT, 1), (second, TEXT, 2)):
        for name, (down, up) in pairs(layers, seed).items():
            name = name.replace(BLOCK, ORIGINAL) if original and pattern == unet else name
            spelled = pattern.format(flat(name) if pattern.endswith("_{}") else name)
            tensors |= {f"{spelled}.{down_end}": down, f"{spelled}.{up_end}": up}
    return tensors


def wanted_changes():
    rows = (("unet", LAYERS, 0), ("text_encoder", TEXT, 1), ("text_encoder_2", TEXT, 2))
    return {(component, f"{name}.weight"): up @ down for component, layers, seed in rows
            for name, (down, up) in pairs(layers, seed).items()}  # fmt: skip


@pytest.mark.parametrize("original", [False, True])
@pytest.mark.parametrize("dialect", NAMINGS)
def test_the_same_layers_by_every_dialects_names(pipe, tmp_path, dialect, original):
    tensors = tensors_in(dialect, original)
    before = {key: pipe.components[key[0]].get_parameter(key[1]).clone() for key in wanted_changes()}
    save_file(tensors, tmp_path / "x.safetensors")
    report = pipe.load_lora_weights(tmp_path / "x.safetensors")
    assert (report.applied, report.total) == (len(tensors), len(tensors))
    try:
        for (component, path), change in wanted_changes().items():
            got = pipe.components[component].get_parameter(path)
            assert torch.allclose(got, before[component, path] + change, atol=1e-6), (component, path)
    finally:
        pipe.unload_lora_weights()
    for (component, path), weight in before.items():
        assert torch.equal(pipe.components[component].get_parameter(path), weight)
    assert dialect_of(tensors) == dialect


def test_old_processors_and_counted_layers(pipe):
    down, up = torch.randn(RANK, 32), torch.randn(32, RANK)
    model, path = pipe.unet, f"{BLOCK}.attn1.to_out.0.weight"
    for names in (
        (
            f"unet.{BLOCK}.attn1.processor.to_out_lora.down.weight",
            f"unet.{BLOCK}.attn1.processor.to_out_lora.up.weight",
        ),
        ("unet:3:down", "unet:3:up"),
    ):
        lora = read_lora(dict(zip(names, (down, up), strict=True)), {"unet": model})
        assert list(lora.changes) == [("unet", path)]


def test_a_fused_projection_is_shared_out_and_separate_ones_are_joined(pipe):
    down, up = torch.randn(RANK, 16), torch.randn(48, RANK)
    name = "text_encoders.clip_g.transformer.transformer.resblocks.1.attn.in_proj"
    lora = read_lora(
        {f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up}, {"text_encoder_2": pipe.text_encoder_2}
    )
    found = {path: changes[0].addition(1.0, torch.zeros(16, 16)) for (_, path), changes in lora.changes.items()}
    assert len(found) == 3
    for k, part in enumerate("qkv"):
        wanted = up[16 * k : 16 * k + 16] @ down
        got = found[f"text_model.encoder.layers.1.self_attn.{part}_proj.weight"]
        assert torch.allclose(got, wanted, atol=1e-5), part
    # a transposed matrix of the original layout, too
    name = "text_encoders.clip_g.transformer.text_projection"
    up = torch.randn(16, RANK)
    lora = read_lora(
        {f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up}, {"text_encoder_2": pipe.text_encoder_2}
    )
    (change,) = lora.changes["text_encoder_2", "text_projection.weight"]
    published = "text_encoder_2.text_projection"  # the model's own name is not the original one: nothing is transposed
    own = read_lora({f"{published}.lora_A.weight": down, f"{published}.lora_B.weight": up},
                    {"text_encoder_2": pipe.text_encoder_2})  # fmt: skip
    (direct,) = own.changes["text_encoder_2", "text_projection.weight"]
    assert torch.allclose(direct.addition(1.0, torch.zeros(16, 16)), up @ down, atol=1e-5)
    assert change.shape == direct.shape


def test_what_has_no_place_is_told_and_the_rest_is_applied(folder, tmp_path):
    pipe = lockstep.DiffusionPipeline.from_pretrained(folder)
    tensors = tensors_in("kohya")
    tensors |= {"lora_unet_nowhere.lora_up.weight": torch.ones(2, 2), "other": torch.ones(1)}
    save_file(tensors, tmp_path / "x.safetensors")
    with pytest.warns(UserWarning, match="10 of 16 tensors applied") as told:
        report = pipe.load_lora_weights(tmp_path / "x.safetensors")
    message = str(told[0].message)
    assert "4 because this pipeline has no text_encoder_2: 'lora_te2_" in message
    assert "1 because unet has no such layer: 'lora_unet_nowhere.lora_up.weight'" in message
    assert "1 because no part of a LoRA: 'other'" in message
    assert (report.applied, report.total) == (10, 16)


def test_the_only_text_encoder_takes_the_part_without_a_number(tmp_path):
    pipe = lockstep.DiffusionPipeline.from_pretrained(tiny.save_folder(tmp_path / "refiner", "refiner"))
    down, up = torch.randn(RANK, 16), torch.randn(16, RANK)
    name = "lora_te_text_model_encoder_layers_0_self_attn_q_proj"
    pipe.load_lora_weights({f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up})
    assert pipe.get_list_adapters() == {"text_encoder_2": ["default_0"]}


def test_a_layer_that_stands_twice_counts_once(pipe):
    down, up = torch.randn(RANK, 32), torch.randn(32, RANK)
    tensors = {}
    for name in (f"lora_unet_{flat(ORIGINAL)}_attn1_to_q", f"lora_unet_{flat(BLOCK)}_attn1_to_q"):
        tensors |= {f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up}
    lora = read_lora(tensors, {"unet": pipe.unet})
    assert len(lora.changes["unet", f"{BLOCK}.attn1.to_q.weight"]) == 1
    assert lora.report.applied == 2
    assert "is the same layer" in str(lora.report)
    with pytest.raises(WeightsError, match="the same part of one layer"):
        open_lora({f"{BLOCK}.lora_A.weight": down, f"{BLOCK}.lora_down.weight": down})


def test_a_model_given_as_lora_is_refused(pipe):
    with pytest.raises(WeightsError, match="0 of .* no part of a LoRA"):
        pipe.load_lora_weights(pipe.unet.state_dict())


def test_layers_of_flux_by_its_makers_names():
    config = {
        "num_layers": 1,
        "num_single_layers": 1,
        "attention_head_dim": 8,
        "num_attention_heads": 2,
        "joint_attention_dim": 12,
        "pooled_projection_dim": 10,
        "in_channels": 4,
        "axes_dims_rope": (4, 2, 2),
    }
    model, width = lockstep.FluxTransformer2DModel.on_meta(config), 16
    rows = {"double_blocks.0.img_attn.qkv": 3 * width, "single_blocks.0.linear1": 7 * width,
            "final_layer.adaLN_modulation.1": 2 * width}  # fmt: skip
    made = pairs({name: (count, width) for name, count in rows.items()})
    products = {name: up @ down for name, (down, up) in made.items()}
    attention, single = "transformer_blocks.0.attn", "single_transformer_blocks.0"
    qkv, linear1 = products["double_blocks.0.img_attn.qkv"].split(width), products["single_blocks.0.linear1"]
    wanted = {f"{attention}.to_{part}.weight": qkv[k] for k, part in enumerate("qkv")}
    wanted |= {f"{single}.attn.to_{part}.weight": linear1[k * width : (k + 1) * width] for k, part in enumerate("qkv")}
    wanted[f"{single}.proj_mlp.weight"] = linear1[3 * width :]
    wanted["norm_out.linear.weight"] = products["final_layer.adaLN_modulation.1"].roll(width, 0)  # halves exchanged
    spellings = (
        lambda name: f"lora_unet_{flat(name)}.lora_{{}}.weight",
        lambda name: f"diffusion_model.{name}.lora_{{}}.weight",
    )
    for spell in spellings:
        named = {spell(name): dict(zip(("down", "up"), pair, strict=True)) for name, pair in made.items()}
        tensors = {name.format(end): tensor for name, pair in named.items() for end, tensor in pair.items()}
        lora = read_lora(tensors, {"transformer": model}, "transformer")
        assert lora.report.applied == len(tensors)
        changes = {path: change for (_, path), (change,) in lora.changes.items()}
        got = {path: change.addition(1.0, torch.zeros_like(wanted[path])) for path, change in changes.items()}
        assert set(got) == set(wanted)
        for path, change in wanted.items():
            assert torch.allclose(got[path], change, atol=1e-5), path
