"""A third family, as a user of the library writes it: a transformer with flow matching, text and image to image."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lockstep import (
    AutoencoderTiny,
    CLIPTextModel,
    CLIPTokenizer,
    ComponentSpec,
    ConfigMixin,
    ModelMixin,
    SequentialPipelineBlocks,
    dispatch_attention_fn,
    register_to_config,
)
from lockstep.models.layers import get_timestep_embedding
from lockstep.pipelines.common.decode import Decode
from lockstep.pipelines.common.denoise import Denoise
from lockstep.pipelines.common.face import PicturePipeline
from lockstep.pipelines.common.guidance import SetGuidance
from lockstep.pipelines.common.parts import GUIDER
from lockstep.pipelines.common.prompts import EncodeText
from lockstep.pipelines.common.workflows import FROM_PICTURES, FROM_TEXT, AutoStart

# ---- the model ----


class Block(nn.Module):
    """Text and picture attend to each other as one sequence; one layer makes queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp_norm, self.mlp_in, self.mlp_out = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = self.qkv(self.norm(tokens)).unflatten(2, (3, self.heads, -1)).unbind(2)
        tokens = tokens + self.out(dispatch_attention_fn(query, key, value).flatten(2))
        return tokens + self.mlp_out(nn.functional.gelu(self.mlp_in(self.mlp_norm(tokens))))


class ToyTransformer(ModelMixin, ConfigMixin):
    """Latents, time and text to the direction of the flow."""

    fused_layers = (("{}.qkv", ("{}.to_q", "{}.to_k", "{}.to_v")),)

    @register_to_config
    def __init__(self, in_channels: int = 4, out_channels: int = 4, sample_size: int = 8, width: int = 16) -> None:
        super().__init__()
        self.picture_in, self.text_in = nn.Linear(in_channels, width), nn.Linear(16, width)
        self.time_in, self.position_in = nn.Linear(width, width), nn.Linear(2, width)
        self.blocks = nn.ModuleList(Block(width, heads=2) for _ in range(2))
        self.picture_out = nn.Linear(width, out_channels)

    def forward(
        self, sample: Tensor, timestep: Tensor, encoder_hidden_states: Tensor, return_dict: bool = True
    ) -> tuple[Tensor]:
        height, width = sample.shape[-2:]
        rows, columns = torch.arange(height) / height, torch.arange(width) / width
        places = torch.cartesian_prod(rows, columns).to(sample)
        time = self.time_in(get_timestep_embedding(timestep, self.config.width).to(sample))
        picture = self.picture_in(sample.flatten(2).mT) + self.position_in(places) + time[:, None]
        tokens = torch.cat([self.text_in(encoder_hidden_states), picture], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        picture = self.picture_out(tokens[:, encoder_hidden_states.shape[1] :])
        return (picture.mT.unflatten(2, (height, width)),)


# ---- the family: its text encoding, who plays the roles, its table of blocks ----


class EncodePrompt(EncodeText):
    """Prompts to CLIP's hidden states, one row per picture."""

    expected_components = [
        ComponentSpec("tokenizer", CLIPTokenizer, optional=True),
        ComponentSpec("text_encoder", CLIPTextModel, optional=True),
        replace(GUIDER, config={"guidance_scale": 3.0}),
    ]

    def encode(self, components: Any, texts: list[str]) -> Tensor:
        ids = components.tokenizer(texts, padding="max_length", truncation=True, return_tensors="pt").input_ids
        return components.text_encoder(ids.to(components.device))[0]


class ToyBlocks(SequentialPipelineBlocks):
    """Text to image and image to image."""

    roles = {
        "denoiser": ComponentSpec("transformer", ToyTransformer),
        "autoencoder": ComponentSpec("vae", AutoencoderTiny),
    }
    block_classes = {
        "guidance": SetGuidance,
        "text_encoder": EncodePrompt,
        "start": AutoStart.with_parts(inpainting=None),
        "denoise": Denoise,
        "decode": Decode,
    }
    outputs = ["images"]
    workflows = FROM_TEXT | FROM_PICTURES


class ToyPipeline(PicturePipeline):
    """The face of the blocks."""

    default_blocks = ToyBlocks
