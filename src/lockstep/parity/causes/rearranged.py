"""Rows of weights in another order: a port's good right where it reads what they make in that order, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from ..comparison.results import Comparison, NodeResult, Role
from .facts import Different

LATER = 6  # values looked at behind the first


def rearranged_modules(different: Iterable[Different]) -> frozenset[str]:
    """Modules of which the other side holds the same numbers in another order, and nothing else that differs."""
    found: dict[str, bool] = defaultdict(lambda: True)
    for one in different:
        found[one.path.rpartition(".")[0]] &= one.rearranged
    return frozenset(path for path, only in found.items() if only)


def behind_rearranged(search: Any, comparison: Comparison) -> Iterator[NodeResult]:
    """Where the first bad value is in another order since its weight is: the next ones, which may be the first that are
    wrong."""
    first = comparison.first
    if first is None or _own(search, first) not in search.rearranged:
        return
    later = [n for n in comparison.nodes if n.bad and n.order > first.order and n.role is not Role.HEALED]
    later = [n for n in later if not n.key.is_operation and n.error is not None and n.other is not None]
    yield from [n for n in later if _own(search, n) not in search.rearranged][:LATER]


def _own(search: Any, node: NodeResult) -> str:
    key = node.other if search.turned else node.key
    return key.path if key is not None else ""
