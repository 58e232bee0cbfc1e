"""Models and a pipeline of the second list alone: a transformer of two streams, a T5 encoder, image to image with
Karras sigmas."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .models import VAE, RMSNorm, TimeEmbedding, Timesteps, UNet, randomized


def modulate(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * (1 + scale[:, None]) + shift[:, None]


class PatchEmbed(nn.Module):
    """Patches by a convolution, and a table of positions from which the middle is cut."""

    def __init__(self, channels: int, width: int, patch: int, side: int) -> None:
        super().__init__()
        self.proj, self.side = nn.Conv2d(channels, width, patch, stride=patch), side
        self.register_buffer("pos_embed", self.table(width, side), persistent=False)

    def table(self, width: int, side: int) -> torch.Tensor:
        omega = 1.0 / 10000 ** (np.arange(width // 4, dtype=np.float64) / (width / 4.0))
        rows, columns = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
        halves = []
        for grid in (columns, rows):
            out = np.einsum("m,d->md", grid.reshape(-1), omega)
            halves.append(np.concatenate([np.sin(out), np.cos(out)], axis=1))
        return torch.from_numpy(np.concatenate(halves, axis=1)).float()

    def forward(self, sample: torch.Tensor) -> torch.Tensor:
        x = self.proj(sample)
        height, width = x.shape[2:]
        top, left = (self.side - height) // 2, (self.side - width) // 2
        table = self.pos_embed.view(self.side, self.side, -1)[top : top + height, left : left + width]
        return x.flatten(2).transpose(1, 2) + table.reshape(1, height * width, -1).to(x.dtype)


class JointAttention(nn.Module):
    """Both streams in one softmax, each with its own projections (arXiv:2403.03206)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(width, width) for _ in range(4))
        self.add_q, self.add_k, self.add_v, self.add_out = (nn.Linear(width, width) for _ in range(4))
        self.norm_q, self.norm_k = RMSNorm(width // heads), RMSNorm(width // heads)
        self.norm_added_q, self.norm_added_k = RMSNorm(width // heads), RMSNorm(width // heads)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = self.norm_q(self.split(self.to_q(x))), self.norm_k(self.split(self.to_k(x))), self.split(self.to_v(x))
        text_q = self.norm_added_q(self.split(self.add_q(text)))
        text_k = self.norm_added_k(self.split(self.add_k(text)))
        text_v = self.split(self.add_v(text))
        q, k, v = torch.cat([q, text_q], dim=2), torch.cat([k, text_k], dim=2), torch.cat([v, text_v], dim=2)
        h = F.scaled_dot_product_attention(q, k, v)
        h = h.transpose(1, 2).reshape(x.shape[0], -1, x.shape[2])
        image, text = h[:, : x.shape[1]], h[:, x.shape[1] :]
        return self.to_out(image), self.add_out(text)


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net_in, self.net_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net_out(F.gelu(self.net_in(x), approximate="tanh"))


class JointBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm1_text, self.norm2, self.norm2_text = (
            nn.LayerNorm(width, eps=1e-6, elementwise_affine=False) for _ in range(4)
        )
        self.ada, self.ada_text = nn.Linear(width, 6 * width), nn.Linear(width, 6 * width)
        self.attn, self.ff, self.ff_text = JointAttention(width, heads), FeedForward(width), FeedForward(width)

    def forward(self, x: torch.Tensor, text: torch.Tensor, emb: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shift, scale, gate, shift_ff, scale_ff, gate_ff = self.ada(F.silu(emb)).chunk(6, dim=1)
        shift_t, scale_t, gate_t, shift_tf, scale_tf, gate_tf = self.ada_text(F.silu(emb)).chunk(6, dim=1)
        a, b = self.attn(modulate(self.norm1(x), shift, scale), modulate(self.norm1_text(text), shift_t, scale_t))
        x, text = x + gate[:, None] * a, text + gate_t[:, None] * b
        x = x + gate_ff[:, None] * self.ff(modulate(self.norm2(x), shift_ff, scale_ff))
        text = text + gate_tf[:, None] * self.ff_text(modulate(self.norm2_text(text), shift_tf, scale_tf))
        return x, text


class MMDiT(nn.Module):
    """Two joint blocks between patches and patches."""

    def __init__(self, width: int = 32, heads: int = 4, patch: int = 2) -> None:
        super().__init__()
        self.patch = patch
        self.pos = PatchEmbed(4, width, patch, side=8)
        self.time_proj, self.time_embedding = Timesteps(16), TimeEmbedding(16, width)
        self.pooled_in, self.pooled_out = nn.Linear(24, width), nn.Linear(width, width)
        self.context = nn.Linear(24, width)
        self.blocks = nn.ModuleList(JointBlock(width, heads) for _ in range(3))
        self.norm_out, self.ada_out = (
            nn.LayerNorm(width, eps=1e-6, elementwise_affine=False),
            nn.Linear(width, 2 * width),
        )
        self.proj_out = nn.Linear(width, patch * patch * 4)

    def forward(
        self, sample: torch.Tensor, timestep: torch.Tensor, encoder_hidden_states: torch.Tensor
    ) -> torch.Tensor:
        height, width = sample.shape[2] // self.patch, sample.shape[3] // self.patch
        x = self.pos(sample)
        emb = self.time_embedding(self.time_proj(timestep.expand(sample.shape[0])).to(sample.dtype))
        pooled = encoder_hidden_states[:, -1]
        emb = emb + self.pooled_out(F.silu(self.pooled_in(pooled)))
        text = self.context(encoder_hidden_states)
        for block in self.blocks:
            x, text = block(x, text, emb)
        scale, shift = self.ada_out(F.silu(emb)).chunk(2, dim=1)
        x = self.proj_out(modulate(self.norm_out(x), shift, scale))
        x = x.view(x.shape[0], height, width, self.patch, self.patch, -1)
        x = torch.einsum("nhwpqc->nchpwq", x)
        return x.reshape(x.shape[0], -1, height * self.patch, width * self.patch)


class T5Attention(nn.Module):
    """No scale; a learnt bias by distance (arXiv:1910.10683)."""

    def __init__(self, width: int, heads: int, buckets: int = 8) -> None:
        super().__init__()
        self.heads, self.buckets = heads, buckets
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        q, k, v = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(3, 2)) + bias
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        return self.o(torch.matmul(weights, v).transpose(1, 2).flatten(2))


class T5Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_attention, self.attention = RMSNorm(width), T5Attention(width, heads)
        self.norm_ff = RMSNorm(width)
        self.wi_0, self.wi_1, self.wo = (
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(2 * width, width, bias=False),
        )

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_attention(x), bias)
        h = self.norm_ff(x)
        h = F.gelu(self.wi_0(h), approximate="tanh") * self.wi_1(h)
        return x + self.wo(h)


class T5(nn.Module):
    """Encoder whose layers share one table of distances."""

    def __init__(self, width: int = 32, heads: int = 4, depth: int = 3, buckets: int = 8) -> None:
        super().__init__()
        self.buckets = buckets
        self.shared_embedding = nn.Embedding(100, width)
        self.distance_embedding = nn.Embedding(buckets, heads)
        self.layers = nn.ModuleList(T5Layer(width, heads) for _ in range(depth))
        self.final_norm = RMSNorm(width)

    def bucket(self, distance: torch.Tensor) -> torch.Tensor:
        half = self.buckets // 2
        side = (distance > 0).long() * half
        distance = distance.abs()
        exact = half // 2
        far = exact + (torch.log(distance.float().clamp(min=1) / exact) / math.log(16 / exact) * (half - exact)).long()
        return side + torch.where(distance < exact, distance, far.clamp(max=half - 1))

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.shared_embedding(input_ids)
        place = torch.arange(input_ids.shape[1])
        bias = self.distance_embedding(self.bucket(place[None, :] - place[:, None])).permute(2, 0, 1)[None]
        for layer in self.layers:
            x = layer(x, bias)
        return self.final_norm(x)


class Posterior:
    """A Gaussian over latents."""

    def __init__(self, moments: torch.Tensor) -> None:
        self.mean, logvar = moments.chunk(2, dim=1)
        self.std = torch.exp(0.5 * logvar.clamp(-30.0, 20.0))

    def mode(self) -> torch.Tensor:
        return self.mean

    def sample(self, generator: torch.Generator | None = None) -> torch.Tensor:
        return self.mean + self.std * torch.randn(self.mean.shape, generator=generator).to(self.mean.dtype)


class EulerScheduler:
    """Euler over Karras sigmas (arXiv:2206.00364), computed with numpy."""

    def __init__(self) -> None:
        self.sigma_min, self.sigma_max, self.rho = 0.03, 14.6, 7.0
        self.sigmas = torch.zeros(0)
        self.timesteps = torch.zeros(0)
        self.index = 0

    def set_timesteps(self, count: int) -> None:
        ramp = np.linspace(0, 1, count)
        low, high = self.sigma_min ** (1 / self.rho), self.sigma_max ** (1 / self.rho)
        sigmas = (high + ramp * (low - high)) ** self.rho
        log_sigmas = np.log(sigmas)
        self.timesteps = torch.from_numpy(250.0 * log_sigmas + 310.0).to(torch.float32)
        self.sigmas = torch.from_numpy(np.concatenate([sigmas, [0.0]])).to(torch.float32)
        self.index = 0

    def scale_model_input(self, sample: torch.Tensor) -> torch.Tensor:
        return sample / (self.sigmas[self.index] ** 2 + 1) ** 0.5

    def step(self, model_output: torch.Tensor, sample: torch.Tensor) -> SimpleNamespace:
        sigma, following = self.sigmas[self.index], self.sigmas[self.index + 1]
        original = sample - sigma * model_output
        derivative = (sample - original) / sigma
        self.index += 1
        return SimpleNamespace(prev_sample=sample + derivative * (following - sigma))


class Guider:
    """Guidance in a range of its own count of steps."""

    def __init__(self, scale: float = 5.0, first: int = 1) -> None:
        self.scale, self.first, self.count = scale, first, 0

    def reset(self) -> None:
        self.count = 0

    def combine(self, negative: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        self.count += 1
        if self.count <= self.first:
            return positive
        return torch.lerp(negative, positive, self.scale)


class ImageToImage:
    """An image becomes latents, gets noise, is denoised in two stages, and becomes an image again."""

    def __init__(self, text_encoder: T5, unet: UNet, vae: VAE, scheduler: EulerScheduler, guider: Guider) -> None:
        self.text_encoder, self.unet, self.vae = text_encoder, unet, vae
        self.scheduler, self.guider = scheduler, guider

    def __call__(self, num_inference_steps: int = 4, generator: torch.Generator | None = None) -> SimpleNamespace:
        dtype = self.vae.post_quant_conv.weight.dtype
        image = torch.linspace(-1, 1, 3 * 16 * 16).sin().reshape(1, 3, 16, 16).to(dtype)
        ids = torch.tensor([[0, 0, 0, 0, 0, 1], [5, 17, 42, 8, 23, 1]])
        context = self.text_encoder(ids)
        moments = self.vae.quant_conv(self.vae.encoder(2 * image - 1))
        latents = Posterior(moments).mode() * self.vae.scaling_factor
        for _ in range(2):
            latents = self.denoise(latents, context, num_inference_steps, generator)
        return SimpleNamespace(images=self.vae.decode(latents))

    def denoise(
        self, latents: torch.Tensor, context: torch.Tensor, steps: int, generator: torch.Generator | None
    ) -> torch.Tensor:
        self.guider.reset()
        self.scheduler.set_timesteps(steps)
        noise = torch.randn(latents.shape, generator=generator).to(latents.dtype)
        latents = latents + noise * self.scheduler.sigmas[0].to(latents.dtype)
        for timestep in self.scheduler.timesteps:
            scaled = self.scheduler.scale_model_input(latents)
            prediction = self.unet(torch.cat([scaled] * 2), timestep[None], context)
            negative, positive = prediction.chunk(2)
            guided = self.guider.combine(negative, positive)
            latents = self.scheduler.step(guided, latents).prev_sample
        return latents


def image_to_image(seed: int) -> ImageToImage:
    text, unet, vae = (randomized(m, seed + i) for i, m in enumerate((T5(), UNet(context=32), VAE())))
    return ImageToImage(text, unet, vae, EulerScheduler(), Guider())  # type: ignore[arg-type]
