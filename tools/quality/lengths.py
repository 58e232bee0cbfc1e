"""A file that is read in one go: no source has more lines than this."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lockstep.kit.checks.finding import Finding

MOST_LINES = 500


def findings(folders: Iterable[Path]) -> list[Finding]:
    """Every source under the folders that is too long; stubs are written by a program and not read."""
    sources = sorted(path for folder in folders for path in folder.rglob("*.py"))
    counted = [(path, len(path.read_text(encoding="utf-8").splitlines())) for path in sources]
    return [
        Finding(path, lines, f"has {lines} lines, {MOST_LINES} are the most: part it where it falls into two")
        for path, lines in counted
        if lines > MOST_LINES
    ]
