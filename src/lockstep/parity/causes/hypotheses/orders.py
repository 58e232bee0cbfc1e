"""Two things in a row done in the other order, a sum done earlier, an operand that was resized on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..edits import Call, Change, Edit, ModuleChange, NotApplicable, OperationChange, Site
from ..probe import Probe, Survey

_UNARY = {
    "gelu",
    "silu",
    "relu",
    "sigmoid",
    "tanh",
    "interpolate",
    "clamp",
    "exp",
    "sqrt",
    "neg",
    "softmax",
    "mul",
    "div",
    "add",
    "sub",
}
NEAR = 3  # things in between
MOST = 80


def order_edits(probe: Probe, survey: Survey) -> Iterator[Edit]:
    """Children and operations of the own frame, each pair of near ones exchanged; sums moved before an earlier
    child."""
    units = _units(probe, survey)
    made = 0
    for place, first in enumerate(units):
        for second in units[place + 1 : place + 1 + NEAR]:
            if made < MOST and isinstance(first, str) | isinstance(second, str):
                made += 1
                yield _exchanged(probe, first, second)
    yield from _summed_earlier(probe, survey)


def _units(probe: Probe, survey: Survey) -> list[str | Site]:
    """Children (by path) and operations, in the order in which they ran."""
    placed: list[tuple[int, str | Site]] = []
    for path in survey.children:
        if f"{path}|out" in survey.values:
            placed.append((survey.values[f"{path}|out"][0], path))
    for site in survey.sites:
        if site.path == probe.path and site.op in _UNARY and survey.sites[site].floating and site in survey.order:
            placed.append((survey.order[site], site))
    return [unit for _, unit in sorted(placed, key=lambda pair: pair[0])]


def _exchanged(probe: Probe, first: str | Site, second: str | Site) -> Edit:
    """At the first place nothing is done; at the second both, the second one first."""
    waiting: list[Callable[[torch.Tensor], torch.Tensor]] = []
    given: list[torch.Tensor] = []

    def postponed(value: torch.Tensor, run: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        waiting[:], given[:] = [run], [value]
        return value

    def both(value: Any, result: torch.Tensor) -> torch.Tensor:
        if not waiting or value is not given[0] or not isinstance(result, torch.Tensor):
            raise NotApplicable("the second does not take what the first gives")
        return waiting.pop()(result)

    changes: tuple[Change, ...] = (_skipped(probe, first, postponed), _followed(second, both))
    words = f"`{_name(second, probe)}` before `{_name(first, probe)}`"
    return Edit("order_exchanged", words, changes, rank=3)


def _skipped(probe: Probe, unit: str | Site, postponed: Any) -> Change:
    if isinstance(unit, Site):
        return OperationChange(
            frozenset([unit]), lambda call: postponed(call.args[0], lambda x, c=call: c.operand(0, x))
        )
    module = probe.modules[unit]

    def skip(values: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        if not args or not isinstance(args[0], torch.Tensor):
            raise NotApplicable("a module that takes no tensor first")
        return postponed(args[0], lambda x: _forward(module, x, args, kwargs))

    return ModuleChange(unit, skip)


def _forward(module: nn.Module, x: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """Without hooks: the module itself, on something else."""
    result: torch.Tensor = module.forward(x, *args[1:], **kwargs)
    return result


def _followed(unit: str | Site, both: Any) -> Change:
    if isinstance(unit, Site):
        return OperationChange(frozenset([unit]), lambda call: both(call.args[0], call.run()))
    return ModuleChange(unit, lambda values, args, kwargs, result: both(args[0] if args else None, result))


def _name(unit: str | Site, probe: Probe) -> str:
    return f"{unit.op}.{unit.index}" if isinstance(unit, Site) else unit[len(probe.owner) + 1 :]


def _summed_earlier(probe: Probe, survey: Survey) -> Iterator[Edit]:
    """What is added behind a child is added to the input of an earlier one instead."""
    for site in [
        s for s in survey.sites if s.path == probe.path and s.op == "add" and len(survey.sites[s].operands) > 1
    ]:
        when = survey.order.get(site, 1 << 30)
        for path in survey.children:
            if survey.values.get(f"{path}|out", (1 << 30, ()))[0] < when:
                for operand in (1, 0):
                    summand = probe.plain_operand(site, operand)
                    if summand is not None:
                        yield _added_before(probe, site, path, operand, summand)


def _added_before(probe: Probe, site: Site, path: str, operand: int, summand: torch.Tensor) -> Edit:
    """With the summand of the run without changes: it is known only after the child has run."""
    name = path[len(probe.owner) + 1 :]

    def before(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        if not args or torch.broadcast_shapes(args[0].shape, summand.shape) != args[0].shape:
            raise NotApplicable("another shape")
        return (args[0] + summand, *args[1:]), kwargs

    changes = (
        ModuleChange(path, before, before=True),
        OperationChange(frozenset([site]), lambda call: call.args[1 - operand]),
    )
    return Edit("order_exchanged", f"the sum of `{site.op}.{site.index}` done before `{name}`", changes, rank=3)


def resized_edits(probe: Probe, survey: Survey) -> Iterator[Edit]:
    """A joined or added feature map that was made small and large again."""
    for site in [s for s in survey.sites if s.path == probe.path and s.op in ("cat", "add")]:
        for place in _maps(survey.sites[site]):
            for words, change in _RESIZED.items():
                yield Edit(
                    "resized", f"operand {place[-1]} of `{site.op}.{site.index}` {words}",
                    (OperationChange(frozenset([site]), _changed(place, change)),), rank=4,
                )  # fmt: skip


def _maps(example: Any) -> Iterator[tuple[int, ...]]:
    for index, operand in enumerate(example.operands[:2]):
        parts = enumerate(operand) if isinstance(operand, list) else [(None, operand)]
        for part, shape in parts:
            if (
                isinstance(shape, tuple)
                and len(shape) == 4
                and min(shape[2:]) >= 4
                and not any(s % 2 for s in shape[2:])
            ):
                yield (index,) if part is None else (index, part)


def _changed(place: tuple[int, ...], change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Call], Any]:
    def apply(call: Call) -> Any:
        value = call.args[place[0]]
        if len(place) == 1:
            return call.operand(place[0], change(value))
        parts = list(value)
        parts[place[1]] = change(parts[place[1]])
        return call.operand(place[0], parts)

    return apply


_RESIZED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "every second pixel, repeated": lambda x: F.interpolate(x[..., ::2, ::2], scale_factor=2.0),
    "averaged over 2 x 2 pixels, repeated": lambda x: F.interpolate(F.avg_pool2d(x, 2), scale_factor=2.0),
    "every second pixel, bilinear": lambda x: F.interpolate(x[..., ::2, ::2], scale_factor=2.0, mode="bilinear"),
    "averaged over 2 x 2 pixels, bilinear": lambda x: F.interpolate(
        F.avg_pool2d(x, 2), scale_factor=2.0, mode="bilinear"
    ),
}
