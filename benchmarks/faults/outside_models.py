"""What the third list is planted in: the library's own models, an Euler loop of them, and a transformer with rotary
axes."""

from __future__ import annotations

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from lockstep.models.autoencoders.autoencoder_kl import AutoencoderKL
from lockstep.models.text_encoders.clip import CLIPTextModel
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel
from lockstep.schedulers.euler import EulerDiscreteScheduler

from .models import RMSNorm, randomized
from .pipeline import EMPTY_IDS, IDS


def unet() -> nn.Module:
    return UNet2DConditionModel(
        sample_size=8, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), block_out_channels=(16, 32), layers_per_block=1,
        cross_attention_dim=24, attention_head_dim=4, norm_num_groups=4,
    )  # fmt: skip


def autoencoder() -> nn.Module:
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"), block_out_channels=(8, 16), layers_per_block=1,
        norm_num_groups=4,
    )  # fmt: skip


def text_encoder() -> nn.Module:
    return CLIPTextModel(
        vocab_size=100, hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=20, eos_token_id=99,
    )  # fmt: skip


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Pairs of neighbours turned by their angle (arXiv:2104.09864)."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class Axes(nn.Module):
    """Angles of a grid: half of the lanes follow the row, half the column."""

    def __init__(self, width: int, theta: float = 10000.0) -> None:
        super().__init__()
        self.width, self.theta = width, theta

    def forward(self, height: int, width: int) -> torch.Tensor:
        lanes = torch.arange(0, self.width // 2, 2, dtype=torch.float32) / (self.width // 2)
        speeds = 1.0 / self.theta**lanes
        rows, columns = torch.arange(height).float(), torch.arange(width).float()
        by_row = torch.outer(rows, speeds)[:, None].expand(height, width, -1)
        by_column = torch.outer(columns, speeds)[None].expand(height, width, -1)
        return torch.cat([by_row, by_column], -1).flatten(0, 1)


class RotaryBlock(nn.Module):
    """Attention with normed, rotated queries and keys, then a gated feed-forward (arXiv:2002.05202)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.norm_q, self.norm_k = RMSNorm(width // heads), RMSNorm(width // heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)
        self.modulation = nn.Linear(width, 2 * width)

    def forward(self, x: torch.Tensor, emb: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        scale, gate = self.modulation(F.silu(emb))[:, None].chunk(2, dim=-1)
        h = self.norm1(x) * (1 + scale)
        q, k, v = (p(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.query, self.key, self.value))
        q, k = rotate(self.norm_q(q), angles), rotate(self.norm_k(k), angles)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + torch.tanh(gate) * self.out(mixed)
        hidden, gated = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(hidden) * gated)


class RotaryTransformer(nn.Module):
    """Patches with the text's mean in their modulation."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.patches, self.text, self.time = nn.Linear(16, width), nn.Linear(24, width), nn.Linear(1, width)
        self.axes = Axes(width // heads)
        self.blocks = nn.ModuleList(RotaryBlock(width, heads) for _ in range(3))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, 16)

    def forward(
        self, sample: torch.Tensor, timestep: torch.Tensor, encoder_hidden_states: torch.Tensor
    ) -> torch.Tensor:
        x = F.pixel_unshuffle(sample, 2).permute(0, 2, 3, 1)
        height, width = x.shape[1:3]
        x = self.patches(x.flatten(1, 2))
        emb = self.text(encoder_hidden_states.mean(1)) + self.time(timestep[:, None].to(sample.dtype) / 1000)
        angles = self.axes(height, width).to(sample.dtype)
        for block in self.blocks:
            x = block(x, emb, angles)
        x = self.head(self.norm(x)).unflatten(1, (height, width)).permute(0, 3, 1, 2)
        return F.pixel_shuffle(x, 2)


class Guider:
    """Classifier-free guidance whose spread is pulled back to the condition's (arXiv:2305.08891)."""

    def __init__(self, scale: float = 5.0, rescale: float = 0.7) -> None:
        self.scale, self.rescale = scale, rescale

    def __call__(self, uncond: torch.Tensor, cond: torch.Tensor) -> torch.Tensor:
        guided = uncond + self.scale * (cond - uncond)
        spread = cond.std((1, 2, 3), keepdim=True) / guided.std((1, 2, 3), keepdim=True)
        return self.rescale * guided * spread + (1 - self.rescale) * guided


class EulerLoop:
    """Text to picture by the library's own parts."""

    def __init__(self, text_encoder: nn.Module, unet: nn.Module, vae: nn.Module) -> None:
        self.text_encoder, self.unet, self.vae = text_encoder, unet, vae
        self.scheduler = EulerDiscreteScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            timestep_spacing="leading",
            steps_offset=1,
        )
        self.guider = Guider()

    def __call__(self, num_inference_steps: int = 4, generator: torch.Generator | None = None) -> SimpleNamespace:
        negative, embeds = (self.text_encoder(torch.tensor(ids)).last_hidden_state for ids in (EMPTY_IDS, IDS))
        context = torch.cat([negative, embeds])
        self.scheduler.set_timesteps(num_inference_steps)
        latents = torch.randn(1, 4, 8, 8, generator=generator) * self.scheduler.init_noise_sigma
        latents = latents.to(embeds.dtype)
        for timestep in self.scheduler.timesteps:
            scaled = self.scheduler.scale_model_input(latents, timestep)
            prediction = self.unet(torch.cat([scaled, scaled]), timestep, context).sample
            uncond, cond = prediction.chunk(2)
            latents = self.scheduler.step(self.guider(uncond, cond), timestep, latents).prev_sample
        return SimpleNamespace(images=self.vae.decode(latents / 0.18215).sample / 2 + 0.5)


def euler_loop(seed: int) -> EulerLoop:
    return EulerLoop(*(randomized(make(), seed + i) for i, make in enumerate((text_encoder, unet, autoencoder))))
