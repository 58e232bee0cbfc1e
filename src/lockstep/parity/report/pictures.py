"""Values that are pictures or videos: side by side, with the difference amplified until it can be seen."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from dataclasses import dataclass, field

import numpy as np

from ..trace.container import Array
from ..trace.reader import Entry, Trace

SOURCES = (("@pipeline", "out*"), ("vae.decode", "out*"), ("vae", "out*"), ("@images", "out"), ("@frames", "out"))
MAX_IMAGES = 4
MAX_FRAMES = 8
MAX_SIDE = 512


@dataclass
class FramePair:
    """One picture of each side as PNG, and the difference of the two."""

    label: str
    reference: bytes
    candidate: bytes
    difference: bytes
    amplification: float
    psnr: float
    largest: float  # of the difference, on a scale of 0..1


@dataclass
class PicturePair:
    """One picture, or the frames of one video."""

    key: str
    size: tuple[int, int]
    frames: list[FramePair] = field(default_factory=list)

    @property
    def is_video(self) -> bool:
        return len(self.frames) > 1 and self.frames[0].label.startswith("frame")


def pictures_of(reference: Trace, candidate: Trace) -> list[PicturePair]:
    """The first kind of value in the traces that is a picture on both sides."""
    for path, slot in SOURCES:
        made = []
        for entry in reference.find(path=path, slot=slot)[:MAX_IMAGES]:
            other = candidate.get(entry.key)
            if other is not None and entry.has_data and other.has_data and entry.shape == other.shape:
                made += pair_pictures(str(entry.key), _values(reference, entry), _values(candidate, other))
        if made:
            return made[:MAX_IMAGES]
    return []


def _values(trace: Trace, entry: Entry) -> Array:
    return trace.array(entry)


def pair_pictures(key: str, a: Array, b: Array) -> list[PicturePair]:
    """Two arrays of the same shape as pictures (or videos); nothing if they are none."""
    videos_a, videos_b = as_frames(a), as_frames(b, like=a)
    return [
        PicturePair(key, (one.shape[2], one.shape[1]), _frames(one, two))
        for one, two in list(zip(videos_a, videos_b, strict=True))[:MAX_IMAGES]
    ]


def _frames(a: Array, b: Array) -> list[FramePair]:
    chosen = np.unique(np.linspace(0, len(a) - 1, min(len(a), MAX_FRAMES)).round().astype(int))
    labels = [f"frame {i}" if len(a) > 1 else "picture" for i in chosen]
    factor = amplification(float(np.abs(b[chosen] - a[chosen]).max(initial=0.0)))  # one for all, so that frames compare
    return [compare_frames(a[i], b[i], label, factor) for i, label in zip(chosen, labels, strict=True)]


def compare_frames(a: Array, b: Array, label: str, factor: float) -> FramePair:
    """Two H x W x 3 pictures in 0..1."""
    d = np.abs(b - a)
    largest = float(d.max(initial=0.0))
    mean = float((d**2).mean())
    psnr = 10 * math.log10(1 / mean) if mean > 0 else math.inf
    shown = [png(smaller(x)) for x in (a, b, heat(d.max(axis=-1) * factor))]
    return FramePair(label, shown[0], shown[1], shown[2], factor, psnr, largest)


def amplification(largest: float) -> float:
    """1, 2, 5, 10, 20, … so that the largest difference is just inside the scale."""
    if largest <= 0:
        return 1.0
    wanted = 1 / largest
    exponent = math.floor(math.log10(wanted))
    for step in (5, 2, 1):
        if step * 10.0**exponent <= wanted:
            return max(1.0, step * 10.0**exponent)
    return 1.0


def as_frames(values: Array, like: Array | None = None) -> list[Array]:
    """Batches of pictures and videos in any usual layout as a list of F x H x W x 3 in 0..1."""
    scaled = _unit_range(np.asarray(values), np.asarray(values if like is None else like))
    shape = scaled.shape
    if scaled.ndim == 3 and shape[-1] in (1, 3, 4):  # H W C
        videos = [scaled[None]]
    elif scaled.ndim == 3 and shape[0] in (1, 3):  # C H W
        videos = [np.moveaxis(scaled, 0, -1)[None]]
    elif scaled.ndim == 4 and shape[-1] in (1, 3, 4) and shape[1] > 4:  # B H W C
        videos = [one[None] for one in scaled]
    elif scaled.ndim == 4 and shape[1] in (1, 3):  # B C H W
        videos = [np.moveaxis(one, 0, -1)[None] for one in scaled]
    elif scaled.ndim == 5 and shape[-1] in (1, 3):  # B F H W C
        videos = list(scaled)
    elif scaled.ndim == 5 and shape[2] in (1, 3):  # B F C H W
        videos = [np.moveaxis(one, 1, -1) for one in scaled]
    elif scaled.ndim == 5 and shape[1] in (1, 3):  # B C F H W
        videos = [np.moveaxis(one, 0, -1) for one in scaled]
    else:
        return []
    if min(videos[0].shape[1:3]) < 8:
        return []
    return [np.repeat(v, 3, axis=-1) if v.shape[-1] == 1 else v[..., :3] for v in videos]


def _unit_range(values: Array, like: Array) -> Array:
    """To 0..1 by the reference's range: bytes, -1..1, or 0..1 already."""
    x = np.nan_to_num(values.astype(np.float64))
    if like.dtype.kind in "iu":
        return np.clip(x / 255, 0, 1)
    if float(np.nan_to_num(like.astype(np.float64)).min(initial=0.0)) < -0.05:
        x = (x + 1) / 2
    return np.clip(x, 0, 1)


def smaller(picture: Array) -> Array:
    """Every k-th pixel where a picture is larger than the page needs."""
    step = max(1, -(-max(picture.shape[:2]) // MAX_SIDE))
    return picture[::step, ::step]


def heat(values: Array) -> Array:
    """0..1 as black, violet, orange, yellow-white: brighter is always more, also in grey."""
    stops = np.array([[0, 0, 0.02], [0.32, 0.07, 0.48], [0.85, 0.27, 0.25], [0.99, 0.72, 0.2], [1, 1, 0.88]])
    x = np.clip(values, 0, 1) * (len(stops) - 1)
    low = np.minimum(x.astype(int), len(stops) - 2)
    part = (x - low)[..., None]
    return stops[low] * (1 - part) + stops[low + 1] * part


def png(picture: Array) -> bytes:
    """H x W x 3 in 0..1 as PNG, by hand: the page may not need a picture library."""
    pixels = np.ascontiguousarray((np.clip(picture, 0, 1) * 255 + 0.5).astype(np.uint8))
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")


def data_uri(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode()
