"""T2I-Adapter (arXiv:2302.08453): a picture's structure as feature maps that are added on a UNet's way down.

Axes: B batch, C channels, Y rows, X columns. Pictures are BCYX with values from 0 to 1; every feature map is BCYX.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError, InputError
from ..modeling import ModelMixin, check_sizes

Tensor = torch.Tensor
TYPES = ("full_adapter", "full_adapter_xl", "light_adapter")


class AdapterResnetBlock(nn.Module):
    """Two convolutions around a shortcut."""

    def __init__(self, channels: int, second_kernel: int) -> None:
        super().__init__()
        self.block1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.block2 = nn.Conv2d(channels, channels, second_kernel, padding=second_kernel // 2)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return hidden_states + self.block2(self.block1(hidden_states).relu())


class AdapterBlock(nn.Module):
    """One level: perhaps half the size, another width, resnets."""

    def __init__(self, in_channels: int, out_channels: int, num_res_blocks: int, down: bool) -> None:
        super().__init__()
        self.downsample = nn.AvgPool2d(2, stride=2, ceil_mode=True) if down else nn.Identity()
        self.in_conv = nn.Identity() if in_channels == out_channels else nn.Conv2d(in_channels, out_channels, 1)
        self.resnets = nn.Sequential(*(AdapterResnetBlock(out_channels, 1) for _ in range(num_res_blocks)))

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.resnets(self.in_conv(self.downsample(hidden_states)))


class LightAdapterBlock(nn.Module):
    """One level at a quarter of its width: perhaps half the size, in, resnets, out."""

    def __init__(self, in_channels: int, out_channels: int, num_res_blocks: int, down: bool) -> None:
        super().__init__()
        narrow = out_channels // 4
        self.downsample = nn.AvgPool2d(2, stride=2, ceil_mode=True) if down else nn.Identity()
        self.in_conv = nn.Conv2d(in_channels, narrow, 1)
        self.resnets = nn.Sequential(*(AdapterResnetBlock(narrow, 3) for _ in range(num_res_blocks)))
        self.out_conv = nn.Conv2d(narrow, out_channels, 1)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.out_conv(self.resnets(self.in_conv(self.downsample(hidden_states))))


class AdapterLevels(nn.Module):
    """The picture folded into channels, then level by level; each level's result is a feature map."""

    def __init__(self, conv_in: nn.Module | None, body: Sequence[nn.Module], downscale_factor: int) -> None:
        super().__init__()
        self.unshuffle = nn.PixelUnshuffle(downscale_factor)
        self.conv_in = conv_in
        self.body = nn.ModuleList(body)

    def forward(self, picture: Tensor) -> list[Tensor]:
        hidden_states = self.unshuffle(picture)
        if self.conv_in is not None:
            hidden_states = self.conv_in(hidden_states)
        features = []
        for block in self.body:
            hidden_states = block(hidden_states)
            features.append(hidden_states)
        return features


class T2IAdapter(ModelMixin, ConfigMixin):
    """A picture (edges, depth, pose …) to one feature map per level of a UNet."""

    @register_to_config
    def __init__(
        self,
        in_channels: int = 3,
        channels: tuple[int, ...] = (320, 640, 1280, 1280),
        num_res_blocks: int = 2,
        downscale_factor: int = 8,
        adapter_type: str = "full_adapter",
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        if adapter_type not in TYPES:
            raise ConfigError(f"{owner}: adapter_type has to be one of {', '.join(TYPES)}, got {adapter_type!r}.")
        check_sizes(owner, self.config, "in_channels", "channels", "num_res_blocks", "downscale_factor")
        if not channels or (adapter_type == "light_adapter" and any(width % 4 for width in channels)):
            raise ConfigError(f"{owner}: channels wants widths (of a light adapter: multiples of 4), got {channels}.")
        folded = in_channels * downscale_factor**2
        light = adapter_type == "light_adapter"
        entry = folded if light else channels[0]
        kind = LightAdapterBlock if light else AdapterBlock
        self.levels = levels_of(adapter_type, entry, tuple(channels))
        self.adapter = AdapterLevels(
            None if light else nn.Conv2d(folded, channels[0], 3, padding=1),
            [kind(incoming, outgoing, num_res_blocks, down) for incoming, outgoing, down in self.levels],
            downscale_factor,
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        """The feature maps of a batch of pictures, finest first."""
        check_picture(type(self).__name__, x, self.config["in_channels"], self.downscale_factor)
        return self.adapter(x)

    @property
    def downscale_factor(self) -> int:
        """How many pixels of a side are folded into one: height and width have to be multiples of it."""
        return self.config["downscale_factor"]

    @property
    def total_downscale_factor(self) -> int:
        """Pixels per row or column of the coarsest feature map."""
        return self.downscale_factor * 2 ** sum(down for _, _, down in self.levels)

    def feature_shapes(self, height: int, width: int) -> list[tuple[int, int, int]]:
        """(channels, rows, columns) of each feature map of a picture of this size."""
        rows, columns = height // self.downscale_factor, width // self.downscale_factor
        shapes = []
        for _, channels, down in self.levels:
            if down:
                rows, columns = math.ceil(rows / 2), math.ceil(columns / 2)
            shapes.append((channels, rows, columns))
        return shapes


def levels_of(adapter_type: str, entry: int, channels: tuple[int, ...]) -> list[tuple[int, int, bool]]:
    """Width that comes in, width that goes out, and whether the size is halved before, for each level."""
    if adapter_type == "light_adapter":  # one level more than widths: the coarsest width comes twice
        channels = (*channels, channels[-1])
    before = (entry, *channels[:-1])
    if adapter_type == "full_adapter_xl":  # XL's UNet halves once before its first transformers, so it has one less
        halved = [index == 2 for index in range(len(channels))]
        before = tuple(before[i] if i in (1, 2) else channels[i] for i in range(len(channels)))
    else:
        halved = [index > 0 for index in range(len(channels))]
    return list(zip(before, channels, halved, strict=True))


def check_picture(owner: str, picture: Tensor, channels: int, factor: int) -> None:
    """A batch of pictures that the adapter can fold."""
    if not isinstance(picture, Tensor) or picture.ndim != 4 or picture.shape[1] != channels:
        got = tuple(picture.shape) if isinstance(picture, Tensor) else type(picture).__name__
        raise InputError(f"{owner} wants pictures of (batch, {channels}, height, width), got {got}.")
    if picture.shape[2] % factor or picture.shape[3] % factor:
        raise InputError(
            f"{owner} wants height and width as multiples of {factor}, got {picture.shape[2]}×{picture.shape[3]}."
        )
