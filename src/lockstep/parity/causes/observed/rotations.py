"""By how much query and key are turned, read from what goes in and what comes out: whatever form the tables have."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, product

import torch

from ..relations import relation, same
from .graph import FrameValue
from .matching import HEADS, Matching

NEAR = 1e-4
DEPTH = 4
LOOKED_AT = 12  # values of one side
OTHER_WAY = "turned the other way round"
LANES = "other lanes make a pair"
ALIKE = 3e-4  # radians: two tokens that a lane does not tell apart
_AXES = {"along axis 0": "over the tokens", "along axis 1": "over the lanes"}


def rotation_words(matching: Matching, ours: FrameValue, theirs: FrameValue) -> str:
    """How the candidate's turning differs from the reference's; empty where one of the two is no turning."""
    ours, theirs = (_joined_pairs(value) for value in (ours, theirs))
    if ours.content.ndim != HEADS or ours.content.shape[-1] % 2 or not ours.content.is_floating_point():
        return ""
    with torch._C.DisableTorchFunction():
        results = [theirs.content, theirs.content.transpose(1, 2)]
        result = next((r for r in results if r.shape == ours.content.shape), None)
        if result is None:
            return ""
        lanes = ""
        for before, axis in product(_before(matching, ours), (1, 2)):
            known = [
                {words: _table(pairs(before), pairs(after), axis) for words, pairs in _PAIRS.items()}
                for after in (ours.content, result)
            ]
            right, wrong = ({words: table for words, table in side.items() if table is not None} for side in known)
            for words in [words for words in right if words in wrong]:
                return _told(right[words], wrong[words])
            if right and wrong and not lanes:
                lanes = f"{LANES}: {next(iter(wrong))} instead of {next(iter(right))}"
        return lanes or _of_other_lanes(matching, ours, theirs, result)


def _of_other_lanes(matching: Matching, ours: FrameValue, theirs: FrameValue, result: torch.Tensor) -> str:
    """Where the lanes lie otherwise before they are turned: by how much each side turns what it has itself."""
    mine, others = (
        [
            table
            for before, axis in product(_made_on_the_way(matching, value, ours.content.shape), (1, 2))
            for pairs in _PAIRS.values()
            if (table := _table(pairs(before), pairs(after), axis)) is not None
        ]
        for value, after in ((ours, ours.content), (theirs, result))
    )
    return _told(mine[0], others[0]) if mine and others else ""


def _made_on_the_way(matching: Matching, value: FrameValue, shape: torch.Size) -> Iterator[torch.Tensor]:
    """What one side alone makes before the value, in the shape: what was made first is not turned yet."""
    steps = sorted(matching.until_shared(value), key=lambda step: step.number)
    made = [v.content for step in steps for v in step.values if v is not value]
    for content in [c for c in made if c.numel() == shape.numel() and c.is_floating_point()][:LOOKED_AT]:
        views = [content.reshape(shape), *(v.transpose(1, 2) for v in [content] if v.ndim == HEADS)]
        yield from (view for view in views if view.shape == shape)


def _joined_pairs(value: FrameValue) -> FrameValue:
    """With one axis for the lanes, where pairs of them still have an axis of their own."""
    pairs = value.content.ndim == HEADS + 1 and value.content.shape[-1] == 2
    return FrameValue(value.content.flatten(-2), value.step, value.piece) if pairs else value


def _before(matching: Matching, ours: FrameValue) -> Iterator[torch.Tensor]:
    """What the turned value is made of, in its shape: what both have, or what that is a part of."""
    shape, seen = ours.content.shape, set[int]()
    leaves = [v for step in matching.until_shared(ours) for v in step.operands() if matching.is_leaf(v)]
    for value in leaves:
        for whole in _wholes(value):
            content = whole.content
            if id(whole) in seen or content.numel() != ours.content.numel() or not content.is_floating_point():
                continue
            seen.add(id(whole))
            views = [content.reshape(shape), *(v.transpose(1, 2) for v in [content] if v.ndim == HEADS)]
            yield from (view for view in views if view.shape == shape)


def _wholes(value: FrameValue) -> Iterator[FrameValue]:
    """A value, and what it is a part of, or the product of such a part with a table."""
    for _ in range(DEPTH):
        yield value
        below = value.step.operands() if value.step is not None else []
        if value.step is not None and value.step.name == "mul":
            below = [v for v in below if v.content.numel() == value.content.numel()]
        if len(below) != 1:
            return
        value = below[0]


def _neighbours(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())


def _halves(x: torch.Tensor) -> torch.Tensor:
    return torch.complex(*x.double().chunk(2, dim=-1))


_PAIRS = {"neighbouring lanes": _neighbours, "lanes of the two halves": _halves}


def _table(before: torch.Tensor, after: torch.Tensor, tokens: int) -> torch.Tensor | None:
    """Tokens by lanes, each a number of length one; None if that is not what was done."""
    others = [axis for axis in (0, 1, 2) if axis != tokens]
    made = (after * before.conj()).sum(others) / before.abs().square().sum(others)
    spread = made.unsqueeze(0).unsqueeze(3 - tokens)
    wrong = (before * spread - after).abs().square().sum().sqrt()
    one = bool(((made.abs() - 1).abs() < NEAR).all())
    return made if one and float(wrong) <= NEAR * float(after.abs().square().sum().sqrt()) else None


def _told(right: torch.Tensor, wrong: torch.Tensor) -> str:
    """What the one table is to the other."""
    a, b = torch.view_as_real(right), torch.view_as_real(wrong)
    if same(a, b) or any(same(table, _unturned(table)) for table in (a, b)):
        return ""  # alike, or one of the two is not turned: a step that is missing or too many, no other table
    if same(torch.view_as_real(right.conj().resolve_conj()), b):
        return OTHER_WAY
    told = relation(a, b)
    if "order" in told or "moved" in told or "mirrored" in told:
        for axis, words in _AXES.items():
            told = told.replace(axis, words)
        return f"the angles are the reference's {told}"
    groups = [_groups(table) for table in (wrong, right)]
    if groups[0] != groups[1]:
        shown = [" + ".join(map(str, sizes)) for sizes in groups]
        return f"the lanes are split {shown[0]} instead of {shown[1]} over what they tell apart"
    lanes = [i for i in range(a.shape[1]) if not same(a[:, i], b[:, i])]
    return f"other angles in {len(lanes)} of {a.shape[1]} lanes, at {', '.join(map(str, lanes[:6]))}"


def _unturned(table: torch.Tensor) -> torch.Tensor:
    """The table with which nothing is turned."""
    still = torch.zeros_like(table)
    still[..., 0] = 1
    return still


def _groups(table: torch.Tensor) -> list[int]:
    """Neighbouring lanes that tell the same tokens apart: one group for each axis of the positions."""
    kinds: list[tuple[int, ...]] = []
    for lane in table.T:
        apart = (lane[:, None] - lane[None]).abs() < ALIKE
        kind = tuple(apart.int().argmax(dim=1).tolist())  # the first token that is turned as far
        kinds.append(kind if any(kind) or not kinds else kinds[-1])  # one that turns nothing belongs to any
    return [len(list(lanes)) for _, lanes in groupby(kinds)]
