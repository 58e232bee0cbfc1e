"""Colour words as arithmetic: recolour a picture, put it on a background, and name the colour of what is seen."""

from __future__ import annotations

from functools import cache

import numpy as np

from ....errors import InputError, UnknownNameError

Colour = tuple[int, int, int]
# Of an object, and of a background: paler, so that the object stands out; black stays black.
TONES: dict[str, tuple[Colour, Colour]] = {
    "red": ((222, 36, 40), (228, 92, 88)),
    "orange": ((246, 132, 24), (250, 172, 92)),
    "yellow": ((252, 208, 36), (253, 226, 122)),
    "green": ((52, 164, 66), (128, 202, 128)),
    "blue": ((40, 104, 222), (116, 170, 240)),
    "purple": ((138, 66, 200), (178, 136, 224)),
    "pink": ((244, 118, 178), (250, 186, 212)),
    "brown": ((128, 80, 44), (156, 118, 88)),
    "gray": ((136, 136, 140), (176, 176, 180)),
    "black": ((44, 44, 48), (30, 30, 34)),
    "turquoise": ((32, 186, 178), (124, 216, 210)),
}
COLOURS: dict[str, Colour] = {name: of_object for name, (of_object, _) in TONES.items()}
BACKGROUNDS: dict[str, Colour] = {name: of_background for name, (_, of_background) in TONES.items()}
WHITE = (255, 255, 255)
NEUTRALS = ("black", "gray", "white")
LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


def compose(
    rgba: np.ndarray, colour: str | None = None, background: str | None = None, mirror: bool = False
) -> np.ndarray:
    """The picture that a caption describes: uint8 [H, W, 4] with straight alpha -> uint8 [H, W, 3]."""
    if rgba.dtype != np.uint8 or rgba.ndim != 3 or rgba.shape[-1] != 4:
        raise InputError(
            f"Wanted uint8 [height, width, 4], got {rgba.dtype} {list(rgba.shape)}. Take a row of rgba.npy."
        )
    picture = rgba.astype(np.float32) / 255
    if colour is not None:
        picture = recolour(picture, pick(COLOURS, "colour", colour))
    behind = WHITE if background is None else pick(BACKGROUNDS, "background", background)
    alpha = picture[..., 3:]
    flat = picture[..., :3] * alpha + np.array(behind, np.float32) / 255 * (1 - alpha)
    if mirror:
        flat = flat[:, ::-1]
    return np.ascontiguousarray(np.clip(flat * 255 + 0.5, 0, 255).astype(np.uint8))


def pick(table: dict[str, tuple[int, int, int]], kind: str, name: str) -> tuple[int, int, int]:
    if name not in table:
        raise UnknownNameError(kind, name, table)
    return table[name]


def recolour(picture: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    """Duotone that keeps luminance order: black -> colour at the picture's median luminance -> white."""
    luminance = picture[..., :3] @ LUMINANCE
    visible = luminance[picture[..., 3] > 0.5]
    middle = float(np.clip(np.median(visible), 0.04, 0.97)) if visible.size else 0.5
    out = picture.copy()
    out[..., :3] = tone(luminance, middle, np.array(colour, np.float32) / 255)
    return out


def tone(luminance: np.ndarray, middle: float, colour: np.ndarray) -> np.ndarray:
    """The curve of `recolour`. The floor under the upper range keeps near-white pictures from losing the colour."""
    shade = np.clip(luminance / middle, 0, 1)[..., None] ** 0.9
    light = np.clip((luminance - middle) / max(1 - middle, 0.25), 0, 1)[..., None]
    return colour * shade + (1 - colour * shade) * light


def to_oklab(rgb: np.ndarray) -> np.ndarray:
    """sRGB in 0..1 to OKLab (Ottosson 2020), where distance is close to what eyes see."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    cones = np.cbrt(linear @ OKLAB_CONES.T)
    return cones @ OKLAB_AXES.T


OKLAB_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
OKLAB_AXES = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


@cache
def hue_ramps() -> tuple[tuple[str, ...], np.ndarray]:
    """Each chromatic colour as the tones that recolouring makes of it, from a shadow to a highlight, in OKLab."""
    names = tuple(name for name in COLOURS if name not in NEUTRALS)
    levels = np.array([0.22, 0.3, 0.4, 0.5, 0.6, 0.7], np.float32)
    ramps = [to_oklab(tone(levels, 0.5, np.array(COLOURS[name], np.float32) / 255)) for name in names]
    return names, np.stack(ramps)


def classify(rgb: np.ndarray) -> np.ndarray:
    """The colour word of each pixel [N, 3] (0..1): hue by the nearest ramp, neutral ones by their lightness."""
    lab = to_oklab(rgb.astype(np.float64))
    lightness, chroma = lab[:, 0], np.hypot(lab[:, 1], lab[:, 2])
    names, ramps = hue_ramps()
    nearest = np.linalg.norm(lab[:, None, None] - ramps[None], axis=-1).min(-1).argmin(-1)
    neutral = np.select([lightness < 0.42, lightness > 0.88], ["black", "white"], "gray")
    return np.where(chroma > 0.05, np.array(names)[nearest], neutral)


def name_colour(rgb: np.ndarray, background: str | None = None) -> str:
    """The colour word for the object in a picture uint8 [H, W, 3] that stands on white or on a named background.

    A quarter of colourful pixels is enough for a hue to win: shadows and highlights of any object are near neutral.
    """
    behind = np.array(WHITE if background is None else pick(BACKGROUNDS, "background", background), np.float32)
    pixels = rgb.reshape(-1, 3).astype(np.float32)
    object_pixels = pixels[np.abs(pixels - behind).max(-1) > 24]
    if len(object_pixels) < 16:
        return "white" if background is None else background
    return dominant(classify(object_pixels / 255))[0]


def dominant(words: np.ndarray) -> tuple[str, float]:
    """The winning colour word and its share of the pixels."""
    names, counts = np.unique(words, return_counts=True)
    shares = {str(name): float(count) / len(words) for name, count in zip(names, counts, strict=True)}
    hues = {name: share for name, share in shares.items() if name not in NEUTRALS}
    pool = hues if sum(hues.values()) >= 0.25 else {name: shares[name] for name in NEUTRALS if name in shares}
    winner = max(pool, key=pool.__getitem__)
    return winner, shares[winner]


def natural_colour(rgba: np.ndarray) -> str | None:
    """The colour word that a picture as drawn deserves ("a yellow banana"), or None when no word is beyond doubt."""
    rgba = rgba[::2, ::2]  # a quarter of the pixels says the same
    visible = rgba[rgba[..., 3] > 127][:, :3].astype(np.float32) / 255
    if not len(visible):
        return None
    words = classify(visible)
    name, share = dominant(words)
    if share < 0.6 or (name not in NEUTRALS and not is_pure(visible[words == name], name)):
        return None
    return name


def is_pure(rgb: np.ndarray, name: str) -> bool:
    """Whether pixels are saturated and of the word's own hue: olive is not yellow to a person, nor is peach orange."""
    _, *wanted = to_oklab(np.array(COLOURS[name]) / 255)
    _, *seen = to_oklab(rgb.astype(np.float64)).mean(0)
    turn = np.degrees(np.angle(complex(*seen) / complex(*wanted)))
    return abs(turn) < 20 and np.hypot(*seen) > 0.6 * np.hypot(*wanted)
