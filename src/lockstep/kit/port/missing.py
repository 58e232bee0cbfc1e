"""Which modules of the reference the port does not have yet, in the order in which to build them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...parity import Trace, align_traces

ORDER = ("decoders", "encoders", "before the loop", "loop", "model")  # easiest first; a model alone has no loop
LIST = "ModuleList"


@dataclass(frozen=True)
class Module:
    """A module of the reference that is still to be written."""

    group: str
    path: str
    kind: str
    inside: int  # modules with weights in it, which are missing with it
    parameters: int
    made_of: list[str] = field(default_factory=list)  # its own parts by name; of a list of blocks those of one block


def missing_modules(reference: Trace, port: Trace | None) -> list[Module]:
    """The modules with weights that have no partner, put together where all of a part is missing.

    What holds a list of blocks (a model, its decoder) is no such part: what it is made of is listed, and then itself
    where it has tensors of its own. By the order of building, and then of running.
    """
    partners = set() if port is None else set(align_traces(reference, port).modules)
    ran, behind = _first_calls(reference)
    owners = dict.fromkeys(name.rpartition(".")[0] for name in reference.params)
    lacking = [path for path in owners if path in ran and path not in partners]
    there = [path for path in owners if path in ran and path in partners]
    kinds = dict(_kinds(reference))
    bodies = _bodies(kinds) | {path.partition(".")[0] for path in owners if "." in path}
    parts = list(dict.fromkeys(_outermost(path, there, bodies) for path in lacking))
    looping = any(step != "-" for step in ran.values())
    several = _is_several(owners)
    found = []
    for path in parts:
        group = _group(path, ran[path], path.partition(".")[0] in behind) if looping else _named(path, several)
        own = [path] if path in bodies else [one for one in owners if _below(one, path)]
        numbers = (math.prod(e.shape) for name, e in reference.params.items() if name.rpartition(".")[0] in own)
        inside = sum(one != path for one in own if one in lacking)
        found.append(Module(group, path, _kind(path, kinds), inside, sum(numbers), _made_of(path, kinds, own)))
    order = {path: place for place, path in enumerate(ran)}
    ends = {body: max(order[one] for one in ran if _below(one, body)) + 0.5 for body in bodies if body in ran}
    return sorted(found, key=lambda one: (ORDER.index(one.group), ends.get(one.path, order[one.path])))


def _outermost(path: str, there: list[str], bodies: set[str]) -> str:
    """The largest part around a module in which nothing is there yet, smaller than a body of blocks."""
    parts = path.split(".")
    around = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    free = [one for one in around if one not in bodies and not any(_below(other, one) for other in there)]
    return free[0] if free else path


def _bodies(kinds: dict[str, str]) -> set[str]:
    """What holds a list of blocks, and what is around it; a part beside such a list (a middle block) is none."""
    lists = [path.split(".") for path, kind in kinds.items() if kind == LIST]
    holders = {".".join(parts[:-1]) for parts in lists}
    around = {".".join(parts[:count]) for parts in lists for count in range(1, len(parts))}
    return {path for path in around if not any(path.startswith(f"{holder}.") for holder in holders)}


def _below(path: str, part: str) -> bool:
    return path == part or path.startswith(f"{part}.")


def _kinds(trace: Trace) -> Iterable[tuple[str, str]]:
    """Path -> the class of each module, without the module that it is defined in."""
    found = trace.meta.get("modules") or {}
    for path, facts in found.items() if isinstance(found, dict) else ():
        yield path, str(facts.get("class", "") if isinstance(facts, dict) else facts).rpartition(".")[2]


def _children(path: str, kinds: dict[str, str]) -> list[str]:
    return [one for one in kinds if one.rpartition(".")[0] == path]


def _kind(path: str, kinds: dict[str, str]) -> str:
    """The class; of a list of blocks of one class, how many of which."""
    kind, held = kinds.get(path, ""), {kinds[one] for one in _children(path, kinds)}
    return f"{len(_children(path, kinds))} × {held.pop()}" if kind == LIST and len(held) == 1 else kind


def _made_of(path: str, kinds: dict[str, str], owners: list[str]) -> list[str]:
    """The parts with weights of a module, or of the first block of a list."""
    blocks = _children(path, kinds) if kinds.get(path) == LIST else []
    children = _children(blocks[0] if blocks else path, kinds)
    names = [one.rpartition(".")[2] for one in children if any(_below(owner, one) for owner in owners)]
    return [name for name in names if not name.isdigit()]


def _first_calls(trace: Trace) -> tuple[dict[str, str], set[str]]:
    """Path -> the step at which it first ran, in the order of running; and the roots that run behind the loop alone."""
    ran: dict[str, str] = {}
    looped, roots = False, set()
    for entry in trace.entries:
        path = entry.key.path.partition("/")[0]
        looped |= entry.key.step != "-"
        if path.startswith("@"):
            continue
        if looped and entry.key.step == "-" and path not in ran:
            roots.add(path.partition(".")[0])
        parts = path.split(".")
        for count in range(1, len(parts) + 1):
            ran.setdefault(".".join(parts[:count]), entry.key.step)
    return ran, roots


def _is_several(owners: Iterable[str]) -> bool:
    """Whether what has no scheduler is a pipeline all the same: several parts, or one that holds such ones."""
    names = [path.split(".") for path in owners]
    return len({parts[0] for parts in names}) > 1 or any(
        part == "vae" or part.startswith("text_encoder") for parts in names for part in parts[1:2]
    )


def _named(path: str, several: bool) -> str:
    """The group by the names of the parts, where no loop tells what comes before and behind it."""
    if not several:
        return "model"
    if "encoder" in path:
        return "encoders"
    return "decoders" if "decoder" in path or "vae" in path else "loop"


def _group(path: str, step: str, behind: bool) -> str:
    if step != "-":
        return "loop"
    if behind:
        return "decoders"
    return "encoders" if "encoder" in path.lower() or "vae" in path.lower() else "before the loop"
