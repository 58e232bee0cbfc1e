"""The steps that the code of one module, or of a pipeline between its models, takes in one run."""

from __future__ import annotations

import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...recording.operations import Kind, kind_of
from ...recording.patching import watch_attribute
from ...recording.values import inputs, leaves, outputs
from ..edits import Call, Edit, Site
from ..pipeline_probe import PIPELINE, PipelineProbe
from ..probe import Reached

METHODS = ("encode", "decode")
MOST_ELEMENTS = 1 << 26  # kept of one frame
MOST_CALLERS = 6  # of a line of code that are known with it
# Steps that change a value's type, or its shape alone.
CASTS = frozenset({"to", "type", "float", "half", "bfloat16", "double", "type_as"})
SHAPES = CASTS | frozenset(
    ["view", "reshape", "transpose", "permute", "contiguous", "unsqueeze", "squeeze", "flatten", "unflatten", "expand",
     "clone", "detach", "movedim", "moveaxis", "T", "mT", "t", "swapaxes", "swapdims", "view_as", "reshape_as",
     "expand_as"]
)  # fmt: skip
# Steps that take the form of their second operand, and none of its numbers.
_AS_ANOTHER = ("type_as", "view_as", "reshape_as", "expand_as")
# Steps that leave a value as it is for some numbers.
_MAY_DO_NOTHING = frozenset(
    ["dropout", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "contiguous", "clone", "detach", "div",
     "truediv", "mul", "add", "sub", "nan_to_num", "to", "type", "float", "half", "bfloat16", "double",
     "requires_grad_", "repeat", "tile", "repeat_interleave", *_AS_ANOTHER]
)  # fmt: skip
_SCALING = ("mul", "div", "truediv")
_OURS = (__name__.partition(".parity.")[0] + ".parity", "torch", "contextlib", "functools")
_AROUND_METHODS = frozenset(["watched", "around"])  # what stands between a scheduler's method and who calls it


class TooLarge(Exception):
    """More numbers than are kept."""


@dataclass(eq=False)
class FrameValue:
    """A tensor of a frame, as it was when it was made or first seen."""

    content: torch.Tensor
    step: FrameStep | None = None  # that made it; None for what was given
    piece: int = 0  # of several results
    given: str = ""  # `in.x`, `weight:norm.bias`; empty for a constant
    slot: str = ""  # `out.hidden_states.1`: what the step calls it, or the expression of a part of its result

    @property
    def number(self) -> int:
        """Of the step that made it, in the order of computation."""
        return self.step.number if self.step is not None else -1


@dataclass(eq=False)
class FrameStep:
    """One operation of the frame's own code, or one call of a module by it."""

    place: Site | str  # the path of a called module
    function: Any
    args: tuple[Any, ...]  # tensors as `FrameValue`
    kwargs: dict[str, Any]
    number: int
    visit: int  # the how-manieth time at this place
    lines: tuple[str, ...] = ()  # file:number of the code, where it is in a file, and of what called it
    calls_before: int = 0  # of a module in the frame so far, whoever has made them
    values: list[FrameValue] = field(default_factory=list)
    writes: bool = False  # into its first operand

    @property
    def line(self) -> str:
        return shown_line(self.lines[0]) if self.lines else ""

    @property
    def name(self) -> str:
        return self.place.op if isinstance(self.place, Site) else self.place

    def operands(self) -> list[FrameValue]:
        return [v for v in _flat((self.args, self.kwargs)) if isinstance(v, FrameValue)]


@dataclass(frozen=True)
class Exit:
    """Where the frame hands a value on: into a module that it calls, or out."""

    path: str  # of the called module; empty for the frame's own result
    call: int
    slot: str


def shown_line(line: str) -> str:
    """A line without the folder of its file."""
    return Path(line).name


def is_draw(step: FrameStep) -> bool:
    """True for random numbers, which are others each time."""
    return kind_of(step.function) is Kind.RANDOM


class Graph:
    """Steps, values and exits of one call of one frame."""

    def __init__(self, frame: str, weights: dict[int, str]) -> None:
        self.frame = frame
        self.steps: list[FrameStep] = []
        self.values: list[FrameValue] = []
        self.exits: dict[Exit, FrameValue] = {}
        self.result: Any = None
        self.calls: Counter[str] = Counter()  # of modules while the frame runs, whoever makes them
        self._weights = weights
        self._known: dict[int, tuple[torch.Tensor, int, FrameValue]] = {}
        self._hidden: dict[int, tuple[torch.Tensor, str]] = {}  # tensors that results keep in attributes
        self._visits: dict[Site | str, int] = defaultdict(int)
        self._elements = 0
        self._at: dict[tuple[Any, int], FrameStep] = {}

    def visits(self, place: Site | str) -> int:
        """How often the frame was at a place, with the times at which nothing was done there."""
        return self._visits[place]

    def at(self, place: Site | str, visit: int) -> FrameStep | None:
        return self._at.get((place, visit))

    def value(self, tensor: torch.Tensor, given: str = "") -> FrameValue:
        """The value that a tensor is now: written into since it was seen, it is another one."""
        known = self._known.get(id(tensor))
        if known is not None and known[0] is tensor and known[1] == _version(tensor):
            return known[2]
        name = given or (f"weight:{self._weights[id(tensor)]}" if id(tensor) in self._weights else "")
        held, shown = self._hidden.get(id(tensor), (None, ""))
        return self._note(tensor, FrameValue(self._kept(tensor), given=name, slot=shown if held is tensor else ""))

    def _note(self, tensor: torch.Tensor, value: FrameValue) -> FrameValue:
        self._known[id(tensor)] = (tensor, _version(tensor), value)
        self.values.append(value)
        return value

    def _kept(self, tensor: torch.Tensor) -> torch.Tensor:
        self._elements += tensor.numel()
        if self._elements > MOST_ELEMENTS:
            raise TooLarge
        with torch._C.DisableTorchFunction():
            return tensor.detach().clone()

    def enter(self, given: Iterable[tuple[str, torch.Tensor]]) -> None:
        for slot, tensor in given:
            self.value(tensor, slot)

    def hand_over(self, path: str, given: Iterable[tuple[str, torch.Tensor]]) -> None:
        for slot, tensor in given:
            self.exits[Exit(path, self._visits[path], slot)] = self.value(tensor)

    def leave(self, result: Any) -> None:
        self.result = result
        for slot, tensor in outputs(result):
            self.exits[Exit("", 0, slot)] = self.value(tensor)

    def step(
        self, place: Site | str, function: Any, args: Any, kwargs: Any, result: Any, lines: tuple[str, ...] = ()
    ) -> None:
        """Arguments have to be known as they were: an operation that writes into its input changes it."""
        visit = self._visits[place]
        self._visits[place] += 1
        if (unchanged := _unchanged(place, args, kwargs, result)) is not None:
            self._known[id(result)] = (result, _version(result), unchanged)
            return
        made = FrameStep(place, function, args, kwargs, len(self.steps), visit, lines)
        self._at[place, visit] = made
        self.steps.append(made)
        if isinstance(place, str):
            self._hidden |= {id(tensor): (tensor, f"{place}(…){shown}") for shown, tensor in _inside(result)}
        for piece, (slot, tensor) in enumerate(_tensors(result)):
            made.values.append(self._note(tensor, FrameValue(self._kept(tensor), made, piece, slot=slot)))

    def mapped(self, value: Any, written: Any = None) -> Any:
        """Arguments with every tensor as the value that it is; what was just written into as what it was before."""
        if isinstance(value, torch.Tensor):
            known = self._known.get(id(value))
            return known[2] if value is written and known is not None and known[0] is value else self.value(value)
        if type(value) in (list, tuple):
            return type(value)(self.mapped(item, written) for item in value)
        return {k: self.mapped(v, written) for k, v in value.items()} if type(value) is dict else value


def _flat(value: Any) -> Iterator[Any]:
    if type(value) in (list, tuple):
        for item in value:
            yield from _flat(item)
    elif type(value) is dict:
        for item in value.values():
            yield from _flat(item)
    else:
        yield value


def _tensors(result: Any) -> list[tuple[str, torch.Tensor]]:
    return [(slot, tensor) for slot, tensor in leaves(result, "out") if isinstance(tensor, torch.Tensor)]


def piece_of(result: Any, piece: int) -> torch.Tensor:
    """One of the tensors of a result, however they lie in it."""
    return result if isinstance(result, torch.Tensor) else _tensors(result)[piece][1]


def _inside(result: Any, depth: int = 2) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors in the attributes of what a result holds, such as the mean of a distribution."""
    held = result if isinstance(result, dict) else getattr(result, "__dict__", {})
    for name, item in held.items() if not isinstance(result, torch.Tensor) else ():
        if isinstance(item, torch.Tensor):
            yield f".{name}", item
        elif depth:
            yield from ((f".{name}{rest}", tensor) for rest, tensor in _inside(item, depth - 1))


def _unchanged(place: Site | str, args: Any, kwargs: Any, result: Any) -> FrameValue | None:
    """The one value that an operation hands on as it is: a dropout that drops nothing, a division by one. That is no
    step, and it is no difference if only one side has it."""
    if isinstance(place, str) or place.op not in _MAY_DO_NOTHING or not isinstance(result, torch.Tensor):
        return None
    given = [v for v in _flat((args, kwargs)) if isinstance(v, FrameValue) and v.content.numel() > 1]
    given = given[:1] if place.op in _AS_ANOTHER else given
    if len(given) != 1 or given[0].content.dtype != result.dtype or given[0].content.shape != result.shape:
        return None
    with torch._C.DisableTorchFunction():
        changes = place.op in _SCALING and not result.any()  # zeros say nothing of what a factor does
        return given[0] if not changes and torch.equal(given[0].content, result) else None


def _version(tensor: torch.Tensor) -> int:
    with torch._C.DisableTorchFunction():
        return 0 if tensor.is_inference() else int(tensor._version)


def with_items(tensor: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    """A tensor after something was written into a part of it."""
    tensor = tensor.clone()
    tensor[index] = value
    return tensor


def _lines() -> tuple[str, ...]:
    """Where the code that is running stands, if that is a file, and the code that called it, as far as the module's."""
    frame: Any = sys._getframe(2)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    found: list[str] = []
    while frame is not None and len(found) < MOST_CALLERS:
        file = frame.f_code.co_filename
        if _is_ours(frame):
            if frame.f_code.co_name not in _AROUND_METHODS:
                break
            frame = frame.f_back
            continue
        found.append(f"{file}:{frame.f_lineno}" if not file.startswith("<") else "")
        frame = frame.f_back
    return tuple(found)


def _is_ours(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(_OURS)


class _FrameWatch:
    """Hooks that fill a graph while its frame runs."""

    def __init__(self, graph: Graph, modules: dict[str, nn.Module], number: int, open_: frozenset[str]) -> None:
        self.graph, self.modules, self.left = graph, modules, number
        self.open = open_  # modules whose own steps are seen as steps of the frame
        self.active = graph.frame == PIPELINE
        self.stack: list[str] = [PIPELINE]
        self._given: list[tuple[Any, Any]] = []

    @property
    def inside(self) -> bool:
        """True while the frame's own code runs, or that of a module which is open."""
        return self.active and next(path for path in reversed(self.stack) if path not in self.open) == self.graph.frame

    def install(self, stack: ExitStack) -> None:
        for path, module in self.modules.items():
            stack.callback(module.register_forward_pre_hook(self._begin(path), with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(self._end(path), with_kwargs=True).remove)
            for method in METHODS if "." not in path else ():
                if callable(getattr(module, method, None)):
                    watch_attribute(stack, module, method, self._around(f"{path}.{method}"))

    def operation(self, site: Site, call: Call, result: Any) -> None:
        frame = self.graph.frame
        own = site.path == frame or (frame == PIPELINE and site.path.startswith("@"))
        if self.active and (own or (site.path in self.open and self.inside)):
            with torch._C.DisableTorchFunction():
                function, result = (with_items, call.args[0]) if call.op == "setitem" else (call.function, result)
                args, kwargs = (self.graph.mapped(given, result) for given in (tuple(call.args), dict(call.kwargs)))
                self.graph.step(site, function, args, kwargs, result, _lines())
                written = bool(call.args) and isinstance(result, torch.Tensor) and result is call.args[0]
                if written and self.graph.steps and self.graph.steps[-1].place == site:
                    self.graph.steps[-1].writes = True

    def _enter(self, path: str, given: list[tuple[str, torch.Tensor]], args: Any, kwargs: Any) -> None:
        if self.inside and path not in self.open:
            self.graph.hand_over(path, given)
            self._given.append((self.graph.mapped(tuple(args)), self.graph.mapped(dict(kwargs))))
        self.stack.append(path)
        if path == self.graph.frame and not self.active:
            self.active = self.left == 0
            self.left -= 1
            if self.active:
                self.graph.enter(given)

    def _leave(self, path: str, result: Any) -> None:
        while self.stack.pop() != path:
            pass
        self.graph.calls[path] += self.active
        if path == self.graph.frame and self.active and self.graph.frame != PIPELINE:
            self.graph.leave(result)
            raise Reached(torch.zeros(()))
        if self.inside and self._given and path not in self.open:
            self.graph.step(path, self.modules.get(path), *self._given.pop(), result, _lines())
            self.graph.steps[-1].calls_before = self.graph.calls[path] - 1

    def _begin(self, path: str) -> Callable[..., None]:
        def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            with torch._C.DisableTorchFunction():
                self._enter(path, inputs(module, args, kwargs), args, kwargs)

        return begin

    def _end(self, path: str) -> Callable[..., None]:
        def end(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            with torch._C.DisableTorchFunction():
                self._leave(path, result)

        return end

    def _around(self, path: str) -> Callable[..., Any]:
        def around(instance: nn.Module, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            with torch._C.DisableTorchFunction():
                self._enter(path, list(leaves((args, kwargs), "in")), args, kwargs)
            result = original(*args, **kwargs)
            with torch._C.DisableTorchFunction():
                self._leave(path, result)
            return result

        return around


def graph_of(
    search: Any, frame: str, number: int, edits: Iterable[Edit] = (), open_: frozenset[str] = frozenset()
) -> Graph | None:
    """The frame's `number`-th call in the recorded run of one live side, with edits in force.

    The steps of modules that are `open_` are steps of the frame: the other side has no such module.
    """
    weights = {
        id(tensor): name
        for path, module in search.modules.items()
        for name, tensor in ((f"{path}.{n}", t) for n, t in [*module._parameters.items(), *module._buffers.items()])
        if tensor is not None
    }
    graph = Graph(frame, weights)
    watch = _FrameWatch(graph, search.modules, number, open_)
    search.log.spent += search.whole.cost
    search.log.runs += 1
    with ExitStack() as stack, warnings.catch_warnings(), torch.no_grad(), suppress(Reached):
        warnings.simplefilter("ignore")
        stack.enter_context(PipelineProbe.edited(search.live, edits, watch.operation))
        watch.install(stack)
        result = search.live.run(search.own)
        if frame == PIPELINE:
            graph.leave(result)
    return graph if graph.exits else None
