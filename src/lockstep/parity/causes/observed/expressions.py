"""Values of a frame as expressions, down to what both sides have."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import torch

from .graph import SHAPES, FrameStep, FrameValue
from .matching import Matching
from .settings import has_value, plain

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "matmul": "@"}
_TURNED = {"rsub": "-", "rdiv": "/", "rpow": "**"}  # the operands the other way round
_LAYER_WEIGHTS = ("weight", "bias", "gamma")  # others are a block's: a table of modulations
LONGEST = 150  # characters of one side
CONTEXT = 24  # characters shown before and behind what differs in a longer one
DEEPEST = 5  # steps shown inside each other
FEW_NUMBERS = 8  # of a constant that are shown


def once(value: FrameValue) -> FrameValue:
    """What a value is another view of, or holds several times."""
    while value.step is not None and (given := value.step.operands()):
        copies = value.step.name in ("cat", "stack") and len({id(v) for v in given}) == 1 < len(given)
        if not copies and (len(given) > 1 or value.step.name not in SHAPES | {"repeat"}):
            break
        value = given[0]
    return value


def step_key(step: FrameStep, paths: Callable[[str], str]) -> tuple[str, str]:
    """What a step is: a module, or an operation with its numbers."""
    if isinstance(step.place, str):
        return paths(step.place), ""
    return step.name, str(sorted((k, short(v)) for k, v in plain(step).items()) if step.name not in SHAPES else "")


def short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, slice):
        ends = (value.start, value.stop) if value.step is None else (value.start, value.stop, value.step)
        return ":".join("" if v is None else str(v) for v in ends) or ":"
    if value is Ellipsis:
        return "..."
    if type(value) is tuple and any(type(item) is slice for item in value):
        return f"[{', '.join(short(item) for item in value)}]"
    return str(value) if len(str(value)) < 40 else f"{str(value)[:37]}…"


class Says:
    """Values as expressions, down to what both sides have."""

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.shapes, self.deepest = True, DEEPEST
        self._meant: dict[str, set[str]] = {}  # the modules of the candidate that the names which were said stand for
        self._alike: dict[str, set[str]] = {}  # the same of names to be told apart

    def plain_name(self, value: FrameValue, whole: bool = False) -> str:
        return self._name(value, 0 if whole else 1)

    def both(self, ours: FrameValue, theirs: FrameValue) -> str:
        """The candidate's instead of the reference's, from where the two part; what only changes shapes is left out
        where more is different."""
        ours, theirs, more = self._parted(ours, theirs)
        shown = self._shortest(theirs, ours)
        if any(len(meant) > 1 for meant in self._meant.values()):
            self._alike = dict(self._meant)  # one name for two layers says nothing
            shown, self._alike = self._shortest(theirs, ours), {}
        wrong, right = around_the_difference(*shown)
        also = f" (and {more} more of its operands)" if more else ""
        return f"`{wrong}` instead of `{right}`{also}"

    def _shortest(self, theirs: FrameValue, ours: FrameValue) -> tuple[str, str]:
        """Both with as many steps as there is room for; with those that only change shapes where nothing else
        differs."""
        shown: list[tuple[str, str]] = []
        for self.shapes, self.deepest in product((False, True), range(DEEPEST, 0, -1)):
            if not self.shapes and any(self._is_view(v) for v in (theirs, ours)):
                continue  # what it is another view of would be told as the whole of it
            self._meant.clear()
            shown.append((self._shown(theirs, ours), self._shown(ours, theirs)))
            if shown[-1][0] != shown[-1][1] and max(map(len, shown[-1])) <= LONGEST:
                return shown[-1]
        return min(
            (both for both in shown if both[0] != both[1]), key=lambda both: max(map(len, both)), default=shown[0]
        )

    def _is_view(self, value: FrameValue) -> bool:
        """True if a value that only one side has is nothing but another view of one that both have."""
        return not self.matching.is_leaf(value) and self.matching.is_leaf(once(value))

    def _parted(self, ours: FrameValue, theirs: FrameValue) -> tuple[FrameValue, FrameValue, int]:
        """The innermost two values around which both sides do the same, and how many such pairs there are beside."""
        more = 0
        while True:
            a, b = once(ours), once(theirs)
            views = any(v is not w and self.matching.is_leaf(v) for v, w in ((a, ours), (b, theirs)))
            if not views and not self.matching.same_numbers(a, b):  # else the views or copies are what differs
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
        if step_key(a, matching.paths) != step_key(b, lambda path: path):
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
            given = step.operands()
            known = all(v.step is None and not v.given for v in given)  # prompts as numbers need no explanation
            inside = "…" if known else ", ".join(say(v) for v in given)
            called = self._called(step.place) if self._is_near(step.place) else step.place.partition(".")[2]
            return f"{called}({inside}){_piece(value)}"
        if not self.shapes and step.name in SHAPES and step.operands() and len(step.values) == 1:
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
        elif step.name in _TURNED and len(args) == 2:
            shown = f"({args[1]} {_TURNED[step.name]} {args[0]})"
        else:
            shown = f"{step.name}({', '.join(args)})"
        return f"{shown}{_piece(value)}"

    def _name(self, value: FrameValue, depth: int) -> str:
        """A value that needs no explanation: an argument, a weight, what a module gave, a part of these."""
        partner = self.matching.partner(value)
        if id(value) not in self.matching._mine and partner is not None:
            value = partner
        step = value.step
        if step is None:
            if value.given.startswith("weight:"):
                layer, _, weight = value.given.partition(":")[2].rpartition(".")
                return f"{self._noted(layer, 1)}.{weight}"
            if value.given:
                return value.given.removeprefix("in.")
            return value.slot or _constant(value.content)
        if isinstance(step.place, str):
            return f"{self._called(step.place)}(…){_piece(value)}"
        if depth and (layer := _layer(step)):
            return f"{self._called(layer)}(…)"
        if depth < 2:
            return self._call(step, value, lambda v: self._name(v, depth + 1))
        return self._name(once(value), depth) if once(value) is not value else f"{step.name}.{step.place.index}"

    def _called(self, path: str) -> str:
        """A module as its own code calls it: one of several with the name of the list."""
        return self._noted(path, 2 if path.rpartition(".")[2].isdigit() else 1)

    def _is_near(self, path: str) -> bool:
        """False for a module of another part than the one whose code is looked at: of another layer."""
        frames = self.matching.ours.frame, self.matching.theirs.frame
        inside = any(path.startswith(f"{frame}.") for frame in frames)
        return inside or any("." not in frame for frame in frames) or "." not in path

    def _noted(self, path: str, names: int) -> str:
        """The end of a path; behind the names in which it is another one than others that end so, too."""
        said = ".".join(path.split(".")[-names:])
        self._meant.setdefault(said, set()).add(self.matching.paths(path))
        others = [other.split(".") for other in self._alike.get(said, ())]
        if len(others) < 2:
            return said
        parts = path.split(".")[:-names]
        own = [i for i, part in enumerate(parts) if len({(*other, *[""] * len(parts))[i] for other in others}) > 1]
        first, last = min(own, default=len(parts) - 1), max(own, default=len(parts) - 1)
        listed = first - (parts[first].isdigit() and first > 0)
        return ".".join(parts[listed : last + 1]) + ("." if last == len(parts) - 1 else "…") + said


def _constant(content: torch.Tensor) -> str:
    """What comes from outside of torch: a number, a few of them, or how many there are and with what they begin and
    end."""
    numbers = content.reshape(-1)
    if len(numbers) == 1:
        return short(content.item())
    if len(numbers) <= FEW_NUMBERS and not content.is_floating_point():
        return str(content.tolist())  # such as which tokens are taken
    if len(numbers) <= FEW_NUMBERS:
        return f"<{', '.join(short(number) for number in numbers.tolist())}>"
    first, last = (short(numbers[i].item()) for i in (0, -1))
    return f"<table of {' × '.join(map(str, content.shape))}: {first}, … {last}>"


def _piece(value: FrameValue) -> str:
    """Which of several results, as it is asked for: `.hidden_states[1]`."""
    if value.step is None or len(value.step.values) < 2:
        return ""
    names = value.slot.split(".")[1:]
    return "".join(f"[{name}]" if name.isdigit() else f".{name}" for name in names) or f"[{value.piece}]"


def _layer(step: FrameStep) -> str:
    """The path of the layer whose one step this is: it takes the layer's own weight."""
    path = step.place if isinstance(step.place, str) else step.place.path
    own = any(v.given in {f"weight:{path}.{name}" for name in _LAYER_WEIGHTS} for v in step.operands())
    return path if own and "." in path else ""


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
    if type(value) in (list, tuple) and has_value(value):
        return f"[{', '.join(_argument(item, say) for item in value)}]"
    return short(value)
