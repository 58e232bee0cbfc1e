"""Pictures outside (PIL, numpy, torch) to tensors inside (NCHW in [-1, 1]; masks N1HW of 0 and 1), and back.

A picture's values run from 0 to 1 as floats and from 0 to 255 as bytes; numpy is HWC, torch is CHW.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from PIL import Image, ImageFilter, ImageOps, UnidentifiedImageError
from torch import Tensor

from .configuration import ConfigMixin, register_to_config, with_defaults
from .errors import ConfigError, FileFormatError, InputError, NonFiniteError, NotFoundError, UnknownNameError
from .notes import say_once

Picture: TypeAlias = "Image.Image | np.ndarray | Tensor"
Pictures: TypeAlias = "Picture | Sequence[Picture]"  # several of one kind
Box: TypeAlias = tuple[int, int, int, int]
Numbers = TypeVar("Numbers", np.ndarray, Tensor)

RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "linear": Image.Resampling.BILINEAR,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
RESIZE_MODES = ("default", "fill", "crop")
OUTPUT_TYPES = ("pil", "np", "pt", "latent")
NORMALIZED = "A picture has values from -1 to 1: it is taken as it is. Values from 0 to 1 are what is wanted elsewhere."
TRANSPARENT = "A picture has transparent parts; they are taken as white. To have it otherwise, compose it yourself."
ACCEPTED = (
    "a PIL image, a numpy array (HWC), a torch tensor (CHW), a batch of them with four axes, or a list of one kind"
)


class VaeImageProcessor(ConfigMixin):
    """Pictures to the tensors that an autoencoder takes, and back."""

    @register_to_config
    def __init__(
        self,
        do_resize: bool = True,
        vae_scale_factor: int = 8,
        vae_latent_channels: int = 4,
        resample: str = "lanczos",
        reducing_gap: int | None = None,
        do_normalize: bool = True,
        do_binarize: bool = False,
        do_convert_rgb: bool = False,
        do_convert_grayscale: bool = False,
    ) -> None:
        if do_convert_rgb and do_convert_grayscale:
            raise ConfigError(
                "VaeImageProcessor: do_convert_rgb and do_convert_grayscale exclude each other, got both."
            )
        if resample not in RESAMPLING:
            raise ConfigError(f"VaeImageProcessor: resample wants one of {', '.join(RESAMPLING)}, got {resample!r}.")
        if vae_scale_factor < 1:
            raise ConfigError(f"VaeImageProcessor: vae_scale_factor wants 1 or more, got {vae_scale_factor}.")

    def preprocess(
        self,
        image: Pictures,
        height: int | None = None,
        width: int | None = None,
        resize_mode: str = "default",
        crops_coords: Box | None = None,
    ) -> Tensor:
        """One batch of floats; pictures without a given size shrink to the next multiple of the factor."""
        if resize_mode not in RESIZE_MODES:
            raise UnknownNameError("resize_mode", resize_mode, RESIZE_MODES)
        pictures, as_encoded = _as_list(image), False
        if isinstance(pictures[0], Image.Image):
            batch = self._from_pil(pictures, height, width, resize_mode, crops_coords)
        else:
            if resize_mode != "default" or crops_coords is not None:
                kind = type(pictures[0]).__name__
                raise InputError(
                    f"resize_mode={resize_mode!r} and crops_coords want PIL images, got {kind}. Convert them first."
                )
            if self.config.do_convert_grayscale and len(pictures) == 1:
                pictures = [_grey_batch(pictures[0])]
            batch = self._from_arrays(pictures)
            floats = isinstance(pictures[0], Tensor) and pictures[0].is_floating_point()
            if floats and batch.shape[1] == self.config.vae_latent_channels:
                return batch  # already latents
            if self.config.do_convert_rgb and batch.shape[1] == 4:
                batch = _on_white(batch)
            as_encoded = self.config.do_normalize and _is_normalized(batch)
            if as_encoded:
                say_once(NORMALIZED)
            elif self.config.do_normalize or self.config.do_binarize or not _may_mark(pictures[0]):
                _check_range(batch)
            elif not torch.isfinite(batch).all():
                raise InputError("Pictures want finite values, got NaN or Inf.")
            if self.config.do_resize:
                size = self.get_default_height_width(batch, height, width)
                batch = torch.nn.functional.interpolate(batch, size=size)
        if self.config.do_normalize and not as_encoded:
            batch = 2.0 * batch - 1.0
        return (batch >= 0.5).to(batch.dtype) if self.config.do_binarize else batch

    def postprocess(
        self, image: Tensor, output_type: str = "pil", do_denormalize: list[bool] | None = None
    ) -> Tensor | np.ndarray | list[Image.Image]:
        """NCHW in [-1, 1] to pictures: PIL, numpy NHWC or torch NCHW in [0, 1]; `latent` leaves it as it is."""
        if output_type not in OUTPUT_TYPES:
            raise UnknownNameError("output_type", output_type, OUTPUT_TYPES)
        if not isinstance(image, Tensor) or image.ndim != 4:
            got = tuple(image.shape) if hasattr(image, "shape") else type(image).__name__
            raise InputError(f"postprocess wants a tensor (batch, channels, height, width), got {got}.")
        if output_type == "latent":
            return image
        chosen = [self.config.do_normalize] * len(image) if do_denormalize is None else do_denormalize
        if len(chosen) != len(image):
            raise InputError(f"do_denormalize wants one value for each of {len(image)} pictures, got {len(chosen)}.")
        image = torch.stack([self.denormalize(one) if flag else one for one, flag in zip(image, chosen, strict=True)])
        if output_type == "pt":
            return image
        pixels = self.pt_to_numpy(image)
        return pixels if output_type == "np" else self.numpy_to_pil(pixels)

    def get_default_height_width(
        self, image: Picture, height: int | None = None, width: int | None = None
    ) -> tuple[int, int]:
        """The given size, or the picture's own rounded down to multiples of the factor."""
        factor = self.config.vae_scale_factor
        own_height, own_width = _size(image)
        for name, given in (("height", height), ("width", width)):
            if given is not None and (given < factor or given % factor):
                raise InputError(f"{name} wants a positive multiple of {factor}, got {given}.")
        if min(own_height, own_width) < factor and (height is None or width is None):
            raise InputError(
                f"A picture of {own_height}x{own_width} is smaller than one latent ({factor} pixels). "
                "Pass height and width."
            )
        return height or own_height - own_height % factor, width or own_width - own_width % factor

    def resize(self, image: Image.Image, height: int, width: int, resize_mode: str = "default") -> Image.Image:
        """Stretch; or keep the proportions and `fill` the rest with the border's pixels; or keep them and `crop`."""
        filter = RESAMPLING[self.config.resample]
        if resize_mode == "default":
            return image.resize((width, height), resample=filter, reducing_gap=self.config.reducing_gap)
        return _fitted(image, width, height, filter, covers=resize_mode == "crop")

    def _from_pil(
        self, pictures: list[Any], height: int | None, width: int | None, resize_mode: str, crop: Box | None
    ) -> Tensor:
        if crop is not None:
            pictures = [picture.crop(crop) for picture in pictures]
        if self.config.do_resize:
            size = self.get_default_height_width(pictures[0], height, width)
            flat = opaque if self.config.do_convert_rgb else _plain
            pictures = [self.resize(flat(picture), *size, resize_mode=resize_mode) for picture in pictures]
        if self.config.do_convert_rgb:
            pictures = [opaque(picture) for picture in pictures]
        elif self.config.do_convert_grayscale:
            pictures = [picture.convert("L") for picture in pictures]
        _check_alike([f"{p.mode} {p.height}x{p.width}" for p in map(_plain, pictures)])
        return self.numpy_to_pt(self.pil_to_numpy([_plain(picture) for picture in pictures]))

    def _from_arrays(self, pictures: list[Any]) -> Tensor:
        _check_alike([f"{p.ndim} axes {tuple(p.shape[-3:])} {p.dtype}" for p in pictures])
        single = pictures[0].ndim < 4
        if isinstance(pictures[0], Tensor):
            batch = torch.stack(pictures) if single else torch.cat(pictures)
            if batch.ndim == 3:  # two axes each: grey
                batch = batch.unsqueeze(1)
        else:
            batch = self.numpy_to_pt(np.stack(pictures) if single else np.concatenate(pictures))
        if batch.dtype == torch.uint8:
            return batch.to(torch.float32) / 255.0
        if not batch.is_floating_point():
            raise InputError(f"Pictures want floats from 0 to 1 or bytes (uint8) from 0 to 255, got {batch.dtype}.")
        if self.config.do_convert_grayscale and batch.shape[1] != 1:
            raise InputError(
                f"A mask wants one channel, got {batch.shape[1]}. Take one, or pass a PIL image, which is converted."
            )
        return batch

    @staticmethod
    def normalize(images: Numbers) -> Numbers:
        """[0, 1] to [-1, 1]."""
        return 2.0 * images - 1.0

    @staticmethod
    def denormalize(images: Tensor) -> Tensor:
        """[-1, 1] to [0, 1], cut off outside."""
        return (images * 0.5 + 0.5).clamp(0, 1)

    @staticmethod
    def pil_to_numpy(images: Image.Image | list[Image.Image]) -> np.ndarray:
        """NHWC (NHW for grey) in [0, 1]."""
        pictures = images if isinstance(images, list) else [images]
        return np.stack([np.array(picture).astype(np.float32) / 255.0 for picture in pictures])

    @staticmethod
    def numpy_to_pt(images: np.ndarray) -> Tensor:
        """NHWC (or NHW) to NCHW."""
        return torch.from_numpy((images[..., None] if images.ndim == 3 else images).transpose(0, 3, 1, 2))

    @staticmethod
    def pt_to_numpy(images: Tensor) -> np.ndarray:
        """NCHW to NHWC."""
        return images.cpu().permute(0, 2, 3, 1).float().numpy()

    @staticmethod
    def numpy_to_pil(images: np.ndarray) -> list[Image.Image]:
        """NHWC in [0, 1] to pictures of bytes."""
        images = images[None] if images.ndim == 3 else images
        if not np.isfinite(images).all():
            bad = int((~np.isfinite(images)).sum())
            raise NonFiniteError(
                f"{bad} of {images.size} values of the picture are NaN or Inf; nothing to show. Decode in float32."
            )
        pixels = (images * 255).round().astype("uint8")
        return [Image.fromarray(one[..., 0] if one.shape[-1] == 1 else one) for one in pixels]

    @staticmethod
    def blur(image: Image.Image, blur_factor: int = 4) -> Image.Image:
        """Soft edges, as for a mask."""
        return image.filter(ImageFilter.GaussianBlur(blur_factor))

    @staticmethod
    def get_crop_region(mask_image: Image.Image, width: int, height: int, pad: int = 0) -> Box:
        """The smallest box around the mask, padded, then grown to the proportions of width and height."""
        box = mask_image.convert("L").getbbox()
        if box is None:
            raise InputError("A crop around the mask wants a mask with something in it, got one that is all black.")
        left, top, right, bottom = max(box[0] - pad, 0), max(box[1] - pad, 0), box[2] + pad, box[3] + pad
        right, bottom = min(right, mask_image.width), min(bottom, mask_image.height)
        ratio = width / height
        if (right - left) / (bottom - top) > ratio:
            top, bottom = _grown(top, bottom, (right - left) / ratio, mask_image.height)
        else:
            left, right = _grown(left, right, (bottom - top) * ratio, mask_image.width)
        return left, top, right, bottom

    def apply_overlay(
        self, mask: Image.Image, init_image: Image.Image, image: Image.Image, crop_coords: Box | None = None
    ) -> Image.Image:
        """The new picture where the mask is white, the first one elsewhere."""
        kept = Image.new("RGBa", init_image.size)
        kept.paste(init_image.convert("RGBA").convert("RGBa"), mask=ImageOps.invert(mask.convert("L")))
        if crop_coords is not None:
            left, top, right, bottom = crop_coords
            base = Image.new("RGBA", init_image.size)
            base.paste(self.resize(image, bottom - top, right - left, resize_mode="crop"), (left, top))
            image = base.convert("RGB")
        image = image.convert("RGBA")
        image.alpha_composite(kept.convert("RGBA"))
        return image.convert("RGB")


class IPAdapterMaskProcessor(VaeImageProcessor):
    """Masks for the pictures of IP-Adapters: one channel, 0 or 1, white is where the adapter acts."""

    __init__ = with_defaults(
        VaeImageProcessor.__init__, do_normalize=False, do_binarize=True, do_convert_grayscale=True
    )


def mask_processor(vae_scale_factor: int = 8) -> VaeImageProcessor:
    """For masks: one channel, 0 or 1, white is what is painted anew."""
    return VaeImageProcessor(
        vae_scale_factor=vae_scale_factor, do_normalize=False, do_binarize=True, do_convert_grayscale=True
    )


def load_image(path: str | Path) -> Image.Image:
    """A picture file as RGB, turned upright."""
    try:
        with Image.open(path) as file:
            picture = opaque(ImageOps.exif_transpose(file))
        picture.filename = str(path)  # type: ignore[attr-defined]  # a manifest tells where a picture came from
        return picture
    except FileNotFoundError:
        raise NotFoundError(f"There is no picture at {path}.") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as problem:
        raise FileFormatError(f"{path} is not a picture that can be read: {problem}.") from None


def _as_list(image: Any) -> list[Any]:
    """Pictures as a list of one kind."""
    pictures = list(image) if isinstance(image, (list, tuple)) else [image]
    if not pictures:
        raise InputError(f"Pictures want at least one: {ACCEPTED}; got an empty list.")
    for kind in (Image.Image, np.ndarray, Tensor):
        if all(isinstance(picture, kind) for picture in pictures):
            break
    else:
        names = ", ".join(dict.fromkeys(type(picture).__name__ for picture in pictures))
        raise InputError(f"Pictures want {ACCEPTED}; got {names}.")
    axes = {picture.ndim for picture in pictures if not isinstance(picture, Image.Image)}
    if axes - {2, 3, 4}:
        raise InputError(f"Pictures want {ACCEPTED}; got {max(axes)} axes.")
    return pictures


def _plain(picture: Image.Image) -> Image.Image:
    """The picture in a mode whose bytes are its values (a palette's are indices, a bitmap's are 0 and 1)."""
    if picture.mode in ("L", "RGB", "RGBA"):
        return picture
    if picture.mode in ("1", "LA", "La"):
        return picture.convert("L")
    if picture.mode in ("P", "PA", "CMYK", "YCbCr", "HSV", "LAB", "RGBX", "RGBa"):
        return picture.convert("RGB")
    raise InputError(
        f"Pictures want 8 bits a channel, got PIL mode {picture.mode!r}. Convert it to 'RGB' or 'L' first."
    )


def opaque(picture: Image.Image) -> Image.Image:
    """The picture as RGB; what shines through is white, and that is said."""
    if not picture.has_transparency_data:
        return _plain(picture).convert("RGB")
    layer = picture.convert("RGBA")
    if layer.getchannel("A").getextrema() != (255, 255):
        say_once(TRANSPARENT)
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, layer).convert("RGB")


def _on_white(batch: Tensor) -> Tensor:
    """The same for a batch of floats with four channels."""
    colours, alpha = batch[:, :3], batch[:, 3:]
    if bool((alpha < 1.0).any()):
        say_once(TRANSPARENT)
    return colours * alpha + (1.0 - alpha)


def _grey_batch(picture: np.ndarray | Tensor) -> np.ndarray | Tensor:
    """Three axes of something grey are one picture with its channel, or a batch without channels."""
    if picture.ndim != 3:
        return picture
    if isinstance(picture, Tensor):
        return picture.unsqueeze(1)  # the same for (1, H, W) and (N, H, W)
    return picture[None] if picture.shape[-1] == 1 else picture[..., None]


def _size(image: Picture) -> tuple[int, int]:
    """Height and width of a picture, or of a batch (torch NCHW, numpy NHWC)."""
    if isinstance(image, Image.Image):
        return image.height, image.width
    height, width = image.shape[2:4] if isinstance(image, Tensor) else image.shape[1:3]
    return height, width


def _check_alike(described: list[str]) -> None:
    odd = next((one for one in described if one != described[0]), None)
    if odd is not None:
        raise InputError(
            f"Pictures of one batch want to be alike, got {described[0]} and {odd}. Resize or convert them first."
        )


def _range(batch: Tensor) -> tuple[float, float]:
    low, high = (float(v) for v in batch.aminmax()) if batch.numel() else (0.0, 0.0)
    return low, high


def _may_mark(picture: np.ndarray | Tensor) -> bool:
    """Whether floats that are passed on as they are may mark places by values outside: not an array that could be bytes
    which nobody has divided, whose values are none below 0."""
    return isinstance(picture, Tensor) or bool(picture.min() < 0.0)


def _is_normalized(batch: Tensor) -> bool:
    """Whether floats lie between -1 and 1 already, as the autoencoder takes them."""
    low, high = _range(batch)
    return -1.0 <= low < 0.0 and high <= 1.0


def _check_range(batch: Tensor) -> None:
    low, high = _range(batch)
    if not (low >= 0.0 and high <= 1.0):  # NaN fails as well
        advice = "Pass `images / 2 + 0.5`." if _is_normalized(batch) else "Divide by 255 if these are bytes."
        raise InputError(f"Pictures as floats want values from 0 to 1, got {low:g} to {high:g}. {advice}")


def _fitted(image: Image.Image, width: int, height: int, filter: Image.Resampling, covers: bool) -> Image.Image:
    """The picture amid a canvas, its proportions kept: it covers the canvas, or its border fills the rest."""
    wider = image.width / image.height > width / height
    by_width = not wider if covers else wider
    if width / height == image.width / image.height:
        by_width = False
    new_width = width if by_width else image.width * height // image.height
    new_height = image.height * width // image.width if by_width else height
    resized = image.resize((new_width, new_height), resample=filter)
    canvas = Image.new("RGB", (width, height))
    left, top = width // 2 - new_width // 2, height // 2 - new_height // 2
    canvas.paste(resized, box=(left, top))
    if not covers and by_width and top > 0:
        canvas.paste(resized.resize((width, top), box=(0, 0, width, 0)), box=(0, 0))
        below = resized.resize((width, top), box=(0, new_height, width, new_height))
        canvas.paste(below, box=(0, top + new_height))
    elif not covers and not by_width and left > 0:
        canvas.paste(resized.resize((left, height), box=(0, 0, 0, height)), box=(0, 0))
        beside = resized.resize((left, height), box=(new_width, 0, new_width, height))
        canvas.paste(beside, box=(left + new_width, 0))
    return canvas


def _grown(start: int, end: int, wanted: float, limit: int) -> tuple[int, int]:
    """A stretch grown on both sides to a wanted length and pushed inside 0 … limit."""
    more = int(wanted - (end - start))
    start, end = start - more // 2, end + more - more // 2
    if end >= limit:
        start, end = start - (end - limit), limit
    if start < 0:
        start, end = 0, end - start
    return start, min(end, limit)
