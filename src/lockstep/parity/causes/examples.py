"""What an operation looked like when it ran: enough to know which other operations could stand in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .edits import Call, Edit, OperationChange, Site

Shape = tuple[int, ...]


@dataclass
class Example:
    """Shapes and settings of one operation; no tensors are held."""

    op: str
    operands: list[Any] = field(default_factory=list)  # positional: a Shape for a tensor, else the value itself
    tensors: dict[str, Shape] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    result: Any = None  # Shape, list of Shapes, or None
    floating: bool = True
    makers: tuple[str, ...] = ()  # names of the operations that made the tensors going in
    parameters: tuple[bool, ...] = ()  # which positional tensors are parameters

    @property
    def shape(self) -> Shape:
        return self.result if isinstance(self.result, tuple) else ()

    @property
    def pieces(self) -> list[Shape]:
        return self.result if isinstance(self.result, list) else []


def example_of(call: Call, result: Any, makers: dict[int, str]) -> Example:
    operands = [_shape(value) if isinstance(value, torch.Tensor) else _plain(value) for value in call.args]
    tensors = {k: _shape(v) for k, v in call.named.items() if isinstance(v, torch.Tensor)}
    settings = {k: _plain(v) for k, v in call.named.items() if not isinstance(v, torch.Tensor)}
    flat = [t for value in call.args for t in (value if isinstance(value, (list, tuple)) else [value])]
    return Example(
        op=call.op,
        operands=operands,
        tensors=tensors,
        settings=settings,
        result=_result(result),
        floating=isinstance(result, torch.Tensor) and result.is_floating_point(),
        makers=tuple(makers.get(id(t), "") for t in flat if isinstance(t, torch.Tensor)),
        parameters=tuple(isinstance(value, torch.nn.Parameter) for value in call.args),
    )


def _shape(tensor: torch.Tensor) -> Shape:
    return tuple(tensor.shape)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, torch.Tensor) for v in value):
        return [_shape(v) for v in value]
    if isinstance(value, (bool, int, float, str, type(None), list, tuple, slice, torch.dtype, type(Ellipsis))):
        return value
    return None


def _result(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return _shape(result)
    if isinstance(result, (list, tuple)) and all(isinstance(v, torch.Tensor) for v in result):
        return [_shape(v) for v in result]
    return None


def edit(
    name: str,
    detail: str,
    sites: frozenset[Site],
    apply: Callable[..., Any],
    rank: int = 5,
    needs: tuple[str, ...] = (),
    **more: Any,
) -> Edit:
    return Edit(name, detail, (OperationChange(sites, apply),), rank, needs, **more)
