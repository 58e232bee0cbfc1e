"""A place where two sides compute different things, as the name of a cause and a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ..hypotheses.catalogue import ATTRIBUTE_CAUSES
from ..hypotheses.weights import weight_words
from ..relations import as_whole_number, relation
from .attentions import attention_words
from .blends import blend_words
from .expressions import Says, once, short, step_key
from .functions import activation_words, order_words
from .graph import CASTS, SHAPES, FrameStep, FrameValue
from .kinds import ACTIVATIONS, before_shapes, exchange_kind, is_index, norm_kind, step_kind, takes_parts
from .layers import lacking_bias, other_layer
from .layouts import NormalForm, reading_words
from .lines import overwritten_by
from .matching import Matching, Parting
from .norms import norm_words
from .patches import given_to_linear, is_one_step, lacks_bias, laid_by, patch_order
from .rotations import LANES, OTHER_WAY, rotation_words
from .scalars import number_words
from .settings import plain

_SETTINGS = {
    **ATTRIBUTE_CAUSES,
    "dim": "reduced_axes",
    "diagonal": "causal_mask",
    "attn_mask": "attention_mask",
    "align_corners": "upsample_mode",
    "stride": "stride",
    "value": "padding_mode",
    "pad": "padding_sides",
}
_EXCHANGED = {
    frozenset(("add", "sub")): "sign", frozenset(("sub", "rsub")): "operand_order",
    frozenset(("mul", "div")): "inverse", frozenset(("div", "rdiv")): "operand_order",
    frozenset(("sin", "cos")): "sin_cos",
    frozenset(("layer_norm", "rms_norm")): "norm_kind", frozenset(("mean", "amax")): "pooling_kind",
    frozenset(("mean", "sum")): "pooling_kind", frozenset(("avg_pool2d", "max_pool2d")): "pooling_kind",
}  # fmt: skip
_OPERANDS = {
    ("scaled_dot_product_attention", 3): "attention_mask", ("masked_fill", 1): "attention_mask",
    ("where", 0): "attention_mask",
}  # fmt: skip
POINTWISE = frozenset(
    ["add", "sub", "mul", "div", "pow", "rpow", "rdiv", "rsub", "clamp", "leaky_relu", "elu", "softplus"]
)
LARGEST_EPS = 0.1
TAKEN = ("embedding", "getitem", "index_select", "gather", "narrow")
MOST_TAKEN = 1 << 18
_NAMED_BY_SETTING = {"gelu": {None: "GELU (erf)", "none": "GELU (erf)", "tanh": "GELU (tanh)"}}


@dataclass(frozen=True)
class PlaceWords:
    """The name of the cause, what is different, and how specific that is."""

    name: str
    detail: str
    rank: int = 3
    mine: tuple[str, ...] = ()  # steps that only the reference takes
    others: tuple[str, ...] = ()  # steps that only the candidate takes
    loaded: bool = False  # it is a matter of the weights, not of the code
    form: bool = False  # the step at the place is right in another form: its line is not told
    by: FrameStep | None = None  # but that of another one


def words_of(
    matching: Matching,
    difference: Parting,
    inner: list[Parting],
    modules: Mapping[str, nn.Module],
    others: Mapping[str, nn.Module],
) -> PlaceWords:
    """The simplest true thing to say: a weight, a number, an operand, a step too many, else both expressions.

    `inner` are the values inside of the place that are all that is wrong, if there are such; `others` are the
    candidate's modules.
    """
    ours, theirs = difference.ours, difference.theirs
    says = Says(matching)
    if difference.exit is None and (weight := _other_weight(matching, ours, theirs, modules)) is not None:
        return weight
    if difference.exit is None and (order := patch_words(matching, says, ours, theirs)) is not None:
        return order
    for place in [difference, *inner]:
        if (writer := overwritten_by(matching, place)) is not None:
            told = f"`{says.plain_name(place.ours)}` is overwritten by `{writer.name}` in place while it is still used"
            return PlaceWords("in_place", told, rank=1)
    if overwritten := _overwritten_operand(matching, says, ours, theirs):
        return PlaceWords("in_place", overwritten, rank=1)
    has_it = matching.partner(theirs) is not None  # the candidate goes on with what the reference has, too
    if difference.exit is None and ours.step is not None and theirs.step is not None:
        special = _one_step(matching, says, ours.step, theirs.step)
        if special is not None and not (has_it and ours.step.name != theirs.step.name):
            return special
    if used := _transposed(matching, ours, theirs):
        return PlaceWords("transposed_weight", used, rank=2)
    if are_exchanged(matching, inner):
        names = [says.plain_name(place.theirs, whole=True) for place in inner]
        kind = exchange_kind(inner[0].ours, inner[1].ours)
        name, told = attention_words(matching.same_numbers, difference.ours, difference.theirs)
        if name == kind:
            return PlaceWords(name, told, rank=2)
        return PlaceWords(kind, f"`{names[0]}` and `{names[1]}` are exchanged", rank=2)
    if inner:
        ours, theirs = inner[0].ours, inner[0].theirs
        for x, y in ((ours, theirs), (once(ours), once(theirs))):
            one = _one_step(matching, says, x.step, y.step) if x.step and y.step else None
            if one is not None:
                return one
    for x, y in dict.fromkeys([(ours, theirs), (difference.ours, difference.theirs)]):
        name, told = norm_words(matching, x, y)
        if not name:
            name, told = attention_words(matching.same_numbers, x, y)
        if name:
            more = f": {says.both(ours, theirs)}" if inner and name == "attention_mask" else ""
            return PlaceWords(name, told + more, rank=2)
    if turned := rotation_words(matching, ours, theirs):
        name = "sign" if turned == OTHER_WAY else "rope_lanes" if turned.startswith(LANES) else "rope_table"
        return PlaceWords(name, f"query or key is turned otherwise: {turned}", rank=2)
    name, told = activation_words(matching, ours, theirs)
    if name:
        return PlaceWords(name, told, rank=2)
    name, told = number_words(matching, says, ours, theirs)
    if name:
        return PlaceWords(name, told, rank=2)
    place = Parting(ours, theirs) if inner else difference
    if moved := order_words(matching, place, others, says.plain_name):
        return PlaceWords("order_exchanged", f"{moved}: {says.both(ours, theirs)}", rank=2)
    if as_whole_number(ours.content, theirs.content):
        return PlaceWords("precision", _with_relation(says.both(ours, theirs), ours, theirs), rank=2)
    if blended := blend_words(matching, ours, theirs):
        return PlaceWords("blend", blended, rank=2)
    if coarse := _coarser(matching, ours, theirs):
        shown = _rounded(says.both(ours, theirs), coarse)
        return PlaceWords("precision", shown, rank=2)
    if NormalForm(matching, plain).same(ours, theirs):  # the same steps with the same values: only read otherwise
        read = reading_words(matching, ours, theirs, says.plain_name)
        told = relation(ours.content, theirs.content)
        return PlaceWords("axes_swapped", f"{read} ({told})" if read and told else read, rank=2)
    if called := other_layer(matching, ours, theirs, modules):
        return PlaceWords("wrong_module", called)
    if layer := lacking_bias(matching, ours, theirs):
        return PlaceWords("missing_bias", f"`{layer}` is not added", rank=2)
    handed = difference.exit is not None or (bool(inner) and matching.is_leaf(ours))
    mine = [] if handed else list(matching.until_shared(ours))
    extra = [] if matching.is_leaf(theirs) else list(matching.until_shared(theirs))
    shown = _with_relation(says.both(ours, theirs), ours, theirs)
    words = _named(matching, ours, theirs, mine, extra, shown)
    steps = [tuple(sorted(s.name for s in steps if s.name not in SHAPES)) for steps in (mine, extra)]
    if ours.content.dtype is torch.bool and theirs.content.dtype is torch.bool:
        words = replace(words, name="attention_mask")
    return replace(words, mine=steps[0], others=steps[1])


def patch_words(matching: Matching, says: Says, ours: FrameValue, theirs: FrameValue) -> PlaceWords | None:
    """Patches put through a convolution by the one and through a linear layer by the other: what goes in is told."""
    ours, theirs = once(ours), once(theirs)
    if theirs.step is not None and (order := patch_order(matching, ours, theirs)) is not None:
        rows = (given_to_linear(theirs) or theirs.step.operands())[0]
        return PlaceWords("axes_swapped", order.words(), rank=2, form=True, by=laid_by(rows))
    if ours.step is None or theirs.step is None or not is_one_step(ours, theirs, matching.tolerance):
        return None
    if lacks_bias(ours, theirs, matching.tolerance):
        return PlaceWords("missing_bias", f"`{says.plain_name(ours.step.operands()[1])}` without its bias", rank=2)
    wrong, right = (
        says.plain_name((given_to_linear(v) or v.step.operands())[0]) for v in (theirs, ours) if v.step is not None
    )
    weight = says.plain_name(ours.step.operands()[1])
    return PlaceWords("wrong_operand", f"`{weight}` is given other values: `{wrong}` for `{right}`", form=True)


def _overwritten_operand(matching: Matching, says: Says, ours: FrameValue, theirs: FrameValue) -> str:
    """An operand that was the reference's until the candidate wrote into it."""
    a, b = ours.step, theirs.step
    if a is None or b is None or a.name != b.name or len(a.operands()) != len(b.operands()):
        return ""
    for x, y in zip(a.operands(), b.operands(), strict=True):
        writer = None if matching.same_numbers(x, y) else overwritten_by(matching, Parting(x, y))
        if writer is not None:
            at = f" at {writer.line}" if writer.line else ""
            return f"`{says.plain_name(x)}` is overwritten by `{writer.name}` in place{at} before `{b.name}` takes it"
    return ""


def are_exchanged(matching: Matching, inner: list[Parting]) -> bool:
    return len(inner) == 2 and all(matching.partner(a.theirs) is b.ours for a, b in (inner, inner[::-1]))


def _with_relation(shown: str, ours: FrameValue, theirs: FrameValue) -> str:
    """With what the candidate's numbers are to the reference's, where that is simple."""
    told = as_whole_number(ours.content, theirs.content) or relation(ours.content, theirs.content)
    wrong, instead, right = shown.partition(" instead of ")
    return f"{wrong} (the reference's {told}){instead}{right}" if told and wrong != right else shown


def _other_weight(
    matching: Matching, ours: FrameValue, theirs: FrameValue, modules: Mapping[str, nn.Module]
) -> PlaceWords | None:
    """The same step with another weight: it was loaded otherwise, whatever the code says."""
    a, b = ours.step, theirs.step
    if a is None or b is None or a.name != b.name or len(a.operands()) != len(b.operands()):
        return None
    left = [(x, y) for x, y in zip(a.operands(), b.operands(), strict=True) if not matching.same(x, y)]
    if len(left) != 1 or not all(v.given.startswith("weight:") for v in left[0]):
        return None
    (x, y), path = left[0], left[0][0].given.partition(":")[2]
    if x.content.shape != y.content.shape or matching.partner(y) is not None:
        return None  # another weight that the reference uses, too, is a matter of the code
    name, words = weight_words(path, x.content, y.content, modules)
    return PlaceWords(name, f"{words} (there `{y.given.partition(':')[2]}`)", rank=1, loaded=True)


def _transposed(matching: Matching, ours: FrameValue, theirs: FrameValue) -> str:
    """A square weight that the candidate multiplies with as it lies, where the reference turns it, or the reverse."""
    step = ours.step
    given = step.operands() if step is not None and step.name == "linear" else []
    if len(given) < 2 or given[1].content.ndim != 2 or given[1].content.shape[0] != given[1].content.shape[1]:
        return ""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        made = given[0].content @ given[1].content + (given[2].content if len(given) > 2 else 0)
        same = matching.same_numbers(FrameValue(made), theirs)
    return f"`{given[1].given.partition(':')[2] or 'the weight'}` is used transposed" if same else ""


def _named(
    matching: Matching, ours: FrameValue, theirs: FrameValue, mine: list[FrameStep], others: list[FrameStep], shown: str
) -> PlaceWords:
    a = Counter(step_key(step, matching.paths) for step in mine)
    b = Counter(step_key(step, lambda path: path) for step in others)
    if not mine and not others:
        made = any(once(v).step is not None or once(v).given for v in (ours, theirs))
        return PlaceWords("wrong_operand", shown, rank=3 if made else 4)  # numbers alone do not say where they are from
    inside = any(
        v is matching.partner(theirs) for step in mine for v in step.operands()
    )  # what is behind it is missing
    known = matching.partner(theirs)
    same = ours.step is not None and theirs.step is not None and ours.step.name == theirs.step.name
    same = same or (known is not None and ours.step is known.step)  # another result of the same call
    if not others and same and not inside:
        return PlaceWords("wrong_operand", shown)
    if not others:
        if theirs.step is None and not theirs.given and is_index(theirs):
            return PlaceWords("wrong_index", shown)
        turned = any(_turns(v) for step in mine if step.name == "mul" for v in step.operands())
        return PlaceWords("rope_missing" if turned else step_kind(mine, "left_out"), shown)
    if not mine:
        top = others[0]
        twice = ours.step is not None and (ours.step.name == top.name) and len(others) == 1
        if {s.name for s in others} <= CASTS:
            return PlaceWords("precision", _rounded(shown, others), rank=2)
        return PlaceWords("call_twice" if twice else step_kind(others, "extra_step"), shown)
    if a == b:
        as_before = [s.name for s in mine] == [s.name for s in others]
        if sorted(_leaves(matching, mine)) != sorted(_leaves(matching, others)):
            return PlaceWords("wrong_operand", shown)
        return PlaceWords("split_order" if as_before and takes_parts(mine) else "order_exchanged", shown)
    if not a - b:
        if {name for name, _ in b - a} <= CASTS:
            return PlaceWords("precision", _rounded(shown, others), rank=2)
        more = [step for step in others if step_key(step, lambda path: path) in b - a]
        return PlaceWords(step_kind(more, "extra_step"), shown)
    if not b - a:
        return PlaceWords(step_kind([s for s in mine if step_key(s, matching.paths) in a - b], "left_out"), shown)
    if kind := norm_kind(mine, others):
        return PlaceWords(kind, shown)
    return PlaceWords("other_computation", shown, rank=4)


def _coarser(matching: Matching, ours: FrameValue, theirs: FrameValue) -> list[FrameStep]:
    """Casts to a coarser type on the candidate's way alone, where both sides do the same steps and what comes out is
    that near."""
    if matching.is_leaf(theirs) or not NormalForm(matching, plain).same(ours, theirs):
        return []
    ways = [[s for s in matching.until_shared(v) if s.name in CASTS and s.values] for v in (ours, theirs)]
    coarse = [s for s in ways[1] if _eps(s) > max(map(_eps, ways[0]), default=0.0)]
    worst = max(map(_eps, coarse), default=0.0)
    with torch._C.DisableTorchFunction():
        a, b = ours.content.double().reshape(-1), theirs.content.double().reshape(-1)
        near = a.numel() == b.numel() and bool((a - b).norm() <= 4 * worst * a.norm())
    return coarse if near else []


def _eps(step: FrameStep) -> float:
    dtype = step.values[0].content.dtype
    return float(torch.finfo(dtype).eps) if dtype.is_floating_point and dtype.itemsize < 4 else 0.0


def _rounded(shown: str, steps: list[FrameStep]) -> str:
    """With the coarsest type that the candidate's value passes through."""
    made = [s.values[0].content.dtype for s in steps if s.name in CASTS and s.values]
    coarse = [dtype for dtype in made if dtype.is_floating_point]
    dtype = max(coarse, key=lambda d: torch.finfo(d).eps, default=None)
    wrong, instead, right = shown.partition(" instead of ")
    rounded = f" (rounded to {str(dtype).removeprefix('torch.')})" if dtype is not None else ""
    return f"{wrong}{rounded}{instead}{right}"


def _turns(value: FrameValue) -> bool:
    """True for the table of a rotation."""
    value = before_shapes(value)
    name = value.step.name if value.step is not None else value.given
    return name in ("sin", "cos") or any(part in name for part in ("rotary", "rope", "in.cos", "in.sin", "freqs"))


def _leaves(matching: Matching, steps: list[FrameStep]) -> Iterator[int]:
    """What both have and these steps take, each by the reference's value."""
    inside = {id(step) for step in steps}
    for step in steps:
        for value in step.operands():
            if value.step is None or id(value.step) not in inside:
                partner = value if id(value) in matching._mine else matching.partner(value)
                yield id(partner) if partner is not None else 0


def _one_step(matching: Matching, says: Says, a: FrameStep, b: FrameStep) -> PlaceWords | None:
    """The same step with another number or operand, or another step with the same operands."""
    mine, others = a.operands(), b.operands()
    if rows := _other_rows(matching, a, b):
        return PlaceWords("index_offset" if rows.startswith("one") else "wrong_index", rows, rank=2)
    pairs = list(zip(mine, others, strict=False))
    equal = len(mine) == len(others) and all(matching.same(x, y) for x, y in pairs)
    if isinstance(a.place, str) or isinstance(b.place, str):
        if not equal or isinstance(a.place, str) != isinstance(b.place, str) or matching.paths(a.name) == b.name:
            return None
        return PlaceWords("wrong_module", f"`{b.name}` is called in the place of `{a.name}`")
    alike = equal or (
        a.name in POINTWISE and len(mine) == len(others) and all(matching.same_numbers(*p) for p in pairs)
    )
    if a.name == b.name and alike:
        return _other_eps(matching, a, b) or _other_setting(a, b)
    if a.name == b.name == "getitem" and all(matching.same_numbers(x, y) for x, y in pairs):
        return PlaceWords("wrong_index", f"`{_index(b)}` instead of `{_index(a)}` taken of the same values", rank=2)
    if a.name == b.name and (axes := _other_axes(matching, a, b)):
        return PlaceWords("reduced_axes", axes, rank=2)
    if a.name == b.name and (lacking := _lacks(matching, mine, others)):
        kind = "norm_affine" if "norm" in a.name else "missing_bias" if lacking == ["bias"] else "left_out"
        return PlaceWords(kind, f"`{a.name}` without {' and '.join(lacking)}", rank=2)
    if a.name == b.name and len(mine) == len(others) > 1:
        left = [(x, y) for x, y in pairs if not matching.same(x, y)]
        if sorted(map(id, mine)) == sorted(id(matching.partner(y)) for y in others):
            name = "concat_order" if a.name in ("cat", "stack") else "operand_order"
            return PlaceWords(name, says.both(a.values[0], b.values[0]), rank=2)
        if len(left) == 1:
            x, y = left[0]
            known = _OPERANDS.get((a.name, pairs.index((x, y))))
            if known is not None:
                return PlaceWords(known, f"`{a.name}` takes {says.both(x, y)}", rank=2)
        if len(left) > 1:  # the same factors in the other order are none
            own = [x for x in mine if not any(matching.same(x, y) for y in others)]
            foreign = [y for y in others if not any(matching.same(x, y) for x in mine)]
            left = list(zip(own, foreign, strict=False)) if len(own) == len(foreign) else []
        if left and all(matching.partner(x) is not None and matching.partner(y) is not None for x, y in left):
            taken = "; and ".join(dict.fromkeys(says.both(x, y) for x, y in left))
            return PlaceWords("wrong_operand", f"`{a.name}` takes {taken}")
    names = {a.name, b.name}
    if names <= ACTIVATIONS and len(mine) == len(others):
        equal = all(matching.same_numbers(x, y) for x, y in pairs)
    if equal and a.name != b.name:
        name = "activation" if names <= ACTIVATIONS else _EXCHANGED.get(frozenset(names), "other_operation")
        name = step_kind([b], name) if any(matching.partner(v) is a.values[0] for v in others) else name
        return PlaceWords(name, says.both(a.values[0], b.values[0]))
    return None


def _other_rows(matching: Matching, a: FrameStep, b: FrameStep) -> str:
    """Other rows of one table, however they are taken out of it: by an index or by a slice."""
    a, b = _taking(a), _taking(b)
    if a.name not in TAKEN or b.name not in TAKEN or a.name == b.name == "getitem" or not (a.values and b.values):
        return ""
    tables = [v for v in a.operands() if v.given.startswith("weight:") and v.content.ndim == 2]
    if len(tables) != 1 or not any(matching.same(tables[0], v) for v in b.operands()):
        return ""
    table, taken = tables[0].content, [step.values[0].content for step in (a, b)]
    if any(x.shape[-1] != table.shape[1] or x.numel() > MOST_TAKEN for x in taken):
        return ""
    with torch._C.DisableTorchFunction():
        rows = [torch.cdist(x.reshape(-1, table.shape[1]).double(), table.double()).argmin(-1) for x in taken]
        found = all(torch.equal(table[r], x.reshape(-1, table.shape[1])) for r, x in zip(rows, taken, strict=True))
    if not found:
        return ""
    wrong, right = ([int(row) for row in r] for r in reversed(rows))
    offsets = {w - r for w, r in zip(wrong, right, strict=False)}
    name = ".".join(tables[0].given.partition(":")[2].split(".")[-2:])
    shown = " instead of ".join(f"{r[:3]}{'…' if len(r) > 3 else ''}" for r in (wrong, right))
    if len(offsets) == 1:
        return f"{'one' if abs(next(iter(offsets))) == 1 else next(iter(offsets))} off: rows {shown} of `{name}`"
    return f"rows {shown} of `{name}`"


def _taking(step: FrameStep) -> FrameStep:
    """The step that takes something out of a table, behind those that only change the shape of it."""
    while step.name in SHAPES | {"getitem"} and len(step.operands()) == 1 and step.operands()[0].step is not None:
        step = step.operands()[0].step or step
    return step


def _index(step: FrameStep) -> str:
    """What is taken, without the axes that are taken whole."""
    index = step.args[1] if type(step.args[1]) is tuple else (step.args[1],)
    whole = (slice(None), None, Ellipsis)
    shown = [short(item) for item in index if not any(item is w or (type(item) is slice and item == w) for w in whole)]
    return f"[{', '.join(shown)}]"


def _other_axes(matching: Matching, a: FrameStep, b: FrameStep) -> str:
    """The same step of the same values with other axes, where that gives other numbers: a mean over other ones."""
    pairs = list(zip(a.operands(), b.operands(), strict=False))
    turned = [(x, y) for x, y in pairs if not matching.same(x, y)]
    known = len(a.operands()) == len(b.operands()) and all(matching.partner(y) is x for x, y in turned)
    if not turned or not known or _other_setting(a, b) is not None:
        return ""
    (x, y), shapes = turned[0], (tuple(turned[0][1].content.shape), tuple(turned[0][0].content.shape))
    if shapes[0] == shapes[1] or x.step is y.step is not None:
        return ""
    return f"`{a.name}` over the axes of {list(shapes[0])} instead of {list(shapes[1])}"


def _lacks(matching: Matching, mine: list[FrameValue], others: list[FrameValue]) -> list[str]:
    """Weights that only the reference's step takes, where all else that goes in is the same."""
    taken = [v for v in mine if not any(matching.same(v, other) for other in others)]
    rest = len(mine) - len(taken) == len(others)
    weights = taken and rest and all(v.given.startswith("weight:") for v in taken)
    return [v.given.rpartition(".")[2] for v in taken] if weights else []


def _other_setting(a: FrameStep, b: FrameStep) -> PlaceWords | None:
    mine, others = plain(a), plain(b)
    differing = [k for k in {**mine, **others} if not _equal(mine.get(k), others.get(k))]
    differing = [k for k in differing if k != "dim" or not _same_axis(a, mine.get(k), others.get(k))]
    if not differing:
        return None
    key = differing[0]
    number = isinstance(mine.get(key), (int, float)) and (key.isdigit() or key == "other")
    name = "constant" if number else _SETTINGS.get(key, f"setting_{key}" if not key.isdigit() else "other_setting")
    if a.name == "getitem":
        name = "wrong_index"
    if "dim" in differing:
        differing = [k for k in differing if k != "keepdim"]  # with other axes that says nothing more
    wrong, right = (_settings(a.name, values, differing[:2]) for values in (others, mine))
    if "dim" in differing and _is_over_batch(others.get("dim")) and not _is_over_batch(mine.get("dim")):
        wrong += ", the batch included,"
    if len(differing) == 1:  # named once
        right = right.removeprefix(f"{key} ")
    inside = "" if a.name in _NAMED_BY_SETTING else f" in `{a.name}`"
    return PlaceWords(name, f"{wrong} instead of {right}{inside}", rank=2)


def _same_axis(step: FrameStep, one: Any, other: Any) -> bool:
    """True for one axis counted from the front and from the back."""
    axes = step.operands()[0].content.ndim if step.operands() else 0
    return bool(axes) and type(one) is type(other) is int and one % axes == other % axes


def _other_eps(matching: Matching, a: FrameStep, b: FrameStep) -> PlaceWords | None:
    """Another small number that is added before a root is taken."""
    numbers = [[v for v in plain(step).values() if isinstance(v, float)] for step in (a, b)]
    users = [s.name for s in matching.ours.steps if any(v in a.values for v in s.operands())]
    if a.name != "add" or not all(len(n) == 1 and 0 <= n[0] < LARGEST_EPS for n in numbers):
        return None
    if numbers[0] == numbers[1] or not any(name in ("rsqrt", "sqrt", "pow") for name in users):
        return None
    return PlaceWords("norm_eps", f"eps {numbers[1][0]:g} instead of eps {numbers[0][0]:g} before the root", rank=2)


def _settings(op: str, values: dict[str, Any], keys: list[str]) -> str:
    """Settings as a person says them; what is not given is the default."""
    if op in _NAMED_BY_SETTING and len(keys) == 1:
        return _NAMED_BY_SETTING[op].get(values.get(keys[0]), short(values.get(keys[0])))
    return " and ".join(_setting(key, values.get(key)) for key in keys)


def _setting(key: str, value: Any) -> str:
    if key == "dim":
        axes = list(value) if isinstance(value, (list, tuple)) else [value]
        return "all axes" if value is None else f"ax{'es' if len(axes) > 1 else 'is'} {', '.join(map(str, axes))}"
    words = "default" if value is None else short(value)
    return words if key.isdigit() or key == "other" else f"{key} {words}"


def _is_over_batch(axes: Any) -> bool:
    return axes is None or axes == 0 or (isinstance(axes, (list, tuple)) and 0 in axes)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return a is b
    return bool(a == b) or (a in (None, False) and b in (None, False))
