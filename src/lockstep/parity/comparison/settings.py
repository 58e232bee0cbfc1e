"""Settings that are in force in two modules which stand for each other, and that are not equal."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ..trace.reader import Trace
from .align import Alignment

LEAST = 2  # settings of one module that tell it from all others

Described = dict[str, dict[str, Any]]  # settings by the path of their module


def differing_attributes(a: Trace, b: Trace, alignment: Alignment) -> list[dict[str, Any]]:
    """Effective settings of partner modules that are not equal."""
    mine, theirs = _described(a), _described(b)
    partners = {path: alignment.modules.get(path, (path, ""))[0] for path in mine}
    partners |= _by_settings(mine, theirs, alignment)
    found = []
    for path, left in mine.items():
        right = theirs.get(partners[path], {})
        for name in sorted(left.keys() & right.keys()):
            if left[name] != right[name]:
                found.append({"path": path, "name": name, "a": left[name], "b": right[name]})
    return found


def _described(trace: Trace) -> Described:
    modules = trace.meta.get("modules")
    known = modules.items() if isinstance(modules, dict) else ()
    return {path: described.get("attrs") or {} for path, described in known if isinstance(described, dict)}


def _by_settings(mine: Described, theirs: Described, alignment: Alignment) -> dict[str, str]:
    """Modules without a partner that are the only ones of either side with settings of these names, some of them
    equal: a table of rotations has no weights to be known by."""
    taken = {other for other, _ in alignment.modules.values()}
    alike: dict[frozenset[str], tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, (settings, known) in enumerate(((mine, alignment.modules.keys()), (theirs, taken))):
        for path in settings.keys() - known:
            if len(settings[path]) >= LEAST:
                alike[frozenset(settings[path])][side].append(path)
    pairs = {left[0]: right[0] for left, right in alike.values() if len(left) == len(right) == 1}
    return {p: q for p, q in pairs.items() if any(theirs[q][name] == value for name, value in mine[p].items())}
