"""A seed gives a new model the very weights that it gives the reference's: layers are made in the published order."""

import diffusers
import pytest
import torch

import lockstep
from pipelines import tiny

UNET = {
    "block_out_channels": (4, 8), "layers_per_block": 2, "norm_num_groups": 2, "cross_attention_dim": 8,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "attention_head_dim": 2,
}  # fmt: skip
XL = {
    "addition_embed_type": "text_time", "addition_time_embed_dim": 8, "transformer_layers_per_block": (1, 2),
    "projection_class_embeddings_input_dim": 80, "use_linear_projection": True,
}  # fmt: skip
UP = {"up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D")}
MODELS = {
    "unet": ("UNet2DConditionModel", UNET | UP),
    "unet_xl": ("UNet2DConditionModel", UNET | UP | XL),
    "unet_k": ("UNet2DConditionModel", tiny.K_UNET),
    "controlnet": ("ControlNetModel", UNET | {"conditioning_embedding_out_channels": (2, 4)}),
    "vae": (
        "AutoencoderKL",
        {
            "block_out_channels": (4, 8), "norm_num_groups": 2, "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
        },
    ),
    "vae_tiny": ("AutoencoderTiny", {"encoder_block_out_channels": (4,) * 4, "decoder_block_out_channels": (4,) * 4}),
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_makes_the_same_model(model):
    name, config = MODELS[model]
    made = []
    for library in (lockstep, diffusers):
        torch.manual_seed(5)
        weights = getattr(library, name)(**config).state_dict()
        made.append((weights, torch.rand(1)))
    (ours, next_number), (theirs, their_next_number) = made
    assert ours.keys() == theirs.keys()
    different = [key for key in ours if not torch.equal(ours[key], theirs[key])]
    assert not different
    assert next_number == their_next_number
