"""Many places at once that differ: what a loop in Python does wrong is wrong in every turn of it."""

from __future__ import annotations

from .matching import Matching, Parting

FEW = 8  # places of which each is looked into


def made_first(matching: Matching, differences: list[Parting]) -> list[Parting]:
    """Without the places whose values are made of what is wrong at another one: they are looked at when that is right.

    Few places that can be told at once are.
    """
    few = len(differences) <= FEW and not any(matching.is_large(d.theirs) for d in differences)
    if few or any(d.exit is not None for d in differences):
        return differences
    wrong = {id(d.theirs) for d in differences}
    first = [d for d in differences if not _takes(matching, d, wrong)]
    return first or differences


def _takes(matching: Matching, difference: Parting, wrong: set[int]) -> bool:
    if matching.is_leaf(difference.theirs):
        return False
    steps = matching.until_shared(difference.theirs, most=None)
    return any(id(v) in wrong and v is not difference.theirs for step in steps for v in step.operands())


def one_for_each_line(differences: list[Parting]) -> list[int]:
    """For each place the number of the one that stands for it: the first of the same step of the same lines, where
    there are many."""
    if len(differences) <= FEW:
        return list(range(len(differences)))
    first: dict[tuple[str, ...], int] = {}
    return [first.setdefault(_line(d) or (str(i),), i) for i, d in enumerate(differences)]


def _line(difference: Parting) -> tuple[str, ...]:
    steps = [value.step for value in (difference.ours, difference.theirs)]
    return tuple(text for step in steps if step is not None and step.line for text in (step.name, step.line))
