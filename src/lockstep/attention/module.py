"""`AttentionModuleMixin`: what every attention module can do besides computing."""

from __future__ import annotations

import copy
import inspect
import typing
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import InputError, UnsupportedError
from .backends import get_backend
from .parallel import SequenceParallel


class ProcessorMixin:
    """What a processor hands on to `dispatch_attention_fn`: the backend of its module, how tokens are shared out."""

    _attention_backend: str | None = None
    _parallel_config: SequenceParallel | None = None


class AttentionModuleMixin:
    """Processors, fused projections and a backend of its own, for an `nn.Module` with `to_q`, `to_k`, `to_v`.

    A processor is called as `processor(attn, hidden_states, ...)`; it hands `backend=self._attention_backend` to
    `dispatch_attention_fn`. A module whose key and value come from another sequence sets `is_cross_attention`.
    """

    _default_processor_cls: ClassVar[type | None] = None
    _available_processors: ClassVar[tuple[type, ...]] = ()
    _fusable_classes: ClassVar[tuple[type, ...]] = (nn.Linear,)  # projections of just these classes; an adapter is none
    _projection_names: ClassVar[tuple[str, str, str]] = ("to_q", "to_k", "to_v")  # where the published names are others
    is_cross_attention: bool = False
    fused_projections: bool = False
    processor: Callable[..., Any]

    def set_processor(self, processor: Callable[..., Any] | None = None) -> None:
        """Use this processor, or the default one of the class."""
        if processor is None:
            if self._default_processor_cls is None:
                raise UnsupportedError(f"{type(self).__name__} has no default processor. Give one.")
            processor = self._default_processor_cls()
        if not callable(processor):
            raise InputError(f"An attention processor has to be callable, got {type(processor).__name__}.")
        if isinstance(getattr(self, "processor", None), nn.Module) and not isinstance(processor, nn.Module):
            del self.processor  # a plain attribute cannot take the place of a submodule
        self.processor = processor
        self.processor_keywords = keywords_of(processor)

    def get_processor(self) -> Callable[..., Any]:
        """The processor in use."""
        return self.processor

    def taken_by_processor(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments that its processor takes; others are for other attentions of the model."""
        keywords = self.processor_keywords
        return {key: value for key, value in kwargs.items() if keywords is None or key in keywords}

    def set_attention_backend(self, name: str | None) -> None:
        """Compute this module's attention on one backend; None goes back to what surrounds it."""
        if name is not None:
            get_backend(name)
        if not hasattr(self.processor, "_attention_backend"):
            raise UnsupportedError(
                f"{type(self.processor).__name__} does not choose its backend by `_attention_backend`, so "
                f"{name!r} would have no effect. Set a processor that calls dispatch_attention_fn."
            )
        if not isinstance(self.processor, nn.Module):
            self.processor = copy.copy(self.processor)  # one processor object may serve several modules
        self.processor._attention_backend = name

    def set_parallel_config(self, config: SequenceParallel | None) -> None:
        """Share this module's tokens out among ranks; None is one process again."""
        if not isinstance(self.processor, nn.Module):
            self.processor = copy.copy(self.processor)
        self.processor._parallel_config = config  # type: ignore[attr-defined]

    @torch.no_grad()
    def fuse_projections(self) -> None:
        """One matrix product for query, key and value (key and value in cross-attention); saved under the old names."""
        if self.fused_projections:
            return
        fused_name = self.fused_name()
        names = self.fused_parts()
        parts: list[Any] = [getattr(self, name, None) for name in names]
        if not all(type(part) in self._fusable_classes for part in parts):
            kinds = ", ".join(type(part).__name__ for part in parts)
            raise UnsupportedError(
                f"{type(self).__name__} cannot fuse its projections: {', '.join(names)} have to be plain Linear "
                f"layers, these are {kinds}. Unload adapters first."
            )
        fused = FusedLinear.of(parts)
        for name in names:
            delattr(self, name)
        setattr(self, fused_name, fused)
        module = typing.cast(nn.Module, self)
        self._fuse_hooks = (
            module.register_state_dict_post_hook(split_fused_tensors),
            module.register_load_state_dict_pre_hook(join_fused_tensors),
        )
        self.fused_projections = True

    @torch.no_grad()
    def unfuse_projections(self) -> None:
        """Query, key and value as separate projections again."""
        if not self.fused_projections:
            return
        fused_name = self.fused_name()
        parts = getattr(self, fused_name).parts()
        delattr(self, fused_name)
        for name, part in zip(self.fused_parts(), parts, strict=True):
            setattr(self, name, part)
        for hook in self._fuse_hooks:
            hook.remove()
        self.fused_projections = False

    def fused_name(self) -> str:
        return "to_kv" if self.is_cross_attention else "to_qkv"

    def fused_parts(self) -> tuple[str, ...]:
        return self._projection_names[1:] if self.is_cross_attention else self._projection_names


class FusedLinear(nn.Module):
    """Several linear layers of one class and one input as one; `forward` gives their outputs."""

    def __init__(self, joined: nn.Linear, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.joined = joined
        self.widths = widths

    @classmethod
    def of(cls, layers: list[nn.Linear]) -> FusedLinear:
        """The layers' weights below each other."""
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
        joined = linear_like(layers[0], weight, bias)
        return cls(joined, tuple(layer.out_features for layer in layers))

    def parts(self) -> list[nn.Linear]:
        """The layers that were fused."""
        weights = self.joined.weight.split(self.widths)
        biases = [None] * len(weights) if self.joined.bias is None else self.joined.bias.split(self.widths)
        pairs = zip(weights, biases, strict=True)
        return [linear_like(self.joined, w.clone(), None if b is None else b.clone()) for w, b in pairs]

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.joined(hidden_states).split(self.widths, dim=-1)


def linear_like(layer: nn.Linear, weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    """A layer of the same class, mode and trainability with other weights."""
    with torch.device("meta"):
        made = type(layer)(weight.shape[1], weight.shape[0], bias=bias is not None)
    made.weight = nn.Parameter(weight, requires_grad=layer.weight.requires_grad)
    if bias is not None:
        made.bias = nn.Parameter(bias, requires_grad=layer.bias.requires_grad)
    return made.train(layer.training)


def split_fused_tensors(module: Any, state_dict: dict[str, torch.Tensor], prefix: str, metadata: Any) -> None:
    """A fused module's tensors under the published names, so that files do not depend on fusing."""
    fused_name = module.fused_name()
    for kind in ("weight", "bias"):
        fused = state_dict.pop(f"{prefix}{fused_name}.joined.{kind}", None)
        if fused is None:
            continue
        pieces = fused.split(getattr(module, fused_name).widths)
        for name, piece in zip(module.fused_parts(), pieces, strict=True):
            state_dict[f"{prefix}{name}.{kind}"] = piece


def join_fused_tensors(module: Any, state_dict: dict[str, torch.Tensor], prefix: str, *ignored: Any) -> None:
    """The published names as the fused module's tensors."""
    fused_name = module.fused_name()
    for kind in ("weight", "bias"):
        keys = [f"{prefix}{name}.{kind}" for name in module.fused_parts()]
        if all(key in state_dict for key in keys):
            state_dict[f"{prefix}{fused_name}.joined.{kind}"] = torch.cat([state_dict.pop(key) for key in keys])


def keywords_of(processor: Callable[..., Any]) -> frozenset[str] | None:
    """The keyword arguments that a processor takes besides the module and its input; None when it takes any."""
    target: Callable[..., Any] = processor
    if isinstance(processor, nn.Module):  # whose own call, where it defines one, comes before `forward`
        own = type(processor).__call__
        target = processor.forward if own is nn.Module.__call__ else own.__get__(processor)
    parameters = list(inspect.signature(target).parameters.values())
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters[2:])


def set_backend_on(model: nn.Module, name: str | None) -> None:
    """Set (or with None, reset) the attention backend of every attention module in a model; all of them or none."""
    if name is not None:
        get_backend(name)
    modules = [module for module in model.modules() if isinstance(module, AttentionModuleMixin)]
    if not modules:
        raise UnsupportedError(f"{type(model).__name__} has no attention module, so it cannot take a backend.")
    for module in modules:
        if not hasattr(module.processor, "_attention_backend"):
            raise UnsupportedError(
                f"{type(module.processor).__name__} does not choose its backend by `_attention_backend`. "
                "Nothing was changed; set processors that call dispatch_attention_fn."
            )
    for module in modules:
        module.set_attention_backend(name)
