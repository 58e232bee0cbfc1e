"""Pixels and latents: the factor between them is the autoencoder's, the trained size the denoiser's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image

from ...blocks import LATER, BlockView
from ...blocks.memory import require
from ...errors import InputError
from ...images import VaeImageProcessor, mask_processor
from .parts import Components

Tensor = torch.Tensor
BYTES, COPIES = 4, 2  # of a number, and of a layer at the same time: what goes in and what comes out


def scale_factor(components: Components) -> int:
    """Pixels per latent along a side."""
    if components.autoencoder is None:
        raise InputError(
            "A size in pixels needs the autoencoder, which says how many pixels a latent has, and this pipeline has "
            "none. Load it with its 'vae', or leave 'height' and 'width' away for the size that the denoiser was "
            "trained at."
        )
    return components.autoencoder.spatial_scale_factor


def token_side(denoiser: Any) -> int:
    """Latents along the side of a token, for denoisers that read squares of them; a pixel of latents for others."""
    own = getattr(denoiser, "token_side", None)
    if own is not None:
        return own
    patch = denoiser.config.get("patch_size") or 1
    return packed_side(denoiser) * (patch if isinstance(patch, int) else patch[-1])


def size_step(components: Components) -> int:
    """What a height or width in pixels is a multiple of."""
    return scale_factor(components) * token_side(components.denoiser)


def picture_processor(
    components: Components, given: str | None = "image_processor", **options: Any
) -> VaeImageProcessor:
    """Pictures to what the autoencoder takes: by the processor that was given under a name, else as it is usual."""
    if given is not None and given in components.given_processors:
        return components.given_processors[given]
    own = {"vae_scale_factor": size_step(components), "do_convert_rgb": True}
    return VaeImageProcessor(**{**own, "vae_latent_channels": told_latents(components), **options})


def masks_processor(components: Components) -> VaeImageProcessor:
    """The same for masks: one channel, 0 or 1, white is what is painted anew."""
    given = components.given_processors.get("mask_processor")
    return mask_processor(size_step(components)) if given is None else given


def check_size(components: Components, inputs: BlockView) -> None:
    """A height and a width that autoencoder and denoiser can divide, no larger than the denoiser knows positions."""
    most = getattr(components.denoiser, "largest_size", None)
    for name in ("height", "width"):
        value = getattr(inputs, name)
        if not isinstance(value, int):
            continue
        step = size_step(components)
        if value % step:
            near = max(round(value / step), 1) * step
            raise InputError(f"{name!r} has to be a multiple of {step} for this model, got {value}; {near} is near.")
        if most is not None and value > most * scale_factor(components):
            raise InputError(f"{name!r} is at most {most * scale_factor(components)} for this denoiser, got {value}.")


def trained_size(components: Components) -> tuple[int | None, int | None]:
    """Height and width, in latents, that the denoiser was trained at: by its config, or by its class."""
    trained = components.denoiser.config.get("sample_size") or getattr(components.denoiser, "trained_size", None)
    return (trained, trained) if isinstance(trained, int) or trained is None else tuple(trained)


def latent_size(components: Components, state: BlockView) -> tuple[int, int]:
    """Height and width as given, else the size that the denoiser was trained at; in latents."""
    height, width = (
        side // scale_factor(components) if side else trained
        for side, trained in zip((state.height, state.width), trained_size(components), strict=True)
    )
    if height is None or width is None:
        raise InputError("The denoiser's config names no sample_size; give 'height' and 'width'.")
    return height, width


def pixel_size(components: Components, state: BlockView) -> tuple[int, int]:
    """The same in pixels."""
    height, width = latent_size(components, state)
    return height * scale_factor(components), width * scale_factor(components)


def num_tokens(components: Components, state: BlockView) -> int:
    """How many tokens the denoiser reads for a picture of this size, as far as it is known before the run."""
    rows, columns = trained_size(components) if LATER in (state.height, state.width) else latent_size(components, state)
    return (rows or 1) * (columns or 1) // token_side(components.denoiser) ** 2


def packed_side(denoiser: Any) -> int:
    """The side of the squares of latents that lie as one token each, where a denoiser's latents are packed; else 1."""
    return getattr(denoiser, "packed_side", 1)


def latent_channels(denoiser: Any) -> int:
    """Channels of the latents: what the denoiser makes. It may read more beside them."""
    return min(denoiser.config.in_channels, made_channels(denoiser)) // packed_side(denoiser) ** 2


def made_channels(denoiser: Any) -> int:
    """Channels of what the denoiser makes, as it reads them: of tokens, where its latents are packed."""
    own: int | None = getattr(denoiser, "made_channels", None)
    return own or denoiser.config.get("out_channels") or denoiser.config.in_channels


def packed(denoiser: Any, latents: Tensor) -> Tensor:
    """The autoencoder's latents as they are denoised: squares of them as tokens, by channel, row and column.

    Where a denoiser reads videos as tokens (`reads_tokens`), each latent is one, frame by frame and row by row.
    """
    side = packed_side(denoiser)
    if getattr(denoiser, "reads_tokens", False):
        return latents.flatten(2).transpose(1, 2)
    if side == 1:
        return latents
    grid = latents.unflatten(3, (-1, side)).unflatten(2, (-1, side))
    return grid.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def unpacked(denoiser: Any, latents: Tensor, rows: int, columns: int) -> Tensor:
    """Latents that are denoised as the autoencoder takes them."""
    side = packed_side(denoiser)
    if side == 1:
        return latents
    grid = latents.unflatten(2, (-1, side, side)).unflatten(1, (rows // side, columns // side))
    return grid.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)


def check_memory(components: Components, height: int, width: int, frames: int | None = None) -> None:
    """Refuse pictures, or videos of so many frames (sizes in latents), that cannot fit: the widest layer of the
    denoiser, and the pixels."""
    area, samples = height * width * (frames or 1), components.samples
    widths = components.denoiser.config.get("block_out_channels") or [components.denoiser.config.in_channels]
    factor = 1 if components.autoencoder is None else scale_factor(components)
    pixels = area * factor**2 * 3 * COPIES
    layer = area * widths[0] * COPIES
    what = told_size(components, height * factor, width * factor, frames and frames_of(components, frames))
    require(samples * (pixels + layer) * BYTES, components.device, what)


def told_size(components: Components, height: int, width: int, frames: int | None = None) -> str:
    """What a run makes, in words: how many pictures, or videos of so many frames, of which size in pixels."""
    samples = components.samples
    kind, length = ("picture", "") if frames is None else ("video", f" of {frames} frames")
    return f"{samples} {kind}{'s' * (samples > 1)}{length} of {width} x {height} pixels"


def frames_of(components: Any, latents: int) -> int:
    """Frames of a video of so many latents: one, and then several for each."""
    return (latents - 1) * components.autoencoder.temporal_scale_factor + 1


def latent_frames(components: Any, frames: int) -> int:
    """Latents of a video of so many frames."""
    return (frames - 1) // components.autoencoder.temporal_scale_factor + 1


def whole_frames(components: Any, frames: int) -> int:
    """So many frames as whole latents have, the published way: one, and as many times several as there are."""
    time = components.autoencoder.temporal_scale_factor
    return frames if frames % time == 1 else frames // time * time + 1


def check_picture(components: Components, picture: Any) -> None:
    """The same for the size of a picture that is given."""
    first = picture[0] if isinstance(picture, (list, tuple)) and picture else picture
    if isinstance(first, Image.Image):
        height, width = first.height, first.width
    elif isinstance(first, torch.Tensor) and first.ndim >= 3 and first.shape[-3] == 3:
        height, width = first.shape[-2:]
    elif isinstance(first, np.ndarray) and first.ndim >= 3:
        height, width = first.shape[-3:-1]
    else:
        return
    factor = scale_factor(components)
    check_memory(components, height // factor, width // factor)


def told_latents(components: Components) -> int:
    """How many channels tell latents from a picture; fewer than four could be a picture's."""
    return max(components.autoencoder.latent_channels, 4)


def check_ready_latents(components: Components, pixels: Tensor, height: int | None, width: int | None) -> None:
    """A picture that is given as latents is of the height and width that are made, as far as these are known."""
    if pixels.shape[1] != told_latents(components):
        return
    step, own = size_step(components), [scale_factor(components) * side for side in pixels.shape[-2:]]
    wanted = [side if given is None else given for side, given in zip(own, (height, width), strict=True)]
    if own != wanted or any(side % step for side in own):
        raise InputError(
            f"'image' is taken as latents, as it has {pixels.shape[1]} channels, and {list(pixels.shape[-2:])} of them "
            f"are a picture of height {own[0]} and width {own[1]}; this run makes {wanted[0]} and {wanted[1]}, each a "
            f"multiple of {step}. Give that size as 'height' and 'width', other latents, or a picture."
        )


def size_is_known(inputs: BlockView) -> bool:
    """Whether no block upstream decides on height and width."""
    return LATER not in (inputs.height, inputs.width)


def given_size(state: BlockView) -> tuple[int | None, int | None]:
    """Height and width as far as they are known before the run."""
    height, width = (None if side is LATER else side for side in (state.height, state.width))
    return height, width


def repeated(rows: Tensor, samples: int, name: str) -> Tensor:
    """As many rows as samples, each one's copies next to each other.

    They lie in memory as the rows do: kernels differ by that, and on a picture of one colour (all of it masked) the
    norms of a small autoencoder make much of it, so that a picture would not be the one that it is alone.
    """
    if samples % len(rows):
        raise InputError(f"{name!r} has {len(rows)} pictures, which do not divide evenly among {samples} samples.")
    return torch.cat([row for row in rows.split(1) for _ in range(samples // len(rows))])
