"""Disturbed layers: blocks that are skipped, attention without its scores, queries that are blurred.

A disturbance is a set of forward hooks that act in the thread that installed them and nowhere else, so that another
run on the same weights at the same time sees an undisturbed model.
"""

from __future__ import annotations

import inspect
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..attention import AttentionCall, AttentionModuleMixin, attention_replaced_by
from ..errors import ConfigError, InputError

Tensor = torch.Tensor
# where models keep their stack of transformer blocks; a UNet's is that of its middle
STACKS = (
    "blocks",
    "transformer_blocks",
    "single_transformer_blocks",
    "layers",
    "mid_block.attentions.0.transformer_blocks",
)


@dataclass(frozen=True)
class LayerSkipConfig:
    """Which layers of which stack (`fqn`) lose what; `dropout` below 1 drops a part of the output instead of all."""

    indices: list[int]
    fqn: str = "auto"
    skip_attention: bool = True
    skip_attention_scores: bool = False
    skip_ff: bool = True
    dropout: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.dropout <= 1:
            raise ConfigError(f"LayerSkipConfig: 'dropout' has to be between 0 and 1, got {self.dropout}.")
        if self.skip_attention_scores and not math.isclose(self.dropout, 1.0):
            raise ConfigError(
                f"LayerSkipConfig: 'skip_attention_scores' works with dropout=1 only, got {self.dropout}."
            )
        if self.skip_attention_scores and self.skip_attention:
            raise ConfigError("LayerSkipConfig: set 'skip_attention' or 'skip_attention_scores', not both.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class SmoothedEnergyGuidanceConfig:
    """Which layers of which stack get blurred queries."""

    indices: list[int]
    fqn: str = "auto"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_configs(guider: object, kind: type, layers: int | list[int] | None, given: Any, **values: Any) -> list[Any]:
    """The layers to disturb, given as indices or as configs (objects or dicts), but not as both."""
    owner = type(guider).__name__
    if (layers is None) == (given is None):
        raise ConfigError(
            f"{owner}: name the layers to disturb either by index or by config; got {'both' if given else 'neither'}."
        )
    if layers is not None:
        return [kind(indices=[layers] if isinstance(layers, int) else list(layers), **values)]
    given = given if isinstance(given, (list, tuple)) else [given]
    try:
        return [one if isinstance(one, kind) else kind(**one) for one in given]
    except TypeError as problem:
        raise ConfigError(
            f"{owner}: a config has to be a {kind.__name__} or a dict of its values: {problem}."
        ) from None


def chosen_blocks(model: nn.Module, config: LayerSkipConfig | SmoothedEnergyGuidanceConfig) -> Iterator[nn.Module]:
    """The blocks that a config names; refuses names and indices that the model does not have."""
    names = STACKS if config.fqn == "auto" else (config.fqn,)
    stack = next((found for name in names if (found := _submodule(model, name)) is not None), None)
    if not isinstance(stack, nn.ModuleList):
        raise InputError(
            f"{type(model).__name__} has no stack of blocks called {config.fqn!r}. Give `fqn` the path of a "
            "ModuleList, for instance 'mid_block.attentions.0.transformer_blocks'."
        )
    outside = [index for index in config.indices if not 0 <= index < len(stack)]
    if outside or not config.indices:
        raise InputError(f"The stack has the layers 0 to {len(stack) - 1}; asked for {list(config.indices)}.")
    return (stack[index] for index in config.indices)


def _submodule(model: nn.Module, path: str) -> nn.Module | None:
    try:
        return model.get_submodule(path)
    except AttributeError:
        return None


class Disturbances:
    """Hooks that are in place until `remove`, and act in this thread only."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._handles: list[Any] = []
        self._entered: list[AbstractContextManager[None]] = []

    def skip_layers(self, model: nn.Module, config: LayerSkipConfig) -> None:
        for block in chosen_blocks(model, config):
            if config.skip_attention and config.skip_ff:
                self.replace_output(block, lambda output, given: _drop(output, given, config.dropout))
                continue
            before = len(self._handles)
            for module in block.modules():
                if _is_self_attention(module) and config.skip_attention_scores:
                    self.replace_attention(module)
                elif (_is_self_attention(module) and config.skip_attention) or (
                    _is_feed_forward(module) and config.skip_ff
                ):
                    self.replace_output(module, lambda output, given: _drop(output, given, config.dropout))
            if len(self._handles) == before and config.skip_attention_scores:
                self.replace_attention(block)  # one whose forward calls dispatch_attention_fn itself
            elif len(self._handles) == before:
                raise _nothing_in(block, "attention or feed-forward module")

    def blur_queries(
        self, model: nn.Module, config: SmoothedEnergyGuidanceConfig, smooth: Callable[[Tensor], Tensor]
    ) -> None:
        for block in chosen_blocks(model, config):
            if not any(map(_is_self_attention, block.modules())):
                raise _nothing_in(block, "attention module with a projection 'to_q'")
            for module in block.modules():
                if _is_self_attention(module):
                    if getattr(module.processor, "_parallel_config", None) is not None:
                        raise InputError(
                            "Queries are blurred over the whole picture, and its tokens lie on several ranks (ulysses, "
                            "ring). Use cfg alone with this guider."
                        )
                    if not isinstance(getattr(module, "to_q", None), nn.Module):
                        raise InputError(
                            "Queries can be blurred only where they have a projection of their own: unfuse first."
                        )
                    self.replace_output(module.to_q, lambda output, given: smooth(output))  # type: ignore[arg-type]

    def replace_output(self, module: nn.Module, change: Callable[[Any, tuple[Any, ...]], Any]) -> None:
        """After the module ran: `change(its output, the inputs that would pass through it)` instead."""

        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
            if threading.get_ident() != self._thread:
                return output
            return change(output, _passing(module, args, kwargs))

        self._handles.append(module.register_forward_hook(hook, with_kwargs=True))

    def replace_attention(self, module: nn.Module) -> None:
        """While the module runs, each token attends to itself alone: the values pass through."""

        reached = False

        def values_alone(call: AttentionCall) -> Tensor | None:
            nonlocal reached
            reached = True
            return call.value if call.query.shape[1] == call.value.shape[1] else None

        def enter(*_: Any) -> None:
            if threading.get_ident() == self._thread:
                self._entered.append(attention_replaced_by(values_alone))
                self._entered[-1].__enter__()

        def leave(*_: Any) -> None:
            if threading.get_ident() == self._thread:
                self._entered.pop().__exit__(None, None, None)
                if not reached and sys.exc_info()[0] is None:
                    raise _nothing_in(module, "call of dispatch_attention_fn")

        self._handles.append(module.register_forward_pre_hook(enter))
        self._handles.append(module.register_forward_hook(leave, always_call=True))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def _nothing_in(block: nn.Module, wanted: str) -> InputError:
    return InputError(
        f"{type(block).__name__} has no {wanted} that this guider could change. Attention modules derive from "
        "AttentionModuleMixin; SkipLayerGuidance leaves out whole layers of any kind."
    )


def _passing(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The inputs in the place of the outputs: the first one, or those that the module names (`passes_through`)."""
    names = getattr(module, "passes_through", None)
    if names is None:
        return (args[0] if args else kwargs["hidden_states"],)
    given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    return tuple(given.get(name) for name in names)


def _drop(output: Any, given: tuple[Any, ...], dropout: float) -> Any:
    if not math.isclose(dropout, 1.0):
        return _each(output, lambda one: F.dropout(one, p=dropout))
    if not isinstance(output, tuple):
        return given[0]
    kept = (*given, *output[len(given) :])
    return tuple(None if one is None else kept[place] for place, one in enumerate(output))


def _each(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(output, tuple):
        return tuple(None if one is None else change(one) for one in output)
    return change(output)


def _is_self_attention(module: nn.Module) -> bool:
    return isinstance(module, AttentionModuleMixin) and not module.is_cross_attention


def _is_feed_forward(module: nn.Module) -> bool:
    return type(module).__name__ == "FeedForward"


def gaussian_blur(query: Tensor, sigma: float) -> Tensor:
    """A Gaussian over the square of tokens, at most as wide as the square, with mirrored borders."""
    side = math.isqrt(query.shape[1])
    square = query[:, : side * side].transpose(1, 2).reshape(query.shape[0], -1, side, side)
    width = math.ceil(6 * sigma) + 1 - math.ceil(6 * sigma) % 2
    width = min(width, side - (side % 2 - 1))
    offsets = torch.linspace(-(width - 1) / 2, (width - 1) / 2, steps=width)
    line = torch.exp(-0.5 * (offsets / sigma) ** 2)
    line = (line / line.sum()).to(query)
    kernel = torch.outer(line, line).expand(square.shape[1], 1, width, width)
    blurred = F.conv2d(F.pad(square, [width // 2] * 4, mode="reflect"), kernel, groups=square.shape[1])
    return torch.cat([blurred.flatten(2).transpose(1, 2), query[:, side * side :]], dim=1)


def mean_blur(query: Tensor) -> Tensor:
    """The limit of an infinitely wide Gaussian: every token of the square gets their mean."""
    side = math.isqrt(query.shape[1])
    square = query[:, : side * side]
    return torch.cat([square.mean(dim=1, keepdim=True).expand_as(square), query[:, side * side :]], dim=1)
