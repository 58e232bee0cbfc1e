"""Which modules of the reference the port does not have yet, in the order in which to build them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...parity import Trace, align_traces

ORDER = ("decoders", "encoders", "before the loop", "loop", "model")  # easiest first; a model alone has no loop


@dataclass(frozen=True)
class Module:
    """A module of the reference that is still to be written."""

    group: str
    path: str
    kind: str
    inside: int  # modules with weights in it, which are missing with it
    parameters: int


def missing_modules(reference: Trace, port: Trace | None) -> list[Module]:
    """The modules with weights that have no partner, put together where all of a part is missing.

    By the order of building, and then of running.
    """
    partners = set() if port is None else set(align_traces(reference, port).modules)
    ran, behind = _first_calls(reference)
    owners = dict.fromkeys(name.rpartition(".")[0] for name in reference.params)
    lacking = [path for path in owners if path in ran and path not in partners]
    there = [path for path in owners if path in ran and path in partners]
    parts = list(dict.fromkeys(_outermost(path, there) for path in lacking))
    kinds = {
        path: str(facts.get("class", "") if isinstance(facts, dict) else facts) for path, facts in _modules(reference)
    }
    looping = any(step != "-" for step in ran.values())
    found = [
        Module(
            _group(path, ran[path], path.partition(".")[0] in behind) if looping else "model",
            path,
            kinds.get(path, "").rpartition(".")[2],
            sum(one.startswith(f"{path}.") for one in lacking),
            sum(_count(entry.shape) for name, entry in reference.params.items() if name.startswith(f"{path}.")),
        )
        for path in parts
    ]
    order = list(ran)
    return sorted(found, key=lambda one: (ORDER.index(one.group), order.index(one.path)))


def _outermost(path: str, there: list[str]) -> str:
    """The largest part around a module in which nothing is there yet."""
    parts = path.split(".")
    around = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return next(one for one in around if not any(f"{other}.".startswith(f"{one}.") for other in there))


def _modules(trace: Trace) -> Iterable[tuple[str, object]]:
    found = trace.meta.get("modules") or {}
    return found.items() if isinstance(found, dict) else ()


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


def _group(path: str, step: str, behind: bool) -> str:
    if step != "-":
        return "loop"
    if behind:
        return "decoders"
    return "encoders" if "encoder" in path.lower() or "vae" in path.lower() else "before the loop"


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
