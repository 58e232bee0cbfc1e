"""`lockstep generate --lora`, and a replay that needs the same file."""

import pytest
import torch
from PIL import Image, ImageChops
from safetensors.torch import save_file

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
