"""Which call of which module a recorded value belongs to, and what that call was given."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any

import torch
from torch import nn

from ..comparison.results import Comparison, SearchLog
from ..recording.patching import watch_attribute
from ..recording.values import map_tensors
from ..trace.names import Key
from ..trace.reader import Trace
from .edits import Edit
from .failures import noted
from .pipeline_probe import PipelineProbe
from .probe import Reached, with_own_generators

METHODS = ("encode", "decode")


class RecordedCalls:
    """The calls of a trace, beside the live modules that made them."""

    live: Any
    own: Trace  # of the live side
    foreign: Trace  # of the other one
    modules: dict[str, nn.Module]
    held: list[Edit]
    log: SearchLog
    runs: int
    turned: bool  # of the candidate

    def _callable(self, path: str) -> Any:
        """The live module of a path, or the method of one (`vae.decode`)."""
        if path in self.modules:
            return self.modules[path]
        owner, _, method = path.rpartition(".")
        return getattr(self.modules.get(owner), method, None) if method in METHODS else None

    def _outer_call(self, path: str, key: Key) -> int:
        return key.call if key.is_operation or key.path == path else self._begun_before(path, key)

    def parent_of(self, path: str) -> str:
        """The module whose code calls this one (a ModuleList is not called itself)."""
        below, (root, _, method) = path, path.rpartition(".")
        if method in METHODS and path not in self.modules and root in self.live.parts.modules:
            return root if self._is_inside(path, root) else "@pipeline"
        while "." in path:
            path = path.rpartition(".")[0]
            if path in self.modules and not isinstance(self.modules[path], (nn.ModuleList, nn.ModuleDict)):
                return self._method_of(path, below)
        return "@pipeline"

    def _method_of(self, root: str, below: str) -> str:
        """`vae.decode` for what is called inside of that method, also where the model itself was called."""
        for method in METHODS:
            if self._callable(f"{root}.{method}") is not None and self._is_inside(below, f"{root}.{method}"):
                return f"{root}.{method}"
        return root

    def _is_inside(self, path: str, outer: str) -> bool:
        """True if every call of the one was made while the other ran."""
        places, spans = [seq for seq, _ in self._calls(path)], self._spans(outer)
        return bool(places and spans) and all(any(a <= seq <= b for a, b in spans) for seq in places)

    def _spans(self, path: str) -> list[tuple[int, int]]:
        """First and last seq of every recorded call."""
        found: dict[tuple[str, str, int], tuple[int, int]] = {}
        for entry in self.own.entries:
            if entry.key.path == path:
                first, _ = found.get(entry.key.node, (entry.seq, entry.seq))
                found[entry.key.node] = (first, entry.seq)
        return list(found.values())

    def _calls(self, path: str) -> list[tuple[int, Key]]:
        """(first seq, key) of every recorded call of a module, in order."""
        found: dict[tuple[str, str, int], tuple[int, Key]] = {}
        for entry in self.own.entries:
            if entry.key.path == path:
                found.setdefault(entry.key.node, (entry.seq, entry.key))
        return sorted(found.values(), key=lambda item: item[0])

    def _begun_before(self, path: str, key: Key) -> int:
        """Call number, inside the step, of the container that was running when `key` came to be."""
        entry = self.own.get(key)
        begun = [k for seq, k in self._calls(path) if entry is not None and seq <= entry.seq]
        return begun[-1].call if begun else 0

    def call_number(self, path: str, key: Key) -> int:
        """The how-manieth call of a module in the run was running when a value came to be."""
        if key.path == path or key.is_operation:
            same = (i for i, (_, k) in enumerate(self._calls(path)) if (k.step, k.call) == (key.step, key.call))
            return next(same, 0)
        entry = self.own.get(key)
        return max(0, sum(1 for seq, _ in self._calls(path) if entry is not None and seq <= entry.seq) - 1)

    def _arguments(self, path: str, key: Key) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """What the live module is given in the recorded call, taken from a run that stops there."""
        number = self.call_number(path, key)
        seen = [0]
        kept: list[Any] = []

        def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen[0] += 1
            if seen[0] - 1 == number:
                kept.extend(with_own_generators([map_tensors(args, _copy), map_tensors(kwargs, _copy)]))
                raise Reached(torch.zeros(()))

        def around(module: nn.Module, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            before(module, args, kwargs)
            return original(*args, **kwargs)

        self.runs += 1
        with (
            noted(self.log, self.held, path),
            suppress(Reached),
            torch.no_grad(),
            PipelineProbe.edited(self.live, self.held),
            ExitStack() as stack,
        ):
            if path in self.modules:
                stack.callback(self.modules[path].register_forward_pre_hook(before, with_kwargs=True).remove)
            else:
                owner, _, method = path.rpartition(".")
                watch_attribute(stack, self.modules[owner], method, around)
            self.live.run(self.own)
        return (kept[0], kept[1]) if kept else None

    def _relative_call(self, path: str, key: Key) -> int:
        """The how-manieth call of the watched module inside the probed one."""
        if key.path == path or key.is_operation:
            return 0
        entry = self.own.get(key)
        began = max((seq for seq, _ in self._calls(path) if entry is not None and seq <= entry.seq), default=0)
        return max(
            0, sum(1 for seq, k in self._calls(key.path) if seq >= began and entry is not None and seq <= entry.seq) - 1
        )

    def _is_coarse(self, path: str) -> bool:
        """True if the other side's trace says nothing about what is inside this module."""
        if path not in self.modules or not any(True for _ in self.modules[path].children()):
            return False
        inside = [e for e in self.foreign.entries if e.key.path.startswith((f"{path}.", f"{path}/"))]
        return not inside

    def is_given_right(self, key: Key, comparison: Comparison) -> bool:
        """True for a value inside of a model that is given the same on both sides: nothing outside of it can be the
        cause."""
        root = key.path.partition("/")[0].partition(".")[0]
        if root not in self.live.parts.modules or key.path == root:
            return False
        now = (key.step, self._outer_call(root, key))
        given = [
            e for e in self.own.entries if e.key.path == root and e.key.is_input and (e.key.step, e.key.call) == now
        ]
        nodes = {(n.other if self.turned else n.key): n for n in comparison.nodes}
        return bool(given) and all(e.key in nodes and not nodes[e.key].bad for e in given)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()
