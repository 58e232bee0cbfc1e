"""Editing a live model for one run: operations, calls, settings and weights are changed, and always given back."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ..errors import ParityError
from ..recording.operations import Kind, kind_of, operation_name

# Positional parameters of builtins that have no signature to ask.
PARAMETERS = {
    "linear": ("input", "weight", "bias"),
    "conv1d": ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
    "conv2d": ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
    "conv3d": ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
    "gelu": ("input", "approximate"),
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale"),
    "softmax": ("input", "dim"),
    "chunk": ("input", "chunks", "dim"),
    "split": ("input", "split_size_or_sections", "dim"),
    "unbind": ("input", "dim"),
    "cat": ("tensors", "dim"),
    "stack": ("tensors", "dim"),
    "repeat_interleave": ("input", "repeats", "dim"),
    **dict.fromkeys(("mean", "sum", "std", "var", "amax", "amin", "prod", "logsumexp"), ("input", "dim")),
}
# Edited though they are not recorded: positions and masks start at a constant or a comparison, a dropout may be left
# on, and what is written into a part of a tensor is what the tensor is made of.
_FACTORIES = {"arange", "linspace", "dropout", "setitem", "eq", "ne", "lt", "gt", "le", "ge"}


_OPERANDS = frozenset(["input", "query", "key", "value", "tensors", "weight"])


class NotApplicable(ParityError):
    """This hypothesis does not fit the call that it was tried on."""


class KeptValues(dict[str, Any]):
    """Values of a run that an edit asked for; one that has not come by yet cannot be taken."""

    def __missing__(self, label: str) -> Any:
        raise NotApplicable(f"{label} is not there yet")


@dataclass(frozen=True, order=True)
class Site:
    """The index-th operation of one name that a module itself (not its children) calls."""

    path: str
    op: str
    index: int

    def __str__(self) -> str:
        return f"{self.path}/{self.op}.{self.index}"


def site_of(path: str) -> Site | None:
    """The operation that is called `model.block/add.0` in a trace; None for what has no number."""
    owner, _, operation = path.partition("/")
    name, _, index = operation.rpartition(".")
    return Site(owner, name, int(index)) if index.isdigit() else None


@dataclass
class Call:
    """One operation about to run."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    op: str
    values: dict[str, Any] = field(default_factory=dict)  # values of this run that an edit asked for, by label

    def run(self) -> Any:
        return self.function(*self.args, **self.kwargs)

    @property
    def named(self) -> dict[str, Any]:
        """Arguments by name, where the names are known."""
        names = PARAMETERS.get(self.op) or _signature(self.function)
        return {**dict(zip(names, self.args, strict=False)), **self.kwargs}

    def given(self, **changes: Any) -> Any:
        """Run with some arguments changed by name."""
        names = PARAMETERS.get(self.op) or _signature(self.function)
        merged = {**self.named, **changes}
        positional = [merged.pop(name) for name in names[: len(self.args)]]
        return self.function(*positional, **merged)

    def operand(self, index: int, value: Any) -> Any:
        """Run with one positional argument replaced."""
        args = list(self.args)
        args[index] = value
        return self.function(*args, **self.kwargs)


def in_places(
    function: Any, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with operands that were given by name in their places, where hypotheses look for them."""
    if kwargs.keys() & _OPERANDS:
        for name in (PARAMETERS.get(op) or _signature(function))[len(args) :]:
            if name not in kwargs or name not in _OPERANDS:
                break
            kwargs = dict(kwargs)
            args = (*args, kwargs.pop(name))
    return args, kwargs


@lru_cache(maxsize=1024)
def _signature(function: Any) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


@dataclass(frozen=True)
class OperationChange:
    """What to compute at some sites instead."""

    sites: frozenset[Site]
    apply: Callable[..., Any]  # of the Call


@dataclass(frozen=True)
class ModuleChange:
    """What goes into, or comes out of, one module instead; `apply(values, args, kwargs, result)`."""

    path: str
    apply: Callable[..., Any]
    before: bool = False  # True: gives (args, kwargs) before the call; False: gives the result


@dataclass(frozen=True)
class AttributeChange:
    path: str
    name: str
    value: Any


@dataclass(frozen=True)
class ParameterChange:
    """Another tensor (or None) as one parameter."""

    path: str  # of the owner
    name: str
    make: Callable[..., torch.Tensor | None]


Change = OperationChange | ModuleChange | AttributeChange | ParameterChange


@dataclass(frozen=True)
class Edit:
    """A hypothesis: what the other side does instead, in words and as changes."""

    name: str  # of the cause, a stable word
    detail: str  # what is different, for a person
    changes: tuple[Change, ...]
    rank: int = 5  # which of two equally good explanations is named: the smaller, the more specific
    needs: tuple[str, ...] = ()  # labels of values that the changes read
    parameter: float | None = None  # for fits: the value tried
    refit: Callable[[float], Edit] | None = None  # the same hypothesis with another value
    fault: str = ""  # what the live side does wrong, where the edit undoes a fault instead of imitating it
    elsewhere: Callable[[str], Edit] | None = None  # the same in another module of the owner's kind
    owner: str = ""  # the module that `elsewhere` is about
    line: str = ""  # of the candidate's code, where it was seen there
    fix: str = ""  # what to change in the port, where that is not said by the detail

    def label(self) -> str:
        return f"{self.name}: {self.detail}"

    def places(self) -> frozenset[str]:
        """What is changed, by name."""
        found: set[str] = set()
        for change in self.changes:
            sites = getattr(change, "sites", None)
            found |= {str(site) for site in sites} if sites else {str(getattr(change, "path", change))}
        return frozenset(found)


class Wide(list[Edit]):
    """Hypotheses about every operation of a large part at once: dear, and one that is down at the floor says enough."""


class EditFrames:
    """Which module is running: paths in force, innermost last, with counters of their operations."""

    def __init__(self) -> None:
        self.stack: list[tuple[str, Counter[str]]] = []

    def push(self, path: str) -> None:
        self.stack.append((path, Counter()))

    def pop(self, path: str) -> None:
        while self.stack:
            if self.stack.pop()[0] == path:
                return

    def site(self, op: str) -> Site | None:
        if not self.stack:
            return None
        path, counts = self.stack[-1]
        number = counts[op]
        counts[op] += 1
        return Site(path, op, number)


@contextmanager
def framed(frames: EditFrames, modules: Mapping[str, nn.Module]) -> Iterator[None]:
    """Keep `frames` current while the modules run."""
    handles = []

    def watch(path: str, module: nn.Module) -> None:
        handles.append(module.register_forward_pre_hook(lambda m, a: frames.push(path), prepend=True))
        handles.append(module.register_forward_hook(lambda m, a, r: frames.pop(path), always_call=False))

    try:
        for path, module in modules.items():
            watch(path, module)
        yield
    finally:
        for handle in handles:
            handle.remove()


class EditMode(TorchFunctionMode):
    """Runs operations as the changes say; `observe(site, call, result)` sees all of them."""

    def __init__(
        self,
        frames: EditFrames,
        changes: Iterable[OperationChange] = (),
        observe: Callable[[Site, Call, Any], None] | None = None,
        values: dict[str, Any] | None = None,
        wanted: Iterable[str] = (),
    ) -> None:
        super().__init__()
        self._frames = frames
        self._at: dict[Site, Callable[[Call], Any]] = {
            site: change.apply for change in changes for site in change.sites
        }
        self._observe = observe
        self._values = values if values is not None else {}
        self._wanted = frozenset(wanted)
        self._skip: dict[Any, str | None] = {}
        self.used = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in self._skip:
            name = operation_name(func)
            self._skip[func] = None if kind_of(func) is Kind.SKIP and name not in _FACTORIES else name
        op = self._skip[func]
        site = self._frames.site(op) if op is not None else None
        if op is None or site is None:
            return func(*args, **kwargs)
        change = self._at.get(site)
        call = Call(func, *in_places(func, op, args, kwargs), op, self._values)
        if change is not None:
            self.used += 1
        result = call.run() if change is None else change(call)
        if self._wanted and isinstance(result, torch.Tensor) and str(site) in self._wanted:
            self._values[str(site)] = result
        if self._observe is not None:
            self._observe(site, call, result)
        return result


class Edited:
    """A context in which some edits are in force on the modules of a target."""

    def __init__(self, modules: Mapping[str, nn.Module], edits: Iterable[Edit] = (), observe: Any = None) -> None:
        self._modules = modules
        self.edits = list(edits)
        self._observe = observe
        self._stack = ExitStack()
        self.frames = EditFrames()
        self.values: dict[str, Any] = KeptValues()

    def __enter__(self) -> Edited:
        changes = [c for edit in self.edits for c in edit.changes if getattr(c, "path", None) in (None, *self._modules)]
        try:
            for change in changes:
                if isinstance(change, AttributeChange):
                    _set_attribute(self._stack, self._modules[change.path], change)
                elif isinstance(change, ParameterChange):
                    _set_parameter(self._stack, self._modules[change.path], change)
            self._stack.enter_context(framed(self.frames, self._modules))
            self._keep_wanted()
            for change in changes:
                if isinstance(change, ModuleChange):
                    self._hook(change)
            operations = [change for change in changes if isinstance(change, OperationChange)]
            wanted = [label for edit in self.edits for label in edit.needs if "|" not in label]
            if operations or wanted or self._observe is not None:
                self.mode = EditMode(self.frames, operations, self._observe, self.values, wanted)
                self._stack.enter_context(self.mode)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.close()
        self.frames.stack.clear()

    def _keep_wanted(self) -> None:
        """Labels `path|out` and `path|in.0` are kept as they pass by."""
        for label in {label for edit in self.edits for label in edit.needs}:
            path, _, slot = label.partition("|")
            if slot and path in self._modules:
                self._stack.callback(_keep(self._modules[path], label, slot, self.values).remove)

    def _hook(self, change: ModuleChange) -> None:
        module = self._modules[change.path]
        if change.before:

            def before(m: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                return change.apply(self.values, args, kwargs, None)

            self._stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
        else:

            def after(m: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
                return change.apply(self.values, args, kwargs, result)

            self._stack.callback(module.register_forward_hook(after, with_kwargs=True).remove)


def _keep(module: nn.Module, label: str, slot: str, values: dict[str, Any]) -> Any:
    if slot.startswith("in."):
        index = int(slot[3:])

        def before(m: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            tensors = [v for v in [*args, *kwargs.values()] if isinstance(v, torch.Tensor)]
            if index < len(tensors):
                values[label] = tensors[index]

        return module.register_forward_pre_hook(before, with_kwargs=True, prepend=True)

    def after(m: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        if isinstance(result, torch.Tensor):
            values[label] = result

    return module.register_forward_hook(after)


def _set_attribute(stack: ExitStack, module: nn.Module, change: AttributeChange) -> None:
    before = getattr(module, change.name)
    stack.callback(setattr, module, change.name, before)
    setattr(module, change.name, change.value)


def _set_parameter(stack: ExitStack, module: nn.Module, change: ParameterChange) -> None:
    """Swapped in the module's own table, so that neither the parameter object nor its data is touched."""
    table: dict[str, Any] = module._parameters if change.name in module._parameters else module._buffers
    before = table[change.name]
    assert before is not None
    made = change.make(before.detach())
    if made is not None and isinstance(before, nn.Parameter):
        made = nn.Parameter(made, requires_grad=False)
    stack.callback(table.__setitem__, change.name, before)
    table[change.name] = made
