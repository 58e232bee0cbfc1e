"""A call of a model as a graph's call: a module that takes the tensors of that call, in order, and gives one."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Tensor = torch.Tensor


@dataclass(frozen=True)
class GivenCall:
    """What a model was called with: tensors at their places, and everything else as it was."""

    given: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """In the order in which a graph takes them."""
        return tuple(one for one in (*self.given, *self.named.values()) if isinstance(one, Tensor))

    @property
    def shape(self) -> tuple[Any, ...]:
        """Calls of one shape are computed by one graph."""
        return tuple(map(_shape, self.given)), tuple((name, _shape(one)) for name, one in self.named.items())


def _shape(one: Any) -> Any:
    return (tuple(one.shape), str(one.dtype)) if isinstance(one, Tensor) else repr(one)


def entrance(model: nn.Module) -> str:
    """The method by which a model is used: an autoencoder decodes."""
    return "decode" if hasattr(model, "decode") else "forward"


@contextlib.contextmanager
def recording(model: nn.Module) -> Iterator[list[tuple[GivenCall, Any]]]:
    """Calls of a model and their results, as long as the context is open."""
    calls: list[tuple[GivenCall, Any]] = []
    name = entrance(model)
    plain = getattr(model, name)

    def record(*given: Any, **named: Any) -> Any:
        result = plain(*given, **named)
        calls.append((GivenCall(given, {key: one for key, one in named.items() if key != "return_dict"}), result))
        return result

    model.__dict__[name] = record
    try:
        yield calls
    finally:
        del model.__dict__[name]


@contextlib.contextmanager
def unwatched(model: nn.Module) -> Iterator[None]:
    """A model without the hooks and modes of those who watch it: a graph is of what the model computes, not of them."""
    kinds = "_forward_hooks", "_forward_pre_hooks"
    kept = [(module, kind, getattr(module, kind)) for module in model.modules() for kind in kinds]
    try:
        for module, kind, hooks in kept:
            setattr(module, kind, type(hooks)())
        with torch._C.DisableTorchFunction():
            yield
    finally:
        for module, kind, hooks in kept:
            setattr(module, kind, hooks)


class CallGraph(nn.Module):
    """A model as a function of the tensors of a call."""

    def __init__(self, model: nn.Module, call: GivenCall) -> None:
        super().__init__()
        # as it is now: the model itself becomes of the class that an engine computes
        self.model, self.method = copy.copy(model), entrance(model)
        self.given = [None if isinstance(one, Tensor) else one for one in call.given]
        self.places = [place for place, one in enumerate(call.given) if isinstance(one, Tensor)]
        self.names = [key for key, one in call.named.items() if isinstance(one, Tensor)]
        self.named = {key: one for key, one in call.named.items() if not isinstance(one, Tensor)}

    def forward(self, *tensors: Tensor) -> Tensor:
        given, named = list(self.given), dict(self.named)
        for place, tensor in zip(self.places, tensors, strict=False):
            given[place] = tensor
        named.update(zip(self.names, tensors[len(self.places) :], strict=True))
        call: Callable[..., Any] = getattr(self.model, self.method)
        return call(*given, **named, return_dict=False)[0]
