"""The layers of LTX-Video's autoencoder: convolutions over time, residual blocks that time and noise enter, samplers.

Axes: N batch, C channels, T frames, H and W pixels. A tensor without suffix is NCTHW at the resolution of its block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..layers import EmbeddedTimestep

Triple = tuple[int, int, int]
Generators = torch.Generator | Sequence[torch.Generator] | None
STRIDES: dict[str, Triple] = {"spatial": (1, 2, 2), "temporal": (2, 1, 1), "spatiotemporal": (2, 2, 2)}


class LTXVideoCausalConv3d(nn.Module):
    """A convolution before whose first frame stand copies of it (causal), or half of them behind the last one."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int = 3, stride: int = 1, is_causal: bool = True
    ) -> None:
        super().__init__()
        self.past = kernel - 1 if is_causal else (kernel - 1) // 2
        self.future = kernel - 1 - self.past
        space = kernel // 2
        self.conv = nn.Conv3d(in_channels, out_channels, kernel, stride=stride, padding=(0, space, space))

    def forward(self, hidden: Tensor) -> Tensor:
        first, last = hidden[:, :, :1], hidden[:, :, -1:]
        return self.conv(torch.cat([first] * self.past + [hidden] + [last] * self.future, dim=2))


class PixelNorm(nn.RMSNorm):
    """Each position's channels on a sphere."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=1e-8, elementwise_affine=False)


class LTXVideoResnetBlock3d(nn.Module):
    """Two normalised convolutions around a shortcut; a time may modulate them, noise may be added to their results."""

    def __init__(
        self, in_channels: int, out_channels: int, is_causal: bool, eps: float, *, noisy: bool = False,
        timed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.nonlinearity = nn.SiLU()
        self.norm1 = PixelNorm(in_channels)
        self.conv1 = LTXVideoCausalConv3d(in_channels, out_channels, is_causal=is_causal)
        self.norm2 = PixelNorm(out_channels)
        self.conv2 = LTXVideoCausalConv3d(out_channels, out_channels, is_causal=is_causal)
        self.norm3 = self.conv_shortcut = None
        if in_channels != out_channels:
            self.norm3 = nn.LayerNorm(in_channels, eps=eps)
            self.conv_shortcut = LTXVideoCausalConv3d(in_channels, out_channels, kernel=1, is_causal=is_causal)
        self.per_channel_scale1 = nn.Parameter(torch.zeros(in_channels, 1, 1)) if noisy else None
        self.per_channel_scale2 = nn.Parameter(torch.zeros(in_channels, 1, 1)) if noisy else None
        table = torch.randn(4, in_channels) / in_channels**0.5
        self.scale_shift_table = nn.Parameter(table) if timed else None

    def forward(self, inputs: Tensor, temb_NC: Tensor | None = None, generator: Generators = None) -> Tensor:
        hidden = channels_last(self.norm1, inputs)
        shift = scale = None
        if self.scale_shift_table is not None and temb_NC is not None:
            first_shift, first_scale, shift, scale = modulation(temb_NC, self.scale_shift_table)
            hidden = hidden * (1 + first_scale) + first_shift
        hidden = with_noise(self.conv1(self.nonlinearity(hidden)), self.per_channel_scale1, generator)
        hidden = channels_last(self.norm2, hidden)
        if shift is not None and scale is not None:
            hidden = hidden * (1 + scale) + shift
        hidden = with_noise(self.conv2(self.nonlinearity(hidden)), self.per_channel_scale2, generator)
        if self.norm3 is not None and self.conv_shortcut is not None:
            inputs = self.conv_shortcut(channels_last(self.norm3, inputs))
        return hidden + inputs


class LTXVideoDownsampler3d(nn.Module):
    """Neighbours in time and space become channels: of a convolution, and, averaged, of its shortcut."""

    def __init__(self, in_channels: int, out_channels: int, stride: Triple, is_causal: bool) -> None:
        super().__init__()
        self.stride, self.averaged = stride, in_channels * math.prod(stride) // out_channels
        self.conv = LTXVideoCausalConv3d(in_channels, out_channels // math.prod(stride), is_causal=is_causal)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = torch.cat([hidden[:, :, : self.stride[0] - 1], hidden], dim=2)
        shortcut = gathered(hidden, self.stride).unflatten(1, (-1, self.averaged)).mean(dim=2)
        return gathered(self.conv(hidden), self.stride) + shortcut


class LTXVideoUpsampler3d(nn.Module):
    """Channels of a convolution become neighbours in time and space; where it is residual, its input's do so too."""

    def __init__(self, in_channels: int, is_causal: bool, residual: bool, factor: int) -> None:
        super().__init__()
        self.repeats = 8 // factor if residual else 0
        self.conv = LTXVideoCausalConv3d(in_channels, in_channels * 8 // factor, is_causal=is_causal)

    def forward(self, hidden: Tensor) -> Tensor:
        grown = spread(self.conv(hidden))
        return grown + spread(hidden).repeat(1, self.repeats, 1, 1, 1) if self.repeats else grown


class LTXVideoDownBlock3D(nn.Module):
    """Residual blocks, then a smaller size, then, where the sampler does not change it, another width."""

    def __init__(
        self, channels: int, layers: int, is_causal: bool, eps: float, sampler: nn.Module | None, out_channels: int
    ) -> None:
        super().__init__()
        self.resnets = resnets(channels, layers, is_causal, eps)
        self.downsamplers = None if sampler is None else nn.ModuleList([sampler])
        other_width = channels != out_channels
        self.conv_out = LTXVideoResnetBlock3d(channels, out_channels, is_causal, eps) if other_width else None

    def forward(self, hidden: Tensor) -> Tensor:
        for resnet in self.resnets:
            hidden = resnet(hidden)
        for downsampler in self.downsamplers or ():
            hidden = downsampler(hidden)
        return hidden if self.conv_out is None else self.conv_out(hidden)


class LTXVideoMidBlock3d(nn.Module):
    """Residual blocks; where they are told a time, an embedding of it."""

    def __init__(
        self, channels: int, layers: int, is_causal: bool, eps: float, *, noisy: bool = False, timed: bool = False
    ) -> None:
        super().__init__()
        self.time_embedder = EmbeddedTimestep(4 * channels) if timed else None
        self.resnets = resnets(channels, layers, is_causal, eps, noisy=noisy, timed=timed)

    def forward(self, hidden: Tensor, times_N: Tensor | None = None, generator: Generators = None) -> Tensor:
        temb_NC = None
        if self.time_embedder is not None and times_N is not None:
            temb_NC = self.time_embedder(times_N, hidden.dtype)
        for resnet in self.resnets:
            hidden = resnet(hidden, temb_NC, generator)
        return hidden


class LTXVideoUpBlock3d(nn.Module):
    """Another width, twice the size in time and space, then residual blocks, told a time where they are."""

    def __init__(
        self, in_channels: int, out_channels: int, layers: int, grows: bool, is_causal: bool, eps: float, *,
        residual: bool, factor: int, noisy: bool, timed: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.time_embedder = EmbeddedTimestep(4 * in_channels) if timed else None
        other_width = in_channels != out_channels
        self.conv_in = LTXVideoResnetBlock3d(in_channels, out_channels, is_causal, eps) if other_width else None
        sampler = LTXVideoUpsampler3d(out_channels * factor, is_causal, residual, factor) if grows else None
        self.upsamplers = None if sampler is None else nn.ModuleList([sampler])
        self.resnets = resnets(out_channels, layers, is_causal, eps, noisy=noisy, timed=timed)

    def forward(self, hidden: Tensor, times_N: Tensor | None = None, generator: Generators = None) -> Tensor:
        temb_NC = None
        if self.time_embedder is not None and times_N is not None:
            temb_NC = self.time_embedder(times_N, hidden.dtype)
        if self.conv_in is not None:
            hidden = self.conv_in(hidden)
        for upsampler in self.upsamplers or ():
            hidden = upsampler(hidden)
        for resnet in self.resnets:
            hidden = resnet(hidden, temb_NC, generator)
        return hidden


def resnets(
    channels: int, layers: int, is_causal: bool, eps: float, *, noisy: bool = False, timed: bool = False
) -> nn.ModuleList:
    """So many residual blocks of one width."""
    made = (LTXVideoResnetBlock3d(channels, channels, is_causal, eps, noisy=noisy, timed=timed) for _ in range(layers))
    return nn.ModuleList(made)


def channels_last(norm: nn.Module, hidden: Tensor) -> Tensor:
    """A norm over the channels of each position."""
    return norm(hidden.movedim(1, -1)).movedim(-1, 1)


def modulation(temb_NC: Tensor, table: Tensor) -> tuple[Tensor, ...]:
    """Shifts and scales, (N, channels, 1, 1, 1) each: rows of a table, each with its part of a time's embedding."""
    return (temb_NC.unflatten(1, (len(table), -1)) + table)[..., None, None, None].unbind(1)


def with_noise(hidden: Tensor, scale_C11: Tensor | None, generator: Generators) -> Tensor:
    """One plane of noise on every frame and channel, as strong as the channel takes it.

    A list has a generator for each sample, which so gets the plane that it has alone; else one plane is all samples'.
    """
    if scale_C11 is None:
        return hidden
    rows = [generator] if generator is None or isinstance(generator, torch.Generator) else generator
    device, dtype = hidden.device, hidden.dtype
    planes = [torch.randn(hidden.shape[-2:], generator=one, device=device, dtype=dtype) for one in rows]
    return hidden + (torch.stack(planes)[:, None] * scale_C11)[:, :, None]


def gathered(hidden: Tensor, stride: Triple) -> Tensor:
    """Neighbours in time, rows and columns as channels."""
    cells = hidden.unflatten(4, (-1, stride[2])).unflatten(3, (-1, stride[1])).unflatten(2, (-1, stride[0]))
    return cells.permute(0, 1, 3, 5, 7, 2, 4, 6).flatten(1, 4)


def spread(hidden: Tensor) -> Tensor:
    """Eight channels as two frames of two rows and columns; the first frame of all stays one."""
    cells = hidden.unflatten(1, (-1, 2, 2, 2)).permute(0, 1, 5, 2, 6, 3, 7, 4)
    return cells.flatten(6, 7).flatten(4, 5).flatten(2, 3)[:, :, 1:]
