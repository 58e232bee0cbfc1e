"""TAESD: an autoencoder distilled from a latent diffusion VAE into plain convolutions (madebyollin/taesd).

Axes: N batch, C channels, H and W pixels, h and w latent positions. Pictures are NCHW in [-1, 1] outside; the layers
were trained on [0, 1]. Latents are already on the scale of the diffusion model: `scaling_factor` is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError
from ...outputs import Output, output_or_tuple
from ..layers import get_activation
from ..modeling import ModelMixin, check_sizes, checkpointed
from .parts import AutoencoderMixin, Conv2d, DecoderOutput, check_latents, check_pixels, compute_dtype

SIZES = (
    "in_channels",
    "out_channels",
    "latent_channels",
    "encoder_block_out_channels",
    "decoder_block_out_channels",
    "upsampling_scaling_factor",
)
UPSAMPLING = ("nearest", "nearest-exact", "bilinear", "bicubic")


@dataclass
class AutoencoderTinyOutput(Output):
    """Latents, NChw."""

    latents: Tensor


class AutoencoderTinyBlock(nn.Module):
    """Three convolutions around a shortcut; the activation comes after the sum."""

    def __init__(self, channels: int, act_fn: str) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            Conv2d(channels, channels, 3, padding=1),
            get_activation(act_fn),
            Conv2d(channels, channels, 3, padding=1),
            get_activation(act_fn),
            Conv2d(channels, channels, 3, padding=1),
        )
        self.fuse = nn.ReLU()  # whatever act_fn is

    def forward(self, hidden: Tensor) -> Tensor:
        return self.fuse(self.conv(hidden) + hidden)


class EncoderTiny(nn.Module):
    """Pictures to latents; every stage but the first begins with a strided convolution."""

    gradient_checkpointing = False

    def __init__(
        self, in_channels: int, out_channels: int, width: int, num_blocks: tuple[int, ...], act_fn: str
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for stage, count in enumerate(num_blocks):
            if stage == 0:
                layers.append(Conv2d(in_channels, width, 3, padding=1))
            else:
                layers.append(Conv2d(width, width, 3, padding=1, stride=2, bias=False))
            layers.extend(AutoencoderTinyBlock(width, act_fn) for _ in range(count))
        layers.append(Conv2d(width, out_channels, 3, padding=1))
        self.layers = nn.Sequential(*layers)

    def forward(self, pixels: Tensor) -> Tensor:
        hidden = pixels.add(1).div(2)
        for layer in self.layers:
            hidden = checkpointed(self, layer, hidden)
        return hidden


class DecoderTiny(nn.Module):
    """Latents to pictures; every stage but the last ends with an upsampling."""

    gradient_checkpointing = False

    def __init__(
        self, in_channels: int, out_channels: int, width: int, num_blocks: tuple[int, ...],
        upsampling_scaling_factor: int, act_fn: str, upsample_fn: str,
    ) -> None:  # fmt: skip
        super().__init__()
        layers: list[nn.Module] = [Conv2d(in_channels, width, 3, padding=1), get_activation(act_fn)]
        for count in num_blocks[:-1]:
            layers.extend(AutoencoderTinyBlock(width, act_fn) for _ in range(count))
            layers.append(nn.Upsample(scale_factor=upsampling_scaling_factor, mode=upsample_fn))
            layers.append(Conv2d(width, width, 3, padding=1, bias=False))
        layers.extend(AutoencoderTinyBlock(width, act_fn) for _ in range(num_blocks[-1]))
        layers.append(Conv2d(width, out_channels, 3, padding=1))
        self.layers = nn.Sequential(*layers)

    def forward(self, latents: Tensor) -> Tensor:
        hidden = torch.tanh(latents / 3) * 3  # a soft clamp: the latents of training lie within three deviations
        for layer in self.layers:
            hidden = checkpointed(self, layer, hidden)
        return hidden.mul(2).sub(1)


class AutoencoderTiny(ModelMixin, AutoencoderMixin, ConfigMixin):
    """The tiny autoencoder of latent diffusion models (TAESD, TAESDXL, TAESD3, TAEF1)."""

    _supports_gradient_checkpointing = True
    ignored_config_keys = frozenset({"block_out_channels"})  # written for others, read off the decoder's here

    @register_to_config
    def __init__(
        self, in_channels: int = 3, out_channels: int = 3,
        encoder_block_out_channels: tuple[int, ...] = (64, 64, 64, 64),
        decoder_block_out_channels: tuple[int, ...] = (64, 64, 64, 64), act_fn: str = "relu",
        upsample_fn: str = "nearest", latent_channels: int = 4, upsampling_scaling_factor: int = 2,
        num_encoder_blocks: tuple[int, ...] = (1, 3, 3, 3), num_decoder_blocks: tuple[int, ...] = (3, 3, 3, 1),
        latent_magnitude: float = 3, latent_shift: float = 0.5, force_upcast: bool = False,
        scaling_factor: float = 1.0, shift_factor: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        check_sizes("AutoencoderTiny", self.config, *SIZES)
        encoder_width = _only_width("encoder", encoder_block_out_channels, num_encoder_blocks)
        decoder_width = _only_width("decoder", decoder_block_out_channels, num_decoder_blocks)
        if upsample_fn not in UPSAMPLING:
            raise ConfigError(
                f"AutoencoderTiny: upsample_fn wants one of {', '.join(UPSAMPLING)}, got {upsample_fn!r}."
            )
        if latent_magnitude <= 0:
            raise ConfigError(f"AutoencoderTiny: latent_magnitude wants a positive number, got {latent_magnitude}.")
        self.encoder = EncoderTiny(in_channels, latent_channels, encoder_width, num_encoder_blocks, act_fn)
        self.decoder = DecoderTiny(
            latent_channels,
            out_channels,
            decoder_width,
            num_decoder_blocks,
            upsampling_scaling_factor,
            act_fn,
            upsample_fn,
        )
        self.latent_magnitude = latent_magnitude
        self.latent_shift = latent_shift
        self.scaling_factor = scaling_factor
        self.decoder_scale_factor = upsampling_scaling_factor ** (len(num_decoder_blocks) - 1)
        self.tile_overlap_factor = 0.125
        self.tile_sample_min_size = 512
        self.tile_latent_min_size = self.tile_sample_min_size // self.spatial_scale_factor
        self.register_to_config(block_out_channels=decoder_block_out_channels)  # where pipelines look for the factor

    @property
    def spatial_scale_factor(self) -> int:
        """Every stage of the encoder but the first halves the sides."""
        return 2 ** (len(self.config.num_encoder_blocks) - 1)

    def scale_latents(self, latents: Tensor) -> Tensor:
        """Raw latents to [0, 1], for instance to store them as a picture."""
        return latents.div(2 * self.latent_magnitude).add(self.latent_shift).clamp(0, 1)

    def unscale_latents(self, scaled: Tensor) -> Tensor:
        """[0, 1] back to raw latents."""
        return scaled.sub(self.latent_shift).mul(2 * self.latent_magnitude)

    @output_or_tuple
    def encode(self, x: Tensor, return_dict: bool = True) -> AutoencoderTinyOutput | tuple[Tensor]:
        """Pictures in [-1, 1] to latents."""
        check_pixels("AutoencoderTiny", x, self.config.in_channels, self.spatial_scale_factor)
        x = x.to(compute_dtype(self.dtype, self.config.force_upcast))
        latents = self._by_slice(self._tiled_encode if self.use_tiling else self.encoder, x)
        return AutoencoderTinyOutput(latents=latents) if return_dict else (latents,)

    @output_or_tuple
    def decode(
        self, x: Tensor, generator: torch.Generator | None = None, return_dict: bool = True
    ) -> DecoderOutput | tuple[Tensor]:
        """Latents to pictures in [-1, 1]; nothing is drawn, `generator` is there for the common signature."""
        check_latents("AutoencoderTiny", x, self.config.latent_channels)
        x = x.to(compute_dtype(self.dtype, self.config.force_upcast))
        sample = self._by_slice(self._tiled_decode if self.use_tiling else self.decoder, x)
        return DecoderOutput(sample=sample) if return_dict else (sample,)

    @output_or_tuple
    def forward(self, sample: Tensor, return_dict: bool = True) -> DecoderOutput | tuple[Tensor]:
        """Encode, store the latents as bytes, decode: what remains of a picture."""
        (latents,) = self.encode(sample, return_dict=False)
        as_bytes = self.scale_latents(latents.detach()).mul(255).round().byte()
        stored = self.unscale_latents(as_bytes / 255.0).to(latents.dtype)
        # Bytes have no gradient; adding an exact zero lets it pass straight through to the encoder.
        decoded = self.decode(stored + (latents - latents.detach()), return_dict=False)
        return DecoderOutput(sample=decoded[0]) if return_dict else decoded

    def _tiled_encode(self, pixels: Tensor) -> Tensor:
        factor = self.spatial_scale_factor
        size = self.tile_sample_min_size
        blend = int(size * self.tile_overlap_factor)
        height, width = pixels.shape[-2] // factor, pixels.shape[-1] // factor
        latents = pixels.new_zeros(pixels.shape[0], self.config.latent_channels, height, width)
        ramp = _blend_ramp(size // factor, blend // factor, pixels)
        for top in range(0, pixels.shape[-2], size - blend):
            for left in range(0, pixels.shape[-1], size - blend):
                tile = self.encoder(pixels[..., top : top + size, left : left + size])
                latents = _blend_in(latents, tile, top // factor, left // factor, ramp)
        return latents

    def _tiled_decode(self, latents: Tensor) -> Tensor:
        factor = self.decoder_scale_factor
        size = self.tile_latent_min_size
        blend = int(size * self.tile_overlap_factor)
        height, width = latents.shape[-2] * factor, latents.shape[-1] * factor
        pixels = latents.new_zeros(latents.shape[0], self.config.out_channels, height, width)
        ramp = _blend_ramp(size * factor, blend * factor, latents)
        for top in range(0, latents.shape[-2], size - blend):
            for left in range(0, latents.shape[-1], size - blend):
                tile = self.decoder(latents[..., top : top + size, left : left + size])
                pixels = _blend_in(pixels, tile, top * factor, left * factor, ramp)
        return pixels


def _blend_ramp(size: int, blend: int, like: Tensor) -> Tensor:
    """How much of a tile counts at each position from its edge: 0 at the edge, 1 from the end of the overlap on."""
    steps = torch.arange(size, device=like.device, dtype=torch.float32)
    if blend <= 1:  # one position (or none) has no way from 0 to 1: the later tile wins
        return torch.ones_like(steps).to(like.dtype)
    return (steps / (blend - 1)).clamp(0, 1).to(like.dtype)


def _blend_in(canvas: Tensor, tile: Tensor, top: int, left: int, ramp: Tensor) -> Tensor:
    """The canvas with a tile laid over it, soft at its upper and left edge (hard at the canvas's own)."""
    height, width = tile.shape[-2:]
    rows = ramp[:height] if top else torch.ones_like(ramp[:height])
    columns = ramp[:width] if left else torch.ones_like(ramp[:width])
    weight = rows[:, None] * columns[None, :]
    place = (..., slice(top, top + height), slice(left, left + width))
    canvas[place] = weight * tile + (1 - weight) * canvas[place].clone()
    return canvas


def _only_width(part: str, widths: tuple[int, ...], num_blocks: tuple[int, ...]) -> int:
    """The one width of all the stages: nothing in this architecture changes it from stage to stage."""
    if not widths or len(widths) != len(num_blocks):
        raise ConfigError(
            f"AutoencoderTiny: {part}_block_out_channels wants one width for each of num_{part}_blocks "
            f"{tuple(num_blocks)}, got {tuple(widths)}."
        )
    if len(set(widths)) > 1:
        raise ConfigError(
            f"AutoencoderTiny: {part}_block_out_channels wants equal widths, because no layer of the {part} changes "
            f"the width between stages, got {tuple(widths)}."
        )
    return widths[0]
