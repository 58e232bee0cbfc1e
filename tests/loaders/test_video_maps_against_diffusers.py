"""The weight maps of Wan: our tensors in the original layout go through the reference's converter and come out the
same."""

import re

import pytest
import torch
from diffusers.loaders import single_file_utils as reference

import lockstep
from loaders.test_maps_against_diffusers import same, there_and_back
from lockstep.models.autoencoders.autoencoder_kl_wan_map import wan_autoencoder_rows
from lockstep.models.transformers.transformer_wan_map import wan_rows
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
