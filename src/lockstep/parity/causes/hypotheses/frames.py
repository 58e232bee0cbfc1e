"""What other implementations do with several operations of one module at once: their order, their number, their
size."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from ..edits import Call, Edit, ModuleChange, NotApplicable, OperationChange, Site
from ..examples import Example
from ..probe import Probe, Survey
from .tensors import ARITHMETIC

_MOVABLE = ARITHMETIC | {"gelu", "silu", "relu", "sigmoid", "tanh", "interpolate", "clamp", "exp", "sqrt", "neg"}
_KEPT_PAIRS = 60


def own_sites(probe: Probe, survey: Survey) -> list[Site]:
    return [site for site in survey.sites if site.path == probe.path]


def several_edits(probe: Probe, survey: Survey) -> Iterator[Edit]:
    """Hypotheses that change more than one place."""
    yield from _order_with_children(probe, survey)
    yield from _operands_before(probe, survey)


def sines_and_cosines(probe: Probe, survey: Survey) -> Iterator[Edit]:
    own = own_sites(probe, survey)
    sines, cosines = (frozenset(s for s in own if s.op == op) for op in ("sin", "cos"))
    if sines and cosines:
        changes = (
            OperationChange(sines, lambda call: torch.cos(call.args[0])),
            OperationChange(cosines, lambda call: torch.sin(call.args[0])),
        )
        yield Edit("sin_cos", "sines and cosines exchanged", changes, rank=2)


def _order_with_children(probe: Probe, survey: Survey) -> Iterator[Edit]:
    """An operation behind the child that it stands before."""
    for site in own_sites(probe, survey):
        if site.op not in _MOVABLE or not survey.sites[site].floating:
            continue
        order = survey.values.get(str(site), (1 << 30, ()))[0]
        for path in survey.children:
            begun = survey.values.get(f"{path}|out", (1 << 30, ()))[0]
            if order < begun <= order + 2 or begun == 1 << 30:
                yield _behind_child(site, path, path[len(probe.owner) + 1 :])


def _behind_child(site: Site, path: str, name: str) -> Edit:
    waiting: list[Call] = []

    def skip(call: Call) -> Any:
        waiting.clear()
        waiting.append(call)
        return call.args[0]

    def behind(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        if not waiting or not args or args[0] is not waiting[0].args[0]:
            raise NotApplicable("the child does not take what the operation gives")
        return waiting[0].operand(0, result)

    changes = (OperationChange(frozenset([site]), skip), ModuleChange(path, behind))
    return Edit("order_exchanged", f"`{site.op}` behind `{name}` instead of before it", changes, rank=3)


def _operands_before(probe: Probe, survey: Survey) -> Iterator[Edit]:
    """Query and key of an attention taken before something was done to them: a rotation left out."""
    for site in own_sites(probe, survey):
        example = survey.sites[site]
        if example.op not in ("scaled_dot_product_attention", "matmul") or len(example.operands) < 2:
            continue
        order = survey.values.get(str(site), (1 << 30, ()))[0]
        shape = example.operands[0]
        labels = [
            label
            for label, (when, other) in sorted(survey.values.items(), key=lambda item: -item[1][0])
            if when < order and other == shape and _is_source(label)
        ]
        if not _has_rotation(probe, survey, shape):
            continue
        for index, label in ((i, label) for label in labels[:_KEPT_PAIRS] if "|" in label for i in (0, 1)):
            yield _one_replaced(site, index, label, probe)
        pairs = [(a, b) for i, b in enumerate(labels) for a in labels[i + 1 :] if _kind_of(a) == _kind_of(b)]
        for first, second in pairs[:_KEPT_PAIRS]:
            yield _both_replaced(site, first, second, probe)


def _is_source(label: str) -> bool:
    return "|" in label or re.search(r"/(transpose|permute|unflatten|view|reshape)\.\d+$", label) is not None


def _kind_of(label: str) -> str:
    """Labels of two values made in the same way have the same kind."""
    path, _, slot = label.partition("|")
    return slot or re.sub(r"\.\d+$", "", path)


def _has_rotation(probe: Probe, survey: Survey, shape: Any) -> bool:
    """Products and a sum of the attention's own shape: something is done to query and key."""
    ops = [s.op for s in own_sites(probe, survey) if survey.sites[s].shape == shape]
    return ops.count("mul") > 1 and ("add" in ops or "sub" in ops)


def _one_replaced(site: Site, index: int, label: str, probe: Probe) -> Edit:
    def apply(call: Call) -> Any:
        return call.operand(index, call.values[label])

    name = label.partition("|")[0][len(probe.owner) + 1 :]
    words = f"{('query', 'key')[index]} is the result of `{name}`, without what comes behind (no rotation)"
    return Edit("rope_missing", words, (OperationChange(frozenset([site]), apply),), rank=3, needs=(label,))


def _both_replaced(site: Site, first: str, second: str, probe: Probe) -> Edit:
    def apply(call: Call) -> Any:
        query, key = call.values[first], call.values[second]
        if call.op == "matmul":
            key = key.transpose(-1, -2)
        return call.function(query, key, *call.args[2:], **call.kwargs)

    shown = [label.partition("|")[0][len(probe.owner) + 1 :] for label in (first, second)]
    words = f"query and key are the results of `{shown[0]}` and `{shown[1]}`, without what comes behind (no rotation)"
    return Edit("rope_missing", words, (OperationChange(frozenset([site]), apply),), rank=3, needs=(first, second))


def repeated_children(probe: Probe, survey: Survey) -> Iterator[Edit]:
    for path in survey.children:
        module, name = probe.modules[path], path[len(probe.owner) + 1 :]
        yield Edit("call_twice", f"`{name}` run twice", (ModuleChange(path, again(module)),), rank=4)


def again(module: nn.Module) -> Callable[..., Any]:
    def apply(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        if not args or not isinstance(result, torch.Tensor) or getattr(args[0], "shape", None) != result.shape:
            raise NotApplicable("not a module that can be run on its own result")
        return module.forward(result, *args[1:], **kwargs)

    return apply


def scale_edits(probe: Probe, survey: Survey) -> Iterator[Edit]:
    """Every value of the frame times a number that is fitted; each edit is the number one."""
    own = [s for s in own_sites(probe, survey) if survey.sites[s].floating and survey.sites[s].shape]
    for site in reversed(own):
        yield _scaled(site, survey.sites[site], 1.0)
    for path in reversed(survey.children):
        yield _scaled_child(path, path[len(probe.owner) + 1 :], 1.0)


def _factor_name(factor: float) -> str:
    return "sign" if math.isclose(factor, -1, rel_tol=1e-4) else "scale"


def _scaled(site: Site, example: Example, factor: float) -> Edit:
    change = OperationChange(frozenset([site]), lambda call: call.run() * factor)
    return Edit(
        _factor_name(factor), f"`{site.op}.{site.index}` times {factor:.6g}", (change,), rank=5,
        parameter=factor, refit=lambda value: _scaled(site, example, value),
    )  # fmt: skip


def _scaled_child(path: str, name: str, factor: float) -> Edit:
    def apply(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        if not isinstance(result, torch.Tensor):
            raise NotApplicable("not one tensor")
        return result * factor

    return Edit(
        _factor_name(factor), f"the result of `{name}` times {factor:.6g}", (ModuleChange(path, apply),), rank=5,
        parameter=factor, refit=lambda value: _scaled_child(path, name, value),
    )  # fmt: skip
