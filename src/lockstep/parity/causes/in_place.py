"""Operations that write into a tensor which is still needed: by a module that was given it, or by a later step."""

from __future__ import annotations

import warnings
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..recording.operations import tensors_in
from .edits import Call, Edit, OperationChange, Site
from .failures import noted
from .pipeline_probe import PipelineProbe

PERHAPS = 3  # writes that a right program may make as well, each tried on the whole run
MADE_HERE = ""  # by an operation, for whoever comes next


@dataclass
class _Tensor:
    """What is known of one tensor that came by."""

    tensor: Any  # weakly held
    version: int
    known_as: str = MADE_HERE
    writer: tuple[Site, int] | None = None  # the last operation that wrote into it, and when


@dataclass(frozen=True)
class _Write:
    """One operation that changed a tensor which something else needs."""

    site: Site
    index: int  # of the operand
    into: str


@dataclass
class _Watch:
    """Follows every tensor of a run through its version counter."""

    roots: frozenset[str]
    tensors: dict[int, _Tensor] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)  # of modules by path
    found: dict[Site, _Write] = field(default_factory=dict)
    perhaps: dict[Site, _Write] = field(default_factory=dict)  # into what the code has made itself, and reads again
    index: dict[Site, int] = field(default_factory=dict)
    readers: dict[Site, Site] = field(default_factory=dict)  # by writer

    def begins(self, path: str) -> None:
        self.calls[path] += 1

    def clock(self, path: str) -> int:
        """Moves on when the code of this frame runs another time: a pipeline's with each call of a model."""
        return sum(self.calls[root] for root in self.roots) if path.startswith("@") else self.calls[path]

    def names(self, tensor: Any, words: str) -> None:
        """A module was given, or gave, this tensor."""
        if isinstance(tensor, torch.Tensor):
            known = self._known(tensor)
            known.known_as = known.known_as or words
            known.version = _version(tensor)

    def __call__(self, site: Site, call: Call, result: Any) -> None:
        for tensor in tensors_in(call.args, call.kwargs):
            known = self._known(tensor)
            if _version(tensor) > known.version:
                known.version = _version(tensor)
                self._written(site, call, tensor, known)
            elif known.writer is not None and self.clock(known.writer[0].path) > known.writer[1]:
                self._read_later(site, known, known.writer[0])
        for tensor in tensors_in((result,), {}):
            self._known(tensor)

    def _written(self, site: Site, call: Call, tensor: torch.Tensor, known: _Tensor) -> None:
        place = next((i for i, value in enumerate(call.args) if value is tensor), None)
        if place is None:
            return
        self.index.setdefault(site, place)
        known.writer = known.writer or (site, self.clock(site.path))
        if known.known_as != MADE_HERE:
            self.found.setdefault(site, _Write(site, place, f"{known.known_as}, which is used again"))
        elif site.path.startswith("@") and known.writer[0] == site:
            self.perhaps.setdefault(site, _Write(site, place, "a tensor that is read again behind it"))

    def _read_later(self, reader: Site, known: _Tensor, writer: Site) -> None:
        """More than that it was written into: who needs it."""
        if writer not in self.readers:
            self.readers[writer] = reader
            words = f"{known.known_as or 'a tensor'}, which `{reader}` reads a step later"
            self.found[writer] = _Write(writer, self.index[writer], words)

    def _known(self, tensor: torch.Tensor) -> _Tensor:
        known = self.tensors.get(id(tensor))
        if known is None or known.tensor() is not tensor:
            known = self.tensors[id(tensor)] = _Tensor(weakref.ref(tensor), _version(tensor))
        return known


def written_in_place(search: Any) -> Iterator[Edit]:
    """Operations that write into what is still needed, done on a copy instead: all of a kind at once."""
    side = "candidate" if search.turned else "reference"
    groups: dict[Any, list[_Write]] = defaultdict(list)
    for write in _writes(search):
        groups[type(search.modules.get(write.site.path)).__name__, write.site.op, write.site.index].append(write)
    for members in groups.values():
        first = members[0]
        changes = tuple(OperationChange(frozenset([w.site]), _on_copy(w.index)) for w in members)
        more = f" (in {len(members)} places)" if len(members) > 1 else ""
        fault = f"`{first.site}` writes into {first.into}{more}, in the {side}"
        yield Edit("in_place", f"`{first.site}` on a copy of its input", changes, rank=1, fault=fault)


def _writes(search: Any) -> list[_Write]:
    """Seen by a run that only looks."""
    watch = _Watch(frozenset(search.live.parts.modules))

    def given(path: str) -> Any:
        def hook(module: nn.Module, args: Any) -> None:
            watch.begins(path)
            for value in args:
                watch.names(value, f"the input of `{path}`")

        return hook

    def gave(path: str) -> Any:
        return lambda module, args, result: watch.names(result, f"the result of `{path}`")

    with ExitStack() as stack, warnings.catch_warnings(), torch.no_grad(), noted(search.log, search.held, "the run"):
        warnings.simplefilter("ignore")
        for path, module in search.modules.items():
            stack.callback(module.register_forward_pre_hook(given(path)).remove)
            stack.callback(module.register_forward_hook(gave(path)).remove)
        with PipelineProbe.edited(search.live, search.held, watch):
            search.live.run(search.own)
    search.log.spent += search.whole.cost
    perhaps = [write for site, write in watch.perhaps.items() if site not in watch.found]
    return [*watch.found.values(), *(perhaps[:PERHAPS] if search.turned else ())]


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _on_copy(index: int) -> Any:
    def apply(call: Call) -> Any:
        return call.operand(index, call.args[index].clone())

    return apply
