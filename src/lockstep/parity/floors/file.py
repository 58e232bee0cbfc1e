"""The measured noise floor on disk (`pfloor/1`, JSON): how much the reference differs from itself, per value."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import InvalidTrace
from ..trace.container import load_json
from ..trace.names import Key

SCHEMA = "pfloor/1"
TINIEST = 1e-30  # stands for "equal to the last bit" where a logarithm is taken
HARDLY = 8.0  # a run that moved a value this much less than the strongest one is left out


@dataclass(frozen=True)
class FloorValue:
    """f: geometric mean of the relative L2 errors of k re-runs; s: standard deviation of their logarithms."""

    f: float
    s: float
    k: int


@dataclass
class Floor:
    """Errors of every re-run, per key."""

    runs: list[str] = field(default_factory=list)
    errors: dict[str, list[float]] = field(default_factory=dict)
    path: Path | None = None

    def value(self, *keys: Key | str | None) -> FloorValue | None:
        """The floor of the first key that was measured; runs that changed nothing there are left out."""
        for key in keys:
            if key is not None and str(key) in self.errors:
                return summarize(self.errors[str(key)])
        return None

    def add(self, run: str, errors: dict[str, float]) -> None:
        self.runs.append(run)
        for key, error in errors.items():
            self.errors.setdefault(key, []).append(error)

    def save(self, path: str | Path) -> None:
        path = Path(path)
        temporary = path.with_name(path.name + ".part")
        temporary.write_text(json.dumps({"schema": SCHEMA, "runs": self.runs, "errors": self.errors}, allow_nan=False))
        os.replace(temporary, path)
        self.path = path

    @classmethod
    def load(cls, path: str | Path) -> Floor:
        path = Path(path)
        try:
            data = load_json(path.read_bytes(), path.name)
        except OSError as error:
            raise InvalidTrace(f"floor {path} cannot be read: {error.strerror}") from error
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise InvalidTrace(f"{path.name} is not a floor: expected schema {SCHEMA!r}")
        runs, errors = data.get("runs"), data.get("errors")
        if not isinstance(runs, list) or not isinstance(errors, dict):
            raise InvalidTrace(f"{path.name}: runs must be a list and errors an object")
        for key, values in errors.items():
            if not isinstance(values, list) or not all(type(v) in (int, float) and v >= 0 for v in values):
                raise InvalidTrace(f"{path.name}: errors of {key!r} must be numbers that are not negative")
        return cls([str(run) for run in runs], errors, path)


def summarize(errors: Iterable[float]) -> FloorValue | None:
    """Geometric mean and spread over the runs that moved the value; one that hardly did says nothing about the
    others."""
    errors = list(errors)
    least = max(TINIEST, max(errors, default=0.0) / HARDLY)
    logs = [math.log(error) for error in errors if error > least]
    if not logs:
        return FloorValue(0.0, 0.0, 1)
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((v - mean) ** 2 for v in logs) / (len(logs) - 1)) if len(logs) > 1 else 0.0
    return FloorValue(math.exp(mean), spread, len(logs))
