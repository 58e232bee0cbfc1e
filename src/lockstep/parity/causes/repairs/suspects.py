"""The lines of the port in the order in which they are looked at."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from ..own_tables import reference_tables
from ..pipeline_probe import PipelineProbe
from .executed import KnownValues, LineWatch, RunLine
from .sources import SourceFile, Statement

# Orders from which on nothing is known of a line, it has the reference's numbers in another order, and so on.
UNKNOWN, REARRANGED, BEHIND, INNOCENT = 1e6, 2e6, 3e6, 4e6


@dataclass(eq=False)
class Suspect:
    """A statement that may be wrong; a lower order comes first."""

    statement: Statement
    source: SourceFile
    order: float
    values: dict[str, Any] = field(default_factory=dict)
    built: bool = False  # runs when the port is made, not when it is called


def reference_values(search: Any, numbers: Iterable[float]) -> KnownValues:
    """Everything that the reference's operations, weights and tables hold in one run, and the `numbers` of its code."""
    known = KnownValues()
    for number in numbers:
        known.add(float(number))
    for tensor in search.live.weights().values():
        known.add(tensor)
    for table in reference_tables(search):
        known.add(table)
    with torch.no_grad(), PipelineProbe.edited(search.live, (), lambda site, call, result: known.add(result)):
        search.live.run(search.own)
    search.log.spent += search.whole.cost
    return known


class Files:
    """The port's files, read once."""

    def __init__(self) -> None:
        self._held: dict[str, SourceFile | None] = {}

    def read(self, name: str) -> SourceFile | None:
        if name not in self._held:
            self._held[name] = SourceFile.read(name)
        return self._held[name]

    def reads(self, name: str, line: int) -> frozenset[str]:
        """Names that the statement of a line takes."""
        source = self.read(name)
        statement = source.at(line) if source is not None else None
        return names_read(statement.node) if statement is not None else frozenset()


@lru_cache(maxsize=4096)
def names_read(node: ast.stmt) -> frozenset[str]:
    """Of the statement itself, not of those that it holds."""
    waiting: list[ast.AST] = [node]
    found: set[str] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            found.add(part.id)
        waiting += [child for child in ast.iter_child_nodes(part) if not isinstance(child, ast.stmt)]
    return frozenset(found)


def lines_of(live: Any, trace: Any, known: KnownValues, files: Files) -> dict[tuple[str, int], RunLine]:
    """Those of its own that a side runs when it is called, and when it is made."""
    called = LineWatch(known, files.reads)
    with called.watching():
        live.run(trace)
    built = LineWatch(known, files.reads)
    if live.build is not None:
        with built.watching():
            live.again()
    for line in built.lines.values():
        line.built = True
    return {**built.lines, **called.lines}


def suspects_of(
    lines: dict[tuple[str, int], RunLine], right: set[tuple[str, int]], files: Files, seen: Iterable[str]
) -> list[Suspect]:
    """What was `seen` to differ first; then lines that make something strange of what the reference has, each with
    those before it in its function of which nothing is known; then the others. What the reference runs as well is
    `right`."""
    found: dict[int, tuple[Suspect, RunLine]] = {}
    seen, called = set(seen), set[int]()
    for key, line in lines.items():
        source = files.read(line.file) if key not in right else None
        statement = source.at(line.number) if source is not None else None
        if statement is None or source is None or isinstance(statement.node, ast.ClassDef | ast.FunctionDef):
            continue
        called |= {id(statement.function)} if statement.function is not None else set()
        order = _order(line, statement.line in seen)
        held, first = found.get(id(statement.node), (None, line))
        if held is None or order < held.order:
            values = line.values if held is None else {**held.values, **line.values}
            suspect = Suspect(statement, source, order, values, line.built)
            found[id(statement.node)] = suspect, first
    ordered = sorted(found.values(), key=lambda entry: entry[0].order)
    suspects = list(_with_feeders(ordered))
    return [*suspects, *_of_modules(suspects), *_of_functions(suspects, called)]


def _with_feeders(ordered: list[tuple[Suspect, RunLine]]) -> Iterator[Suspect]:
    """Behind each line that is wrong itself those that it may have that from, the nearest first."""
    told: set[int] = set()
    for suspect, line in ordered:
        before = [
            (other, run)
            for other, run in ordered
            if UNKNOWN <= other.order < BEHIND and run.code == line.code and run.number < line.number
        ]
        feeders = sorted(before, key=lambda entry: -entry[1].number) if suspect.order < UNKNOWN else []
        for one in [suspect, *(other for other, _ in feeders)]:
            if id(one) not in told:
                told.add(id(one))
                yield one


def _order(line: RunLine, is_seen: bool) -> float:
    """Of several that begin to go wrong the earliest; what is not known lies between those and what is right."""
    if is_seen:
        return -1
    if line.suspect is not None:
        return line.suspect
    if line.rearranged:
        return REARRANGED + line.first
    if line.known:
        return INNOCENT + line.first
    return (BEHIND if line.behind else UNKNOWN) + line.first


def _of_modules(suspects: list[Suspect]) -> Iterator[Suspect]:
    """Constants of a file that the suspects' functions read."""
    for source in {id(s.source): s.source for s in suspects}.values():
        read = {name for s in suspects if s.source is source for name in names_read(s.statement.node)}
        for statement in source.statements:
            node = statement.node
            if statement.function is not None or statement.owner is not None or not isinstance(node, ast.Assign):
                continue
            if any(isinstance(t, ast.Name) and t.id in read for t in node.targets):
                yield Suspect(statement, source, UNKNOWN, built=True)


def _of_functions(suspects: list[Suspect], called: set[int]) -> Iterator[Suspect]:
    """Defaults of the functions that run."""
    for source in {id(s.source): s.source for s in suspects}.values():
        for statement in source.statements:
            node = statement.node
            if (
                isinstance(node, ast.FunctionDef)
                and id(node) in called
                and (node.args.defaults or node.args.kw_defaults)
            ):
                yield Suspect(statement, source, UNKNOWN)
