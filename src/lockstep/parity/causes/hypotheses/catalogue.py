"""The hypotheses for one probed call, most telling first."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from ..edits import AttributeChange, Call, Edit, ModuleChange, NotApplicable, OperationChange, Site
from ..examples import Example
from ..probe import Probe, Survey
from .attention import attention_edits
from .axes import axis_edits
from .ends import end_edits
from .layers import ACTIVATIONS, activation_edits, convolution_edits, embedding_edits, linear_edits, norm_edits
from .layouts import FEW, layout_edits, precision_edits
from .reductions import reduction_edits
from .tensors import (
    arithmetic_edits,
    index_edits,
    join_edits,
    resize_edits,
    split_edits,
    trigonometry_edits,
)

_MAKERS = (
    activation_edits,
    norm_edits,
    linear_edits,
    convolution_edits,
    embedding_edits,
    attention_edits,
    split_edits,
    join_edits,
    trigonometry_edits,
    resize_edits,
    end_edits,
    index_edits,
    reduction_edits,
    axis_edits,
    arithmetic_edits,
    layout_edits,
    precision_edits,
)
MAX_OPERANDS = 400


def operation_edits(example: Example, sites: frozenset[Site]) -> Iterator[Edit]:
    """Every other way to do one operation."""
    for make in _MAKERS:
        yield from make(example, sites)


def own_frame_edits(
    probe: Probe, survey: Survey, focus: Site | None, unseen: frozenset[str] = frozenset()
) -> Iterator[Edit]:
    """Operations that the probed module itself calls, the suspect one first; and those of children that only this
    side has."""
    own = [site for site in survey.sites if _is_own(site.path, probe) or site.path in unseen]
    own.reverse()  # the nearest to the bad value first
    own.sort(key=lambda site: site != focus)
    for site in own:
        yield from operation_edits(survey.sites[site], frozenset([site]))
    for group in _same_shapes(own, survey):
        yield from operation_edits(survey.sites[group[0]], frozenset(group))


def _is_own(path: str, probe: Probe) -> bool:
    """A pipeline's own code includes that of its schedulers."""
    return path == probe.path or (probe.path.startswith("@") and path.startswith("@"))


def _same_shapes(sites: list[Site], survey: Survey) -> list[list[Site]]:
    """Sites of one kind together: what was written wrong once in a helper is wrong wherever it is called."""
    found: dict[Any, list[Site]] = defaultdict(list)
    for site in sites:
        example = survey.sites[site]
        found[example.op, str(example.shape), str(example.pieces), _index_of(example)].append(site)
    return [group for group in found.values() if len(group) > 1]


_FIRST_KINDS = (
    "gelu",
    "group_norm",
    "layer_norm",
    "rms_norm",
    "scaled_dot_product_attention",
    "silu",
    "sigmoid",
    "softmax",
)


def deep_edits(survey: Survey, singly: bool = True) -> Iterator[Edit]:
    """Operations at any depth, all alike at once: for a side whose trace does not say which of them it was."""
    done: set[frozenset[Site]] = set()
    for sites in [*alike(survey.sites), *([[site] for site in survey.sites] if singly else [])]:
        if frozenset(sites) not in done:
            done.add(frozenset(sites))
            for edit in operation_edits(survey.sites[sites[0]], frozenset(sites)):
                if edit.rank <= 3 or edit.name == "rounding":
                    yield edit


def together_edits(survey: Survey) -> Iterator[Edit]:
    """Operations of one kind at once, whatever their shapes: a table is made axis by axis."""
    for sites in alike(survey.sites):
        if len(sites) > 1:
            yield from operation_edits(survey.sites[sites[0]], frozenset(sites))


def alike(sites: dict[Site, Example]) -> list[list[Site]]:
    """Sites of one operation and setting anywhere, then those at the same place of alike modules."""
    wide: dict[Any, list[Site]] = defaultdict(list)
    named: dict[Any, list[Site]] = defaultdict(list)
    for site, example in sites.items():
        wide[example.op, alike_setting(example)].append(site)
        named[re.sub(r"\d+", "*", site.path), site.op, site.index, alike_setting(example)].append(site)
    groups = [*wide.values(), *named.values()]
    return sorted(groups, key=lambda g: _FIRST_KINDS.index(g[0].op) if g[0].op in _FIRST_KINDS else len(_FIRST_KINDS))


def alike_setting(example: Example) -> str:
    """What an operation was told, as far as that makes it another kind."""
    shown = ("eps", "approximate", "scale", "mode", "is_causal")
    if example.op == "getitem":
        return _index_of(example)
    return ", ".join(f"{k}={example.settings[k]}" for k in shown if k in example.settings)


def _index_of(example: Example) -> str:
    """What is picked out: another place of the same shape is another matter."""
    return str(example.operands[1:]) if example.op == "getitem" else ""


def attribute_edits(probe: Probe, differing: list[dict[str, Any]]) -> Iterator[Edit]:
    """Settings that the other side's live module has otherwise."""
    for item in differing:
        path, name, value = item["path"], item["name"], item["other"]
        module = probe.modules.get(path)
        if module is None or not hasattr(module, name):
            continue
        now = getattr(module, name)
        if isinstance(now, tuple) and isinstance(value, list):
            value = tuple(value)
        cause = _attribute_cause(name, module)
        detail = f"`{path}.{name}` is {value!r} instead of {now!r}"
        yield Edit(cause, detail, (AttributeChange(path, name, value),), rank=0)


ATTRIBUTE_CAUSES = {
    "eps": "norm_eps",
    "variance_epsilon": "norm_eps",
    "num_groups": "norm_groups",
    "heads": "attention_heads",
    "num_heads": "attention_heads",
    "approximate": "gelu_variant",
    "act": "activation",
    "activation": "activation",
    "act_fn": "activation",
    "scale": "attention_scale",
    "is_causal": "causal_mask",
    "causal": "causal_mask",
    "padding": "padding_sides",
    "padding_mode": "padding_mode",
    "mode": "upsample_mode",
    "flip_sin_to_cos": "flip_sin_to_cos",
    "downscale_freq_shift": "freq_shift",
    "freq_shift": "freq_shift",
}


def _attribute_cause(name: str, module: nn.Module) -> str:
    return ATTRIBUTE_CAUSES.get(name, f"setting_{name}")


def input_edits(probe: Probe) -> Iterator[Edit]:
    """What goes into the module, rearranged: channels reversed, axes exchanged, rounded."""
    for index, tensor in enumerate(probe.tensors_in()):
        changed = partial(_changed_input, probe, index)
        if not tensor.is_floating_point():
            if tensor.dtype is not torch.bool:
                yield from _index_edits(probe, index, tensor)
            continue
        if tensor.numel() <= FEW:
            for words, function in (("cut", torch.trunc), ("rounded", torch.round)):
                yield changed("timestep_dtype", f"input {index} {words} to integers", function)
        if "norm" in type(probe.module).__name__.lower():
            yield changed(
                "norm_kind", f"the mean subtracted from input {index} first", lambda x: x - x.mean(-1, keepdim=True)
            )
        for axis in range(1, tensor.ndim):
            name = "channel_order" if axis == 1 and tensor.shape[1] in (3, 4) else "reversed"
            yield changed(name, f"input {index} reversed along axis {axis}", lambda x, a=axis: x.flip(a))
            if tensor.shape[axis] % 2 == 0:
                yield changed(
                    "half_swap",
                    f"input {index} with its halves swapped along axis {axis}",
                    lambda x, a=axis: x.roll(x.shape[a] // 2, a),
                )
            for other in range(axis + 1, tensor.ndim):
                if tensor.shape[axis] == tensor.shape[other]:
                    yield changed(
                        "axes_swapped",
                        f"input {index} with axes {axis} and {other} swapped",
                        lambda x, a=axis, b=other: x.transpose(a, b),
                    )
        for words, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
            yield changed("precision", f"input {index} rounded to {words}", lambda x, d=dtype: x.to(d).to(x.dtype))


def _index_edits(probe: Probe, index: int, tensor: torch.Tensor) -> Iterator[Edit]:
    changed = partial(_changed_input, probe, index)
    mask = bool(((tensor == 0) | (tensor == 1)).all())  # which one more or less would only switch off
    for by in (1, -1) if not mask else ():
        yield changed("index_offset", f"input {index} {by:+d}", lambda x, b=by: (x + b).clamp_min(0))
        yield changed(
            "index_offset",
            f"input {index} {by:+d}, no larger than before",
            lambda x, b=by: (x + b).clamp(0, int(x.max())),
        )
    for axis in range(1, tensor.ndim):
        yield changed("reversed", f"input {index} reversed along axis {axis}", lambda x, a=axis: x.flip(a))
        for by in (1, -1):
            yield changed(
                "shifted", f"input {index} moved by {by} along axis {axis}", lambda x, b=by, a=axis: x.roll(b, a)
            )


def _changed_input(probe: Probe, index: int, cause: str, words: str, change: Any) -> Edit:
    """The input of that number, changed before the module gets it."""

    def apply(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        count = iter(range(1 << 20))

        def change_one(value: Any) -> Any:
            return change(value) if isinstance(value, torch.Tensor) and next(count) == index else value

        return tuple(change_one(v) for v in args), {k: change_one(v) for k, v in kwargs.items()}

    return Edit(cause, words, (ModuleChange(probe.path, apply, before=True),), rank=4)


def child_edits(probe: Probe, survey: Survey) -> Iterator[Edit]:
    """Children left out, or a norm moved behind the sum."""
    for path in survey.children:
        name = path[len(probe.owner) + 1 :]
        module = probe.modules[path]
        yield Edit("left_out", f"`{name}` left out", (ModuleChange(path, same_as_input),), rank=3)
        if not any(True for _ in module.parameters()) and not any(True for _ in module.children()):
            yield from _whole_activations(path, name)
        if isinstance(getattr(module, "bias", None), torch.Tensor):
            yield Edit(
                "double_bias", f"the bias of `{name}` added twice", (ModuleChange(path, _biased(module)),), rank=4
            )
        if "norm" in type(module).__name__.lower():
            for site, example in survey.sites.items():
                if site.path == probe.path and example.op == "add":
                    yield _norm_behind_sum(path, name, module, site)


def _biased(module: nn.Module) -> Any:
    axis = 1 if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.GroupNorm)) else -1

    def apply(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        return (result.movedim(axis, -1) + module.bias).movedim(-1, axis)

    return apply


def _whole_activations(path: str, name: str) -> Iterator[Edit]:
    for words, function in ACTIVATIONS.items():
        change = ModuleChange(path, lambda v, a, k, r, f=function: f(a[0]) if a and isinstance(r, torch.Tensor) else r)
        yield Edit("gelu_variant" if "GELU" in words else "activation", f"`{name}` computes {words}", (change,), rank=3)


def module_as_activation(probe: Probe) -> Iterator[Edit]:
    """A module without weights may be an activation written out."""
    if not any(True for _ in probe.module.parameters()) and not any(True for _ in probe.module.children()):
        yield from _whole_activations(probe.path, probe.path.rpartition(".")[2])


def same_as_input(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    first = next((v for v in [*args, *kwargs.values()] if isinstance(v, torch.Tensor)), None)
    if first is None or not isinstance(result, torch.Tensor) or first.shape != result.shape:
        raise NotApplicable("not a module that can be left out")
    return first


def _norm_behind_sum(path: str, name: str, module: nn.Module, site: Site) -> Edit:
    busy: list[bool] = []

    def skip(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        return result if busy else args[0]

    def behind(call: Call) -> Any:
        busy.append(True)
        try:
            return module(call.run())
        finally:
            busy.pop()

    changes = (ModuleChange(path, skip), OperationChange(frozenset([site]), behind))
    return Edit("norm_placement", f"`{name}` after the sum instead of before it", changes, rank=3)


def operand_edits(probe: Probe, survey: Survey) -> Iterator[Edit]:
    """Another value of the same shape in the place of an operand: a shadowed variable, the residual of the wrong
    thing."""
    count = 0
    for site, example in reversed(survey.sites.items()):  # the nearest to the bad value first
        if not _is_own(site.path, probe) or example.op in ("view", "reshape", "transpose", "permute", "to"):
            continue
        order = survey.order[site]
        for place, operand in _places_of(example):
            index = place[0]
            if (
                not isinstance(operand, tuple)
                or len(operand) < 2
                or (index < len(example.parameters) and example.parameters[index])
            ):
                continue
            for label in _earlier(survey, order, operand):
                count += 1
                if count > MAX_OPERANDS:
                    return
                yield _replaced(site, place, label, probe)
    for path in survey.children:
        order = survey.values.get(f"{path}|out", (1 << 30, ()))[0]
        for label, (when, _) in survey.values.items():
            if when < order and count < MAX_OPERANDS:
                count += 1
                yield _replaced_input(path, label, probe)


def _earlier(survey: Survey, order: int, shape: tuple[int, ...]) -> list[str]:
    return [label for label, (when, other) in survey.values.items() if when < order and other == shape]


def _places_of(example: Example) -> list[tuple[tuple[int, ...], Any]]:
    """Tensors that go into an operation, also those of a list that is joined."""
    found: list[tuple[tuple[int, ...], Any]] = []
    for index, operand in enumerate(example.operands[:3]):
        if isinstance(operand, list):
            found += [((index, part), shape) for part, shape in enumerate(operand)]
        else:
            found.append(((index,), operand))
    return found


def _replaced(site: Site, place: tuple[int, ...], label: str, probe: Probe) -> Edit:
    index = place[0]

    def apply(call: Call) -> Any:
        if len(place) == 1 and not isinstance(call.args[index], torch.Tensor):
            raise NotApplicable("no tensor")
        if len(place) == 1:
            return call.operand(index, call.values[label].reshape(call.args[index].shape))
        parts = list(call.args[index])
        parts[place[1]] = call.values[label].reshape(parts[place[1]].shape)
        return call.operand(index, parts)

    words = f"operand {place[-1]} of `{site.op}.{site.index}` is {_label_words(label, probe)}"
    cause = "random_offset" if re.search(r"/rand\w*\.\d+$", label) else "wrong_operand"
    return Edit(cause, words, (OperationChange(frozenset([site]), apply),), rank=5, needs=(label,))


def _replaced_input(path: str, label: str, probe: Probe) -> Edit:
    def apply(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        new = values[label]
        if not args or not isinstance(args[0], torch.Tensor) or args[0].shape != new.shape:
            raise NotApplicable("another shape")
        return (new, *args[1:]), kwargs

    words = f"`{path[len(probe.owner) + 1 :]}` is given {_label_words(label, probe)}"
    return Edit("wrong_operand", words, (ModuleChange(path, apply, before=True),), rank=5, needs=(label,))


def _label_words(label: str, probe: Probe) -> str:
    path, _, slot = label.partition("|")
    if slot.startswith("in."):
        return f"the module's input {slot[3:]}"
    return f"the result of `{path[len(probe.owner) + 1 :]}`"


def rotary_edits(probe: Probe, survey: Survey) -> Iterator[Edit]:
    """Rotary lanes in halves or interleaved: the same as dealing the lanes of query and key before the rotation."""
    attention = next((e for s, e in survey.sites.items() if e.op == "scaled_dot_product_attention"), None)
    width = attention.tensors["query"][-1] if attention is not None else 0
    if width < 4 or width % 2:
        return
    names = {path: path.rpartition(".")[2] for path in {s.path: s for s in survey.sites if s.op == "linear"}}
    norms = [p for p in survey.children if re.search(r"norm_(added_)?[qk]$|(q|k|query|key)_norm$", p)]
    chosen = norms or [p for p in names if re.search(r"(^|_)(q|k|query|key|wq|wk)($|_|proj)", names[p])]
    fused = [p for p in names if "qkv" in names[p] and not norms]
    for parts, words in (
        (2, "interleaved pairs instead of halves"),
        (width // 2, "halves instead of interleaved pairs"),
    ):
        deal = _dealt_lanes(width, parts)
        for paths, change in ((chosen, deal), (fused, _first_two_thirds(deal))):
            if len(paths) > (paths is chosen):
                made = tuple(ModuleChange(path, lambda v, a, k, result, c=change: c(result)) for path in paths)
                yield Edit("rope_lanes", f"rotary lanes as {words}", made, rank=2)


def _dealt_lanes(width: int, parts: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def deal(x: torch.Tensor) -> torch.Tensor:
        heads = x.unflatten(-1, (-1, width))
        return heads.unflatten(-1, (-1, parts)).transpose(-1, -2).flatten(-2).flatten(-2)

    return deal


def _first_two_thirds(deal: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    def apply(whole: torch.Tensor) -> torch.Tensor:
        query_key, value = whole.split((2 * whole.shape[-1] // 3, whole.shape[-1] // 3), -1)
        return torch.cat([deal(query_key), value], -1)

    return apply
