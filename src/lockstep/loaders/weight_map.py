"""Weight maps: which tensors of a file are which tensors of a model, declared once and read in both directions.

A map is a table of plain rows beside its model, `(theirs, ours)` or `(theirs, ours, operations)`:

    ("time_embed.0.{}", "time_embedding.linear_1.{}")
    ("attn.in_proj_{}", ("q_proj.{}", "k_proj.{}", "v_proj.{}"), "split")
    ("logit_scale", (), "drop")

    ("embeddings.{*}", "text_model.embeddings.{*}", "accept")

`{}` and `{name}` stand for one part of a dotted name (or a piece of it), `{*}` for one or more whole parts. Of two rows
that know a name, the one that spells it out further wins. `accept` is a spelling that is read and never written.
A map is total: a tensor that no row knows, or that a row wants and that is not there, is an error that lists it. Maps
work on names, shapes and dtypes alone; a tensor's values are read when somebody asks for that tensor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..errors import ConfigError, WeightsError
from ..models.weights import DTYPES, MadeTensor, MappedFiles, Row, StoredTensor
from . import operations
from .operations import Operation

PLACEHOLDER = re.compile(r"\{(\w+|\*)?\}")


class Pattern:
    """A name with placeholders: matched against names, and filled in to give one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.keys: list[str] = []
        pieces, position = [], 0
        for match in PLACEHOLDER.finditer(text):
            key = match[1] if match[1] and match[1] != "*" else f"_{len(self.keys)}"
            if key in self.keys:
                raise ConfigError(f"The pattern {text!r} has the placeholder {key!r} twice.")
            self.keys.append(key)
            pieces.append(re.escape(text[position : match.start()]))
            pieces.append(f"(?P<{key}>.+)" if match[1] == "*" else f"(?P<{key}>[^.]+)")
            position = match.end()
        self.regex = re.compile("".join([*pieces, re.escape(text[position:])]))
        self.literal_start = text.partition("{")[0]

    def match(self, name: str) -> dict[str, str] | None:
        """What the placeholders stand for in a name; None where it is another name."""
        found = self.regex.fullmatch(name)
        return found.groupdict() if found else None

    def fill(self, values: Mapping[str, str]) -> str:
        keys = iter(self.keys)
        return PLACEHOLDER.sub(lambda _: values[next(keys)], self.text)


@dataclass(frozen=True)
class Rule:
    """One row of a map."""

    theirs: tuple[Pattern, ...]
    ours: tuple[Pattern, ...]
    operations: tuple[Operation, ...]
    only_read: bool = False  # a spelling that is never written

    @classmethod
    def of(cls, row: Row) -> Rule:
        theirs, ours, text = row if len(row) == 3 else (*row, "keep")
        steps = operations.parse(text)
        kept = tuple(step for step in steps if step.name != "accept")
        rule = cls(_patterns(theirs), _patterns(ours), kept, only_read=len(kept) < len(steps))
        if len({tuple(sorted(pattern.keys)) for pattern in (*rule.theirs, *rule.ours)}) > 1:
            raise ConfigError(f"Both sides of the row {theirs!r} -> {ours!r} have to have the same placeholders.")
        if not rule.operations and len(rule.theirs) != len(rule.ours):
            raise ConfigError(f"The row {theirs!r} -> {ours!r} names different numbers of tensors and no operation.")
        return rule


@dataclass(frozen=True)
class Move:
    """A rule applied to names: these tensors become those."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    operations: tuple[Operation, ...] = ()
    backwards: bool = False

    def apply(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The targets' values, or their shapes where the tensors are on `meta`."""
        try:
            return operations.run(self.operations, list(tensors), len(self.targets), self.backwards)
        except WeightsError as problem:
            raise WeightsError(f"{', '.join(self.sources)} -> {', '.join(self.targets)}: {problem}") from None


@dataclass
class Plan:
    """All that a map does with the tensors of a file."""

    moves: list[Move] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  # no row knows them
    incomplete: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)  # (tensor, what its row wants with it)

    def check(self, what: str) -> None:
        """Refuse a file that the map does not cover whole."""
        lines = []
        if self.unknown:
            lines.append(f"{len(self.unknown)} tensors that it has no row for: {_some(self.unknown)}.")
        if self.incomplete:
            name, wanted = self.incomplete[0]
            lines.append(
                f"{len(self.incomplete)} tensors whose companions are missing: {name!r} wants {_some(wanted)}."
            )
        if lines:
            raise WeightsError(f"The weight map of {what} leaves " + " And it leaves ".join(lines))


class WeightMap:
    """A table of rows, read forwards (a file's layout to ours) or backwards."""

    def __init__(self, rows: Iterable[Row], what: str = "this model") -> None:
        self.what = what
        self.rules = [Rule.of(row) for row in rows]
        self._by_start = (_by_start(self.rules, False), _by_start(self.rules, True))

    def find(self, name: str, backwards: bool = False) -> Move | None:
        """What becomes of a name, with all the tensors that its row takes together; None where no row knows it."""
        found: dict[int, list[Move]] = {}  # by how far a row spells the name out
        for rule, pattern in self._candidates(name, backwards):
            values = pattern.match(name)
            if values is not None:
                theirs, ours = (tuple(one.fill(values) for one in side) for side in (rule.theirs, rule.ours))
                sources, targets = (ours, theirs) if backwards else (theirs, ours)
                move = Move(sources, targets, rule.operations, backwards)
                found.setdefault(len(pattern.literal_start), []).append(move)
        if not found:
            return None
        best = found[max(found)]
        if len({move.targets for move in best}) > 1:
            raise ConfigError(
                f"Two rows of the weight map of {self.what} claim {name!r}: {best[0].targets}, {best[1].targets}."
            )
        return best[0]

    def _candidates(self, name: str, backwards: bool) -> Iterator[tuple[Rule, Pattern]]:
        parts, known = name.split("."), self._by_start[backwards]
        for count in (2, 1, 0):
            yield from known.get(tuple(parts[:count]), ())

    def plan(self, names: Iterable[str], backwards: bool = False) -> Plan:
        """What becomes of each name of a file."""
        there = dict.fromkeys(names)
        plan = Plan()
        made: dict[str, str] = {}
        done: set[str] = set()
        for name in there:
            if name in done:
                continue
            move = self.find(name, backwards)
            if move is None:
                plan.unknown.append(name)
            elif missing := tuple(source for source in move.sources if source not in there):
                plan.incomplete.append((name, missing))
            else:
                done.update(move.sources)
                twice = next((target for target in move.targets if target in made), None)
                if twice is not None:
                    raise WeightsError(f"{name!r} and {made[twice]!r} would both become {twice!r} of {self.what}.")
                made |= dict.fromkeys(move.targets, name)
                plan.moves.append(move)
        return plan

    def to_ours(self, stored: Mapping[str, StoredTensor], opened: MappedFiles | None = None) -> dict[str, StoredTensor]:
        """The tensors of a file as the model names and lays them out, none of them read yet."""
        return self._convert(stored, opened or MappedFiles(), backwards=False)

    def to_theirs(
        self, stored: Mapping[str, StoredTensor], opened: MappedFiles | None = None
    ) -> dict[str, StoredTensor]:
        """The tensors of a model as the file's layout has them, none of them read yet."""
        return self._convert(stored, opened or MappedFiles(), backwards=True)

    def _convert(
        self, stored: Mapping[str, StoredTensor], opened: MappedFiles, backwards: bool
    ) -> dict[str, StoredTensor]:
        plan = self.plan(stored, backwards)
        plan.check(self.what)
        made: dict[str, StoredTensor] = {}
        for move in plan.moves:
            made.update(moved(move, [stored[name] for name in move.sources], opened))
        return made


def moved(move: Move, sources: Sequence[StoredTensor], opened: MappedFiles) -> dict[str, StoredTensor]:
    """What a move makes of stored tensors."""
    if not move.operations:
        return dict(zip(move.targets, sources, strict=True))
    shapes = move.apply([_on_meta(tensor) for tensor in sources])
    results = _Results(move, sources, opened)
    return {
        name: MadeTensor.of(sources[0].path, shape, lambda place=place: results.take(place))  # type: ignore[misc]
        for place, (name, shape) in enumerate(zip(move.targets, shapes, strict=True))
    }


class _Results:
    """The tensors that a move makes, computed once and let go when each has been taken."""

    def __init__(self, move: Move, sources: Sequence[StoredTensor], opened: MappedFiles) -> None:
        self.move, self.sources, self.opened = move, sources, opened
        self.waiting: dict[int, Tensor] = {}

    def take(self, place: int) -> Tensor:
        if place not in self.waiting:
            self.waiting = dict(enumerate(self.move.apply([self.opened.read(tensor) for tensor in self.sources])))
        return self.waiting.pop(place)


def _patterns(side: str | Sequence[str]) -> tuple[Pattern, ...]:
    return tuple(Pattern(text) for text in ((side,) if isinstance(side, str) else side))


def _on_meta(tensor: StoredTensor) -> Tensor:
    return torch.empty(tensor.info.shape, dtype=DTYPES[tensor.info.dtype], device="meta")


def _by_start(rules: Sequence[Rule], backwards: bool) -> dict[tuple[str, ...], list[tuple[Rule, Pattern]]]:
    """Rules by up to two first parts of the names that they know, as far as those are spelled out."""
    found: dict[tuple[str, ...], list[tuple[Rule, Pattern]]] = {}
    for rule in rules:
        for pattern in () if backwards and rule.only_read else rule.ours if backwards else rule.theirs:
            whole = pattern.literal_start == pattern.text
            parts = pattern.literal_start.split(".") if whole else pattern.literal_start.split(".")[:-1]
            found.setdefault(tuple(parts[:2]), []).append((rule, pattern))
    return found


def _some(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
