"""The causal video autoencoder of Wan (arXiv:2503.20314, section 4.1): version 2.1, and 2.2 (residual, patchified).

A video goes through in parts, the first frame alone and then four at a time (one latent each): every convolution over
time keeps the last frames that it saw, so that the parts come out as the whole would, in memory that does not grow.

Axes: N batch, C channels, T frames, H and W pixels. A tensor without suffix is NCTHW at the resolution of its block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError, InputError
from ...notes import say_once
from ...outputs import output_or_tuple
from ..modeling import ModelMixin, check_sizes, checkpointed
from .autoencoder_kl import AutoencoderKLOutput, DiagonalGaussianDistribution
from .autoencoder_kl_wan_blocks import (
    DownsampleBy2,
    Kept,
    Memory,
    WanMidBlock,
    WanResidualBlock,
    WanResidualDownBlock,
    WanResidualUpBlock,
    WanRMS_norm,
    WanUpBlock,
    cube,
    point,
)
from .parts import DecoderOutput, Tiles, check_layout, in_tiles, patchify, reconstructed, unpatchify
from .video_tiles import TiledVideoMixin

LATENTS_MEAN = (
    -0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
    0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921,
)  # fmt: skip
LATENTS_STD = (
    2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
    3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160,
)  # fmt: skip
FRAMES = 4  # of a part after the first


@dataclass(frozen=True)
class Body:
    """What a coder is made of: its widths in the order of its blocks, and which blocks change the number of frames."""

    widths: list[int]
    layers: int
    in_time: Sequence[bool]
    dropout: float
    is_residual: bool

    def levels(self) -> Iterator[tuple[int, int, bool, bool]]:
        """Width before and after each block, and whether it changes the size, and the number of frames too."""
        for index, (before, width) in enumerate(pairwise(self.widths)):
            resizes = index < len(self.widths) - 2
            yield before, width, resizes, resizes and self.in_time[index]


class WanEncoder3d(nn.Module):
    """A part of a video to the mean and log variance of its latents, and what to remember for the next part."""

    def __init__(self, in_channels: int, out_channels: int, body: Body) -> None:
        super().__init__()
        layers, dropout = body.layers, body.dropout
        self.conv_in = cube(in_channels, body.widths[0])
        self.down_blocks = nn.ModuleList()
        for before, width, shrinks, halves in body.levels():
            if body.is_residual:
                self.down_blocks.append(WanResidualDownBlock(before, width, layers, dropout, shrinks, halves))
                continue
            for layer in range(layers):
                self.down_blocks.append(WanResidualBlock(width if layer else before, width, dropout))
            if shrinks:
                self.down_blocks.append(DownsampleBy2(width, halves))
        self.mid_block = WanMidBlock(body.widths[-1], dropout)
        self.norm_out = WanRMS_norm(body.widths[-1])
        self.nonlinearity = nn.SiLU()
        self.conv_out = cube(body.widths[-1], out_channels)

    def forward(self, pixels: Tensor, kept: Kept = ()) -> tuple[Tensor, list[Tensor]]:
        memory = Memory(kept)
        hidden = self.conv_in(pixels, memory)
        for block in self.down_blocks:
            hidden = block(hidden, memory)
        hidden = self.mid_block(hidden, memory)
        return self.conv_out(self.nonlinearity(self.norm_out(hidden)), memory), memory.after


class WanDecoder3d(nn.Module):
    """One frame of latents to its frames of pixels, and what to remember for the next."""

    def __init__(self, in_channels: int, out_channels: int, body: Body) -> None:
        super().__init__()
        layers, dropout = body.layers, body.dropout
        self.conv_in = cube(in_channels, body.widths[0])
        self.mid_block = WanMidBlock(body.widths[0], dropout)
        self.up_blocks = nn.ModuleList()
        for index, (before, width, grows, doubles) in enumerate(body.levels()):
            if body.is_residual:
                self.up_blocks.append(WanResidualUpBlock(before, width, layers, dropout, grows, doubles))
            else:  # the upsampler before has halved the channels
                halved = before // 2 if index else before
                self.up_blocks.append(WanUpBlock(halved, width, layers, dropout, grows, doubles))
        self.norm_out = WanRMS_norm(body.widths[-1])
        self.nonlinearity = nn.SiLU()
        self.conv_out = cube(body.widths[-1], out_channels)

    def forward(self, latents: Tensor, kept: Kept = ()) -> tuple[Tensor, list[Tensor]]:
        memory = Memory(kept)
        hidden = self.mid_block(self.conv_in(latents, memory), memory)
        for block in self.up_blocks:
            hidden = block(hidden, memory)
        return self.conv_out(self.nonlinearity(self.norm_out(hidden)), memory), memory.after


class CausalAutoencoder(ModelMixin, TiledVideoMixin, ConfigMixin):  # type: ignore[override]
    """Videos in [-1, 1] to latents and back, part by part; a class says by which config."""

    _supports_gradient_checkpointing = True
    gradient_checkpointing = False
    tile_sample_min_height = tile_sample_min_width = 256
    tile_sample_stride_height = tile_sample_stride_width = 192

    def build(self, in_channels: int, out_channels: int, decoder_base: int, is_residual: bool) -> None:
        """Encoder and decoder by the config, for squares of so many channels."""
        config = self.config
        _check_config(type(self).__name__, config)
        z_dim, mults, in_time = config["z_dim"], config["dim_mult"], config["temperal_downsample"]
        layers, rest = config["num_res_blocks"], (config["dropout"], is_residual)
        down = [config["base_dim"] * mult for mult in (1, *mults)]
        up = [decoder_base * mult for mult in (mults[-1], *mults[::-1])]
        self.encoder = WanEncoder3d(in_channels, 2 * z_dim, Body(down, layers, in_time, *rest))
        self.quant_conv = point(2 * z_dim, 2 * z_dim)
        self.post_quant_conv = point(z_dim, z_dim)
        self.decoder = WanDecoder3d(z_dim, out_channels, Body(up, layers, in_time[::-1], *rest))
        self.pixel_channels = in_channels // self.tile_patch**2

    @property
    def temporal_scale_factor(self) -> int:
        return 4

    @property
    def latent_channels(self) -> int:
        return self.config.z_dim

    def normalize_latents(self, latents: Tensor) -> Tensor:
        mean, scale = self._statistics(latents)
        return (latents - mean) * scale

    def denormalize_latents(self, latents: Tensor) -> Tensor:
        mean, scale = self._statistics(latents)
        return latents / scale + mean

    def _statistics(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Mean, and one by the deviation: in that form it is published, and rounded."""
        mean, std = (
            torch.tensor(values).view(1, -1, *[1] * (like.ndim - 2)).to(like)
            for values in (self.config.latents_mean, self.config.latents_std)
        )
        return mean, 1.0 / std

    @output_or_tuple
    def encode(self, x: Tensor, return_dict: bool = True) -> AutoencoderKLOutput | tuple[DiagonalGaussianDistribution]:
        """Videos to the posterior of their latents."""
        posterior = DiagonalGaussianDistribution(self.moments(x))
        return AutoencoderKLOutput(latent_dist=posterior) if return_dict else (posterior,)

    @output_or_tuple
    def decode(self, z: Tensor, return_dict: bool = True) -> DecoderOutput | tuple[Tensor]:
        """Latents to videos."""
        sample = self.pixels(z)
        return DecoderOutput(sample=sample) if return_dict else (sample,)

    def moments(self, x: Tensor) -> Tensor:
        """Mean and log variance of the latents of videos."""
        self._check_video(x)
        return self._by_slice(self._encode, x)

    def pixels(self, z: Tensor) -> Tensor:
        """The videos of latents."""
        owner = type(self).__name__
        check_layout(owner, "latents", z, self.config.z_dim, "(batch, channels, frames, height, width)")
        check_something(f"{owner}.decode", z)
        return self._by_slice(lambda latents: torch.cat(list(self.decode_stream(latents)), dim=2), z)

    def decode_stream(self, z: Tensor, memory: dict[tuple[int, int], list[Tensor]] | None = None) -> Iterator[Tensor]:
        """Latents to videos, a part after the other as it is ready; the memory does not grow with the video.

        A `memory` (a dict, empty at first) is filled, so that later latents go on where these have ended.
        """
        tiles = self._decoder_tiles(*z.shape[-2:])
        for frames in self._in_parts(self._decode_part, z.split(1, dim=2), tiles, memory):
            yield unpatchify(frames, self.tile_patch).clamp(-1.0, 1.0)

    forward = reconstructed

    def _encode(self, x: Tensor) -> Tensor:
        pixels = patchify(x, self.tile_patch)
        starts = range(1, x.shape[2] - FRAMES + 1, FRAMES)
        parts = (pixels[:, :, :1], *(pixels[:, :, start : start + FRAMES] for start in starts))
        return torch.cat(list(self._in_parts(self._encode_part, parts, self._encoder_tiles(*x.shape[-2:]))), dim=2)

    def _in_parts(
        self, run: Callable[[Tensor, Kept], tuple[Tensor, list[Tensor]]], parts: Iterable[Tensor], tiles: Tiles,
        memory: dict[tuple[int, int], list[Tensor]] | None = None,
    ) -> Iterator[Tensor]:  # fmt: skip
        """Part after part, each in tiles; every tile remembers its own past."""
        kept = {} if memory is None else memory

        def run_tile(tile: Tensor, place: tuple[int, int]) -> Tensor:
            made, kept[place] = run(tile, kept.get(place, ()))
            return made

        for part in parts:
            yield in_tiles(run_tile, part, tiles, self._tile_ranks)

    def _encode_part(self, pixels: Tensor, kept: Kept) -> tuple[Tensor, list[Tensor]]:
        moments, after = checkpointed(self, self.encoder, pixels, kept)
        return self.quant_conv(moments), after

    def _decode_part(self, latents: Tensor, kept: Kept) -> tuple[Tensor, list[Tensor]]:
        return checkpointed(self, self.decoder, self.post_quant_conv(latents), kept)

    def _check_video(self, x: Tensor) -> None:
        owner = type(self).__name__
        check_layout(owner, "videos", x, self.pixel_channels, "(batch, channels, frames, height, width)")
        check_something(f"{owner}.encode", x)
        factor = self.spatial_scale_factor
        if x.shape[-1] % factor or x.shape[-2] % factor:
            raise InputError(
                f"{owner}.encode wants height and width divisible by {factor}, got "
                f"{x.shape[-2]}x{x.shape[-1]}. Resize or crop the video."
            )
        left = (x.shape[2] - 1) % FRAMES
        if left and not torch.compiler.is_compiling():
            say_once(
                f"A video of {x.shape[2]} frames is encoded without its last {left}: one frame and then {FRAMES} at a "
                "time become a latent."
            )


class AutoencoderKLWan(CausalAutoencoder):
    """Videos in [-1, 1] to latents and back; four frames and 8 x 8 (2.2: 16 x 16) pixels are one latent."""

    @register_to_config
    def __init__(
        self, base_dim: int = 96, decoder_base_dim: int | None = None, z_dim: int = 16,
        dim_mult: tuple[int, ...] = (1, 2, 4, 4), num_res_blocks: int = 2, attn_scales: tuple[float, ...] = (),
        temperal_downsample: tuple[bool, ...] = (False, True, True), dropout: float = 0.0,
        latents_mean: tuple[float, ...] = LATENTS_MEAN, latents_std: tuple[float, ...] = LATENTS_STD,
        is_residual: bool = False, in_channels: int = 3, out_channels: int = 3, patch_size: int | None = None,
        scale_factor_temporal: int | None = 4, scale_factor_spatial: int | None = 8,
    ) -> None:  # fmt: skip
        super().__init__()
        check_sizes("AutoencoderKLWan", self.config, "decoder_base_dim", "in_channels", "out_channels", "patch_size")
        check_sizes("AutoencoderKLWan", self.config, "scale_factor_temporal", "scale_factor_spatial")
        self.build(in_channels, out_channels, decoder_base_dim or base_dim, is_residual)

    @property
    def spatial_scale_factor(self) -> int:
        return self.config.scale_factor_spatial or 8

    @property
    def tile_patch(self) -> int:
        return self.config.patch_size or 1

    @property
    def temporal_scale_factor(self) -> int:
        return self.config.scale_factor_temporal or 4


def check_something(task: str, video: Tensor) -> None:
    """A video has a sample, a frame, a row and a column at least."""
    axes = dict(zip(("samples", "channels", "frames", "rows", "columns"), video.shape, strict=True))
    empty = [axis for axis, size in axes.items() if not size]
    if empty:
        raise InputError(f"{task} wants at least one of each axis, got {tuple(video.shape)}: no {empty[0]}.")


def _check_config(owner: str, config: Mapping[str, Any]) -> None:
    """Refuse values that cannot work together."""
    mults = config["dim_mult"]
    check_sizes(owner, config, "base_dim", "z_dim", "dim_mult", "num_res_blocks")
    if not mults or len(config["temperal_downsample"]) < len(mults) - 1:
        raise ConfigError(
            f"{owner}: temperal_downsample wants a word for each of {len(mults) - 1} steps between the blocks of "
            f"dim_mult {list(mults)}, got {list(config['temperal_downsample'])}."
        )
    if config["attn_scales"]:
        raise ConfigError(f"{owner}: attn_scales (attention between the down blocks) wants to be empty, as published.")
    for name in ("latents_mean", "latents_std"):
        if len(config[name]) != config["z_dim"]:
            raise ConfigError(f"{owner}: {name} wants a value for each of {config['z_dim']} z_dim, got {config[name]}.")
