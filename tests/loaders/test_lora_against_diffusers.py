"""LoRA files in every dialect: merged weights against diffusers with peft, exact unloading, clear refusals."""

import json

import pytest
import torch
from safetensors.torch import save_file

import lockstep
from helpers import relative_l2
from lockstep.errors import InputError, NotFoundError, UnknownNameError, WeightsError
from lockstep.loaders.lora_names import LayerNames, counted_layers

RANK = 3


@pytest.fixture
def pipe(folder):
    pipe = lockstep.DiffusionPipeline.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def peft_tensors(pipe, ends=("to_q", "to_out.0", "conv1", "proj_in", "q_proj", "out_proj"), seed=0):
    """Random LoRA layers for the UNet and the text encoder, by peft's names."""
    draw = torch.Generator().manual_seed(seed)
    tensors = {}
    for component in ("unet", "text_encoder"):
        for name, layer in getattr(pipe, component).named_modules():
            if not isinstance(layer, (torch.nn.Linear, torch.nn.Conv2d)) or not name.endswith(ends):
                continue
            weight = layer.weight
            thin = (weight.shape[0], RANK, *[1] * (weight.ndim - 2))
            tensors[f"{component}.{name}.lora_A.weight"] = torch.randn(RANK, *weight.shape[1:], generator=draw) * 0.2
            tensors[f"{component}.{name}.lora_B.weight"] = torch.randn(thin, generator=draw) * 0.2
    return tensors


def kohya_tensors(tensors, alpha):
    """The same layers by kohya's names."""
    renamed = {}
    for name, tensor in tensors.items():
        component, _, rest = name.partition(".")
        layer, _, part = rest.removesuffix(".weight").rpartition(".")
        base = ("lora_unet_" if component == "unet" else "lora_te_") + layer.replace(".", "_")
        renamed[f"{base}.lora_{'down' if part == 'lora_A' else 'up'}.weight"] = tensor
        renamed[f"{base}.alpha"] = torch.tensor(alpha)
    return renamed


def processor_tensors(tensors):
    """The layers of the UNet's attentions by the names from the time when processors held them."""
    renamed = {}
    for name, tensor in tensors.items():
        layer, _, part = name.removesuffix(".weight").rpartition(".")
        attention, _, last = layer.replace("to_out.0", "to_out").rpartition(".")
        if name.startswith("unet.") and last.startswith("to_"):
            renamed[f"{attention}.processor.{last}_lora.{'down' if part == 'lora_A' else 'up'}.weight"] = tensor
    return renamed


DIALECTS = {
    "peft": lambda tensors: tensors,
    "transformers 5": lambda tensors: {name.replace(".text_model.", "."): one for name, one in tensors.items()},
    "kohya": lambda tensors: kohya_tensors(tensors, alpha=1.5),
    "processors": processor_tensors,
}


def run(pipe, **more):
    return pipe("a red cat", num_inference_steps=2, seed=0, output_type="latent", height=16, width=16, **more).images


def reference_latents(folder, pipe, file, strength=1.0):
    from diffusers import StableDiffusionPipeline

    reference = StableDiffusionPipeline.from_pretrained(folder, dtype=torch.float32, safety_checker=None)
    reference.set_progress_bar_config(disable=True)
    reference.load_lora_weights(file.parent, weight_name=file.name, adapter_name="one")
    reference.set_adapters(["one"], [strength])
    generator = torch.Generator().manual_seed(0)
    return reference(
        "a red cat", num_inference_steps=2, generator=generator, output_type="latent", height=16, width=16
    ).images


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("strength", [1.0, 0.4])
def test_pictures_equal_the_references(pipe, folder, tmp_path, dialect, strength):
    tensors = peft_tensors(pipe)
    file = tmp_path / "style.safetensors"
    save_file(DIALECTS[dialect](tensors), file)
    plain = run(pipe)
    pipe.load_lora_weights(file, strength=strength)
    ours = run(pipe)
    assert relative_l2(ours, reference_latents(folder, pipe, file, strength)) < 1e-5
    assert relative_l2(ours, plain) > 1e-2


def test_names_of_every_dialect_mean_the_same_layers(pipe, tmp_path):
    layer = "down_blocks.1.attentions.0.transformer_blocks.0.attn1"
    flat = layer.replace(".", "_")
    down, up = torch.randn(RANK, 32), torch.randn(32, RANK)
    wanted = None
    for name in (
        f"unet.{layer}.to_q.lora_A.weight|unet.{layer}.to_q.lora_B.weight",
        f"{layer}.to_q.lora_A.default.weight|{layer}.to_q.lora_B.default.weight",
        f"unet.{layer}.to_q.lora.down.weight|unet.{layer}.to_q.lora.up.weight",
        f"{layer}.processor.to_q_lora.down.weight|{layer}.processor.to_q_lora.up.weight",
        f"unet.{layer}.to_q.lora_linear_layer.down.weight|unet.{layer}.to_q.lora_linear_layer.up.weight",
        f"lora_unet_{flat}_to_q.lora_down.weight|lora_unet_{flat}_to_q.lora_up.weight",
        "unet:0:down|unet:0:up",
    ):
        save_file(dict(zip(name.split("|"), (down, up), strict=True)), tmp_path / "one.safetensors")
        pipe.load_lora_weights(tmp_path / "one.safetensors")
        weight = pipe.unet.get_submodule(f"{layer}.to_q").weight.clone()
        wanted = weight if wanted is None else wanted
        assert torch.equal(weight, wanted), name
        pipe.unload_lora_weights()
        assert not torch.equal(pipe.unet.get_submodule(f"{layer}.to_q").weight, wanted)


def test_unloading_is_exact_and_strengths_are_merged_from_the_originals(pipe, tmp_path):
    before = {name: tensor.clone() for name, tensor in pipe.unet.state_dict().items()}
    for seed in (0, 1):
        save_file(peft_tensors(pipe, seed=seed), tmp_path / f"{seed}.safetensors")
        pipe.load_lora_weights(tmp_path / f"{seed}.safetensors", adapter_name=f"style{seed}")
    both = run(pipe)
    pipe.set_adapters(["style0", "style1"], [0.1, 0.9])
    assert relative_l2(run(pipe), both) > 1e-3
    pipe.set_adapters("style0")
    assert pipe.get_active_adapters() == ["style0"]
    pipe.set_adapters(["style0", "style1"])
    assert torch.equal(run(pipe), both)
    pipe.unload_lora_weights()
    assert all(torch.equal(tensor, before[name]) for name, tensor in pipe.unet.state_dict().items())
    assert pipe.get_active_adapters() == []


def test_fused_layers_stay_until_they_are_unfused(pipe, tmp_path):
    before = {name: tensor.clone() for name, tensor in pipe.unet.state_dict().items()}
    save_file(peft_tensors(pipe), tmp_path / "style.safetensors")
    pipe.load_lora_weights(tmp_path, "style")  # the only file of a folder needs no name
    merged = run(pipe)
    pipe.fuse_lora()
    assert (pipe.fused_loras, pipe.num_fused_loras) == ({"style"}, 1)
    with pytest.raises(InputError, match="unfuse_lora"):
        pipe.set_adapters("style", 0.5)
    pipe.unload_lora_weights()
    assert pipe.get_active_adapters() == []
    assert torch.equal(run(pipe), merged)
    assert pipe.describe_adapters()[0]["strength"] == 1.0  # a replay needs it all the same
    pipe.unfuse_lora()
    assert all(torch.equal(tensor, before[name]) for name, tensor in pipe.unet.state_dict().items())
    assert pipe.describe_adapters() == []


def test_fusing_with_a_scale_and_unfusing_leaves_the_adapter_as_it_was(pipe, tmp_path):
    save_file(peft_tensors(pipe), tmp_path / "style.safetensors")
    pipe.load_lora_weights(tmp_path, "style", strength=0.5)
    half = run(pipe)
    pipe.fuse_lora(lora_scale=0.5, components=["unet"])
    quarter = run(pipe)
    assert not torch.equal(half, quarter)
    pipe.unfuse_lora()
    assert torch.equal(run(pipe), half)
    pipe.set_adapters("style", {"unet": 0.25, "text_encoder": 0.5})
    assert torch.equal(run(pipe), quarter)


def test_strengths_of_parts_that_are_not_there_are_refused(pipe, tmp_path):
    save_file(peft_tensors(pipe), tmp_path / "style.safetensors")
    pipe.load_lora_weights(tmp_path, "style")
    before = run(pipe)
    for parts, error, words in (
        ({"unt": 1.0}, UnknownNameError, "unet"),
        ({"unet": {"dwn": 1.0}}, UnknownNameError, "down"),
        ({"unet": {"up": {"block_9": 1.0}}}, UnknownNameError, "block_0, block_1"),
        ({"unet": {"up": {"block_0": [0.1, 0.2, 0.3]}}}, InputError, "'block_0' has 2 layers.*got 3"),
        ({"unet": {"down": {"blok_1": 0.5}}}, UnknownNameError, "block_1"),
    ):
        with pytest.raises(error, match=words):
            pipe.set_adapters("style", parts)
        if "unet" in parts:
            with pytest.raises(error, match=words):
                pipe.unet.set_adapters("style", parts["unet"])
    with pytest.raises(InputError, match="named twice"):
        pipe.set_adapters(["style", "style"], [1.0, 1.0])
    assert torch.equal(run(pipe), before)
    pipe.set_adapters("style", {"unet": {"up": {"block_0": [0.1, 0.2]}, "mid": 0.3, "down": 0.1}})
    assert not torch.equal(run(pipe), before)
    pipe.unload_lora_weights()
    with pytest.warns(UserWarning, match="no LoRA to fuse"):
        pipe.fuse_lora()
    with pytest.warns(UserWarning, match="no fused LoRA"):
        pipe.unfuse_lora()


def test_alpha_in_the_header_scales(pipe, tmp_path):
    tensors = {k: v for k, v in peft_tensors(pipe).items() if k.startswith("unet.")}
    save_file(tensors, tmp_path / "plain.safetensors")
    save_file(
        tensors, tmp_path / "half.safetensors", {"lora_adapter_metadata": json.dumps({"unet.lora_alpha": RANK / 2})}
    )
    pipe.load_lora_weights(tmp_path / "plain.safetensors", strength=0.5)
    halved = run(pipe)
    pipe.unload_lora_weights()
    pipe.load_lora_weights(tmp_path / "half.safetensors")
    assert torch.equal(run(pipe), halved)


def test_original_block_numbers_of_the_large_unet():
    names = {
        "input_blocks.4.1.transformer_blocks.0.attn1.to_q": (
            "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q"
        ),
        "input_blocks.8.1.proj_in": "down_blocks.2.attentions.1.proj_in",
        "input_blocks.7.0.in_layers.2": "down_blocks.2.resnets.0.conv1",
        "input_blocks.3.0.op": "down_blocks.0.downsamplers.0.conv",
        "middle_block.1.transformer_blocks.9.ff.net.2": "mid_block.attentions.0.transformer_blocks.9.ff.net.2",
        "middle_block.2.out_layers.3": "mid_block.resnets.1.conv2",
        "output_blocks.5.1.transformer_blocks.1.attn2.to_v": "up_blocks.1.attentions.2.transformer_blocks.1.attn2.to_v",
        "output_blocks.2.2.conv": "up_blocks.0.upsamplers.0.conv",
        "output_blocks.8.0.skip_connection": "up_blocks.2.resnets.2.conv_shortcut",
        "time_embed.0": "time_embedding.linear_1",
        "out.2": "conv_out",
        "label_emb.0.2": "add_embedding.linear_2",
    }
    config = {
        "block_out_channels": (32, 64, 64), "transformer_layers_per_block": (1, 2, 10), "cross_attention_dim": 32,
        "attention_head_dim": 4, "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "addition_embed_type": "text_time", "addition_time_embed_dim": 8, "projection_class_embeddings_input_dim": 80,
    }  # fmt: skip
    known = LayerNames({"unet": lockstep.UNet2DConditionModel.on_meta(config)})
    for name, layer in names.items():
        for spelled in (
            f"lora_unet_{name.replace('.', '_')}",
            f"diffusion_model.{name}",
            f"model.diffusion_model.{name}",
        ):
            assert [piece.layer for piece in known.find(spelled)] == [layer], spelled


def test_the_middle_is_counted_last(pipe):
    numbered = counted_layers([name for name, _ in pipe.unet.named_modules()], True)
    assert numbered[0].endswith("attn1.to_q")
    assert numbered[4].endswith("ff.net.0.proj")
    assert numbered[-1].startswith("mid_block")
    assert numbered[-1].endswith("attn2.to_out.0")
    assert counted_layers([name for name, _ in pipe.text_encoder.named_modules()], False)[0].endswith("k_proj")


def test_refusals_name_what_is_wrong_and_change_nothing(pipe, tmp_path):
    good = peft_tensors(pipe)
    first = next(iter(good))
    file = tmp_path / "bad.safetensors"
    before = run(pipe)

    def refused(tensors, error, words, **options):
        save_file(tensors, file)
        with pytest.raises(error, match=words):
            pipe.load_lora_weights(file, **options)

    refused({**good, first: torch.randn(RANK, 5)}, WeightsError, "made for another model")
    refused({**good, first: good[first] * float("nan")}, WeightsError, "NaN")
    refused({k: v for k, v in good.items() if k != first}, WeightsError, "has no 'down' matrix")
    refused({"unet.nowhere.lora_A.weight": torch.ones(1, 1)}, WeightsError, "0 of 1 .*unet has no such layer")
    refused({"other": torch.ones(1)}, WeightsError, "no part of a LoRA")
    refused({"conv_in.weight": torch.ones(1)}, WeightsError, "no part of a LoRA")
    refused({"lora_unet_x.oft_blocks": torch.ones(1)}, WeightsError, "OFT")
    refused(good, InputError, "finite number", strength=float("inf"))
    with pytest.raises(NotFoundError, match="no LoRA file"):
        pipe.load_lora_weights(tmp_path / "nothing.safetensors")
    with pytest.raises(UnknownNameError, match="adapter"):
        pipe.set_adapters("style")
    assert torch.equal(run(pipe), before)
