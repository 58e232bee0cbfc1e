"""Layers that several models share operation by operation.

Axes: B batch, C channels, Y rows, X columns. A feature map is BCYX, a time embedding BC.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from ..errors import ConfigError

Tensor = torch.Tensor

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "mish": nn.Mish,
    "gelu": nn.GELU,
    "relu": nn.ReLU,
}


def get_activation(name: str) -> nn.Module:
    """The activation of that published name."""
    if name.lower() not in ACTIVATIONS:
        raise ConfigError(f"An activation (act_fn) is one of {', '.join(sorted(ACTIVATIONS))}, got {name!r}.")
    return ACTIVATIONS[name.lower()]()


def get_timestep_embedding(
    timesteps: Tensor,
    embedding_dim: int,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1.0,
    scale: float = 1.0,
    max_period: int = 10_000,
) -> Tensor:
    """Sines and cosines of a batch of timesteps, always in fp32 (Attention Is All You Need, arXiv:1706.03762, 3.5)."""
    half = embedding_dim // 2
    steps = torch.arange(half, dtype=torch.float32, device=timesteps.device)
    # The order of operations is the published one: another order moves the last bits of fp32.
    frequencies = torch.exp(-math.log(max_period) * steps / (half - downscale_freq_shift))
    angles = scale * (timesteps[:, None].float() * frequencies[None, :])
    parts = (angles.cos(), angles.sin()) if flip_sin_to_cos else (angles.sin(), angles.cos())
    return F.pad(torch.cat(parts, dim=-1), (0, embedding_dim % 2))


class Timesteps(nn.Module):
    """Timesteps to sinusoids, without weights."""

    def __init__(
        self, num_channels: int, flip_sin_to_cos: bool, downscale_freq_shift: float, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.num_channels = num_channels
        self.flip_sin_to_cos = flip_sin_to_cos
        self.downscale_freq_shift = downscale_freq_shift
        self.scale = scale

    def forward(self, timesteps: Tensor) -> Tensor:
        return get_timestep_embedding(
            timesteps, self.num_channels, self.flip_sin_to_cos, self.downscale_freq_shift, self.scale
        )


class TimestepEmbedding(nn.Module):
    """Two linear layers on the sinusoids, after an optional condition was added (arXiv:2006.11239, appendix B)."""

    def __init__(
        self,
        in_channels: int,
        time_embed_dim: int,
        act_fn: str = "silu",
        post_act_fn: str | None = None,
        cond_proj_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(in_channels, time_embed_dim)
        self.cond_proj = None if cond_proj_dim is None else nn.Linear(cond_proj_dim, in_channels, bias=False)
        self.act = get_activation(act_fn)
        self.linear_2 = nn.Linear(time_embed_dim, time_embed_dim)
        self.post_act = None if post_act_fn is None else get_activation(post_act_fn)

    def forward(self, sample: Tensor, condition: Tensor | None = None) -> Tensor:
        if condition is not None and self.cond_proj is not None:
            sample = sample + self.cond_proj(condition)
        sample = self.linear_2(self.act(self.linear_1(sample)))
        return sample if self.post_act is None else self.post_act(sample)


class EmbeddedTimestep(nn.Module):
    """Timesteps as vectors: sinusoids, in the dtype of what they go to, and two linear layers (arXiv:2310.00426)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.time_proj = Timesteps(256, flip_sin_to_cos=True, downscale_freq_shift=0)
        self.timestep_embedder = TimestepEmbedding(256, width)

    def forward(self, timesteps: Tensor, dtype: torch.dtype) -> Tensor:
        return self.timestep_embedder(self.time_proj(timesteps).to(dtype))


class GEGLU(nn.Module):
    """Half of a projection gated by the exact GELU of the other half (arXiv:2002.05202)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 2 * hidden)

    def forward(self, hidden_states: Tensor) -> Tensor:
        hidden_states, gate = self.proj(hidden_states).chunk(2, dim=-1)
        return hidden_states * F.gelu(gate)


class TanhGELU(nn.Module):
    """A projection and the tanh approximation of GELU (arXiv:1606.08415)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, hidden)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return F.gelu(self.proj(hidden_states), approximate="tanh")


class FeedForward(nn.Module):
    """A projection to a larger width (four times, where it is not said) and back; gated, or with a plain GELU."""

    def __init__(self, width: int, hidden: int | None = None, *, gated: bool = True) -> None:
        super().__init__()
        hidden = 4 * width if hidden is None else hidden
        # The published files number these 0 and 2; 1 was a dropout that no published model uses.
        first = GEGLU(width, hidden) if gated else TanhGELU(width, hidden)
        self.net = nn.ModuleList([first, nn.Identity(), nn.Linear(hidden, width)])

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.net[2](self.net[0](hidden_states))


class ResnetBlock2D(nn.Module):
    """Norm, activation, convolution, twice, around a shortcut; the time embedding enters between (arXiv:2006.11239)."""

    def __init__(
        self,
        *,
        in_channels: int,
        out_channels: int,
        temb_channels: int | None,
        groups: int = 32,
        eps: float = 1e-6,
        act_fn: str = "silu",
        time_scale_shift: Literal["default", "scale_shift"] = "default",
        dropout: float = 0.0,
        output_scale_factor: float = 1.0,
    ) -> None:
        super().__init__()
        self.time_scale_shift = time_scale_shift
        self.output_scale_factor = output_scale_factor
        self.norm1 = nn.GroupNorm(groups, in_channels, eps=eps)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.time_emb_proj = None
        if temb_channels is not None:
            time_channels = 2 * out_channels if time_scale_shift == "scale_shift" else out_channels
            self.time_emb_proj = nn.Linear(temb_channels, time_channels)
        self.norm2 = nn.GroupNorm(groups, out_channels, eps=eps)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.nonlinearity = get_activation(act_fn)
        self.conv_shortcut = None if in_channels == out_channels else nn.Conv2d(in_channels, out_channels, 1)

    def forward(self, hidden_states: Tensor, temb: Tensor | None = None) -> Tensor:
        shortcut = hidden_states if self.conv_shortcut is None else self.conv_shortcut(hidden_states)
        hidden_states = self.conv1(self.nonlinearity(self.norm1(hidden_states)))
        if self.time_emb_proj is None or temb is None:
            hidden_states = self.norm2(hidden_states)
        elif self.time_scale_shift == "scale_shift":
            scale, shift = self.time_emb_proj(self.nonlinearity(temb))[:, :, None, None].chunk(2, dim=1)
            hidden_states = self.norm2(hidden_states) * (1 + scale) + shift
        else:
            hidden_states = hidden_states + self.time_emb_proj(self.nonlinearity(temb))[:, :, None, None]
            hidden_states = self.norm2(hidden_states)
        hidden_states = self.conv2(self.dropout(self.nonlinearity(hidden_states)))
        hidden_states = shortcut + hidden_states
        return hidden_states if self.output_scale_factor == 1.0 else hidden_states / self.output_scale_factor


class Downsample2D(nn.Module):
    """Half the size by a strided convolution; with padding 0 the right and lower edge are padded instead."""

    def __init__(self, channels: int, padding: int = 1) -> None:
        super().__init__()
        self.padding = padding
        self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=padding)

    def forward(self, hidden_states: Tensor) -> Tensor:
        if self.padding == 0:
            hidden_states = F.pad(hidden_states, (0, 1, 0, 1))
        return self.conv(hidden_states)

    def output_size(self, size: int) -> int:
        """How many rows or columns come out of so many."""
        return (size + (2 * self.padding or 1) - 3) // 2 + 1


class Upsample2D(nn.Module):
    """Nearest-neighbour enlargement to twice the size (or to the size of a skip), then a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, hidden_states: Tensor, output_size: tuple[int, int] | None = None) -> Tensor:
        if output_size is None:
            output_size = (2 * hidden_states.shape[2], 2 * hidden_states.shape[3])
        return self.conv(F.interpolate(hidden_states, size=output_size, mode="nearest"))
