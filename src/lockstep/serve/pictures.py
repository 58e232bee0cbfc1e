"""Pictures that come in: looked at before they are decoded, turned upright, stripped, and written anew."""

from __future__ import annotations

import base64
import binascii
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from PIL import Image, ImageOps

from .problems import Problem
from .settings import Limits

FORMATS = ("PNG", "JPEG", "WEBP")
DATA_URL = re.compile(r"data:image/[a-z+.-]{1,20};base64,", re.IGNORECASE)
UNREADABLE = (OSError, SyntaxError, ValueError, LookupError, TypeError, Image.DecompressionBombError, MemoryError)


@dataclass(frozen=True)
class Incoming:
    """A picture as this server keeps it."""

    png: bytes
    width: int
    height: int


def from_text(text: object, limits: Limits, param: str) -> bytes:
    """The bytes of a picture that stands in JSON: base64, or a data URL. No address is ever fetched."""
    if not isinstance(text, str):
        raise Problem(
            400, "invalid_image", f"{param} wants a picture in base64, got {type(text).__name__}.", param=param
        )
    if re.match(r"\s*[a-z][a-z0-9+.-]*://", text[:64], re.IGNORECASE):
        raise Problem(
            400,
            "invalid_image",
            f"{param} is an address; this server fetches none. Send the picture in base64.",
            param=param,
        )
    found = DATA_URL.match(text[:64])
    body = text[found.end() :] if found else text
    if len(body) > limits.picture_bytes * 4 // 3 + 4:
        raise _too_large(limits, param)
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(400, "invalid_image", f"{param} is not base64.", param=param) from None


def read(data: bytes, limits: Limits, param: str = "image") -> Incoming:
    """A picture in RGB without anything else that the file carried; refused by its size before it is decoded."""
    with opened(data, limits, param) as picture:
        upright = ImageOps.exif_transpose(picture)
        clear = upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info
        plain = upright.convert("RGBA" if clear else "RGB")
        if clear:
            plain = Image.alpha_composite(Image.new("RGBA", plain.size, "white"), plain).convert("RGB")
        return _kept(plain)


def mask_from_alpha(data: bytes, limits: Limits, param: str = "mask") -> Incoming:
    """White where a picture is transparent: what the OpenAI face calls a mask, in the form that pipelines take."""
    with opened(data, limits, param) as picture:
        if picture.mode not in ("RGBA", "LA", "PA") and "transparency" not in picture.info:
            raise Problem(400, "invalid_image", f"{param} has no transparency to say where to paint.", param=param)
        alpha = picture.convert("RGBA").getchannel("A")
        return _kept(alpha.point(lambda value: 255 if value == 0 else 0).convert("RGB"))


@contextmanager
def opened(data: bytes, limits: Limits, param: str) -> Iterator[Image.Image]:
    """A picture that is open and not yet decoded; nothing that it holds has been believed."""
    if len(data) > limits.picture_bytes:
        raise _too_large(limits, param)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
                if picture.width * picture.height > limits.picture_pixels:
                    raise Problem(
                        413, "too_large", f"{param} has {picture.width}x{picture.height} pixels; "
                        f"{limits.picture_pixels} in all are the most.", param=param,
                    )  # fmt: skip
                yield picture
    except (Image.DecompressionBombWarning, *UNREADABLE):
        raise Problem(
            400, "invalid_image", f"{param} is not a PNG, JPEG or WebP picture that can be read.", param=param
        ) from None


def _kept(picture: Image.Image) -> Incoming:
    picture.info = {}
    return Incoming(png_of(picture), picture.width, picture.height)


def png_of(picture: Image.Image) -> bytes:
    data = io.BytesIO()
    picture.save(data, format="PNG", compress_level=1)
    return data.getvalue()


def _too_large(limits: Limits, param: str) -> Problem:
    return Problem(413, "too_large", f"{param} is larger than {limits.picture_bytes} bytes.", param=param)


def encoded(png: bytes, form: str, quality: int) -> bytes:
    """A picture of ours in another format, without its manifest."""
    data = io.BytesIO()
    with Image.open(io.BytesIO(png), formats=("PNG",)) as picture:
        picture.convert("RGB").save(data, format=form.upper(), quality=quality)
    return data.getvalue()


def thumbnail(png: bytes, side: int) -> bytes:
    data = io.BytesIO()
    with Image.open(io.BytesIO(png), formats=("PNG",)) as picture:
        small = picture.convert("RGB")
        small.thumbnail((side, side))
        small.save(data, format="WEBP", quality=80)
    return data.getvalue()
