"""Small seeded models and pipelines that the parity tests share."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class GatedFeedForward(nn.Module):
    """GEGLU with the activation written as a function, as the published models do."""

    def __init__(self, width: int, approximate: str = "none") -> None:
        super().__init__()
        self.proj = nn.Linear(width, 4 * width)
        self.out = nn.Linear(2 * width, width)
        self.approximate = approximate

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        hidden, gate = self.proj(hidden_states).chunk(2, dim=-1)
        return self.out(hidden * F.gelu(gate, approximate=self.approximate))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.to_out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.to_q, self.to_k, self.to_v))
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.ff = nn.LayerNorm(width), GatedFeedForward(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class TinyTransformer(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 8)

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor | float = 0.0) -> torch.Tensor:
        x = self.embed(sample) + torch.as_tensor(timestep, dtype=sample.dtype) / 1000
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def transformer(seed: int = 0, **sizes: int) -> TinyTransformer:
    torch.manual_seed(seed)
    return TinyTransformer(**sizes).eval()


def sample(seed: int = 1, batch: int = 2, tokens: int = 24) -> torch.Tensor:
    return torch.randn(batch, tokens, 8, generator=torch.Generator().manual_seed(seed))


def diffusers_unet(seed: int = 0, width: int = 32) -> Any:
    from diffusers import UNet2DConditionModel

    torch.manual_seed(seed)
    return UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(width, 2 * width),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=4,
        norm_num_groups=8,
    ).eval()


def diffusers_pipeline(seed: int = 0) -> Any:
    """A whole Stable Diffusion pipeline with a text encoder and a tokenizer, a few hundred thousand parameters."""
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline
    from transformers import CLIPTextConfig, CLIPTextModel

    unet = diffusers_unet(seed)
    torch.manual_seed(seed + 1)
    vae = AutoencoderKL(
        block_out_channels=(16, 32),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=8,
        layers_per_block=1,
    ).eval()
    torch.manual_seed(seed + 2)
    config = CLIPTextConfig(
        vocab_size=600, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=77, bos_token_id=512, eos_token_id=513, pad_token_id=513,
    )  # fmt: skip
    text_encoder = CLIPTextModel(config).eval()
    scheduler = DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
    )
    pipe = StableDiffusionPipeline(
        vae=vae, text_encoder=text_encoder, tokenizer=tokenizer(), unet=unet, scheduler=scheduler,
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip
    pipe.set_progress_bar_config(disable=True)
    return pipe


def tokenizer() -> Any:
    from transformers import CLIPTokenizer

    letters = [chr(c) for c in range(33, 127)] + [chr(c) for c in range(161, 323)]
    letters = list(dict.fromkeys(letters))[:256]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(tokens)}))
        Path(folder, "merges.txt").write_text("#version: 0.2\n")
        return CLIPTokenizer(f"{folder}/vocab.json", f"{folder}/merges.txt", model_max_length=77)


def generate(pipe: Any, seed: int = 7, steps: int = 3, **arguments: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    arguments = {"prompt": "a cat", "height": 32, "width": 32, "guidance_scale": 5.0, "output_type": "pt", **arguments}
    return pipe(num_inference_steps=steps, generator=generator, **arguments).images
