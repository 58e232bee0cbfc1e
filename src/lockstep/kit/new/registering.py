"""The lines by which new names are found: public names in the house, entry points in a package."""

from __future__ import annotations

import re

from ...errors import FileFormatError
from .filling import arranged


def with_public_names(text: str, room: str, rows: dict[str, list[str]]) -> str:
    """`lockstep/__init__.py` with further names, behind the last ones of their room (`models.transformers`)."""
    last = max(
        (found.end() for found in re.finditer(rf'^    "{re.escape(room)}\..*\n', text, re.MULTILINE)), default=None
    )
    if last is None:
        raise FileFormatError(f"lockstep/__init__.py names nothing of {room!r}; add {rows} to its table by hand.")
    lines = "".join(f'    "{module}": [{", ".join(map(_quoted, names))}],\n' for module, names in rows.items())
    return text[:last] + lines + text[last:]


def with_public_name_in(text: str, room: str, name: str) -> str:
    """`lockstep/__init__.py` with a further name of a room that lists all of its own (`schedulers`, `guiders`)."""
    found = re.search(rf'^    "{room}": \[\n(?:.*\n)*?    \],\n', text, re.MULTILINE)
    if found is None:
        raise FileFormatError(f"lockstep/__init__.py has no list of {room}; add {name!r} by hand.")
    end = found.end() - len("    ],\n")
    return text[:end] + f"        *[{_quoted(name)}],\n" + text[end:]


def with_exported(text: str, module: str, name: str) -> str:
    """A room's `__init__.py` that imports and lists a further name."""
    head, mark, listed = text.partition("__all__ = [\n")
    names, end, rest = listed.partition("]")
    known = re.findall(r'"(\w+)"', names)
    if not mark or not end:
        raise FileFormatError(f"the list of names beside {module!r} cannot be read; add {name!r} by hand.")
    kept = sorted([*known, name], key=lambda one: (not one[:1].isupper(), one))
    head = head.rstrip("\n") + f"\nfrom .{module} import {name}\n"
    listing = "".join(f"    {_quoted(one)},\n" for one in kept)
    return arranged(f"{head}\n{mark}{listing}{end}{rest}", None, ())


def with_family_drawn(text: str, name: str) -> str:
    """The page of the house with a further family in its drawing, the frame beside it where it was."""
    start = text.find("common/ <- ")
    found = re.search(r"^(.*/)( …)( *)(│.*│)$", text[text.rfind("\n", 0, start) + 1 :], re.MULTILINE)
    if start < 0 or found is None:
        return text
    before, dots, spaces, frame = found.groups()
    added, room = f" {name}/", len(dots + spaces)
    if len(added + dots) < room:
        drawn = f"{before}{(added + dots).ljust(room)}{frame}"
    else:  # a line of its own, under the families that are there
        column = start - text.rfind("\n", 0, start) - 1 + len("common/ <- ")
        under = f"{'    │'.ljust(column)}{name}/{dots}".ljust(len(before) + room)
        drawn = f"{before}{' ' * room}{frame}\n{under}│{' ' * (len(frame) - 2)}│"
    return text.replace(found[0], drawn, 1)


def with_entry_point(text: str, group: str, name: str, value: str) -> str:
    """A `pyproject.toml` that declares a further entry point."""
    header, line = f'[project.entry-points."{group}"]\n', f'{name} = "{value}"\n'
    if header in text:
        return text.replace(header, header + line, 1)
    return text.rstrip("\n") + f"\n\n{header}{line}"


def _quoted(name: str) -> str:
    return f'"{name}"'
