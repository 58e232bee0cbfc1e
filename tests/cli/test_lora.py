"""`lockstep generate --lora --embedding` with its replay, and `lockstep lora inspect|merge|extract`."""

import json
import shutil

import pytest
import torch
from PIL import Image, ImageChops
from safetensors.torch import save_file

import lockstep as lockstep_library
from helpers import assert_close
from lockstep.blocks.manifest import read_manifest
from lockstep.cli.exit_codes import ExitCode
from pipelines import tiny

LAYER = "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_out.0"


@pytest.fixture
def style(tmp_path):
    draw = torch.Generator().manual_seed(0)
    tensors = {
        f"{LAYER}.lora_A.weight": torch.randn(4, 32, generator=draw),
        f"{LAYER}.lora_B.weight": torch.randn(32, 4, generator=draw),
    }
    save_file(tensors, tmp_path / "style.safetensors")
    return tmp_path / "style.safetensors"


def make(lockstep, folder, name, *more):
    code, _, err = lockstep(
        "generate", "a cat", "-m", folder, "--num-inference-steps", "2", "--seed", "1", "-o", name, *more
    )
    assert code == 0, err
    return Image.open(name).convert("RGB")


def test_a_strength_is_part_of_the_option_and_of_the_manifest(lockstep, folder, style):
    plain = make(lockstep, folder, "plain.png")
    full = make(lockstep, folder, "full.png", "--lora", str(style))
    half = make(lockstep, folder, "half.png", "--lora", f"{style}:0.5")
    assert ImageChops.difference(plain, full).getbbox()
    assert ImageChops.difference(half, full).getbbox()
    code, out, _ = lockstep("replay", "half.png")
    assert code == 0
    assert "identical" in out
    style.unlink()
    code, _, err = lockstep("replay", "half.png")
    assert code != 0
    assert "style.safetensors" in err


def test_a_lora_of_another_model_is_refused(lockstep, folder, tmp_path):
    save_file(
        {f"{LAYER}.lora_A.weight": torch.ones(4, 5), f"{LAYER}.lora_B.weight": torch.ones(5, 4)}, "wrong.safetensors"
    )
    code, _, err = lockstep("generate", "a cat", "-m", folder, "--lora", "wrong.safetensors")
    assert code != 0
    assert "made for another model" in err


def test_several_loras_and_an_embedding_are_replayed(lockstep, folder, style, tmp_path):
    draw = torch.Generator().manual_seed(1)
    save_file({"emb_params": torch.randn(2, 16, generator=draw)}, "toy.safetensors")
    words = ["--lora", f"{style}:0.5", "--lora", f"{style}:0.25", "--embedding", "toy.safetensors"]
    plain = make(lockstep, folder, "plain.png", "--embedding", "<thing>=toy.safetensors")
    code, _, err = lockstep(
        "generate", "a toy cat", "-m", folder, "--num-inference-steps", "2", "--seed", "1", "-o", "toy.png", *words
    )
    assert code == 0, err
    assert ImageChops.difference(plain, Image.open("toy.png").convert("RGB")).getbbox()
    for name in ("toy.png", "plain.png"):
        code, out, err = lockstep("replay", name)
        assert (code, "identical" in out) == (0, True), err
    save_file({"emb_params": torch.randn(2, 16, generator=draw)}, "toy.safetensors")
    code, _, err = lockstep("replay", "toy.png")
    assert code == ExitCode.NOT_REPLAYED
    assert "its hash differs" in err


def test_weights_in_prompts_are_an_option(lockstep, folder):
    plain = make(lockstep, folder, "plain.png")
    code, _, err = lockstep(
        "generate", "(a:1.9) cat", "-m", folder, "--num-inference-steps", "2", "--seed", "1", "-o", "w.png",
        "--prompt-weighting", "a1111",
    )  # fmt: skip
    assert code == 0, err
    assert ImageChops.difference(plain, Image.open("w.png").convert("RGB")).getbbox()
    assert "identical" in lockstep("replay", "w.png")[1]


def test_inspecting_tells_what_a_lora_is(lockstep, style):
    code, out, _ = lockstep("lora", "inspect", style, "--json")
    said = json.loads(out)
    assert code == 0
    assert (said["dialect"], said["kinds"], said["ranks"]) == ("diffusers with peft", {"LoRA": 1}, {"4": 1})
    assert (said["targets"], said["family"], said["health"]) == ({"unet": 1}, None, [])
    names = ("lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn2_to_k", "lora_te_text_model_encoder_x")
    for width, family in ((768, "sd1"), (1024, "sd2"), (2048, "sdxl")):
        tensors = {f"{names[0]}.lora_down.weight": torch.ones(4, width), f"{names[0]}.alpha": torch.tensor(2.0),
                   f"{names[0]}.lora_up.weight": torch.ones(320, 4), f"{names[1]}.hada_w1_b": torch.ones(2, 2),
                   "<s1>": torch.ones(768), "other": torch.ones(1)}  # fmt: skip
        save_file(tensors, "x.safetensors")
        said = json.loads(lockstep("lora", "inspect", "x.safetensors", "--json")[1])
        assert (said["family"], said["alphas"], said["targets"]) == (family, {"2.0": 1}, {"unet": 1, "text_encoder": 1})
        assert said["kinds"] == {"LoRA": 1, "incomplete": 1}
        assert f"width {width}" in said["evidence"][0]
        assert (said["words"], said["unread"]) == ({"<s1>": [768]}, {"other": "no part of a LoRA"})
    code, out, _ = lockstep("lora", "inspect", "x.safetensors")
    assert "made for: sdxl" in out
    save_file({name: tensor * float("nan") for name, tensor in tensors.items()}, "x.safetensors")
    assert lockstep("lora", "inspect", "x.safetensors")[0] == ExitCode.NOT_FINITE


@pytest.mark.parametrize("kind", ["sd1", "sd2", "xl"])
def test_merged_checkpoints_are_what_the_pipeline_computes_with(lockstep, kind, tmp_path):
    folder = tiny.save_folder(tmp_path / "model", kind)
    pipe = lockstep_library.DiffusionPipeline.from_pretrained(folder)
    draw, tensors = torch.Generator().manual_seed(0), {}
    encoders = ["text_encoder"] + (["text_encoder_2"] if kind == "xl" else [])
    for component in ("unet", *encoders):
        for name, layer in getattr(pipe, component).named_modules():
            if isinstance(layer, torch.nn.Linear) and name.endswith(("to_q", "q_proj", "text_projection", "proj_in")):
                out, width = layer.weight.shape
                tensors[f"{component}.{name}.lora_A.weight"] = torch.randn(2, width, generator=draw) * 0.3
                tensors[f"{component}.{name}.lora_B.weight"] = torch.randn(out, 2, generator=draw) * 0.3
    save_file(tensors, "a.safetensors")
    save_file({name: tensor * 0.5 for name, tensor in tensors.items()}, "b.safetensors")
    pipe.load_lora_weights("a.safetensors", strength=0.8)
    pipe.load_lora_weights("b.safetensors", strength=-0.5)
    loras = ["--lora", "a.safetensors:0.8", "--lora", "b.safetensors:-0.5"]
    assert lockstep("convert", folder, "model.safetensors")[0] == 0
    for source, target in ((folder, "merged"), ("model.safetensors", "merged.safetensors")):
        code, out, err = lockstep("lora", "merge", source, target, *loras, "--json")
        assert code == 0, err
        assert [one["applied"] for one in json.loads(out)["loras"]] == [len(tensors)] * 2
        made = lockstep_library.DiffusionPipeline.from_pretrained(target)
        for component in ("unet", "vae", *encoders):
            wanted = pipe.components[component].state_dict()
            for name, tensor in made.components[component].state_dict().items():
                assert torch.equal(tensor, wanted[name]), (target, component, name)
    code, _, err = lockstep("lora", "merge", folder, "merged", *loras)
    assert (code, "there already" in err) == (ExitCode.WRONG_USE, True)
    pipe.unload_lora_weights()
    code, out, err = lockstep(
        "lora", "extract", folder, "merged.safetensors", "back.safetensors", "--rank", "4", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["error"] < 1e-6
    pipe.load_lora_weights("back.safetensors")
    for component in ("unet", *encoders):
        wanted = made.components[component].state_dict()
        for name, tensor in pipe.components[component].state_dict().items():
            assert_close(tensor, wanted[name], 1e-6, name)


def test_extraction_tells_what_it_leaves(lockstep, folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    model = lockstep_library.UNet2DConditionModel.from_pretrained(folder / "unet")
    draw = torch.Generator().manual_seed(0)
    weight = model.conv_in.weight.data
    change = torch.randn(weight.shape, generator=draw)
    model.conv_in.weight.data = weight + change
    model.conv_in.bias.data = model.conv_in.bias.data + 1
    model.save_pretrained(other / "unet")
    code, out, _ = lockstep("lora", "extract", folder, other, "one.safetensors", "--rank", "3", "--json")
    said = json.loads(out)
    values = torch.linalg.svdvals(change.flatten(1).double())
    assert said["error"] == pytest.approx(float((values[3:].square().sum() / values.square().sum()).sqrt()), rel=1e-4)
    assert (said["ranks"], said["left_out"]) == ([3, 3], ["unet/conv_in.bias"])
    code, out, _ = lockstep("lora", "extract", folder, other, "two.safetensors", "--energy", "0.5", "--json")
    kept = values.square().cumsum(0) / values.square().sum()
    assert json.loads(out)["ranks"][0] == int((kept < 0.5).sum()) + 1
    code, _, err = lockstep("lora", "extract", folder, folder, "three.safetensors")
    assert (code, "nothing to extract" in err) == (ExitCode.NOT_LOADED, True)


def test_what_was_said_about_a_single_file_is_replayed(lockstep, tmp_path):
    folder = tiny.save_folder(tmp_path / "model", "sd2")
    assert lockstep("convert", folder, "whole.safetensors")[0] == 0
    words = ["generate", "a cat", "-m", "whole.safetensors", "--num-inference-steps", "1", "--seed", "1"]
    words += ["--height", "16", "--width", "16"]
    assert lockstep(*words, "-o", "own.png")[0] == 0
    code, _, err = lockstep(*words, "-o", "x.png", "--prediction-type", "epsilon", "--family", "sd2")
    assert code == 0, err
    assert ImageChops.difference(Image.open("own.png").convert("RGB"), Image.open("x.png").convert("RGB")).getbbox()
    assert read_manifest("x.png")["model_options"] == {"family": "sd2", "prediction_type": "epsilon"}
    code, out, err = lockstep("replay", "x.png")
    assert (code, "identical" in out) == (0, True), err


def test_inspecting_what_is_no_lora(lockstep, folder, tmp_path):
    lockstep("convert", folder, tmp_path / "model.safetensors")
    code, _, err = lockstep("lora", "inspect", tmp_path / "model.safetensors")
    assert code != 0
    assert "is no LoRA, it is" in err
    two = {"lora_unet_x.lora_down.weight": torch.ones(2, 3), "lora_unet_x.lora_up.weight": torch.ones(3, 2)}
    save_file({**two, "lora_unet_x.alpha": torch.ones(2)}, tmp_path / "two.safetensors")
    code, _, err = lockstep("lora", "inspect", tmp_path / "two.safetensors")
    assert code != 0
    assert "one number" in err


@pytest.mark.parametrize("strength", ["nan", "inf", "abc"])
def test_strengths_that_are_no_numbers_are_refused(lockstep, folder, style, tmp_path, strength):
    code, _, err = lockstep("lora", "merge", folder, tmp_path / "out", "--lora", f"{style}:{strength}")
    assert code == ExitCode.WRONG_USE
    assert "strength" in err
    assert not (tmp_path / "out").exists()
