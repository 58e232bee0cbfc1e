"""A model whose tokens are shared out among ranks, by the plan that it declares beside its attention."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from ..attention import AttentionModuleMixin, Cut, SequenceParallel, SequencePlan
from ..attention.parallel import Lengths, shares
from ..errors import BackendError, ConfigError, InputError, UnsupportedError
from .ranks import Ranks

Tensor = torch.Tensor


class SharedSequence:
    """The hooks that cut and gather, and what the attentions of the model are told; `remove` undoes both."""

    def __init__(self, model: nn.Module, ranks: Ranks) -> None:
        self.owner, self.ranks = type(model).__name__, ranks
        self.totals: dict[str, int] = {}  # tokens of each stream in the call that runs
        self.plan = plan_of(model)
        self.attentions = attentions_of(model, self.plan, ranks)
        self._handles: list[Any] = []
        self._handles.append(model.register_forward_pre_hook(lambda *_: self.totals.clear()))
        for cut in self.plan.split:
            self._install(model, cut, partial(self._cut, cut))
        for cut in self.plan.gather:
            self._install(model, cut, partial(self._gather, cut))
        for path, attention in self.attentions.items():
            attention.set_parallel_config(self._config_for(path, attention))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        for attention in self.attentions.values():
            attention.set_parallel_config(None)

    def _config_for(self, path: str, attention: AttentionModuleMixin) -> SequenceParallel:
        streams, ranks = self.plan.streams_of(path) or (), self.ranks
        return SequenceParallel(
            ranks.tokens,
            ranks.ulysses,
            ranks.ring,
            lengths=lambda: tuple(self.lengths(stream) for stream in streams),
            splits_keys=not attention.is_cross_attention,
            guard=ranks.exchanging,
        )

    def lengths(self, stream: str) -> Lengths:
        """Tokens of a stream on each rank."""
        if stream not in self.totals:
            raise BackendError(
                f"{self.owner} shares its {stream} tokens out among ranks when it is called as a whole; this attention "
                "runs by itself. Call the model, or disable_parallelism()."
            )
        return shares(self.totals[stream], self.ranks.tokens.size)

    def _install(self, model: nn.Module, cut: Cut, change: Any) -> None:
        for module in modules_at(model, cut.module):
            if isinstance(cut.value, int):
                hook = partial(changed_output, cut.value, change)
                self._handles.append(module.register_forward_hook(hook))
            else:
                hook = partial(changed_argument, cut.value, change)
                self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def _cut(self, cut: Cut, value: Any) -> Any:
        """This rank's share of a tensor, or of each of several."""
        if isinstance(value, (list, tuple)):
            return type(value)(self._cut(cut, one) for one in value)
        if isinstance(value, int):
            self.totals[cut.streams[0]] = value
            return self.lengths(cut.streams[0])[self.ranks.tokens.place]
        if not isinstance(value, Tensor):
            return value
        size = value.shape[cut.axis]
        totals = self._totals(cut, size)
        if size == 1 != sum(totals):
            return value
        if size != sum(totals):
            raise InputError(
                f"{self.owner}: {cut.value!r} has {size} tokens along axis {cut.axis}, the {' and '.join(cut.streams)} "
                f"has {sum(totals)}; over several ranks both are shared out alike."
            )
        place = self.ranks.tokens.place
        parts = zip(value.split(totals, dim=cut.axis), cut.streams, strict=True)
        own = [part.split(list(self.lengths(stream)), dim=cut.axis)[place] for part, stream in parts]
        return torch.cat(own, dim=cut.axis).contiguous() if len(own) > 1 else own[0].contiguous()

    def _totals(self, cut: Cut, size: int) -> list[int]:
        """Tokens of each stream of a cut; one that is not known yet has what the others leave."""
        new = [stream for stream in cut.streams if stream not in self.totals]
        if len(new) == 1:
            self.totals[new[0]] = size - sum(self.totals[stream] for stream in cut.streams if stream in self.totals)
        return [self.totals[stream] for stream in cut.streams]

    def _gather(self, cut: Cut, value: Tensor) -> Tensor:
        """The shares of all ranks, stream by stream."""
        by_rank = [self.lengths(stream) for stream in cut.streams]
        own = value.split([lengths[self.ranks.tokens.place] for lengths in by_rank], dim=cut.axis)
        whole = [
            self.ranks.gathered(f"the {stream} of all ranks", part, self.ranks.tokens, lengths, cut.axis)
            for stream, part, lengths in zip(cut.streams, own, by_rank, strict=True)
            if sum(lengths)
        ]
        return torch.cat(whole, dim=cut.axis) if len(whole) > 1 else whole[0]


def plan_of(model: nn.Module) -> SequencePlan:
    """What a model declares; one that declares nothing cannot share its tokens out."""
    plan = getattr(model, "sequence_plan", None)
    if plan is None:
        raise UnsupportedError(
            f"{type(model).__name__} declares no plan for sharing its tokens out among ranks (ulysses, ring): "
            "convolutions see neighbours on all sides. Use cfg=2, which puts the branches of the guidance on two ranks."
        )
    if hasattr(model, "_orig_mod"):
        raise UnsupportedError("A compiled model cannot share its tokens out. Enable parallelism before compiling.")
    return plan


def attentions_of(model: nn.Module, plan: SequencePlan, ranks: Ranks) -> dict[str, AttentionModuleMixin]:
    """Every attention that the plan names, each able to compute over ranks: all of them or an error."""
    found = {path: one for path, one in model.named_modules() if isinstance(one, AttentionModuleMixin)}
    for path, attention in found.items():
        kind = type(attention.processor).__name__
        if not hasattr(attention.processor, "_parallel_config"):
            raise UnsupportedError(
                f"The processor {kind} of {path!r} has no `_parallel_config`, so its attention would see this rank's "
                "tokens alone. Nothing was changed; set processors that hand it to dispatch_attention_fn."
            )
        if plan.streams_of(path) is None:
            raise UnsupportedError(f"The plan of {type(model).__name__} does not say what {path!r} attends to.")
        heads = getattr(attention, "heads", ranks.ulysses.size)
        if heads < ranks.ulysses.size:
            raise ConfigError(
                f"ulysses={ranks.ulysses.size} gives every rank a head or more; {type(model).__name__} has {heads} in "
                f"{path!r}. Use a smaller `ulysses`, and `ring` for the rest."
            )
    return found


def modules_at(model: nn.Module, path: str) -> Iterator[nn.Module]:
    """The module at a path; with `.*` at the end each of a list, with `.-1` its last."""
    within, _, last = path.rpartition(".")
    if last in ("*", "-1"):
        found = list(model.get_submodule(within).children())
        yield from found if last == "*" else found[-1:]
    else:
        yield model.get_submodule(path)


def changed_argument(
    name: str, change: Any, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call with one of its arguments changed."""
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    if bound.arguments.get(name) is not None:
        bound.arguments[name] = change(bound.arguments[name])
    return bound.args, bound.kwargs


def changed_output(number: int, change: Any, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
    """What a module gave, with one part of it changed."""
    if not isinstance(output, tuple):
        return change(output)
    return (*output[:number], change(output[number]), *output[number + 1 :])
