"""Matches as rows of a weight map: numbers become placeholders, and every row is proven on the tensors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ...errors import ConfigError, WeightsError
from ...loaders.weight_map import WeightMap
from ...models.weights import Row
from .matching import BY_VALUES, Match, match_tensors, same_values

Names = tuple[tuple[str, ...], tuple[str, ...]]
LETTERS = "ijklmnop"


@dataclass
class Proposal:
    """A weight map, as far as it is proven, and what it leaves open."""

    rows: list[Row] = field(default_factory=list)
    proven: list[str] = field(default_factory=list)  # tensors of ours that the rows make, to the coarser dtype's bit
    guessed: list[Match] = field(default_factory=list)  # by shape and order alone
    notes: list[Match] = field(default_factory=list)  # related, but by nothing that an operation says
    theirs_left: list[str] = field(default_factory=list)
    ours_left: list[str] = field(default_factory=list)
    not_finite: list[str] = field(default_factory=list)  # tensors of theirs with NaN or Inf in them
    total: tuple[int, int] = (0, 0)

    @property
    def covers_ours(self) -> bool:
        """Whether every tensor of ours is made of theirs, or is a constant that theirs have, too."""
        return not self.ours_left and not self.not_finite and all(match.equal for match in self.guessed)

    @property
    def coverage(self) -> str:
        return self.coverage_of("ours")

    def coverage_of(self, owner: str) -> str:
        """How many tensors of both sides the rows speak of; the owner of the right side by its name."""
        theirs, ours = self.total
        taken = theirs - len(self.theirs_left)
        return f"{taken} of {theirs} tensors of theirs, {len(self.proven)} of {ours} of {owner}"


def propose(theirs: Mapping[str, Tensor], ours: Mapping[str, Tensor]) -> Proposal:
    """The rows that take their tensors to ours, each proven on the values."""
    matches = match_tensors(theirs, ours)
    sure = [match for match in matches if match.by == BY_VALUES and not match.note]
    found = Proposal(total=(len(theirs), len(ours)))
    found.notes = [match for match in matches if match.note]
    found.guessed = [match for match in matches if match.by != BY_VALUES and not match.note]
    found.not_finite = [name for name, one in theirs.items() if not bool(torch.isfinite(one).all())]
    rows = _merged(_generalised(sure))
    constants = [name for match in found.guessed for name in match.ours]
    made, used = _applied(rows, theirs)
    found.rows = rows
    found.proven = [name for name, tensor in made.items() if name in ours and same_values(tensor, ours[name])]
    wrong = [name for name in made if name not in found.proven]
    if wrong:  # a placeholder took in too much: every tensor by itself
        found.rows = [_row(match.theirs, match.ours, match.operation) for match in sure]
        made, used = _applied(found.rows, theirs)
        found.proven = [name for name, tensor in made.items() if name in ours and same_values(tensor, ours[name])]
    covered = set(found.proven)
    found.guessed = [match for match in found.guessed if not set(match.ours) <= covered]
    found.theirs_left = [name for name in theirs if name not in used]
    found.ours_left = [name for name in ours if name not in covered and name not in constants]
    return found


def written(found: Proposal, reference: str, port: str) -> str:
    """The proposal as a Python file: rows that a weight map takes, and remarks on what is open."""
    lines = [
        f'"""Rows of a weight map from {reference} to {port}, proposed by `lockstep port` from the tensors.',
        "",
        f"Coverage: {found.coverage}.",
        '"""',
        "",
        "ROWS = [",
        *(f"    {row!r},".replace("'", '"') for row in found.rows),
        "]",
    ]
    remarks = [
        *(f"{name}: theirs, holds NaN or Inf" for name in found.not_finite),
        *(f"{' + '.join(m.theirs)} -> {' + '.join(m.ours)}: {m.note}" for m in found.notes),
        *(f"{m.theirs[0]} -> {m.ours[0]}: {guess(m)}" for m in found.guessed),
        *(f"{name}: theirs, without a partner" for name in found.theirs_left),
        *(f"{name}: ours, without a partner" for name in found.ours_left),
    ]
    if remarks:
        lines += ["", "# What is open:", *(f"#   {remark}" for remark in remarks)]
    return "\n".join(lines) + "\n"


def guess(match: Match) -> str:
    """What is known of a match that no row claims."""
    if match.note:
        return match.note
    return f"a guess by {match.by}, {'equal constants' if match.equal else 'their values differ'}"


def _generalised(matches: Sequence[Match]) -> list[tuple[Names, str]]:
    """Matches that differ in numbers alone as one, with placeholders where the numbers of both sides agree."""
    groups: dict[tuple[Names, str], list[Match]] = defaultdict(list)
    for match in matches:
        skeleton = tuple(tuple(_skeleton(name) for name in side) for side in (match.theirs, match.ours))
        groups[(skeleton[0], skeleton[1]), match.operation].append(match)
    rows: list[tuple[Names, str]] = []
    for (_, operation), group in groups.items():
        whole = _with_placeholders(group)
        rows += [(whole, operation)] if whole is not None else [((m.theirs, m.ours), operation) for m in group]
    return rows


def _with_placeholders(group: Sequence[Match]) -> Names | None:
    """One pattern for all of a group; None where a number of one side has no partner on the other."""
    if len(group) == 1:
        return group[0].theirs, group[0].ours
    columns = [[name.split(".") for name in (*match.theirs, *match.ours)] for match in group]
    letters: dict[tuple[str, ...], str] = {}
    patterns = []
    for name in range(len(columns[0])):
        parts = []
        for place in range(len(columns[0][name])):
            values = tuple(match[name][place] for match in columns)
            if len(set(values)) == 1:
                parts.append(values[0])
                continue
            letters.setdefault(values, LETTERS[len(letters) % len(LETTERS)])
            parts.append(f"{{{letters[values]}}}")
        patterns.append(".".join(parts))
    if len({tuple(sorted(set(_placeholders(pattern)))) for pattern in patterns}) > 1:
        return None
    if any(len(set(_placeholders(p))) < len(_placeholders(p)) for p in patterns):
        return None
    count = len(group[0].theirs)
    return tuple(patterns[:count]), tuple(patterns[count:])


def _merged(rows: Iterable[tuple[Names, str]]) -> list[Row]:
    """Rows that differ in their last part alone (weight, bias) as one."""
    groups: dict[tuple[Names, str], list[str]] = defaultdict(list)
    order: dict[tuple[Names, str], tuple[Names, str]] = {}
    for (theirs, ours), operation in rows:
        last = {name.rpartition(".")[2] for name in (*theirs, *ours)}
        end = last.pop() if len(last) == 1 and all("." in name for name in (*theirs, *ours)) else ""
        cut = tuple(tuple(name.rpartition(".")[0] if end else name for name in side) for side in (theirs, ours))
        key = ((cut[0], cut[1]), operation)
        groups[key].append(end)
        order.setdefault(key, ((theirs, ours), operation))
    made = []
    for key, ends in groups.items():
        (theirs, ours), operation = order[key]
        if ends != [""] and len(ends) > 1:
            theirs, ours = (tuple(f"{name}.{{}}" for name in side) for side in key[0])
        made.append(_row(theirs, ours, operation))
    return made


def _row(theirs: tuple[str, ...], ours: tuple[str, ...], operation: str) -> Row:
    sides = [side[0] if len(side) == 1 else side for side in (theirs, ours)]
    return (sides[0], sides[1]) if operation == "keep" else (sides[0], sides[1], operation)


def _applied(rows: Sequence[Row], theirs: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], set[str]]:
    """What the rows make of their tensors, and which of those they take."""
    made: dict[str, Tensor] = {}
    used: set[str] = set()
    try:
        plan = WeightMap(rows, "the port").plan(theirs)
        for move in plan.moves:
            made |= dict(zip(move.targets, move.apply([theirs[name] for name in move.sources]), strict=True))
            used |= set(move.sources)
    except (ConfigError, WeightsError):
        return {"": torch.empty(0)}, set()  # nothing of it is proven
    return made, used


def _skeleton(name: str) -> str:
    return ".".join("#" if part.isdigit() else part for part in name.split("."))


def _placeholders(pattern: str) -> list[str]:
    return [part for part in pattern.split(".") if part.startswith("{")]
