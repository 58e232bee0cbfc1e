"""Which step of a frame takes what which other step gave: the way of the values through one module's or pipeline's own
code."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from ..recording.operations import tensors_in
from .edits import Call, Site


@dataclass
class FlowStep:
    """An operation of the frame itself, or everything that one child does; seen when it first ran."""

    name: str
    site: Site | None  # None for a child
    order: int
    shape: tuple[int, ...] = ()
    sources: list[str] = field(default_factory=list)  # names of the values that go in
    signature: str = ""  # the operation with the numbers that it was given


class DataFlow:
    """The steps of one frame and the values between them."""

    def __init__(self, frame: str, children: Collection[str] = ()) -> None:
        self._frame, self._children = frame, frozenset(children)
        self._known: dict[int, tuple[Any, str]] = {}  # weakly held: nothing stays alive for this
        self._done: set[str] = set()
        self._current = ""
        self.steps: dict[str, FlowStep] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}  # of values by name
        self._users: dict[str, set[str]] | None = None

    def note(self, site: Site, call: Call, result: Any) -> None:
        name = self._name(site.path, str(site))
        if name is None:
            return
        own = name == str(site)
        step = self.steps.get(name)
        if step is None:
            step = self.steps[name] = FlowStep(name, site if own else None, len(self.steps))
            step.signature = _signature(call)
        if not own or name not in self._done:
            for tensor in tensors_in(call.args, call.kwargs):
                source = self._source(tensor)
                if source != name and source not in step.sources:
                    step.sources.append(source)
            self._done.add(name)
        for tensor in [result] if isinstance(result, torch.Tensor) else _tensors(result):
            self._known[id(tensor)] = (weakref.ref(tensor), name)
            step.shape = self.shapes[name] = tuple(tensor.shape)

    def _name(self, path: str, site: str) -> str | None:
        if path == self._frame or (self._frame.startswith("@") and path.startswith("@")):
            return site
        while path:
            if path in self._children:
                return path
            path = path.rpartition(".")[0]
        return None

    def _source(self, tensor: torch.Tensor) -> str:
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._known[id(tensor)] = (weakref.ref(tensor), f"value {len(self.shapes)}")
            self.shapes[known[1]] = tuple(tensor.shape)
        return known[1]

    @property
    def users(self) -> dict[str, set[str]]:
        """Steps that take a value, by its name."""
        if self._users is None:
            self._users = {name: set() for name in self.shapes}
            for step in self.steps.values():
                for source in step.sources:
                    self._users.setdefault(source, set()).add(step.name)
        return self._users

    def behind(self, name: str, without: str = "") -> set[str]:
        """Every step that a value comes into, also through others; not through `without`."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            for user in self.users.get(waiting.pop(), ()):
                if user not in found and user != without:
                    found.add(user)
                    waiting.append(user)
        return found

    def before(self, name: str) -> set[str]:
        """Every value that a step is made of."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            step = self.steps.get(waiting.pop())
            for source in step.sources if step is not None else ():
                if source not in found:
                    found.add(source)
                    waiting.append(source)
        return found

    def all_pass(self, name: str, gate: str) -> bool:
        """True if whatever is made of a value goes through one step."""
        around = self.behind(name, without=gate)
        return all(self.users.get(step) for step in around)

    def chain(self, start: str, end: str) -> list[FlowStep]:
        """The steps from a value to another, in order."""
        names = (self.behind(start) & self.before(end)) | {end}
        return sorted((self.steps[n] for n in names if n in self.steps), key=lambda step: step.order)

    def in_order(self) -> list[FlowStep]:
        return sorted(self.steps.values(), key=lambda step: step.order)


def _tensors(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, (list, tuple)):
        yield from (item for item in result if isinstance(item, torch.Tensor))


def _signature(call: Call) -> str:
    numbers = [v if isinstance(v, (bool, int, float, str, slice)) else "·" for v in call.args]
    named = {k: v for k, v in call.kwargs.items() if isinstance(v, (bool, int, float, str))}
    return f"{call.op}{numbers}{named}"
