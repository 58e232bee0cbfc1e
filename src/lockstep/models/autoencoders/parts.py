"""What the autoencoders share: layers that compute in the dtype of their input, tiling and slicing, checks.

Axes: N batch, C channels, H and W pixels, h and w latent positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...configuration import FrozenDict
from ...errors import InputError
from ...outputs import Output, output_or_tuple


@dataclass
class DecoderOutput(Output):
    """A decoded picture, NCHW in [-1, 1]."""

    sample: Tensor


@output_or_tuple
def reconstructed(
    self: Any,
    sample: Tensor,
    sample_posterior: bool = False,
    return_dict: bool = True,
    generator: torch.Generator | list[torch.Generator] | None = None,
) -> DecoderOutput | tuple[Tensor]:
    """The `forward` of an autoencoder: encode, take the mode of the posterior or a draw from it, decode."""
    (posterior,) = self.encode(sample, return_dict=False)
    latents = posterior.sample(generator) if sample_posterior else posterior.mode()
    return self.decode(latents, return_dict=return_dict)


class Conv2d(nn.Conv2d):
    """A convolution whose weights follow the dtype of its input, so that one layer at a time is upcast."""

    def forward(self, input: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(input.dtype)
        return self._conv_forward(input, self.weight.to(input.dtype), bias)


class Linear(nn.Linear):
    """A linear layer whose weights follow the dtype of its input."""

    def forward(self, input: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(input.dtype)
        return F.linear(input, self.weight.to(input.dtype), bias)


class GroupNorm(nn.GroupNorm):
    """A group norm whose weights follow the dtype of its input."""

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight.to(input.dtype), self.bias.to(input.dtype), self.eps)


def compute_dtype(weights: torch.dtype, force_upcast: bool) -> torch.dtype:
    """The dtype to compute in: float16 overflows inside a VAE that asks for `force_upcast`; bfloat16 has the range."""
    return torch.float32 if force_upcast and weights is torch.float16 else weights


def check_pixels(owner: str, pixels: Tensor, channels: int, factor: int) -> None:
    """Refuse pictures that cannot become whole latents."""
    check_layout(owner, "pictures", pixels, channels, "(batch, channels, height, width)")
    height, width = pixels.shape[-2:]
    if height % factor or width % factor or not height or not width:
        fitting = tuple(max(factor, size // factor * factor) for size in (height, width))
        raise InputError(
            f"{owner}.encode wants height and width divisible by {factor}, got {height}x{width}. "
            f"Resize or crop the pictures, for instance to {fitting[0]}x{fitting[1]}."
        )


def check_latents(owner: str, latents: Tensor, channels: int) -> None:
    """Refuse latents of another layout or width."""
    check_layout(owner, "latents", latents, channels, "(batch, channels, latent height, latent width)")
    if 0 in latents.shape[-2:]:
        raise InputError(f"{owner} wants latents of at least one row and column, got {tuple(latents.shape)}.")


def check_layout(owner: str, what: str, value: Tensor, channels: int, layout: str) -> None:
    if not isinstance(value, Tensor):
        raise InputError(f"{owner} wants {what} as a tensor of shape {layout}, got {type(value).__name__}.")
    if value.ndim != layout.count(",") + 1:
        raise InputError(f"{owner} wants {what} of shape {layout}, got {value.ndim} axes: {tuple(value.shape)}.")
    if value.shape[1] != channels:
        raise InputError(
            f"{owner} wants {what} with {channels} channels in shape {layout}, got {value.shape[1]} in "
            f"{tuple(value.shape)}. Check that the {what} were made for this model."
        )


def _per_channel(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device).view(1, -1, 1, 1)


@dataclass(frozen=True)
class Tiles:
    """Overlapping tiles, each number for rows and for columns: the size and stride of what goes in, and of what comes
    out how much of each is kept and how much is faded into it."""

    size: tuple[int, int]
    stride: tuple[int, int]
    kept: tuple[int, int]
    blend: tuple[int, int]


Place = tuple[int, int]  # top and left of a tile
Spread = Callable[[Sequence[Place], Callable[[Place], Tensor]], dict[Place, Tensor]]  # places computed on several ranks


def in_tiles(
    run: Callable[[Tensor, Place], Tensor], whole: Tensor, tiles: Tiles, spread: Spread | None = None
) -> Tensor:
    """`run(tile, place)` on each tile; it is blended with the one above, then with the one to its left."""

    def computed(place: Place) -> Tensor:
        top, left = place
        return run(whole[..., top : top + tiles.size[0], left : left + tiles.size[1]], place)

    tops, lefts = (range(0, size, stride) for size, stride in zip(whole.shape[-2:], tiles.stride, strict=True))
    made = {} if spread is None else spread([(top, left) for top in tops for left in lefts], computed)
    rows: list[Tensor] = []
    above: list[Tensor] = []
    for top in tops:
        row: list[Tensor] = []
        for column, left in enumerate(lefts):
            tile = made.pop((top, left)) if (top, left) in made else computed((top, left))
            if above:
                tile = blend(above[column], tile, tiles.blend[0], dim=-2)
            if row:
                tile = blend(row[-1], tile, tiles.blend[1], dim=-1)
            row.append(tile)
        rows.append(torch.cat([tile[..., : tiles.kept[0], : tiles.kept[1]] for tile in row], dim=-1))
        above = row
    return torch.cat(rows, dim=-2)


def blend(before: Tensor, after: Tensor, extent: int, dim: int) -> Tensor:
    """`after`, with its first positions along a dimension fading in from the last ones of `before`."""
    extent = min(before.shape[dim], after.shape[dim], extent)
    fade_in = torch.arange(extent, dtype=torch.float64) / max(extent, 1)  # not every device has float64
    fade_in = fade_in.view(extent, *(1,) * (-1 - dim))  # dimensions are counted from the last
    old = before.narrow(dim, before.shape[dim] - extent, extent) * (1 - fade_in).to(after)
    new = after.narrow(dim, 0, extent) * fade_in.to(after)
    return torch.cat([old + new, after.narrow(dim, extent, after.shape[dim] - extent)], dim=dim)


def patchify(x: Tensor, size: int) -> Tensor:
    """Squares of pixels of a video as channels; columns change slower than rows in them."""
    cells = x.unflatten(4, (-1, size)).unflatten(3, (-1, size))
    return cells.permute(0, 1, 6, 4, 2, 3, 5).flatten(1, 3)


def unpatchify(x: Tensor, size: int) -> Tensor:
    """The squares laid out again."""
    return x.unflatten(1, (-1, size, size)).permute(0, 1, 4, 5, 3, 6, 2).flatten(5, 6).flatten(3, 4)


class AutoencoderMixin:
    """What pipelines ask of an autoencoder: scale factors, the scale of latents, tiles and slices to bound memory."""

    use_slicing: bool = False
    use_tiling: bool = False
    _tile_ranks: Spread | None = None  # where the tiles are computed on several ranks
    tile_sample_min_size: int
    tile_latent_min_size: int
    tile_overlap_factor: float
    config: FrozenDict

    @property
    def spatial_scale_factor(self) -> int:
        """Pixels per latent along a side."""
        raise NotImplementedError

    @property
    def temporal_scale_factor(self) -> int:
        """Frames per latent; a picture's autoencoder knows no time."""
        return 1

    @property
    def latent_channels(self) -> int:
        """Numbers in one latent."""
        return self.config.latent_channels

    def enable_tiling(self, tile_sample_min_size: int | None = None, tile_overlap_factor: float | None = None) -> None:
        """Encode and decode in overlapping tiles (sizes in pixels) that are blended together."""
        size = self.tile_sample_min_size if tile_sample_min_size is None else tile_sample_min_size
        overlap = self.tile_overlap_factor if tile_overlap_factor is None else tile_overlap_factor
        self._check_tiles(size, overlap)
        self.tile_sample_min_size, self.tile_overlap_factor = size, overlap
        self.tile_latent_min_size = size // self.spatial_scale_factor
        self.use_tiling = True

    def disable_tiling(self) -> None:
        self.use_tiling = False

    def enable_slicing(self) -> None:
        """Encode and decode a batch one picture at a time."""
        self.use_slicing = True

    def disable_slicing(self) -> None:
        self.use_slicing = False

    def normalize_latents(self, latents: Tensor) -> Tensor:
        """Raw latents of this autoencoder to the scale that the diffusion model works on."""
        config = self.config
        if config.get("latents_mean") is not None:
            mean, std = _per_channel(config.latents_mean, latents), _per_channel(config.latents_std, latents)
            return (latents - mean) * config.scaling_factor / std
        shift = config.get("shift_factor")
        return (latents if shift is None else latents - shift) * config.scaling_factor

    def denormalize_latents(self, latents: Tensor) -> Tensor:
        """Latents of the diffusion model to the raw ones that `decode` takes."""
        config = self.config
        if config.get("latents_mean") is not None:
            mean, std = _per_channel(config.latents_mean, latents), _per_channel(config.latents_std, latents)
            return latents * std / config.scaling_factor + mean
        shift = config.get("shift_factor")
        raw = latents / config.scaling_factor
        return raw if shift is None else raw + shift

    def _by_slice(self, run: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
        if self.use_slicing and batch.shape[0] > 1:
            return torch.cat([run(one) for one in batch.split(1)])
        return run(batch)

    def _check_tiles(self, size: int, overlap: float) -> None:
        factor = self.spatial_scale_factor
        if not isinstance(size, int) or not isinstance(overlap, (int, float)):
            raise InputError(
                f"A tile has a size in pixels and an overlap as a share of it, got {size!r} and {overlap!r}."
            )
        if size < factor or size % factor:
            raise InputError(f"tile_sample_min_size wants a multiple of {factor} pixels, got {size}.")
        if not 0 <= overlap < 1:
            raise InputError(f"tile_overlap_factor wants a share of the tile from 0 up to but not 1, got {overlap}.")
        latent_overlap = size // factor * overlap
        if latent_overlap != int(latent_overlap):
            raise InputError(
                f"A tile of {size} pixels is {size // factor} latents; an overlap of {overlap} of it is "
                f"{latent_overlap:g} latents, which is not whole. "
                "Choose tile_sample_min_size and tile_overlap_factor so that it is."
            )
