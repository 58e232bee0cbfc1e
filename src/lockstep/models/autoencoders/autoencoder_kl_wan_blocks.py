"""The layers of Wan's autoencoder: convolutions that remember earlier frames, and the blocks made of them.

Axes: N batch, C channels, T frames, H and W pixels. A tensor without suffix is NCTHW at the resolution of its block.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...attention import AttentionModuleMixin, dispatch_attention_fn

Kept = Sequence[Tensor]


class Memory:
    """The last frames that each convolution over time saw, in the order in which they run; empty at the beginning."""

    def __init__(self, kept: Kept) -> None:
        self.before = list(kept)
        self.after: list[Tensor] = []

    @property
    def is_empty(self) -> bool:
        return not self.before

    def past(self, hidden: Tensor, frames: int) -> Tensor:
        """What the next convolution saw before these frames; there was nothing before the first one."""
        if self.is_empty:
            return hidden.new_zeros(*hidden.shape[:2], frames, *hidden.shape[3:])
        return self.before[len(self.after)]

    def keep(self, frames: Tensor) -> None:
        self.after.append(frames.clone())  # a slice would keep all of what it is cut from


class WanCausalConv3d(nn.Conv3d):
    """A convolution that sees earlier frames and no later ones; in space it is padded with zeros."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel: tuple[int, int, int], past: int, stride: int = 1
    ) -> None:
        padding = (0, kernel[1] // 2, kernel[2] // 2)
        super().__init__(in_channels, out_channels, kernel, stride=(stride, 1, 1), padding=padding)
        self.past = past  # frames

    def forward(self, hidden: Tensor, memory: Memory | None = None) -> Tensor:
        if self.past and memory is not None:
            hidden = torch.cat([memory.past(hidden, self.past), hidden], dim=2)
            memory.keep(hidden[:, :, -self.past :])
        return super().forward(hidden)


def cube(in_channels: int, out_channels: int) -> WanCausalConv3d:
    """Three frames, rows and columns."""
    return WanCausalConv3d(in_channels, out_channels, (3, 3, 3), past=2)


def point(in_channels: int, out_channels: int) -> WanCausalConv3d:
    """Every position for itself."""
    return WanCausalConv3d(in_channels, out_channels, (1, 1, 1), past=0)


class WanRMS_norm(nn.Module):
    """Each position's channels on a sphere, times a weight for each channel."""

    def __init__(self, channels: int, axes: int = 3) -> None:
        super().__init__()
        self.scale = channels**0.5
        self.gamma = nn.Parameter(torch.ones(channels, *(1,) * axes))

    def forward(self, hidden: Tensor) -> Tensor:
        wide = hidden.float() if hidden.dtype in (torch.float16, torch.bfloat16) else hidden
        return F.normalize(wide, dim=1).to(hidden.dtype) * self.scale * self.gamma


class WanUpsample(nn.Upsample):
    """Nearest neighbours, copied in fp32."""

    def forward(self, hidden: Tensor) -> Tensor:
        return super().forward(hidden.float()).type_as(hidden)


class Resample(nn.Module):
    """Another size in space, frame by frame, and where `time_conv` is there, in time."""

    time_conv: WanCausalConv3d

    def __init__(self, in_time: bool, *spatial: nn.Module) -> None:
        super().__init__()
        self.in_time = in_time
        self.resample = nn.Sequential(*spatial)

    def in_space(self, hidden: Tensor) -> Tensor:
        frames = self.resample(hidden.transpose(1, 2).flatten(0, 1))
        return frames.unflatten(0, (hidden.shape[0], hidden.shape[2])).transpose(1, 2)


class UpsampleBy2(Resample):
    """Twice the frames (the first one of a video stays one), then twice the size."""

    def __init__(self, channels: int, out_channels: int, in_time: bool) -> None:
        enlarge = WanUpsample(scale_factor=(2.0, 2.0), mode="nearest-exact")
        super().__init__(in_time, enlarge, nn.Conv2d(channels, out_channels, 3, padding=1))
        if in_time:
            self.time_conv = WanCausalConv3d(channels, 2 * channels, (3, 1, 1), past=2)

    def forward(self, hidden: Tensor, memory: Memory) -> Tensor:
        if self.in_time and memory.is_empty:
            memory.keep(memory.past(hidden, self.time_conv.past))  # the first frame is no past to the others
        elif self.in_time:
            doubled = self.time_conv(hidden, memory).unflatten(1, (2, -1))
            hidden = torch.stack(doubled.unbind(1), dim=3).flatten(2, 3)
        return self.in_space(hidden)


class DownsampleBy2(Resample):
    """Half the size, then half the frames (the first one of a video stays one)."""

    def __init__(self, channels: int, in_time: bool) -> None:
        super().__init__(in_time, nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(channels, channels, 3, stride=2))
        if in_time:
            self.time_conv = WanCausalConv3d(channels, channels, (3, 1, 1), past=1, stride=2)

    def forward(self, hidden: Tensor, memory: Memory) -> Tensor:
        hidden = self.in_space(hidden)
        if self.in_time and memory.is_empty:
            memory.keep(hidden[:, :, -1:])
        elif self.in_time:
            hidden = self.time_conv(hidden, memory)
        return hidden


class AvgDown3D(nn.Module):
    """The shortcut of a block that shrinks: neighbours in time and space become channels, which are averaged."""

    def __init__(self, in_channels: int, out_channels: int, in_time: int, in_space: int) -> None:
        super().__init__()
        self.out_channels, self.in_time, self.in_space = out_channels, in_time, in_space

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = F.pad(hidden, (0, 0, 0, 0, -hidden.shape[2] % self.in_time, 0))
        cells = hidden.unflatten(4, (-1, self.in_space)).unflatten(3, (-1, self.in_space))
        cells = cells.unflatten(2, (-1, self.in_time)).permute(0, 1, 3, 5, 7, 2, 4, 6).flatten(1, 4)
        return cells.unflatten(1, (self.out_channels, -1)).mean(dim=2)


class DupUp3D(nn.Module):
    """The shortcut of a block that grows: channels, repeated, become neighbours in time and space."""

    def __init__(self, in_channels: int, out_channels: int, in_time: int) -> None:
        super().__init__()
        self.in_time = in_time
        self.repeats = out_channels * in_time * 4 // in_channels

    def forward(self, hidden: Tensor, memory: Memory) -> Tensor:
        cells = hidden.repeat_interleave(self.repeats, dim=1).unflatten(1, (-1, self.in_time, 2, 2))
        grown = cells.permute(0, 1, 5, 2, 6, 3, 7, 4).flatten(6, 7).flatten(4, 5).flatten(2, 3)
        return grown[:, :, self.in_time - 1 :] if memory.is_empty else grown


class WanResidualBlock(nn.Module):
    """Two normalised convolutions around a shortcut."""

    def __init__(self, in_channels: int, out_channels: int, dropout: float) -> None:
        super().__init__()
        self.nonlinearity = nn.SiLU()
        self.norm1 = WanRMS_norm(in_channels)
        self.conv1 = cube(in_channels, out_channels)
        self.norm2 = WanRMS_norm(out_channels)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = cube(out_channels, out_channels)
        self.conv_shortcut = point(in_channels, out_channels) if in_channels != out_channels else nn.Identity()

    def forward(self, hidden: Tensor, memory: Memory) -> Tensor:
        shortcut = self.conv_shortcut(hidden)
        hidden = self.conv1(self.nonlinearity(self.norm1(hidden)), memory)
        hidden = self.conv2(self.dropout(self.nonlinearity(self.norm2(hidden))), memory)
        return hidden + shortcut


class WanAttnProcessor:
    """The positions of a frame attend to each other; frames do not."""

    _attention_backend: str | None = None

    def __call__(self, attn: WanAttentionBlock, hidden: Tensor) -> Tensor:
        frames_NCHW = hidden.transpose(1, 2).flatten(0, 1)
        tokens = attn.to_qkv(attn.norm(frames_NCHW)).flatten(2).transpose(1, 2)
        query, key, value = (part.unsqueeze(2) for part in tokens.chunk(3, dim=-1))
        mixed = dispatch_attention_fn(query, key, value, backend=self._attention_backend).squeeze(2)
        mixed_NCHW = attn.proj(mixed.transpose(1, 2).reshape(frames_NCHW.shape))
        return mixed_NCHW.unflatten(0, (hidden.shape[0], -1)).transpose(1, 2) + hidden


class WanAttentionBlock(nn.Module, AttentionModuleMixin):
    """Self-attention within each frame, one head, around a shortcut; its projections are one layer in the file too."""

    _default_processor_cls = WanAttnProcessor
    _available_processors = (WanAttnProcessor,)
    fused_projections = True

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = WanRMS_norm(channels, axes=2)
        self.to_qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.proj = nn.Conv2d(channels, channels, 1)
        self.set_processor(WanAttnProcessor())

    def unfuse_projections(self) -> None:
        """They stay one layer, as published."""

    def forward(self, hidden: Tensor) -> Tensor:
        return self.processor(self, hidden)


def residual_blocks(in_channels: int, out_channels: int, count: int, dropout: float) -> nn.ModuleList:
    """So many in a row, of which the first changes the width."""
    widths = [in_channels] + [out_channels] * (count - 1)
    return nn.ModuleList(WanResidualBlock(width, out_channels, dropout) for width in widths)


class WanMidBlock(nn.Module):
    """Two residual blocks with an attention between them."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.attentions = nn.ModuleList([WanAttentionBlock(channels)])
        self.resnets = nn.ModuleList(WanResidualBlock(channels, channels, dropout) for _ in range(2))

    def forward(self, hidden: Tensor, memory: Memory) -> Tensor:
        hidden = self.resnets[0](hidden, memory)
        return self.resnets[1](self.attentions[0](hidden), memory)


class WanResidualDownBlock(nn.Module):
    """Version 2.2: residual blocks and half the size, around a shortcut without weights."""

    def __init__(
        self, in_channels: int, out_channels: int, layers: int, dropout: float, shrinks: bool, in_time: bool
    ) -> None:
        super().__init__()
        self.avg_shortcut = AvgDown3D(in_channels, out_channels, 1 + in_time, 1 + shrinks)
        self.resnets = residual_blocks(in_channels, out_channels, layers, dropout)
        self.downsampler = DownsampleBy2(out_channels, in_time) if shrinks else None

    def forward(self, hidden: Tensor, memory: Memory) -> Tensor:
        shortcut = self.avg_shortcut(hidden)
        for resnet in self.resnets:
            hidden = resnet(hidden, memory)
        if self.downsampler is not None:
            hidden = self.downsampler(hidden, memory)
        return hidden + shortcut


class WanUpBlock(nn.Module):
    """Version 2.1: residual blocks, then twice the size with half the channels."""

    def __init__(
        self, in_channels: int, out_channels: int, layers: int, dropout: float, grows: bool, in_time: bool
    ) -> None:
        super().__init__()
        self.resnets = residual_blocks(in_channels, out_channels, layers + 1, dropout)
        upsampler = [UpsampleBy2(out_channels, out_channels // 2, in_time)] if grows else []
        self.upsamplers = nn.ModuleList(upsampler)

    def forward(self, hidden: Tensor, memory: Memory) -> Tensor:
        for resnet in self.resnets:
            hidden = resnet(hidden, memory)
        for upsampler in self.upsamplers:
            hidden = upsampler(hidden, memory)
        return hidden


class WanResidualUpBlock(nn.Module):
    """Version 2.2: residual blocks and twice the size, around a shortcut without weights."""

    def __init__(
        self, in_channels: int, out_channels: int, layers: int, dropout: float, grows: bool, in_time: bool
    ) -> None:
        super().__init__()
        self.avg_shortcut = DupUp3D(in_channels, out_channels, 1 + in_time) if grows else None
        self.resnets = residual_blocks(in_channels, out_channels, layers + 1, dropout)
        self.upsampler = UpsampleBy2(out_channels, out_channels, in_time) if grows else None

    def forward(self, hidden: Tensor, memory: Memory) -> Tensor:
        before = hidden
        for resnet in self.resnets:
            hidden = resnet(hidden, memory)
        if self.upsampler is not None and self.avg_shortcut is not None:
            hidden = self.upsampler(hidden, memory) + self.avg_shortcut(before, memory)
        return hidden
