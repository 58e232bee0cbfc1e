"""What a check finds: a place, what is wrong there, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Finding:
    """One broken rule."""

    path: Path
    line: int
    message: str
    remedy: str = ""
    rule: str = ""
    pitfall: int = 0  # its number in docs/pitfalls.md, where it is one of those

    def __str__(self) -> str:
        path = self.path.relative_to(Path.cwd()) if self.path.is_relative_to(Path.cwd()) else self.path
        return f"{path}:{self.line}: {self.message}"
