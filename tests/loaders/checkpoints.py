"""Checkpoint files for tests: headers of full size without their weights on disk, and tiny files in the original
layout."""

import functools
import json
import math
from pathlib import Path

import lockstep
from lockstep.files import ITEM_BITS
from lockstep.loaders.weight_map import WeightMap
from lockstep.models.autoencoders.autoencoder_kl_map import autoencoder_rows
from lockstep.models.controlnets.controlnet_map import controlnet_rows
from lockstep.models.text_encoders.clip_map import clip_rows, open_clip_rows
from lockstep.models.unets.unet_2d_condition_map import unet_rows
from lockstep.models.weights import in_memory

NOWHERE = Path("nowhere")
XL_BLOCKS = {
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
}
UNETS = {
    "sd1": {"cross_attention_dim": 768},
    "sd2": {"cross_attention_dim": 1024, "attention_head_dim": (5, 10, 20, 20), "use_linear_projection": True},
    "sdxl": {
        "cross_attention_dim": 2048, "block_out_channels": (320, 640, 1280), "attention_head_dim": (5, 10, 20),
        **XL_BLOCKS, "transformer_layers_per_block": (1, 2, 10),
        "addition_embed_type": "text_time", "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 2816, "use_linear_projection": True,
    },
    "refiner": {
        "cross_attention_dim": 1280, "block_out_channels": (384, 768, 1536, 1536),
        "attention_head_dim": (6, 12, 24, 24),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "transformer_layers_per_block": 4, "addition_embed_type": "text_time", "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 2560, "use_linear_projection": True,
    },
    "upscaler": {
        "cross_attention_dim": 1024, "block_out_channels": (256, 512, 512, 1024), "in_channels": 7,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "num_class_embeds": 1000, "use_linear_projection": True,
    },
}  # fmt: skip
VAE = {
    "block_out_channels": (128, 256, 512, 512), "layers_per_block": 2, "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
}  # fmt: skip
CLIP_L = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
CLIP_H = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "projection_dim": 1024,
}
CLIP_G = {
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_hidden_layers": 32,
    "num_attention_heads": 20,
    "projection_dim": 1280,
}


def original(model, rows, prefix):
    """A model's tensors in the original layout."""
    stored = WeightMap(rows).to_theirs(in_memory(model.state_dict(), NOWHERE))
    return {prefix + name: tensor for name, tensor in stored.items()}


def shapes_of(stored):
    return {name: tensor.info.shape for name, tensor in stored.items()}


@functools.cache
def unet_shapes(kind, prefix="model.diffusion_model.", **changes):
    model = lockstep.UNet2DConditionModel.on_meta(UNETS[kind] | changes)
    return shapes_of(original(model, unet_rows(model.config), prefix))


@functools.cache
def vae_shapes(prefix="first_stage_model.", **changes):
    model = lockstep.AutoencoderKL.on_meta(VAE | changes)
    return shapes_of(original(model, autoencoder_rows(model.config), prefix))


@functools.cache
def controlnet_shapes(prefix="control_model.", **config):
    model = lockstep.ControlNetModel.on_meta(config)
    return shapes_of(original(model, controlnet_rows(model.config), prefix))


def clip_shapes(config, prefix):
    model = lockstep.CLIPTextModel.on_meta(config)
    return shapes_of(original(model, clip_rows(model.config, False), prefix))


def open_clip_shapes(config, prefix):
    model = lockstep.CLIPTextModelWithProjection.on_meta(config)
    return shapes_of(original(model, open_clip_rows(model.config, True), prefix))


@functools.cache
def text_shapes(kind):
    if kind == "sd1":
        return clip_shapes(CLIP_L, "cond_stage_model.transformer.")
    if kind in ("sd2", "upscaler"):
        return open_clip_shapes(CLIP_H, "cond_stage_model.model.")
    if kind == "refiner":
        return open_clip_shapes(CLIP_G, "conditioner.embedders.0.model.")
    first = clip_shapes(CLIP_L, "conditioner.embedders.0.transformer.")
    return first | open_clip_shapes(CLIP_G, "conditioner.embedders.1.model.")


def full_shapes(kind, **changes):
    """Everything that an all-in-one file of a family holds."""
    buffers = dict.fromkeys(("betas", "alphas_cumprod"), (1000,)) if kind in ("sd1", "sd2") else {}
    vae = vae_shapes(block_out_channels=(128, 256, 512), down_block_types=("DownEncoderBlock2D",) * 3,
                     up_block_types=("UpDecoderBlock2D",) * 3) if kind == "upscaler" else vae_shapes()  # fmt: skip
    return unet_shapes(kind, **changes) | vae | text_shapes(kind) | buffers


def write_sparse(path, shapes, dtype="F16", metadata=None):
    """A safetensors file whose weights are a hole in the file: all of its size, none of it on disk."""
    header, position = {"__metadata__": metadata} if metadata else {}, 0
    for name, shape in shapes.items():
        end = position + math.prod(shape) * ITEM_BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + position)
    return path
