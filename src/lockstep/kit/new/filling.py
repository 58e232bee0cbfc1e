"""A template with its words filled in, and its imports as the place of the file wants them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from importlib import resources
from string import Template

SECTIONS = ("future", "standard", "third", "first", "local")


def filled(template: str, words: Mapping[str, str]) -> str:
    """The text of a template with `${…}` replaced; a word that is missing is our own mistake."""
    text = (resources.files(__package__.rpartition(".")[0]) / "templates" / template).read_text(encoding="utf-8")
    return Template(text).substitute(words)


def arranged(text: str, module: str | None, first_party: tuple[str, ...]) -> str:
    """Python whose imports stand in the order that linters want.

    `module` is the file's own name: what it imports of its own package becomes relative. `first_party` are beginnings
    of names that belong to the same repository.
    """
    nodes = [node for node in ast.parse(text).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if not nodes:
        return text
    lines = text.splitlines()
    first, last = nodes[0].lineno - 1, (nodes[-1].end_lineno or nodes[-1].lineno)
    sections: dict[str, list[tuple[tuple[int, int, str], str]]] = {section: [] for section in SECTIONS}
    for node in nodes:
        written = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        name = (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        shown = _relative(name, module) if module is not None else name
        level = len(shown) - len(shown.lstrip("."))
        key = (int(isinstance(node, ast.ImportFrom)), -level, shown.lower())
        section = "local" if level else _section(name, first_party)
        sections[section].append((key, written.replace(f"from {name} ", f"from {shown} ", 1)))
    groups = ["\n".join(written for _, written in sorted(found)) for found in sections.values() if found]
    return "\n".join([*lines[:first], "\n\n".join(groups), *lines[last:]]) + "\n"


def _section(name: str, first_party: tuple[str, ...]) -> str:
    top = name.partition(".")[0]
    if top == "__future__":
        return "future"
    if top in sys.stdlib_module_names:
        return "standard"
    return "first" if any(top == own or (own.endswith("_") and top.startswith(own)) for own in first_party) else "third"


def _relative(name: str, module: str) -> str:
    """A name of the own package as it is seen from a module."""
    target, here = name.split("."), module.split(".")[:-1]
    if target[0] != here[0]:
        return name
    common = 0
    while common < min(len(target) - 1, len(here)) and target[common] == here[common]:
        common += 1
    return "." * (len(here) - common + 1) + ".".join(target[common:])
