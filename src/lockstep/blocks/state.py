"""The values of one run, and the part of them that one block may see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..errors import WiringError
from .named_values import NamedValues


class Later:
    """Stands for a value that a block upstream will have made by the time it is read."""

    def __repr__(self) -> str:
        return "LATER"


LATER = Later()


class PipelineState(NamedValues):
    """All values of one run by name, and which block wrote each of them last."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self.values: dict[str, Any] = dict(values or {})
        self.writers: dict[str, str] = {}  # name -> path of the block; a user's input has no entry

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def set(self, name: str, value: Any, writer: str = "") -> None:
        self.values[name] = value
        if writer:
            self.writers[name] = writer

    def to_dict(self) -> dict[str, Any]:
        return dict(self.values)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "values" not in self.__dict__:
            raise AttributeError(name)
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(
                f"No value {name!r} in this run; there are: {', '.join(sorted(self.values)) or 'none'}."
            ) from None

    def __repr__(self) -> str:
        return "PipelineState(" + ", ".join(f"{name}: {_short(value)}" for name, value in self.values.items()) + ")"


class BlockView(NamedValues):
    """The state as one block sees it: its declared inputs to read, its declared outputs to read and write."""

    __slots__ = ("_block", "_defaults", "_groups", "_path", "_readable", "_state", "_writable", "_written")

    def __init__(
        self,
        state: PipelineState,
        path: str,
        block: Any,
        groups: Mapping[str, Iterable[str]],
        inputs: Iterable[Any] | None = None,
        outputs: Iterable[Any] | None = None,
    ) -> None:
        params = list(block.inputs if inputs is None else inputs)
        named = {param.name: param for param in params if param.name}
        grouped = {param.kwargs_type: tuple(groups.get(param.kwargs_type, ())) for param in params if not param.name}
        fill = object.__setattr__
        fill(self, "_state", state)
        fill(self, "_path", path)
        fill(self, "_block", type(block).__name__)
        fill(self, "_defaults", {name: param.default for name, param in named.items() if not param.required})
        fill(self, "_groups", grouped)
        fill(self, "_writable", {param.name for param in (block.outputs if outputs is None else outputs)})
        fill(self, "_readable", set(named).union(self._writable, *grouped.values()))
        fill(self, "_written", {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._groups:
            return {
                member: self._state.values[member]
                for member in self._groups[name]
                if self._state.get(member) is not None
            }
        if name not in self._readable:
            raise WiringError(
                f"{self._who()} reads {name!r}, which it does not declare. Add it to `inputs`; "
                f"declared: {self._list(self._readable)}."
            )
        if name in self._state.values:
            return self._state.values[name]
        if name in self._defaults or any(name in members for members in self._groups.values()):
            return self._defaults.get(name)
        raise WiringError(f"{self._who()} reads {name!r} before anything has written it.")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._writable:
            raise WiringError(
                f"{self._who()} writes {name!r}, which it does not declare. Add it to `outputs`; "
                f"declared: {self._list(self._writable)}."
            )
        self._written[name] = value
        self._state.set(name, value, self._path)

    def get(self, name: str, default: Any = None) -> Any:
        value = getattr(self, name)
        return default if value is None else value

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def _who(self) -> str:
        return f"Block {self._path!r} ({self._block})"

    def _list(self, names: Iterable[str]) -> str:
        return ", ".join(sorted(names)) or "nothing"

    def __repr__(self) -> str:
        return (
            f"<state of block {self._path!r}: reads {self._list(self._readable)}; writes {self._list(self._writable)}>"
        )


class BlockState(NamedValues):
    """A free working copy of a block's inputs, for blocks that take one with `get_block_state` and give it back."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def as_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __repr__(self) -> str:
        return "BlockState(" + ", ".join(f"{name}: {_short(value)}" for name, value in self.__dict__.items()) + ")"


def checked_out(view: BlockView, block: Any) -> BlockState:
    """A working copy of everything that a block declares to read."""
    values = {param.name: getattr(view, param.name) for param in block.inputs if param.name}
    for group in view._groups:
        members = getattr(view, group)
        values |= {**members, group: members}
    return BlockState(**values)


def checked_in(view: BlockView, block: Any, changed: BlockState) -> None:
    """Write a working copy back: every declared output, and every input that was replaced."""
    for param in block.outputs:
        if not hasattr(changed, param.name):
            raise WiringError(f"{view._who()} declares the output {param.name!r} but did not write it.")
        setattr(view, param.name, getattr(changed, param.name))
    for name in view._readable - view._writable:
        value = getattr(changed, name, None)
        if name in view._state.values and hasattr(changed, name) and value is not view._state.values[name]:
            view._written[name] = value
            view._state.set(name, value, view._path)


def _short(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {list(value.shape)}".removeprefix("torch.")
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{type(value).__name__}"
