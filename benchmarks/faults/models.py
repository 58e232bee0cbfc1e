"""Tiny UNet, DiT, VAE and CLIP with the parts of the published ones; written plainly,
so that faults can be planted as text."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class Timesteps(nn.Module):
    """Sinusoidal embedding of the timestep (arXiv:2006.11239)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, timestep: torch.Tensor) -> torch.Tensor:
        half = self.width // 2
        exponent = -math.log(10000) * torch.arange(half, dtype=torch.float32) / (half - 0)
        angles = timestep.float()[:, None] * torch.exp(exponent)[None]
        return torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)


class TimeEmbedding(nn.Module):
    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(width, out), nn.Linear(out, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear_2(F.silu(self.linear_1(x)))


class ResBlock(nn.Module):
    """Two convolutions with the time between them."""

    def __init__(self, channels: int, out: int, time: int | None, groups: int = 4) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, channels, eps=1e-5), nn.Conv2d(channels, out, 3, padding=1)
        self.time = nn.Linear(time, out) if time else None
        self.norm2, self.conv2 = nn.GroupNorm(groups, out, eps=1e-5), nn.Conv2d(out, out, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, out, 1) if channels != out else None

    def forward(self, x: torch.Tensor, emb: torch.Tensor | None = None) -> torch.Tensor:
        h = self.conv1(F.silu(self.norm1(x)))
        if self.time is not None and emb is not None:
            h = h + self.time(F.silu(emb))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        if self.shortcut is not None:
            x = self.shortcut(x)
        return x + h


class CrossAttention(nn.Module):
    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (
            nn.Linear(width, width, bias=False),
            nn.Linear(context, width, bias=False),
            nn.Linear(context, width, bias=False),
        )
        self.to_out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor | None = None) -> torch.Tensor:
        context = x if context is None else context
        q = self.to_q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k = self.to_k(context).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        v = self.to_v(context).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        h = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(h.transpose(1, 2).flatten(2))


class GEGLU(nn.Module):
    """Gated GELU (arXiv:2002.05202)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj, self.out = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, gate = self.proj(x).chunk(2, dim=-1)
        return self.out(h * F.gelu(gate))


class TransformerBlock(nn.Module):
    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn1 = nn.LayerNorm(width), CrossAttention(width, width, heads)
        self.norm2, self.attn2 = nn.LayerNorm(width), CrossAttention(width, context, heads)
        self.norm3, self.ff = nn.LayerNorm(width), GEGLU(width)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        x = x + self.attn1(self.norm1(x))
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class SpatialTransformer(nn.Module):
    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, width, eps=1e-6)
        self.proj_in, self.block, self.proj_out = (
            nn.Linear(width, width),
            TransformerBlock(width, context, heads),
            nn.Linear(width, width),
        )

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        residual = x
        height, width = x.shape[2:]
        h = self.norm(x).flatten(2).transpose(1, 2)
        h = self.proj_out(self.block(self.proj_in(h), context))
        return residual + h.transpose(1, 2).unflatten(-1, (height, width))


class Downsample(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class Upsample(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class UNet(nn.Module):
    """Two levels of Stable Diffusion's UNet (arXiv:2112.10752)."""

    def __init__(self, width: int = 16, context: int = 24, heads: int = 4) -> None:
        super().__init__()
        time = 4 * width
        self.time_proj, self.time_embedding = Timesteps(width), TimeEmbedding(width, time)
        self.conv_in = nn.Conv2d(4, width, 3, padding=1)
        self.down_res, self.down_attn, self.down = (
            ResBlock(width, width, time),
            SpatialTransformer(width, context, heads),
            Downsample(width),
        )
        self.mid_res1, self.mid_attn = ResBlock(width, 2 * width, time), SpatialTransformer(2 * width, context, heads)
        self.mid_res2 = ResBlock(2 * width, 2 * width, time)
        self.up = Upsample(2 * width)
        self.up_res, self.up_attn = ResBlock(3 * width, width, time), SpatialTransformer(width, context, heads)
        self.norm_out, self.conv_out = nn.GroupNorm(4, width), nn.Conv2d(width, 4, 3, padding=1)

    def forward(
        self, sample: torch.Tensor, timestep: torch.Tensor, encoder_hidden_states: torch.Tensor
    ) -> torch.Tensor:
        emb = self.time_embedding(self.time_proj(timestep.expand(sample.shape[0])).to(sample.dtype))
        x = self.conv_in(sample)
        skip = self.down_attn(self.down_res(x, emb), encoder_hidden_states)
        x = self.down(skip)
        x = self.mid_res2(self.mid_attn(self.mid_res1(x, emb), encoder_hidden_states), emb)
        x = torch.cat([self.up(x), skip], dim=1)
        x = self.up_attn(self.up_res(x, emb), encoder_hidden_states)
        return self.conv_out(F.silu(self.norm_out(x)))


class RMSNorm(nn.Module):
    """Root mean square norm (arXiv:1910.07467), written out."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return (x.float() * torch.rsqrt(variance + self.eps)).to(x.dtype) * self.weight


class Rotary(nn.Module):
    """Angles of the rotary embedding (arXiv:2104.09864), halves layout."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        frequencies = 10000.0 ** (-torch.arange(0, self.width, 2, dtype=torch.float32) / self.width)
        position = torch.arange(tokens.shape[1], dtype=torch.float32)
        angles = position[:, None] * frequencies[None]
        return torch.cat([angles, angles], dim=-1)


class RotaryAttention(nn.Module):
    """Self-attention with fused projections, normalized query and key, and rotary positions."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm_q, self.norm_k = RMSNorm(width // heads), RMSNorm(width // heads)

    def rotate(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat([-second, first], dim=-1)
        return x * torch.cos(angles).to(x.dtype) + turned * torch.sin(angles).to(x.dtype)

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        q, k = self.rotate(self.norm_q(q), angles), self.rotate(self.norm_k(k), angles)
        h = F.scaled_dot_product_attention(q, k, v)
        return self.out(h.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class DiTBlock(nn.Module):
    """Adaptive layer norm with gates (arXiv:2212.09748)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=1e-6, elementwise_affine=False) for _ in range(2))
        self.attn, self.mlp = RotaryAttention(width, heads), Mlp(width)
        self.modulation = nn.Linear(width, 6 * width)

    def forward(self, x: torch.Tensor, emb: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(F.silu(emb))[:, None].chunk(6, dim=-1)
        x = x + gate1 * self.attn(self.norm1(x) * (1 + scale1) + shift1, angles)
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


class DiT(nn.Module):
    def __init__(self, width: int = 48, heads: int = 4, depth: int = 2, patch: int = 2) -> None:
        super().__init__()
        self.patch = patch
        self.patch_embed = nn.Linear(4 * patch * patch, width)
        self.time_proj, self.time_embedding = Timesteps(width), TimeEmbedding(width, width)
        self.caption = nn.Linear(24, width)
        self.rotary = Rotary(width // heads)
        self.blocks = nn.ModuleList(DiTBlock(width, heads) for _ in range(depth))
        self.norm_out, self.modulation_out = (
            nn.LayerNorm(width, eps=1e-6, elementwise_affine=False),
            nn.Linear(width, 2 * width),
        )
        self.proj_out = nn.Linear(width, 4 * patch * patch)

    def forward(
        self, sample: torch.Tensor, timestep: torch.Tensor, encoder_hidden_states: torch.Tensor
    ) -> torch.Tensor:
        batch, channels, height, width = sample.shape
        p = self.patch
        x = sample.reshape(batch, channels, height // p, p, width // p, p)
        x = self.patch_embed(x.permute(0, 2, 4, 3, 5, 1).flatten(1, 2).flatten(2))
        emb = self.time_embedding(self.time_proj(timestep.expand(batch)).to(sample.dtype))
        emb = emb + self.caption(encoder_hidden_states.mean(dim=1))
        angles = self.rotary(x)
        for block in self.blocks:
            x = block(x, emb, angles)
        shift, scale = self.modulation_out(F.silu(emb))[:, None].chunk(2, dim=-1)
        x = self.proj_out(self.norm_out(x) * (1 + scale) + shift)
        x = x.reshape(batch, height // p, width // p, p, p, channels)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(batch, channels, height, width)


class VaeAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, width, eps=1e-6)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[2:]
        h = self.norm(x).flatten(2).transpose(1, 2)
        h = F.scaled_dot_product_attention(self.to_q(h)[:, None], self.to_k(h)[:, None], self.to_v(h)[:, None])[:, 0]
        return x + self.to_out(h).transpose(1, 2).unflatten(-1, (height, width))


class PaddedDownsample(nn.Module):
    """The VAE pads right and below only."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.pad(x, (0, 1, 0, 1), mode="constant", value=0.0))


class Encoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv_in, self.res, self.down = (
            nn.Conv2d(3, width, 3, padding=1),
            ResBlock(width, width, None),
            PaddedDownsample(width),
        )
        self.mid, self.attn = ResBlock(width, 2 * width, None), VaeAttention(2 * width)
        self.norm_out, self.conv_out = nn.GroupNorm(4, 2 * width, eps=1e-6), nn.Conv2d(2 * width, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.attn(self.mid(self.down(self.res(self.conv_in(x)))))
        return self.conv_out(F.silu(self.norm_out(x)))


class Decoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv_in, self.mid, self.attn = (
            nn.Conv2d(4, 2 * width, 3, padding=1),
            ResBlock(2 * width, 2 * width, None),
            VaeAttention(2 * width),
        )
        self.up, self.res = Upsample(2 * width), ResBlock(2 * width, width, None)
        self.norm_out, self.conv_out = nn.GroupNorm(4, width, eps=1e-6), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        x = self.res(self.up(self.attn(self.mid(self.conv_in(z)))))
        return self.conv_out(F.silu(self.norm_out(x)))


class VAE(nn.Module):
    """Encode to a mean, decode again (arXiv:1312.6114)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.encoder, self.quant_conv = Encoder(width), nn.Conv2d(8, 8, 1)
        self.post_quant_conv, self.decoder = nn.Conv2d(4, 4, 1), Decoder(width)
        self.scaling_factor, self.shift_factor = 0.18215, 0.1

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        mean, variance = self.quant_conv(self.encoder(image * 2 - 1)).chunk(2, dim=1)
        latents = (mean + torch.exp(0.5 * variance.clamp(-30, 20)) * 0.1 - self.shift_factor) * self.scaling_factor
        return self.decode(latents)

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        decoded = self.decoder(self.post_quant_conv(latents / self.scaling_factor + self.shift_factor))
        return (decoded / 2 + 0.5).clamp(0, 1)


class QuickGELU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(1.702 * x)


class ClipAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = torch.matmul(q * self.scale, k.transpose(-1, -2))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        return self.out_proj(torch.matmul(weights, v).transpose(1, 2).flatten(2))


class ClipLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.layer_norm1, self.self_attn = nn.LayerNorm(width), ClipAttention(width, heads)
        self.layer_norm2, self.fc1, self.act, self.fc2 = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            QuickGELU(),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.fc2(self.act(self.fc1(self.layer_norm2(x))))


class CLIP(nn.Module):
    """Text encoder with pooling at the end token (arXiv:2103.00020)."""

    def __init__(
        self, vocabulary: int = 100, width: int = 24, heads: int = 4, depth: int = 2, length: int = 16
    ) -> None:
        super().__init__()
        self.token_embedding, self.position_embedding = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(ClipLayer(width, heads) for _ in range(depth))
        self.final_layer_norm, self.text_projection = nn.LayerNorm(width), nn.Linear(width, width, bias=False)

    def forward(self, input_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        positions = torch.arange(input_ids.shape[1])
        x = self.token_embedding(input_ids) + self.position_embedding(positions)
        for layer in self.layers:
            x = layer(x)
        x = self.final_layer_norm(x)
        pooled = x[torch.arange(x.shape[0]), input_ids.argmax(dim=-1)]
        return x, self.text_projection(pooled)


def randomized(model: nn.Module, seed: int) -> nn.Module:
    """Weights like trained ones: scales near one, biases not zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            draw = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1 and name.endswith("weight"):
                parameter.copy_(1 + 0.1 * draw)
            elif parameter.ndim == 1:
                parameter.copy_(0.1 * draw)
            elif "embedding." in name and "linear" not in name:
                parameter.copy_(0.5 * draw)
            else:
                parameter.copy_(draw / math.sqrt(parameter[0].numel()))
    return model.eval()
