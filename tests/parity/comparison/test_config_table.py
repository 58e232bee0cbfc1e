"""Settings from files, live modules and shapes."""

import json

import numpy as np
import pytest

from lockstep.parity.comparison.config_table import Setting, differing, implied, same, settings_of
from lockstep.parity.errors import InvalidTrace
from lockstep.parity.trace.container import write_safetensors

# names and shapes as in the published Stable Diffusion 1.5 UNet
UNET = {
    "conv_in.weight": (320, 4, 3, 3),
    "conv_out.weight": (4, 320, 3, 3),
    "down_blocks.0.resnets.0.conv1.weight": (320, 320, 3, 3),
    "down_blocks.0.resnets.1.conv1.weight": (320, 320, 3, 3),
    "down_blocks.1.resnets.0.conv1.weight": (640, 320, 3, 3),
    "down_blocks.1.resnets.1.conv1.weight": (640, 640, 3, 3),
    "down_blocks.0.attentions.0.proj_in.weight": (320, 320, 1, 1),
    "down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k.weight": (320, 768),
    "mid_block.attentions.0.transformer_blocks.0.attn2.to_k.weight": (1280, 768),
}


def save(path, shapes, metadata=None):
    rows = [(name, "F32", shape, np.zeros(shape, np.float32).tobytes()) for name, shape in shapes.items()]
    write_safetensors(path, rows, metadata or {})
    return path


def test_shapes_alone_say_768_and_not_the_default(tmp_path):
    small = {name: tuple(max(1, n // 16) if n > 16 else n for n in shape) for name, shape in UNET.items()}
    table = settings_of(save(tmp_path / "x.safetensors", small))
    assert table["", "cross_attention_dim"].implied == 768 // 16
    found = implied(UNET)
    assert found["cross_attention_dim"] == 768
    assert found["block_out_channels"] == [320, 640]
    assert (found["in_channels"], found["out_channels"], found["layers_per_block"]) == (4, 4, 2)
    assert found["use_linear_projection"] is False


def test_other_models_are_read_too():
    clip = {"text_model.embeddings.token_embedding.weight": (49408, 768),
        "text_model.embeddings.position_embedding.weight": (77, 768),
            "text_model.encoder.layers.0.mlp.fc1.weight": (3072, 768),
            "text_model.encoder.layers.11.mlp.fc1.weight": (3072, 768)}  # fmt: skip
    found = implied(clip)
    assert (found["vocab_size"], found["hidden_size"], found["intermediate_size"]) == (49408, 768, 3072)
    assert found["num_hidden_layers"] == 2, "counted, not taken from the largest number"
    vae = {
        "encoder.conv_in.weight": (128, 3, 3, 3),
        "decoder.conv_in.weight": (512, 4, 3, 3),
        "decoder.conv_out.weight": (3, 128, 3, 3),
    }
    assert {k: implied(vae)[k] for k in ("in_channels", "latent_channels", "out_channels")} == {
        "in_channels": 3,
        "latent_channels": 4,
        "out_channels": 3,
    }


def test_only_what_is_in_force_is_a_conflict():
    assert Setting("", "x", default=1280, file=768, implied=768).conflict == ""
    assert "imply 768" in Setting("", "x", default=1280, implied=768).conflict
    assert "imply 768" in Setting("", "x", default=768, file=1280, implied=768).conflict
    assert "in force is 1e-06" in Setting("", "eps", file=1e-5, effective=1e-6).conflict
    assert Setting("", "x", default=1, file=2).in_force == 2


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1, 1.0, True),
        (2, [2, 2], True),
        ((1, 2), [1, 2], True),
        (2, [2, 1], False),
        ([1, 2], [1, 2, 3], False),
        ("a", "b", False),
    ],
)
def test_equal_as_settings(a, b, equal):
    assert same(a, b) is equal
    assert same(b, a) is equal


def test_a_folder_has_file_default_and_shapes(tmp_path):
    folder = tmp_path / "pipe" / "unet"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(
        json.dumps({"_class_name": "Net", "cross_attention_dim": 1280, "norm_eps": 1e-5})
    )
    save(folder / "w.safetensors", {"a.attn2.to_k.weight": (8, 768)})
    table = settings_of(tmp_path / "pipe", lambda kind: {"norm_eps": 1e-6} if kind == "Net" else {})
    assert "imply 768" in table["unet", "cross_attention_dim"].conflict
    assert table["unet", "norm_eps"].default == 1e-6
    assert table["unet", "norm_eps"].conflict == ""


def test_config_inside_a_checkpoint_is_read(tmp_path):
    path = save(tmp_path / "x.safetensors", {"a": (2,)}, {"config": json.dumps({"rope_theta": 10000})})
    assert settings_of(path)["", "rope_theta"].file == 10000


def test_nothing_to_read_is_said(tmp_path):
    with pytest.raises(InvalidTrace, match="tells no settings"):
        settings_of(tmp_path)
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(InvalidTrace, match="expected an object"):
        settings_of(tmp_path / "c.json")


def test_a_trace_tells_what_is_in_force(tmp_path):
    import torch

    from lockstep import parity as px
    from parity.tiny import diffusers_unet

    unet = diffusers_unet()
    unet.conv_norm_out.eps = 1e-3
    with px.record(unet, tmp_path / "t.trace", name="unet"), torch.no_grad():
        unet(torch.zeros(1, 4, 8, 8), 3, torch.zeros(1, 2, 32))
    table = settings_of(tmp_path / "t.trace")
    assert table["unet", "cross_attention_dim"].implied == 32
    assert "in force is [" in table["unet", "norm_eps"].conflict
    assert [a.name for a, _ in differing(table, dict(table))] == []
    other = {**table, ("unet", "act_fn"): Setting("unet", "act_fn", file="gelu")}
    assert [a.name for a, _ in differing(table, other)] == ["act_fn"]
