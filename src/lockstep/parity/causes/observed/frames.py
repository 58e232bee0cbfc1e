"""The code of both sides that is put side by side: the smallest part around a value that both have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from ...comparison.results import Comparison, NodeResult
from ...trace.names import Key
from ..calls import METHODS
from ..pipeline_probe import PIPELINE

Frame = tuple[str, int]  # the path of a module, and the how-manieth call of it in the run


class SharedFrame:
    """A module of the reference and its partner; what either has inside and the other does not is open.

    With `above` the module so many levels around that one, with everything in between open, too.
    """

    def __init__(self, search: Any, comparison: Comparison, node: NodeResult, above: int = 0) -> None:
        assert node.other is not None
        partners = _partners(comparison)
        ours, theirs = code_of(search, node.key), code_of(search.across, node.other)
        inner = ours, theirs
        for level in range(above + 1):
            ours = _code_around(search, ours) if level else ours
            while ours != PIPELINE and not _is_around(partners.get(ours, ""), theirs):
                ours = _code_around(search, ours)
        theirs = PIPELINE if ours == PIPELINE else partners[ours]
        self.ours = (ours, search.call_number(ours, node.key) if ours != PIPELINE else 0)
        self.theirs = (theirs, search.across.call_number(theirs, node.other) if theirs != PIPELINE else 0)
        self.paths = ModulePaths(partners, ours, theirs)
        shared, fused = _shared(partners, comparison)
        shared = {a: b for a, b in shared.items() if a not in search.rearranged}  # they make something else
        called = _called(search), _called(search.across)
        self.open_ours = _open(search.modules, ours, set(shared), fused, called[1], theirs)
        self.open_theirs = _open(search.across.modules, theirs, set(shared.values()), fused, called[0], ours)
        if ours == PIPELINE:
            self.open_ours, self.open_theirs = _methods_alone(search), _methods_alone(search.across)
            one, other = _only_model(search), _only_model(search.across)
            if one and other:  # the run is that of one model, and its result is made of what the model gives
                self.open_ours = _all_of(search, one, set(shared), fused, called[1], other)
                self.open_theirs = _all_of(search.across, other, set(shared.values()), fused, called[0], one)
        self.open_ours |= _methods_of(search, ours)
        self.open_theirs |= _methods_of(search.across, theirs)
        if above and ours == PIPELINE:  # what a model gives may be made on by what calls it
            models = [path.partition(".")[0] for path in inner]
            if all(model in one.live.parts.modules for model, one in zip(models, (search, search.across), strict=True)):
                self.open_ours |= _all_of(search, models[0], set(shared), fused, called[1], models[1])
                self.open_theirs |= _all_of(search.across, models[1], set(shared.values()), fused, called[0], models[0])
        if above:
            self.open_ours |= _between(search.modules, ours, inner[0])
            self.open_theirs |= _between(search.across.modules, theirs, inner[1])


class ModulePaths:
    """The candidate's path of each module of the reference: as their values were put side by side."""

    def __init__(self, partners: dict[str, str], ours: str, theirs: str) -> None:
        self._partners, self._ours, self._theirs = partners, ours, theirs

    def of(self, path: str) -> str:
        if path in self._partners:
            return self._partners[path]
        below = path == self._ours or path.startswith(f"{self._ours}.")
        return self._theirs + path[len(self._ours) :] if below else path


def code_of(search: Any, key: Key) -> str:
    """The module whose code made a value."""
    path = key.path.partition("/")[0] if key.is_operation else search.parent_of(key.path) if key.is_input else key.path
    return PIPELINE if path.startswith("@") or search._callable(path) is None else path


def _called(search: Any) -> frozenset[str]:
    """Modules that this side calls: one that only holds others makes nothing."""
    seen = {entry.key.path for entry in search.own.entries}
    return frozenset(path for path in search.modules if path in seen)


def _code_around(search: Any, path: str) -> str:
    around: str = search.parent_of(path)
    return PIPELINE if around.startswith("@") or search._callable(around) is None else around


def _is_around(path: str, inner: str) -> bool:
    return bool(path) and (inner == path or inner.startswith(f"{path}."))


def _partners(comparison: Comparison) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in comparison.nodes:
        keys = [key for key in (node.key, node.other) if key is not None and not key.is_operation]
        guessed = node.how == "sequence" and node.bad  # of one shape, and nothing else in common
        if len(keys) == 2 and not guessed and not any(key.path.startswith("@") for key in keys):
            found.setdefault(keys[0].path, keys[1].path)
    return found


def results_of(comparison: Comparison, frames: SharedFrame) -> dict[str, str]:
    """The candidate's name of each result of the frame that was compared: it may give fewer, wrapped otherwise."""
    pairs = [(n.key, n.other) for n in comparison.nodes if n.other is not None and not n.key.is_input]
    known = [(a.slot, b.slot) for a, b in pairs if (a.path, b.path) == (frames.ours[0], frames.theirs[0])]
    return dict(known)


def _shared(partners: dict[str, str], comparison: Comparison) -> tuple[dict[str, str], set[str]]:
    """Modules that stand for each other one to one; and those that are fused or split on the other side."""
    fused = {
        name.rpartition(".")[0]
        for weight in comparison.weights
        if weight["kind"] in ("fused", "split")
        for name in [*weight["a"], *weight["b"]]
    }
    counts = Counter(partners.values())
    return {a: b for a, b in partners.items() if counts[b] == 1 and a not in fused and b not in fused}, fused


def _between(modules: Mapping[str, Any], outer: str, inner: str) -> frozenset[str]:
    """Modules inside of the one and around the other, with that."""
    begin = "" if outer == PIPELINE else f"{_owner(modules, outer)}."
    return frozenset(path for path in modules if path.startswith(begin) and _is_around(path, inner))


def _methods_alone(search: Any) -> frozenset[str]:
    """Methods of models (`vae.encode`) that only this side calls: the other one calls what is inside of them."""
    mine, theirs = ({entry.key.path for entry in trace.entries} for trace in (search.own, search.foreign))
    return frozenset(path for path in mine - theirs if path.rpartition(".")[2] in METHODS and path.count(".") == 1)


def _only_model(search: Any) -> str:
    """The one model that is run, where that is all; empty for pipelines."""
    models = list(search.live.parts.modules)
    return models[0] if len(models) == 1 and search.live.parts.pipeline is None else ""


def _all_of(
    search: Any, model: str, shared: set[str], fused: set[str], others: frozenset[str], other: str
) -> frozenset[str]:
    """A model with its methods, and what is inside of it that the other side has not."""
    return _open(search.modules, model, shared, fused, others, other) | _methods_of(search, model) | {model}


def _methods_of(search: Any, frame: str) -> frozenset[str]:
    """Methods of the model whose code is looked at: what they give may be no tensor, and was not compared."""
    return frozenset(f"{frame}.{method}" for method in METHODS) if frame in search.live.parts.modules else frozenset()


def _open(
    modules: Mapping[str, Any], frame: str, shared: set[str], fused: set[str], others: frozenset[str], other: str
) -> frozenset[str]:
    """Modules inside of the frame that the other side does not call: neither as a partner nor under the same name."""
    if frame == PIPELINE:
        return frozenset()
    frame, other = _owner(modules, frame), _owner(others, other)
    inside = [path for path in modules if path.startswith(f"{frame}.") and path not in shared]
    return frozenset(path for path in inside if path in fused or other + path[len(frame) :] not in others)


def _owner(modules: Collection[str], frame: str) -> str:
    """The model whose method (`vae.decode`) a frame is, or the frame itself: what is inside has the model's name."""
    owner, _, method = frame.rpartition(".")
    return owner if frame not in modules and method in METHODS and owner in modules else frame
