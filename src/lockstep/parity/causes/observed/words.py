"""A place where two sides compute different things, as the name of a cause and a sentence."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import nn

from ..edits import PARAMETERS
from ..hypotheses.catalogue import ATTRIBUTE_CAUSES
from ..hypotheses.weights import weight_words
from .graph import FrameStep, FrameValue
from .matching import Matching, Parting

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "matmul": "@"}
_ACTIVATIONS = {"gelu", "silu", "relu", "sigmoid", "tanh", "mish", "elu", "leaky_relu", "softplus", "hardswish"}
_CASTS = {"to", "type", "float", "half", "bfloat16", "double", "type_as"}
_SHAPES = {"view", "reshape", "transpose", "permute", "contiguous", "unsqueeze", "squeeze", "flatten", "unflatten",
           "expand", "clone", "detach", "movedim"} | _CASTS  # fmt: skip
_SPLITS = {"chunk", "split", "unbind", "tensor_split", "split_with_sizes"}
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
_NAMED_BY_SETTING = {"gelu": {None: "GELU (erf)", "none": "GELU (erf)", "tanh": "GELU (tanh)"}}
LONGEST = 150  # characters of one side
CONTEXT = 24  # characters shown before and behind what differs in a longer one
DEEPEST = 5  # steps shown inside each other


@dataclass(frozen=True)
class PlaceWords:
    """The name of the cause, what is different, and how specific that is."""

    name: str
    detail: str
    rank: int = 3
    mine: tuple[str, ...] = ()  # steps that only the reference takes
    others: tuple[str, ...] = ()  # steps that only the candidate takes
    loaded: bool = False  # it is a matter of the weights, not of the code


def words_of(
    matching: Matching, difference: Parting, inner: list[Parting], modules: Mapping[str, nn.Module]
) -> PlaceWords:
    """The simplest true thing to say: a weight, a number, an operand, a step too many, else both expressions.

    `inner` are the values inside of the place that are all that is wrong, if there are such.
    """
    ours, theirs = difference.ours, difference.theirs
    says = _Says(matching)
    if difference.exit is None and (weight := _other_weight(matching, ours, theirs, modules)) is not None:
        return weight
    plain = matching.partner(theirs) is not None  # the candidate goes on with what the reference has, too
    if difference.exit is None and ours.step is not None and theirs.step is not None:
        special = _one_step(matching, says, ours.step, theirs.step)
        if special is not None and not (plain and ours.step.name != theirs.step.name):
            return special
    if inner:
        ours, theirs = inner[0].ours, inner[0].theirs
        one = _one_step(matching, says, ours.step, theirs.step) if ours.step and theirs.step else None
        if one is not None:
            return one
    handed = difference.exit is not None or (bool(inner) and matching.is_leaf(ours))
    mine = [] if handed else list(matching.until_shared(ours))
    others = [] if matching.is_leaf(theirs) else list(matching.until_shared(theirs))
    words = _named(matching, ours, theirs, mine, others, says.both(ours, theirs))
    steps = [tuple(sorted(s.name for s in steps if s.name not in _SHAPES)) for steps in (mine, others)]
    if ours.content.dtype is torch.bool and theirs.content.dtype is torch.bool:
        words = replace(words, name="attention_mask")
    return replace(words, mine=steps[0], others=steps[1])


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


def _named(
    matching: Matching, ours: FrameValue, theirs: FrameValue, mine: list[FrameStep], others: list[FrameStep], shown: str
) -> PlaceWords:
    a = Counter(_key(step, matching.paths) for step in mine)
    b = Counter(_key(step, lambda path: path) for step in others)
    if not mine and not others:
        return PlaceWords("wrong_operand", shown)
    inside = any(
        v is matching.partner(theirs) for step in mine for v in step.operands()
    )  # what is behind it is missing
    same = ours.step is not None and theirs.step is not None and ours.step.name == theirs.step.name
    if not others and same and not inside:
        return PlaceWords("wrong_operand", shown)
    if not others:
        turned = any(_turns(v) for step in mine if step.name == "mul" for v in step.operands())
        return PlaceWords("rope_missing" if turned else "left_out", shown)
    if not mine:
        top = others[0]
        twice = ours.step is not None and (ours.step.name == top.name) and len(others) == 1
        if {s.name for s in others} <= _CASTS:
            return PlaceWords("precision", _rounded(shown, others), rank=2)
        return PlaceWords("call_twice" if twice else "extra_step", shown)
    if a == b:
        as_before = [s.name for s in mine] == [s.name for s in others]
        if sorted(_leaves(matching, mine)) != sorted(_leaves(matching, others)):
            return PlaceWords("wrong_operand", shown)
        return PlaceWords("split_order" if as_before and _takes_parts(mine) else "order_exchanged", shown)
    if not a - b:
        if {name for name, _ in b - a} <= _CASTS:
            return PlaceWords("precision", _rounded(shown, others), rank=2)
        return PlaceWords("extra_step", shown)
    if not b - a:
        return PlaceWords("left_out", shown)
    return PlaceWords("other_computation", shown, rank=4)


def _before_shapes(value: FrameValue) -> FrameValue:
    """What a value is another view of."""
    while value.step is not None and value.step.name in _SHAPES | {"getitem"} and len(value.step.operands()) == 1:
        value = value.step.operands()[0]
    return value


def _rounded(shown: str, steps: list[FrameStep]) -> str:
    """With the coarsest type that the candidate's value passes through."""
    made = [s.values[0].content.dtype for s in steps if s.name in _CASTS and s.values]
    coarse = [dtype for dtype in made if dtype.is_floating_point]
    dtype = max(coarse, key=lambda d: torch.finfo(d).eps, default=None)
    wrong, instead, right = shown.partition(" instead of ")
    rounded = f" (rounded to {str(dtype).removeprefix('torch.')})" if dtype is not None else ""
    return f"{wrong}{rounded}{instead}{right}"


def _once(value: FrameValue) -> FrameValue:
    """What a value is another view of, or holds several times."""
    while value.step is not None and (given := value.step.operands()):
        copies = value.step.name in ("cat", "stack") and len({id(v) for v in given}) == 1 < len(given)
        if not copies and (len(given) > 1 or value.step.name not in _SHAPES | {"repeat"}):
            break
        value = given[0]
    return value


def _turns(value: FrameValue) -> bool:
    """True for the table of a rotation."""
    value = _before_shapes(value)
    name = value.step.name if value.step is not None else value.given
    return name in ("sin", "cos") or any(part in name for part in ("rotary", "rope", "in.cos", "in.sin", "freqs"))


def _key(step: FrameStep, paths: Callable[[str], str]) -> tuple[str, str]:
    """What a step is: a module, or an operation with its numbers."""
    if isinstance(step.place, str):
        return paths(step.place), ""
    return step.name, str(sorted((k, _short(v)) for k, v in _plain(step).items()) if step.name not in _SHAPES else "")


def _leaves(matching: Matching, steps: list[FrameStep]) -> Iterator[int]:
    """What both have and these steps take, each by the reference's value."""
    inside = {id(step) for step in steps}
    for step in steps:
        for value in step.operands():
            if value.step is None or id(value.step) not in inside:
                partner = value if id(value) in matching._mine else matching.partner(value)
                yield id(partner) if partner is not None else 0


def _takes_parts(steps: list[FrameStep]) -> bool:
    """True if the steps take several parts of one split."""
    inside = {id(step) for step in steps}
    made = [_before_shapes(v) for s in steps for v in s.operands() if v.step is not None and id(v.step) not in inside]
    splits = Counter(id(v.step) for v in made if v.step is not None and v.step.name in _SPLITS)
    return any(count > 1 for count in splits.values())


def _one_step(matching: Matching, says: _Says, a: FrameStep, b: FrameStep) -> PlaceWords | None:
    """The same step with another number or operand, or another step with the same operands."""
    mine, others = a.operands(), b.operands()
    pairs = list(zip(mine, others, strict=False))
    equal = len(mine) == len(others) and all(matching.same(x, y) for x, y in pairs)
    if isinstance(a.place, str) or isinstance(b.place, str):
        if not equal or isinstance(a.place, str) != isinstance(b.place, str) or matching.paths(a.name) == b.name:
            return None
        return PlaceWords("wrong_module", says.both(a.values[0], b.values[0]))
    if a.name == b.name and equal:
        return _other_setting(a, b)
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
            if matching.partner(y) is not None and matching.partner(x) is not None:
                words = f"`{a.name}` takes {says.both(x, y)}"
                return PlaceWords("wrong_operand", words)
    if equal and a.name != b.name:
        names = {a.name, b.name}
        name = "activation" if names <= _ACTIVATIONS else _EXCHANGED.get(frozenset(names), "other_operation")
        return PlaceWords(name, says.both(a.values[0], b.values[0]))
    return None


def _lacks(matching: Matching, mine: list[FrameValue], others: list[FrameValue]) -> list[str]:
    """Weights that only the reference's step takes, where all else that goes in is the same."""
    taken = [v for v in mine if not any(matching.same(v, other) for other in others)]
    rest = len(mine) - len(taken) == len(others)
    weights = taken and rest and all(v.given.startswith("weight:") for v in taken)
    return [v.given.rpartition(".")[2] for v in taken] if weights else []


def _other_setting(a: FrameStep, b: FrameStep) -> PlaceWords | None:
    mine, others = _plain(a), _plain(b)
    differing = [k for k in {**mine, **others} if not _equal(mine.get(k), others.get(k))]
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
    if len(differing) == 1:  # named once
        right = right.removeprefix(f"{key} ")
    inside = "" if a.name in _NAMED_BY_SETTING else f" in `{a.name}`"
    return PlaceWords(name, f"{wrong} instead of {right}{inside}", rank=2)


def _settings(op: str, values: dict[str, Any], keys: list[str]) -> str:
    """Settings as a person says them; what is not given is the default."""
    if op in _NAMED_BY_SETTING and len(keys) == 1:
        return _NAMED_BY_SETTING[op].get(values.get(keys[0]), _short(values.get(keys[0])))
    return " and ".join(_setting(key, values.get(key)) for key in keys)


def _setting(key: str, value: Any) -> str:
    if key == "dim":
        axes = list(value) if isinstance(value, (list, tuple)) else [value]
        return "all axes" if value is None else f"ax{'es' if len(axes) > 1 else 'is'} {', '.join(map(str, axes))}"
    words = "default" if value is None else _short(value)
    return words if key.isdigit() or key == "other" else f"{key} {words}"


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return a is b
    return bool(a == b) or (a in (None, False) and b in (None, False))


def _plain(step: FrameStep) -> dict[str, Any]:
    """Arguments that are no tensors, by name where the names are known."""
    names = PARAMETERS.get(step.name, ()) or _names(step.function)
    found = {names[i] if i < len(names) else str(i): v for i, v in enumerate(step.args)} | step.kwargs
    return {k: v for k, v in found.items() if not _has_value(v)}


def _names(function: Any) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def _has_value(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(_has_value(item) for item in value)
    return isinstance(value, FrameValue)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, slice):
        ends = (value.start, value.stop) if value.step is None else (value.start, value.stop, value.step)
        return ":".join("" if v is None else str(v) for v in ends)
    if value is Ellipsis:
        return "..."
    return str(value) if len(str(value)) < 40 else f"{str(value)[:37]}…"


class _Says:
    """Values as expressions, down to what both sides have."""

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.shapes, self.deepest = True, DEEPEST

    def both(self, ours: FrameValue, theirs: FrameValue) -> str:
        """The candidate's instead of the reference's, from where the two part; what only changes shapes is left out
        where more is different."""
        ours, theirs, more = self._parted(ours, theirs)
        wrong, right = around_the_difference(*self._shortest(theirs, ours))
        also = f" (and {more} more of its operands)" if more else ""
        return f"`{wrong}` instead of `{right}`{also}"

    def _shortest(self, theirs: FrameValue, ours: FrameValue) -> tuple[str, str]:
        """Both with as many steps as there is room for; with those that only change shapes where nothing else
        differs."""
        shown: list[tuple[str, str]] = []
        for self.shapes, self.deepest in product((False, True), range(DEEPEST, 0, -1)):
            if not self.shapes and any(self._is_view(v) for v in (theirs, ours)):
                continue  # what it is another view of would be told as the whole of it
            shown.append((self._shown(theirs, ours), self._shown(ours, theirs)))
            if shown[-1][0] != shown[-1][1] and max(map(len, shown[-1])) <= LONGEST:
                return shown[-1]
        return next((both for both in shown if both[0] != both[1]), shown[0])

    def _is_view(self, value: FrameValue) -> bool:
        """True if a value that only one side has is nothing but another view of one that both have."""
        return not self.matching.is_leaf(value) and self.matching.is_leaf(_once(value))

    def _parted(self, ours: FrameValue, theirs: FrameValue) -> tuple[FrameValue, FrameValue, int]:
        """The innermost two values around which both sides do the same, and how many such pairs there are beside."""
        more = 0
        while True:
            a, b = _once(ours), _once(theirs)
            if not self.matching.same_numbers(a, b):  # else the views or copies are what differs
                ours, theirs = a, b
            pairs = self._differing(a, b)
            if not pairs:
                return ours, theirs, more
            (ours, theirs), more = pairs[0], more + len(pairs) - 1

    def _differing(self, ours: FrameValue, theirs: FrameValue) -> list[tuple[FrameValue, FrameValue]]:
        """Operands with other numbers of two steps that are the same; none where the steps are others."""
        a, b, matching = ours.step, theirs.step, self.matching
        if a is None or b is None or (ours.piece, len(a.operands())) != (theirs.piece, len(b.operands())):
            return []
        if _key(a, matching.paths) != _key(b, lambda path: path):
            return []
        pairs = [(x, y) for x, y in zip(a.operands(), b.operands(), strict=True) if not matching.same_numbers(x, y)]
        made = all(x.step is not None or y.step is not None for x, y in pairs)
        return pairs if made and not any(matching.is_leaf(x) and matching.is_leaf(y) for x, y in pairs) else []

    def _shown(self, value: FrameValue, beside: FrameValue) -> str:
        """What both have needs no explanation beside something that only one has."""
        known = self.matching.is_leaf(value) and not self.matching.is_leaf(beside)
        return self._words(value, 0, top=not known)

    def _words(self, value: FrameValue, depth: int, top: bool = False) -> str:
        step = value.step
        if step is None or (not top and self.matching.is_leaf(value)) or depth >= self.deepest:
            return self._name(value, 0)
        return self._call(step, value, lambda v: self._words(v, depth + 1))

    def _call(self, step: FrameStep, value: FrameValue, say: Any) -> str:
        if isinstance(step.place, str):
            return f"{step.place.rpartition('.')[2]}({', '.join(say(v) for v in step.operands())})"
        if not self.shapes and step.name in _SHAPES and step.operands() and len(step.values) == 1:
            return str(say(step.operands()[0]))
        args = [_argument(v, say) for v in step.args]
        args += [f"{k}={_argument(v, say)}" for k, v in step.kwargs.items() if not _says_nothing(v)]
        if step.name.startswith("rand"):
            return f"{step.name}.{step.place.index}"  # which of the draws
        if step.name == "getitem" and len(args) == 2:
            index = step.args[1]
            shown = f"{args[0]}[{', '.join(_argument(i, say) for i in (index if type(index) is tuple else (index,)))}]"
        elif step.name in _INFIX and len(args) == 2:
            shown = f"({args[0]} {_INFIX[step.name]} {args[1]})"
        else:
            shown = f"{step.name}({', '.join(args)})"
        return f"{shown}[{value.piece}]" if len(step.values) > 1 else shown

    def _name(self, value: FrameValue, depth: int) -> str:
        """A value that needs no explanation: an argument, a weight, what a module gave, a part of these."""
        partner = self.matching.partner(value)
        if id(value) not in self.matching._mine and partner is not None:
            value = partner
        step = value.step
        if step is None:
            if value.given.startswith("weight:"):
                return ".".join(value.given.partition(":")[2].split(".")[-2:])
            if value.given:
                return value.given.removeprefix("in.")
            return _short(value.content.item()) if value.content.numel() == 1 else "a constant"
        if isinstance(step.place, str):
            piece = f"[{value.piece}]" if len(step.values) > 1 else ""
            return f"{step.place.rpartition('.')[2]}(…){piece}"
        if depth < 2:
            return self._call(step, value, lambda v: self._name(v, depth + 1))
        return f"{step.name}.{step.place.index}"


def around_the_difference(wrong: str, right: str) -> tuple[str, str]:
    """Two long expressions without the begin and the end that they share."""
    if max(len(wrong), len(right)) <= LONGEST:
        return wrong, right
    begin = shared_begin(wrong, right)
    end = min(shared_begin(wrong[::-1], right[::-1]), len(wrong) - begin, len(right) - begin)
    begin, end = max(0, begin - CONTEXT), max(0, end - CONTEXT)
    return _cut(wrong, begin, end), _cut(right, begin, end)


def shared_begin(a: str, b: str) -> int:
    """How many characters two words have in common before they differ."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _cut(words: str, begin: int, end: int) -> str:
    middle = words[begin : len(words) - end]
    if len(middle) > LONGEST:
        return f"{'…' * (begin > 0)}{middle[:LONGEST]}…"
    return f"{'…' * (begin > 0)}{middle}{'…' * (end > 0)}"


def _says_nothing(value: Any) -> bool:
    return value is None or value is False or isinstance(value, (torch.Generator, torch.device, torch.layout))


def _argument(value: Any, say: Any) -> str:
    if isinstance(value, FrameValue):
        return str(say(value))
    if type(value) in (list, tuple) and _has_value(value):
        return f"[{', '.join(_argument(item, say) for item in value)}]"
    return _short(value)
