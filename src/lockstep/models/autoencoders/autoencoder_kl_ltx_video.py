"""The causal video autoencoder of LTX-Video (arXiv:2501.00103, section 3.1): 0.9.0, 0.9.1, and 0.9.5 and later.

Squares of pixels become channels first. From 0.9.1 on the decoder takes a last step of denoising: it is told a time,
and in 0.9.1 noise is added inside it.

Axes: N batch, C channels, T frames, H and W pixels. A tensor without suffix is NCTHW at the resolution of its block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError, InputError
from ...outputs import output_or_tuple
from ..layers import EmbeddedTimestep
from ..modeling import ModelMixin, check_sizes, checkpointed
from .autoencoder_kl import AutoencoderKLOutput, DiagonalGaussianDistribution
from .autoencoder_kl_ltx_video_blocks import (
    STRIDES,
    Generators,
    LTXVideoCausalConv3d,
    LTXVideoDownBlock3D,
    LTXVideoDownsampler3d,
    LTXVideoMidBlock3d,
    LTXVideoUpBlock3d,
    PixelNorm,
    channels_last,
    modulation,
)
from .parts import DecoderOutput, blend, check_layout, in_tiles, patchify, unpatchify
from .video_tiles import TiledVideoMixin

OLD, NEW = "LTXVideoDownBlock3D", "LTXVideo095DownBlock3D"
LAYOUT = "(batch, channels, frames, height, width)"
BLOCKS = 4


class LTXVideoEncoder3d(nn.Module):
    """Videos to the mean of their latents and a log variance that all channels of a position share."""

    gradient_checkpointing = False

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        is_new, is_causal = config["down_block_types"][-1] == NEW, config["encoder_causal"]
        widths, layers, kinds = config["block_out_channels"], config["layers_per_block"], config["downsample_type"]
        eps, self.patch = config["resnet_norm_eps"], config["patch_size"]
        self.conv_in = LTXVideoCausalConv3d(config["in_channels"] * self.patch**2, widths[0], is_causal=is_causal)
        after = [*widths[1:]] if is_new else [*widths[1:], widths[-1]]
        self.down_blocks = nn.ModuleList()
        for index, (before, width) in enumerate(zip(widths, after, strict=False)):
            kind = kinds[index] if is_new else "conv"
            sampler = downsampler(kind, before, width, is_causal) if config["spatio_temporal_scaling"][index] else None
            out = before if is_new else width  # the new samplers change the width themselves
            self.down_blocks.append(LTXVideoDownBlock3D(before, layers[index], is_causal, eps, sampler, out))
        self.mid_block = LTXVideoMidBlock3d(after[-1], layers[-1], is_causal, eps)
        self.norm_out = PixelNorm(after[-1])
        self.conv_act = nn.SiLU()
        self.conv_out = LTXVideoCausalConv3d(after[-1], config["latent_channels"] + 1, is_causal=is_causal)

    def forward(self, pixels: Tensor) -> Tensor:
        hidden = self.conv_in(patchify(pixels, self.patch))
        for block in self.down_blocks:
            hidden = checkpointed(self, block, hidden)
        hidden = checkpointed(self, self.mid_block, hidden)
        moments = self.conv_out(self.conv_act(channels_last(self.norm_out, hidden)))
        return torch.cat([moments, moments[:, -1:].expand(-1, moments.shape[1] - 2, -1, -1, -1)], dim=1)


class LTXVideoDecoder3d(nn.Module):
    """Latents to videos; where it is told a time, it takes away as much noise as that time has."""

    gradient_checkpointing = False

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.patch = config["patch_size"]
        is_causal, eps, timed = config["decoder_causal"], config["resnet_norm_eps"], config["timestep_conditioning"]
        widths, layers, noisy, grows, residual, factors = (
            config[name][::-1]
            for name in (
                *("decoder_block_out_channels", "decoder_layers_per_block", "decoder_inject_noise"),
                *("decoder_spatio_temporal_scaling", "upsample_residual", "upsample_factor"),
            )
        )
        self.conv_in = LTXVideoCausalConv3d(config["latent_channels"], widths[0], is_causal=is_causal)
        self.mid_block = LTXVideoMidBlock3d(widths[0], layers[0], is_causal, eps, noisy=noisy[0], timed=timed)
        self.up_blocks, last = nn.ModuleList(), widths[0]
        for index, (width, factor) in enumerate(zip(widths, factors, strict=False)):
            before, last = last // factor, width // factor
            if timed and before != last:
                raise ConfigError(
                    "A decoder that is told a time changes its width by its samplers (upsample_factor) alone."
                )
            self.up_blocks.append(
                LTXVideoUpBlock3d(
                    before, last, layers[index + 1], grows[index], is_causal, eps,
                    residual=residual[index], factor=factor, noisy=noisy[index + 1], timed=timed,
                )
            )  # fmt: skip
        self.norm_out = PixelNorm(last)
        self.conv_act = nn.SiLU()
        self.conv_out = LTXVideoCausalConv3d(last, config["out_channels"] * self.patch**2, is_causal=is_causal)
        self.time_embedder = self.scale_shift_table = self.timestep_scale_multiplier = None
        if timed:
            self.timestep_scale_multiplier = nn.Parameter(torch.tensor(1000.0))
            self.time_embedder = EmbeddedTimestep(2 * last)
            self.scale_shift_table = nn.Parameter(torch.randn(2, last) / last**0.5)

    def forward(self, latents: Tensor, temb: Tensor | None = None, generator: Generators = None) -> Tensor:
        times_N = None
        if self.timestep_scale_multiplier is not None and temb is not None:
            times_N = (temb * self.timestep_scale_multiplier).flatten()
        hidden = checkpointed(self, self.mid_block, self.conv_in(latents), times_N, generator)
        for block in self.up_blocks:
            hidden = checkpointed(self, block, hidden, times_N, generator)
        hidden = channels_last(self.norm_out, hidden)
        if self.time_embedder is not None and self.scale_shift_table is not None and times_N is not None:
            shift, scale = modulation(self.time_embedder(times_N, hidden.dtype), self.scale_shift_table)
            hidden = hidden * (1 + scale) + shift
        return unpatchify(self.conv_out(self.conv_act(hidden)), self.patch)


class AutoencoderKLLTXVideo(ModelMixin, TiledVideoMixin, ConfigMixin):  # type: ignore[override]
    """Videos in [-1, 1] to latents and back; eight frames and 32 x 32 pixels are one latent of 128 channels."""

    _supports_gradient_checkpointing = True
    tile_sample_min_height = tile_sample_min_width = 512
    tile_sample_stride_height = tile_sample_stride_width = 448
    use_framewise_decoding = False  # parts of a long video, encoded and decoded one after the other and blended
    tile_sample_min_num_frames, tile_sample_stride_num_frames = 16, 8
    latents_mean: Tensor
    latents_std: Tensor

    @register_to_config
    def __init__(
        self, in_channels: int = 3, out_channels: int = 3, latent_channels: int = 128,
        block_out_channels: tuple[int, ...] = (128, 256, 512, 512),
        down_block_types: tuple[str, ...] = (OLD,) * BLOCKS,
        decoder_block_out_channels: tuple[int, ...] = (128, 256, 512, 512),
        layers_per_block: tuple[int, ...] = (4, 3, 3, 3, 4),
        decoder_layers_per_block: tuple[int, ...] = (4, 3, 3, 3, 4),
        spatio_temporal_scaling: tuple[bool, ...] = (True, True, True, False),
        decoder_spatio_temporal_scaling: tuple[bool, ...] = (True, True, True, False),
        decoder_inject_noise: tuple[bool, ...] = (False,) * 5, downsample_type: tuple[str, ...] = ("conv",) * BLOCKS,
        upsample_residual: tuple[bool, ...] = (False,) * BLOCKS, upsample_factor: tuple[int, ...] = (1,) * BLOCKS,
        timestep_conditioning: bool = False, patch_size: int = 4, patch_size_t: int = 1, resnet_norm_eps: float = 1e-6,
        scaling_factor: float = 1.0, encoder_causal: bool = True, decoder_causal: bool = False,
        spatial_compression_ratio: int | None = None, temporal_compression_ratio: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_config(self.config)
        self.encoder = LTXVideoEncoder3d(self.config)
        self.decoder = LTXVideoDecoder3d(self.config)
        self.register_buffer("latents_mean", torch.zeros(latent_channels))
        self.register_buffer("latents_std", torch.ones(latent_channels))

    @property
    def spatial_scale_factor(self) -> int:
        config = self.config
        return config.spatial_compression_ratio or config.patch_size * 2 ** sum(config.spatio_temporal_scaling)

    @property
    def temporal_scale_factor(self) -> int:
        config = self.config
        return config.temporal_compression_ratio or 2 ** sum(config.spatio_temporal_scaling)

    def normalize_latents(self, latents: Tensor) -> Tensor:
        mean, std = self._statistics(latents)
        return (latents - mean) * self.config.scaling_factor / std

    def denormalize_latents(self, latents: Tensor) -> Tensor:
        mean, std = self._statistics(latents)
        return latents * std / self.config.scaling_factor + mean

    def _statistics(self, like: Tensor) -> tuple[Tensor, ...]:
        return tuple(values.view(1, -1, 1, 1, 1).to(like) for values in (self.latents_mean, self.latents_std))

    def enable_tiling(  # type: ignore[override]
        self, tile_sample_min_height: int | None = None, tile_sample_min_width: int | None = None,
        tile_sample_min_num_frames: int | None = None, tile_sample_stride_height: int | None = None,
        tile_sample_stride_width: int | None = None, tile_sample_stride_num_frames: int | None = None,
    ) -> None:  # fmt: skip
        """Encode and decode in overlapping tiles; those in time are used where `use_framewise_decoding` is set, too."""
        size = tile_sample_min_num_frames or self.tile_sample_min_num_frames
        stride = tile_sample_stride_num_frames or min(self.tile_sample_stride_num_frames, size)
        time = self.temporal_scale_factor
        if size % time or stride % time or not time <= stride <= size:
            raise InputError(
                f"A tile has a multiple of {time} frames, and its stride is no longer than it; got {size} and {stride}."
            )
        self.tile_sample_min_num_frames, self.tile_sample_stride_num_frames = size, stride
        super().enable_tiling(
            tile_sample_min_height, tile_sample_min_width, tile_sample_stride_height, tile_sample_stride_width
        )

    @output_or_tuple
    def encode(self, x: Tensor, return_dict: bool = True) -> AutoencoderKLOutput | tuple[DiagonalGaussianDistribution]:
        """Videos to the posterior of their latents."""
        self._check("videos", x, self.config.in_channels)
        factor, time = self.spatial_scale_factor, self.temporal_scale_factor
        whole = self.config.downsample_type[0] == "conv" or x.shape[2] % time == 1 % time
        if x.shape[-1] % factor or x.shape[-2] % factor or not whole:
            raise InputError(
                f"AutoencoderKLLTXVideo.encode wants height and width divisible by {factor} and one frame more than a "
                f"multiple of {time}, got {x.shape[2]} frames of {x.shape[-2]}x{x.shape[-1]}."
            )
        posterior = DiagonalGaussianDistribution(self._by_slice(self._encode, x))
        return AutoencoderKLOutput(latent_dist=posterior) if return_dict else (posterior,)

    @output_or_tuple
    def decode(
        self, z: Tensor, temb: Tensor | None = None, return_dict: bool = True, generator: Generators = None
    ) -> DecoderOutput | tuple[Tensor]:
        """Latents to videos; `temb` is the time of each sample, for decoders that are told it, from 0 (no noise) to 1.

        What noise 0.9.1 adds comes from `generator`; a list has one for each sample.
        """
        self._check("latents", z, self.latent_channels)
        timed = self.config.timestep_conditioning
        if timed and (temb is None or temb.numel() != len(z)):
            raise InputError(
                f"This decoder is told a time: 'temb' wants one number for each of {len(z)} samples, got "
                f"{None if temb is None else temb.numel()}. A time of 0 is that of latents without noise."
            )
        parts = [slice(None)] if not self.use_slicing else [slice(row, row + 1) for row in range(len(z))]
        sample = torch.cat([self._decode(z[part], *_rows(part, temb, generator)) for part in parts])
        return DecoderOutput(sample=sample) if return_dict else (sample,)

    def _encode(self, x: Tensor) -> Tensor:
        tiles = self._encoder_tiles(*x.shape[-2:])
        size, stride = self.tile_sample_min_num_frames, self.tile_sample_stride_num_frames
        run = partial(in_tiles, lambda tile, _: self.encoder(tile), tiles=tiles, spread=self._tile_ranks)
        if not self.use_framewise_decoding or x.shape[2] <= size:
            return run(x)
        time = self.temporal_scale_factor
        parts = [run(part) for part in overlapping(x, size, stride)]
        # the first latent of a later part is of one frame alone
        return joined_in_time([parts[0], *(part[:, :, 1:] for part in parts[1:])], stride // time, size // time)

    def _decode(self, z: Tensor, times_N: Tensor | None, generator: Generators) -> Tensor:
        tiles, time = self._decoder_tiles(*z.shape[-2:]), self.temporal_scale_factor
        size, stride = self.tile_sample_min_num_frames, self.tile_sample_stride_num_frames
        # noise is drawn tile after tile, so that a decoder that adds some has all of its tiles in one place
        ranks = None if any(self.config.decoder_inject_noise) else self._tile_ranks
        run = partial(in_tiles, lambda tile, _: self.decoder(tile, times_N, generator), tiles=tiles, spread=ranks)
        if not self.use_framewise_decoding or z.shape[2] <= size // time:
            return run(z)
        parts = [run(part) for part in overlapping(z, size // time, stride // time)]
        return joined_in_time([parts[0], *(part[:, :, :-1] for part in parts[1:])], stride, size)

    @output_or_tuple
    def forward(
        self, sample: Tensor, temb: Tensor | None = None, sample_posterior: bool = False, return_dict: bool = True,
        generator: torch.Generator | list[torch.Generator] | None = None,
    ) -> DecoderOutput | tuple[Tensor]:  # fmt: skip
        """Encode, take the mode of the posterior or a draw from it, decode."""
        (posterior,) = self.encode(sample, return_dict=False)
        latents = posterior.sample(generator) if sample_posterior else posterior.mode()
        return self.decode(latents, temb, return_dict=return_dict)

    def _check(self, what: str, value: Tensor, channels: int) -> None:
        check_layout("AutoencoderKLLTXVideo", what, value, channels, LAYOUT)
        if 0 in value.shape:
            raise InputError(f"AutoencoderKLLTXVideo wants at least one of each axis, got {tuple(value.shape)}.")


def _rows(part: slice, temb: Tensor | None, generator: Generators) -> tuple[Tensor | None, Generators]:
    """The times and, where each sample has one, the generators of some samples."""
    drawn = generator[part] if isinstance(generator, (list, tuple)) else generator
    return None if temb is None else temb.flatten()[part], drawn


def overlapping(video: Tensor, size: int, stride: int) -> Iterator[Tensor]:
    """Parts of so many frames and one, each beginning a stride later."""
    yield from (video[:, :, start : start + size + 1] for start in range(0, video.shape[2], stride))


def joined_in_time(parts: list[Tensor], stride: int, size: int) -> Tensor:
    """Parts of a video one behind the other: each fades into the next, and a stride of it is kept (of the first, one
    frame more)."""
    kept, before = [parts[0][:, :, : stride + 1]], parts[0]
    for part in parts[1:]:
        before = blend(before, part, size - stride, dim=-3)
        kept.append(before[:, :, :stride])
    return torch.cat(kept, dim=2)


def downsampler(kind: str, before: int, width: int, is_causal: bool) -> nn.Module:
    """What halves a size: a convolution that leaves places out, or one whose channels are gathered neighbours."""
    if kind == "conv":
        return LTXVideoCausalConv3d(before, before, stride=2, is_causal=is_causal)
    return LTXVideoDownsampler3d(before, width, STRIDES[kind], is_causal)


def _check_config(config: Mapping[str, Any]) -> None:
    """Refuse values that cannot work together."""
    owner = "AutoencoderKLLTXVideo"
    check_sizes(owner, config, "in_channels", "out_channels", "latent_channels", "block_out_channels", "patch_size")
    check_sizes(owner, config, "decoder_block_out_channels", "layers_per_block", "decoder_layers_per_block")
    check_sizes(owner, config, "upsample_factor", "spatial_compression_ratio", "temporal_compression_ratio")
    is_new = config["down_block_types"][-1:] in ((NEW,), [NEW])
    down, up = len(config["block_out_channels"]) - is_new, len(config["decoder_block_out_channels"])
    counts = {
        "down_block_types": down, "layers_per_block": down + 1, "spatio_temporal_scaling": down,
        "downsample_type": down,
        "decoder_layers_per_block": up + 1, "decoder_spatio_temporal_scaling": up, "decoder_inject_noise": up + 1,
        "upsample_residual": up, "upsample_factor": up,
    }  # fmt: skip
    for name, count in counts.items():
        if len(config[name]) < count:
            raise ConfigError(f"{owner}: {name} wants a value for each of {count} blocks, got {list(config[name])}.")
    if unknown := set(config["down_block_types"]) - {NEW if is_new else OLD}:
        raise ConfigError(f"{owner}: down_block_types are all {OLD!r} or all {NEW!r}, got {sorted(unknown)}.")
    if unknown := set(config["downsample_type"]) - {"conv", *STRIDES}:
        raise ConfigError(f"{owner}: downsample_type is 'conv', {', '.join(STRIDES)}; got {sorted(unknown)}.")
    if config["patch_size_t"] != 1:
        raise ConfigError(f"{owner}: patch_size_t is 1 in every published model, got {config['patch_size_t']}.")
