"""Pictures: PNG, WebP and JPEG with the manifest inside, and the PIL image that keeps its manifest when it is saved."""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from PIL import Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngInfo

from .. import files
from ..errors import FileFormatError, InputError
from .kind import Format, MediaKind
from .pixels import PixelHash, pixels_of
from .text import KEY, Describe, to_text

UNREADABLE = (  # what PIL raises for a damaged file
    UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError, LookupError, TypeError,
    struct.error,
)  # fmt: skip
EXIF_IFD, USER_COMMENT, ASCII = 0x8769, 0x9286, b"ASCII\0\0\0"
QUALITY = {"quality", "subsampling", "lossless", "exact", "qtables", "method"}  # a caller's own say on the encoding
MAX_EXIF = 65_000  # a JPEG keeps it in one segment, whose length has 16 bits


class MadePicture(Image.Image):
    """A picture that a pipeline made: a PIL image that writes its manifest into the PNG, WebP or JPEG it is saved as.

    The hash is of the pixels as they were made, so a picture that is drawn on before it is saved is told from one that
    is not. What PIL derives from it (resized, cropped, converted) is a plain picture.
    """

    describe: Describe
    pixel_hash: str

    @classmethod
    def of(cls, picture: Image.Image, describe: Describe) -> MadePicture:
        made = cls()
        made.__setstate__([*_state(picture), describe, PixelHash([pixels_of(picture)]).text])
        return made

    def record(self, folder: Path) -> dict[str, Any]:
        """The manifest for a file in this folder."""
        return {**self.describe(folder), "pixels": self.pixel_hash}

    def save(
        self, fp: str | bytes | PathLike[str] | PathLike[bytes] | IO[bytes], format: str | None = None, **params: Any
    ) -> None:
        path = Path(fp) if isinstance(fp, (str, Path)) else None
        name = format or (Image.registered_extensions().get(path.suffix.lower(), "") if path else "")
        embed = EMBED.get(name.upper())
        if embed is not None and not params.keys() & {"pnginfo", "exif"}:  # what the caller gives goes in unchanged
            params |= embed(to_text(self.record(path.parent if path else Path())))
            usual = next(one.settings for one in Pictures.formats if one.name == name.upper())
            params = {**usual, **params} if not params.keys() & QUALITY else params
        super().save(fp, format, **params)

    def copy(self) -> MadePicture:
        made = MadePicture()
        made.__setstate__(self._parts())
        return made

    __copy__ = copy

    def plain(self) -> Image.Image:
        """The same pixels without the manifest."""
        return Image.Image.copy(self)

    def _parts(self) -> list[Any]:
        return [*_state(self), self.describe, self.pixel_hash]

    def __getstate__(self) -> list[Any]:
        *parts, describe, pixel_hash = self._parts()
        return [*parts, _Described(dict(describe(Path()))), pixel_hash]

    def __setstate__(self, state: list[Any]) -> None:
        *parts, self.describe, self.pixel_hash = state
        super().__setstate__(parts)

    def __eq__(self, other: object) -> bool:
        return self.plain() == plain(other)

    __hash__ = None  # type: ignore[assignment]  # as every PIL image

    def _repr_png_(self) -> bytes | None:
        return self.plain()._repr_png_()

    def _repr_jpeg_(self) -> bytes | None:
        return self.plain()._repr_jpeg_()


def _state(picture: Image.Image) -> list[Any]:
    """What PIL makes a picture of again, shared with nobody."""
    info, *rest = Image.Image.__getstate__(picture)
    return [dict(info), *rest]


class _Described:
    """A manifest that is known already, as a picture takes it along when it is pickled."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record

    def __call__(self, folder: Path) -> dict[str, Any]:
        return self.record


def plain(value: Any) -> Any:
    """A picture without its manifest; everything else as it is."""
    return value.plain() if isinstance(value, MadePicture) else value


def _in_png(text: str) -> dict[str, Any]:
    info = PngInfo()
    info.add_itxt(KEY, text, zip=True)
    return {"pnginfo": info}


def _in_exif(text: str) -> dict[str, Any]:
    exif = Image.Exif()
    exif.get_ifd(EXIF_IFD)[USER_COMMENT] = ASCII + text.encode("ascii")
    return {"exif": exif}


def _in_jpeg(text: str) -> dict[str, Any]:
    if len(text) > MAX_EXIF:
        raise InputError(
            f"A JPEG carries {MAX_EXIF} characters of manifest, this one has {len(text)}. Save it as .png or .webp."
        )
    return _in_exif(text)


def _from_png(picture: Image.Image) -> str | None:
    return picture.info.get(KEY)


def _from_exif(picture: Image.Image) -> str | None:
    comment = picture.getexif().get_ifd(EXIF_IFD).get(USER_COMMENT)
    if not isinstance(comment, bytes) or not comment.startswith(ASCII + b"{"):
        return None
    return comment.removeprefix(ASCII).decode("ascii", errors="replace")


EMBED: dict[str, Callable[[str], dict[str, Any]]] = {"PNG": _in_png, "WEBP": _in_exif, "JPEG": _in_jpeg}
EXTRACT = {"PNG": _from_png, "WEBP": _from_exif, "JPEG": _from_exif}


class PictureFormat(Format):
    """A format that PIL writes."""

    def __init__(self, name: str, suffixes: tuple[str, ...], tolerance: float, **settings: Any) -> None:
        self.name, self.suffixes, self.tolerance, self.settings = name, suffixes, tolerance, settings

    def write(self, item: Image.Image, path: Path, describe: Describe | None, **options: Any) -> None:
        made = item if isinstance(item, MadePicture) or describe is None else MadePicture.of(item, describe)
        inside = EMBED[self.name](to_text(made.record(path.parent))) if isinstance(made, MadePicture) else {}
        data = self.encoded(item, **inside)
        with files.atomic(path) as temporary:
            temporary.write_bytes(data)

    def encoded(self, item: Image.Image, **inside: Any) -> bytes:
        """The file's bytes, made in memory: PIL takes no notice of a disk that fills up in the middle of a picture."""
        data = io.BytesIO()
        try:
            plain(item).save(data, format=self.name, **self.settings, **inside)
        except OSError as problem:
            raise InputError(f"A picture of mode {item.mode} is no {self.name}: {problem}. Convert it first.") from None
        return data.getvalue()

    def read(self, path: Path) -> Image.Image:
        return opened(path)

    def read_text(self, path: Path) -> str | None:
        picture = opened(path)
        extract = EXTRACT.get(str(picture.format))
        try:
            return extract(picture) if extract else None
        except UNREADABLE as problem:
            raise FileFormatError(f"The manifest in {path} is damaged: {problem}.") from None


def opened(path: Path) -> Image.Image:
    """A picture that is read to its end, with the texts that come after the pixels."""
    try:
        with Image.open(path) as picture:
            picture.load()
            return picture
    except UNREADABLE as problem:
        raise FileFormatError(f"{path} is not a picture that can be read: {problem}.") from None


PNG = PictureFormat("PNG", (".png",), 0.0)


class Pictures(MediaKind):
    """What most pipelines make."""

    name, place = "picture", "image"
    count_input = "num_images_per_prompt"
    formats: ClassVar[tuple[PictureFormat, ...]] = (
        PNG,
        PictureFormat("WEBP", (".webp",), 0.0, lossless=True, exact=True),
        PictureFormat("JPEG", (".jpg", ".jpeg"), 3.0, quality=95, subsampling=0),
    )

    def format_of(self, path: Path) -> Format:
        """By what stands in the file: people give a PNG the name of a JPEG."""
        written = opened(path).format
        return next((format for format in self.formats if format.name == written), self.format_for(path))

    def items(self, value: Any) -> list[Any]:
        if not isinstance(value, list) or not value or not all(isinstance(one, Image.Image) for one in value):
            raise InputError("There are no PIL pictures to save in this output; ask for output_type='pil'.")
        return value

    def frames(self, item: Any) -> Iterable[np.ndarray]:
        return [pixels_of(item)]

    def preview(self, item: Any) -> Image.Image:
        return plain(item)

    def load(self, path: Path) -> Image.Image:
        from ..images import load_image

        return load_image(path)

    def describe_input(self, value: Any) -> dict[str, Any] | None:
        if not isinstance(value, Image.Image):
            return None
        name = getattr(value, "filename", None)  # known where the picture was read from a file
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        return {"picture": value.mode, "size": list(value.size), "sha256": digest} | (
            {"file": Path(name)} if name else {}
        )

    def carrying(self, value: Any, describe: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [
            MadePicture.of(one, describe(index)) if isinstance(one, Image.Image) else one
            for index, one in enumerate(value)
        ]
