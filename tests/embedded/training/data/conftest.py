"""A work folder in small: the packages' layout with a handful of drawings, rendered by the real rasteriser."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lockstep.embedded.training.data import build_items, render_pictures
from lockstep.embedded.training.data.concepts import LANGUAGES, code_of, read_core

GROUPS = {"0": "smileys-emotion", "1": "animals-nature", "2": "people-body", "3": "flags", "4": "travel-places"}
SUBGROUPS = {"0": "heart", "1": "animal-mammal", "2": "person-role", "3": "country-flag", "4": "sky-weather"}
# What is not in the core: (emoji, label, group and subgroup).
OTHERS = [
    ("🐕", "dog", 1),
    ("🦬", "bison", 1),
    ("🏁", "chequered flag", 3),
    ("🧑‍🚒", "firefighter", 2),
    ("🌫️", "fog", 4),
]
LABELS = {"🐶": "dog face", "❤️": "red heart", "🍎": "red apple", "🍌": "banana", "🐘": "elephant"}
DRAWN = {
    "🐶": "#c08040",
    "🐕": "#a06030",
    "❤️": "#f46cb4",
    "🍌": "#fcd024",
    "🐘": "#88888c",
    "🍎": "#de2428",
    "🦬": "#805030",
}


def svg_body(colour: str) -> str:
    """A disc with a lighter and a darker part, so that recolouring has something to keep; not symmetrical."""
    return (
        f'<circle cx="14" cy="16" r="10" fill="{colour}"/><circle cx="10" cy="12" r="2" fill="#fff"/>'
        '<rect x="14" y="18" width="5" height="2" fill="#000"/>'
    )


def write_packages(unpacked: Path) -> None:
    core = json.loads(Path(read_core_path()).read_text(encoding="utf-8"))["concepts"]
    entries = [
        {"emoji": emoji, "label": LABELS.get(emoji, names[0]), "group": 1, "subgroup": 1, "tags": ["thing"]}
        for emoji, names in core.items()
    ]
    entries += [{"emoji": emoji, "label": label, "group": place, "subgroup": place} for emoji, label, place in OTHERS]
    write(unpacked / "emojibase/en/data.json", entries)
    for language in LANGUAGES:
        labels = [{"emoji": "🐘", "label": f"Elefant {language}"}, {"emoji": "🍌", "label": "Banane"}]
        write(unpacked / f"emojibase/{language}/data.json", labels)
    write(unpacked / "emojibase/meta/groups.json", {"groups": GROUPS, "subgroups": SUBGROUPS})
    write(unpacked / "emojilib/dist/emoji-en-US.json", {"🐶": ["dog", "puppy_love", "pet"]})
    icons = {f"icon-{code_of(emoji)}": {"body": svg_body(colour)} for emoji, colour in DRAWN.items()}
    chars = {code_of(emoji): f"icon-{code_of(emoji)}" for emoji in DRAWN}
    write(unpacked / "noto/icons.json", {"width": 32, "height": 32, "icons": icons, "aliases": {}})
    write(unpacked / "noto/chars.json", chars)
    # The older set calls the dog's face "dog", and the standing dog "dogside".
    firefox = {
        "dog": DRAWN["🐶"],
        "dogside": DRAWN["🐕"],
        "redheart": "#d02020",
        "elephant": DRAWN["🐘"],
        "window": "#222222",
    }
    write(
        unpacked / "fxemoji/icons.json",
        {"width": 32, "height": 32, "icons": {n: {"body": svg_body(c)} for n, c in firefox.items()}},
    )
    (unpacked / "fluent-3d/assets").mkdir(parents=True)
    for emoji in ("🐶", "❤️", "🍌", "🐘"):
        picture = np.zeros((64, 64, 4), np.uint8)
        picture[8:40, 8:56] = (*bytes.fromhex(DRAWN[emoji][1:]), 255)
        name = "-".join(f"{ord(character):x}" for character in emoji)  # with the variation selector, as that set does
        Image.fromarray(picture).save(unpacked / f"fluent-3d/assets/{name}.webp", lossless=True)


def read_core_path() -> Path:
    import lockstep.embedded.training.data as data

    assert read_core()["concepts"], "the core list is empty"
    return Path(data.__file__).with_name("core.json")


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def write_sources(work: Path) -> None:
    licences = {"noto": "Apache-2.0", "fluent-3d": "MIT", "fxemoji": "Apache-2.0"}
    packages = {key: {"name": key, "version": "1", "licence": licence} for key, licence in licences.items()}
    write(work / "sources.json", {"packages": packages})


@pytest.fixture
def packages(tmp_path):
    """A work folder after `fetch`."""
    write_packages(tmp_path / "unpacked")
    write_sources(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A work folder after `items`; read only."""
    pytest.importorskip("resvg_py", reason="the rasteriser of the extra `training`")
    work = tmp_path_factory.mktemp("work")
    write_packages(work / "unpacked")
    write_sources(work)
    render_pictures(work, styles=("noto", "3d", "firefox"), workers=1)
    build_items(work)
    return work
