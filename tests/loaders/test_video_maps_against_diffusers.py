"""The weight maps of Wan and LTX-Video: our tensors in the original layout go through the reference's converter and
come out the same."""

import json
import re
from pathlib import Path

import pytest
import torch
from diffusers.loaders import single_file_utils as reference

import lockstep
from loaders.test_maps_against_diffusers import same, there_and_back
from lockstep.loaders.weight_map import WeightMap
from lockstep.models.autoencoders.autoencoder_kl_ltx_video_map import ltx_autoencoder_rows
from lockstep.models.autoencoders.autoencoder_kl_wan_map import wan_autoencoder_rows
from lockstep.models.transformers.transformer_ltx_video_map import ltx_rows
from lockstep.models.transformers.transformer_wan_map import wan_rows
from lockstep.models.weights import in_memory
from pipelines import tiny_ltx_video
from pipelines.tiny_video import KINDS, TRANSFORMER, VAE, VAE_22

IMAGE = "condition_embedder.image_embedder"


@pytest.mark.parametrize("kind", ["text", "image", "first and last", "image experts"])
def test_transformers(kind):
    model = lockstep.WanTransformer3DModel(**{**TRANSFORMER, **KINDS[kind].get("transformer", {})})
    original = there_and_back(model, wan_rows(model.config))
    assert any(name.startswith("blocks.1.self_attn.norm_q") for name in original)
    wanted = model.state_dict()
    if kind == "first and last":  # a name that the reference does not know
        assert torch.equal(original.pop("img_emb.emb_pos"), wanted.pop(f"{IMAGE}.pos_embed"))
    same(reference.convert_wan_transformer_to_diffusers(dict(original)), wanted)


def test_autoencoder_of_2_1():
    model = lockstep.AutoencoderKLWan(**{**VAE, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 2})
    original = there_and_back(model, wan_autoencoder_rows(model.config))
    same(reference.convert_wan_vae_to_diffusers(dict(original)), model.state_dict())


# of 2.2, whose original files the reference does not read: as the authors' code names its layers, piece by piece
AUTHORS = (
    (r"^(en|de)coder\.conv_in\.", r"\1coder.conv1."),
    (r"^(en|de)coder\.norm_out\.", r"\1coder.head.0."),
    (r"^(en|de)coder\.conv_out\.", r"\1coder.head.2."),
    (r"^quant_conv\.", "conv1."),
    (r"^post_quant_conv\.", "conv2."),
    (r"\.mid_block\.resnets\.0\.", ".middle.0."),
    (r"\.mid_block\.attentions\.0\.", ".middle.1."),
    (r"\.mid_block\.resnets\.1\.", ".middle.2."),
    (r"\.down_blocks\.(\d)\.resnets\.(\d)\.", r".downsamples.\1.downsamples.\2."),
    (r"\.down_blocks\.(\d)\.downsampler\.", r".downsamples.\1.downsamples.1."),  # behind one layer
    (r"\.up_blocks\.(\d)\.resnets\.(\d)\.", r".upsamples.\1.upsamples.\2."),
    (r"\.up_blocks\.(\d)\.upsampler\.", r".upsamples.\1.upsamples.2."),  # behind two
    (r"\.norm1\.", ".residual.0."),
    (r"\.conv1\.(?=\w+$)(?<!coder\.conv1\.)", ".residual.2."),
    (r"\.norm2\.", ".residual.3."),
    (r"\.conv2\.", ".residual.6."),
    (r"\.conv_shortcut\.", ".shortcut."),
)


def test_autoencoder_of_2_2():
    model = lockstep.AutoencoderKLWan(**VAE_22)
    original = there_and_back(model, wan_autoencoder_rows(model.config))
    wanted = {}
    for name, tensor in model.state_dict().items():
        for ours, theirs in AUTHORS:
            name = re.sub(ours, theirs, name)
        wanted[name] = tensor
    same(original, wanted)
    assert "encoder.downsamples.0.downsamples.1.resample.1.weight" in original
    assert "decoder.upsamples.1.upsamples.2.time_conv.weight" in original
    assert "decoder.upsamples.3.upsamples.1.residual.6.weight" in original


def test_transformer_of_ltx_video():
    model = lockstep.LTXVideoTransformer3DModel(**tiny_ltx_video.TRANSFORMER)
    original = there_and_back(model, ltx_rows(model.config))
    assert {"patchify_proj.bias", "adaln_single.linear.weight", "transformer_blocks.1.attn2.q_norm.weight"} <= set(
        original
    )
    whole = {f"model.diffusion_model.{name}": tensor for name, tensor in original.items()}
    same(reference.convert_ltx_transformer_checkpoint_to_diffusers(whole), model.state_dict())


@pytest.mark.parametrize("version", list(tiny_ltx_video.VAES))
def test_autoencoders_of_ltx_video(version):
    model = tiny_ltx_video.autoencoder(version)
    original = there_and_back(model, ltx_autoencoder_rows(model.config))
    assert "decoder.up_blocks.0.res_blocks.0.conv1.conv.weight" in original
    assert all(".norm3.norm." in name for name in original if ".norm3." in name)
    whole, wanted = {f"vae.{name}": tensor for name, tensor in original.items()}, model.state_dict()
    if version == "0.9.5":  # which the reference knows by a width that no tiny one has
        last = "encoder.conv_out.conv.weight"
        whole[f"vae.{last}"] = wanted[last] = torch.zeros(1, 2048)
    same(reference.convert_ltx_vae_checkpoint_to_diffusers(whole), wanted)


FIXTURES = Path(__file__).parents[1] / "fixtures" / "ltx_autoencoder_configs"


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.json")), ids=lambda path: path.stem)
def test_names_in_the_original_files_of_published_autoencoders(path):
    model = lockstep.AutoencoderKLLTXVideo.on_meta(json.loads(path.read_text()))
    table = WeightMap(ltx_autoencoder_rows(model.config), path.stem)
    theirs = table.to_theirs(in_memory(model.state_dict(), path))
    whole = {f"vae.{name}": torch.empty(tensor.info.shape, device="meta") for name, tensor in theirs.items()}
    found = reference.convert_ltx_vae_checkpoint_to_diffusers(whole)
    assert {name: t.shape for name, t in found.items()} == {name: t.shape for name, t in model.state_dict().items()}
