"""The weight maps of Wan: our tensors in the original layout go through the reference's converter and come out the
same."""

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


def test_autoencoder_of_2_2():
    """The reference reads no original file of this one; its names are those of the authors' code."""
    model = lockstep.AutoencoderKLWan(**VAE_22)
    original = there_and_back(model, wan_autoencoder_rows(model.config))
    assert "encoder.downsamples.0.downsamples.1.resample.1.weight" in original
    assert "decoder.upsamples.1.upsamples.2.time_conv.weight" in original
    assert "decoder.upsamples.3.upsamples.1.residual.6.weight" in original
