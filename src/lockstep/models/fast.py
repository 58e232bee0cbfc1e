"""What layers with kernels of our own have in common: when a kernel may compute, and what is prepared for it.

A kernel computes where nobody would notice: on tensors that it takes (`operators.takes`, asked about every tensor that
goes into it), and in the place of several layers where none of them is watched or patched (`watched`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as modules_of_torch

from .. import memory
from ..kernels import operators

Tensor = torch.Tensor


def watched(*layers: nn.Module | None) -> bool:
    """Would somebody miss a call of one of these: by a hook, around it or around all, or a `forward` put into it?"""
    if modules_of_torch._has_any_global_hook():
        return True
    for layer in layers:
        if layer is None:
            continue
        if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks:
            return True
        if "forward" in layer.__dict__:
            return True
    return False


def facts(tensor: Tensor) -> tuple[Any, ...]:
    """What changes with a tensor's numbers, as far as torch counts them, and with their order."""
    version = 0 if tensor.is_inference() else tensor._version
    return tensor.data_ptr(), version, tensor.shape, tensor.stride()


def trained(tensors: Iterable[Tensor | None]) -> bool:
    """Is there a gradient? Then an optimizer may step, and fused ones do so past torch's counter of changes."""
    return any(one is not None and one.is_leaf and one.grad is not None for one in tensors)


class Fast(nn.Module):
    """A layer with a kernel of our own."""

    by_torch = False  # its kernel was found to be less exact than torch's on this layer
    in_bf16 = False  # are its products computed in bf16?

    def takes(self, *tensors: Tensor | None) -> bool:
        """Can the kernel compute this layer on these tensors: all that go into it?"""
        return not self.by_torch and operators.takes(*tensors)

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain = self.__dict__.get("_plain_class")  # a class of ours may have been made for it, which has no name
        whole = super().__reduce_ex__(protocol)
        return whole if plain is None else (_made_fast, (plain,), *whole[2:])


def _made_fast(plain: type[nn.Module]) -> nn.Module:
    from .acceleration import fast_class

    fast = fast_class(plain)
    assert fast is not None
    return fast.__new__(fast)


class Keeping(nn.Module):
    """A layer that has computed something from its weights, which goes into no file and no copy."""

    made: tuple[str, ...] = ()  # the attributes that hold it

    def forget(self) -> None:
        """Drop it; the next call makes it again."""
        for name in self.made:
            self.__dict__.pop(name, None)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self.made}

    def _apply(self, *given: Any, **named: Any) -> Any:
        self.forget()  # other numbers may come to lie where the ones before did
        return super()._apply(*given, **named)


class Prepared(Keeping, Fast):
    """What a layer has computed from its weights, for as long as these and what it is are the same."""

    made = ("_prepared",)
    _prepared: tuple[Any, ...] | None = None  # settings, references to the weights, their facts, what was prepared, id
    frugal = False  # do its weights leave memory once it is prepared? (where a file holds them)

    def sources(self) -> tuple[Tensor, ...]:
        """The weights that it is computed from: its own, unless it says otherwise."""
        return (self._parameters["weight"],)  # type: ignore[return-value]

    def settings(self) -> tuple[Any, ...]:
        """What else decides how they are prepared."""
        return (self.in_bf16,)

    def prepare(self) -> Any:
        """What is computed from them."""
        raise NotImplementedError

    def takes(self, *tensors: Tensor | None) -> bool:
        """The same, asked about the weights, too; not while they are trained, and of those that come anew each time
        (parametrized ones) nothing is prepared."""
        if self.by_torch or not self.has_own():
            return False
        sources = self.sources()
        if not operators.takes(*tensors, *sources):
            if self._prepared is not None and torch.is_grad_enabled() and any(one.requires_grad for one in sources):
                self._prepared = None  # a step may follow
            return False
        if torch.compiler.is_compiling():
            return self._prepared is not None and self._prepared[0] == self.settings()
        return not trained(sources)

    def has_own(self) -> bool:
        """Is its weight a parameter of its own?"""
        return "weight" in self._parameters

    def current(self) -> tuple[Any, int]:
        """What is prepared, and 0. While the model is compiled: what is there, and the number by which the operator
        finds the layer when it runs, to ask again."""
        if torch.compiler.is_compiling() and self._prepared is not None:
            return self._prepared[3], self._prepared[4]
        return self.prepared(), 0

    def prepared(self) -> Any:
        """What `prepare` gave, made now if the weights are new."""
        kept, sources = self._prepared, self.sources()
        if kept is None or not self._is_of(kept, sources):
            if trained(sources):
                with torch.no_grad():
                    return self.prepare()
            with torch.no_grad():
                return self.take(None)
        return kept[3]

    def _is_of(self, kept: tuple[Any, ...], sources: tuple[Tensor, ...]) -> bool:
        if kept[0] != self.settings():
            return False
        for one, reference, known in zip(sources, kept[1], kept[2], strict=True):
            if reference() is not one or facts(one) != known:
                return False
        return True

    def take(self, prepared: Any) -> Any:
        """Have this as what `prepare` gives for the weights as they are now; None calls it."""
        sources = self.sources()
        state = self.settings(), tuple(map(weakref.ref, sources)), tuple(map(facts, sources))
        what = self.prepare() if prepared is None else prepared
        self._prepared = *state, what, id(self)
        operators.LAYERS[id(self)] = self
        if self.frugal and prepared is None:
            for one in sources:
                memory.page_out(one)
        return what

    def now(self) -> Any:
        """What is prepared, for an operator that a compiler has kept: never what was made before a step of training."""
        if trained(self.sources()):
            self.forget()
        return self.prepared()

    @property
    def is_prepared(self) -> bool:
        return self._prepared is not None

    def size(self) -> int:
        """Bytes of what is prepared, or will be."""
        sources = self.sources() if self.has_own() else ()  # of weights that come anew each time nothing is prepared
        return sum(one.nbytes for one in sources) // (2 if self.in_bf16 else 1)
