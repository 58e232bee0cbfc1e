"""Which drawing shows which concept, for every style: joined by code point where the set has them, else by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from .concepts import Concept
from .storage import read_json


@dataclass(frozen=True)
class Drawing:
    """One picture still to be rendered: SVG text, or the path of a bitmap."""

    concept: str
    style: str
    svg: str | None = None
    bitmap: Path | None = None


@dataclass(frozen=True)
class Style:
    """A way of drawing; `name` is the word in prompts ("a dog, flat style"), `package` the key in `sources.json`."""

    name: str
    package: str
    find: Callable[[Path, str, list[Concept]], Iterable[Drawing]]


def draw_by_code(unpacked: Path, style: str, concepts: list[Concept], *, package: str, chars: str) -> Iterable[Drawing]:
    """An icon set whose `chars.json` (or that of a set with the same names) gives the code point of each icon."""
    icons = read_icons(unpacked, package)
    names: dict[str, str] = {}
    for code, name in read_json(unpacked / chars / "chars.json", made_by="fetch").items():
        names.setdefault(without_selector(code), name)
    for concept in concepts:
        svg = svg_of(icons, names.get(concept.code, ""))
        if svg is not None:
            # The one-colour set draws in the page's text colour, which a rasteriser does not have.
            yield Drawing(concept.code, style, svg=svg.replace("currentColor", "#111111"))


def draw_by_name(unpacked: Path, style: str, concepts: list[Concept], *, package: str) -> Iterable[Drawing]:
    """An older set without code points: CLDR label first, then our names; an icon is given to one concept only.

    Concepts come core first, so "dog" goes to the dog's face even where the set calls the face plainly "dog".
    """
    icons = read_icons(unpacked, package)
    renamed = json.loads(resources.files(__package__).joinpath("renamed.json").read_text(encoding="utf-8"))[package]
    by_letters: dict[str, str] = {}
    for name in icons["icons"]:
        by_letters.setdefault(letters_of(name), name)
    for concept in concepts:
        wanted = [renamed[concept.name]] if concept.name in renamed else [concept.label, *concept.names]
        name = next((by_letters[letters_of(word)] for word in wanted if letters_of(word) in by_letters), None)
        if name is not None:
            del by_letters[letters_of(name)]
            yield Drawing(concept.code, style, svg=svg_of(icons, name))


def draw_bitmaps(unpacked: Path, style: str, concepts: list[Concept], *, package: str) -> Iterable[Drawing]:
    """A folder of pictures named by code point."""
    paths = {without_selector(path.stem): path for path in sorted((unpacked / package / "assets").glob("*.webp"))}
    for concept in concepts:
        if concept.code in paths:
            yield Drawing(concept.code, style, bitmap=paths[concept.code])


def read_icons(unpacked: Path, package: str) -> dict[str, Any]:
    return read_json(unpacked / package / "icons.json", made_by="fetch")


def svg_of(icons: dict[str, Any], name: str) -> str | None:
    """A whole SVG document for an icon of an Iconify set, following one alias."""
    name = icons.get("aliases", {}).get(name, {}).get("parent", name)
    icon = icons["icons"].get(name)
    if icon is None:
        return None
    box = [icon.get(side, icons.get(side, default)) for side, default in BOX]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{box[2]}" height="{box[3]}" viewBox="{" ".join(map(str, box))}">{icon["body"]}</svg>'
    )


BOX = (("left", 0), ("top", 0), ("width", 16), ("height", 16))  # Iconify's defaults


def without_selector(code: str) -> str:
    return "-".join(part for part in code.lower().split("-") if part != "fe0f")


def letters_of(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _by_code(package: str, chars: str) -> Callable[[Path, str, list[Concept]], Iterable[Drawing]]:
    return lambda unpacked, style, concepts: draw_by_code(unpacked, style, concepts, package=package, chars=chars)


def _by_name(package: str) -> Callable[[Path, str, list[Concept]], Iterable[Drawing]]:
    return lambda unpacked, style, concepts: draw_by_name(unpacked, style, concepts, package=package)


STYLES = {
    style.name: style
    for style in (
        Style("noto", "noto", _by_code("noto", "noto")),
        Style(
            "3d",
            "fluent-3d",
            lambda unpacked, style, concepts: draw_bitmaps(unpacked, style, concepts, package="fluent-3d"),
        ),
        Style("flat", "fluent-flat", _by_code("fluent-flat", "fluent-flat")),
        # The gradient set has the names of the flat one, and no code points of its own.
        Style("fluent", "fluent", _by_code("fluent", "fluent-flat")),
        Style("blob", "noto-v1", _by_name("noto-v1")),
        Style("firefox", "fxemoji", _by_name("fxemoji")),
        Style("outline", "fluent-outline", _by_code("fluent-outline", "fluent-outline")),
    )
}
