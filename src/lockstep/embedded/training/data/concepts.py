"""What the pictures show: which emoji are concepts, and what people call them.

Three tiers: 1 = the core of everyday things, 2 = more of the same kind (both named by hand in `core.json`),
3 = the rest, named by their Unicode CLDR label. One rule for animals that have two emoji: the *face* owns the plain
word, because it is what stays recognisable at 128 px ("a dog"); the body is "a standing dog".
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from ....errors import NotFoundError
from .storage import read_json, write_json

LEFT_OUT_GROUPS = {"people-body", "component", "symbols", "flags"}
LEFT_OUT_SUBGROUPS = {"time", "sound", "book-paper", "mail", "place-map", "transport-sign", "other-object"}
COLOUR_WORDS = {"red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "gray", "grey", "black", "white"}
LANGUAGES = ("de", "fr", "es", "it", "pt")
Number = str  # "count" takes an article, "mass" and "plural" take none


@dataclass(frozen=True)
class Concept:
    """One thing that can be asked for. `names[0]` is its usual name; `numbers` says how each English name takes an
    article."""

    code: str
    emoji: str
    names: list[str]
    numbers: list[Number]
    tier: int
    label: str
    group: str
    subgroup: str
    tags: list[str] = field(repr=False)
    own_colour: str | None = None
    recolour: bool = True
    mirror: bool = True
    held_out_colour: str | None = None
    held_out_background: str | None = None
    synonyms: list[str] = field(default_factory=list, repr=False)
    foreign: list[str] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def english(self) -> list[str]:
        """Every English name, each with its number in `numbers`."""
        return self.names + self.synonyms

    @property
    def core(self) -> bool:
        return self.tier == 1


def code_of(emoji: str) -> str:
    """Code points in hex, joined by hyphens, without the variation selector that sets write or leave out at will."""
    return "-".join(f"{ord(character):x}" for character in emoji if character != "\ufe0f")


def read_core() -> dict[str, Any]:
    """The hand-written list, with emoji keys turned into code points."""
    text = resources.files(__package__).joinpath("core.json").read_text(encoding="utf-8")
    core = json.loads(text)
    for name in ("concepts", "own_colour", "held_out"):
        core[name] = {code_of(emoji): value for emoji, value in core[name].items()}
    for name in ("second_tier", "left_out", "fixed_colours", "fixed_sides"):
        core[name] = {code_of(emoji) for emoji in core[name]}
    return core


def read_words() -> dict[str, Any]:
    """The hand-written words: synonyms, odd plurals, translations."""
    return json.loads(resources.files(__package__).joinpath("words.json").read_text(encoding="utf-8"))


def read_labels(unpacked: Path) -> dict[str, list[str]]:
    """The CLDR labels of every emoji in the further languages, by code point."""
    labels: dict[str, list[str]] = {}
    for language in LANGUAGES:
        for entry in read_entries(unpacked, language):
            labels.setdefault(code_of(entry["emoji"]), []).append(entry["label"].lower())
    return labels


def foreign_names(names: list[str], candidates: list[str]) -> list[str]:
    """The names in other languages: short, and not already English ones."""
    return [name for name in dict.fromkeys(candidates) if name not in names and len(name.split()) <= 3]


def build_concepts(unpacked: Path) -> list[Concept]:
    """Join the CLDR names and keywords with the hand-written core; core first, then the rest in Unicode order."""
    core, words = read_core(), read_words()
    entries = read_entries(unpacked)
    labels = read_labels(unpacked)
    groups = read_json(unpacked / "emojibase/meta/groups.json", made_by="fetch")
    keywords = read_json(unpacked / "emojilib/dist/emoji-en-US.json", made_by="fetch")
    taken = {name for names in core["concepts"].values() for name in names}
    by_code = {code_of(entry["emoji"]): entry for entry in entries if "group" in entry}
    owned = taken | {clean_label(entry["label"]) for entry in by_code.values()}
    concepts = []
    for code in [*core["concepts"], *(code for code in by_code if code not in core["concepts"])]:
        entry = by_code[code]
        group, subgroup = groups["groups"][str(entry["group"])], groups["subgroups"][str(entry["subgroup"])]
        label = clean_label(entry["label"])
        names = core["concepts"].get(code) or name_rest(label, code, group, subgroup, core, taken)
        if names is None:
            continue
        # A synonym that is the very name of another concept would ask for both.
        synonyms = [word for word in words["synonyms"].get(names[0], []) if word not in owned]
        tier = (2 if code in core["second_tier"] else 1) if code in core["concepts"] else 3
        held_colour, held_background = core["held_out"].get(code, (None, None))
        concepts.append(
            Concept(
                code=code,
                emoji=entry["emoji"],
                names=names,
                numbers=[number_of(name, core) for name in names + synonyms],
                tier=tier,
                label=label,
                group=group,
                subgroup=subgroup,
                tags=collect_tags(entry, keywords, names),
                own_colour=core["own_colour"].get(code),
                recolour=code not in core["fixed_colours"] and not names_a_colour(names),
                mirror=code not in core["fixed_sides"],
                held_out_colour=held_colour,
                held_out_background=held_background,
                synonyms=synonyms,
                foreign=foreign_names(names, words["translations"].get(names[0]) or labels.get(code, [])),
            )
        )
    return concepts


def read_entries(unpacked: Path, language: str = "en") -> list[dict[str, Any]]:
    path = unpacked / f"emojibase/{language}/data.json"
    if not path.is_file():
        raise NotFoundError(
            f"Wanted the names of emoji in {path}, and they are not there. Run the stage `fetch` first."
        )
    return json.loads(path.read_text(encoding="utf-8"))


def name_rest(
    label: str, code: str, group: str, subgroup: str, core: dict[str, Any], taken: set[str]
) -> list[str] | None:
    """The name of a tier-3 concept, or None when it is none for us (flags, signs, people, doubles of the core)."""
    if group in LEFT_OUT_GROUPS or subgroup in LEFT_OUT_SUBGROUPS or code in core["left_out"]:
        return None
    if label in taken:
        # Only animals have a second emoji under the same word; any other double would blur the core's picture.
        return [f"standing {label}"] if subgroup.startswith("animal") else None
    return [label]


def names_a_colour(names: list[str]) -> bool:
    return any(word in COLOUR_WORDS for word in names[0].split())


def clean_label(label: str) -> str:
    label = label.lower().replace("’", "'").replace("ñ", "n")
    return re.sub(r"[^a-z0-9' -]+", " ", label).strip()


def number_of(name: str, core: dict[str, Any]) -> Number:
    """Whether "a" fits before the name. The core says it by list; labels of the rest go by their ending."""
    if name in core["mass_nouns"]:
        return "mass"
    if name in core["plurals"]:
        return "plural"
    last = name.split()[-1]
    in_core = any(name in names for names in core["concepts"].values())
    if not in_core and last.endswith("s") and not last.endswith(("ss", "us", "is")):
        return "plural"
    return "count"


def collect_tags(entry: dict[str, Any], keywords: dict[str, list[str]], names: list[str]) -> list[str]:
    tags = [*entry.get("tags", []), *keywords.get(entry["emoji"], [])]
    tags = [clean_label(tag.replace("_", " ")) for tag in tags]
    return [tag for tag in dict.fromkeys(tags) if tag and tag not in names]


def save_concepts(work: Path, concepts: list[Concept]) -> None:
    write_json(work / "concepts.json", {"concepts": [asdict(concept) for concept in concepts]}, indent=0)


def load_concepts(work: Path) -> dict[str, Concept]:
    content = read_json(work / "concepts.json", made_by="render")
    return {record["code"]: Concept(**record) for record in content["concepts"]}
