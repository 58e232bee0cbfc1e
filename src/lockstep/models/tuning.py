"""Which engine is the fastest for a model on this machine: measured once, with its proof, and remembered."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..errors import LockstepError
from ..files import atomic
from .engines import ENGINES, cache_folder, make_cache_folder, weights_digest
from .examples import Call

OWN = "own"
ROUNDS = 3


@dataclass(frozen=True)
class Tried:
    """An engine on this machine: seconds of a call and its error, or why it was not taken."""

    engine: str
    seconds: float | None = None
    error: float | None = None
    refused: str | None = None

    def __str__(self) -> str:
        if self.refused is not None:
            return f"{self.engine}: {self.refused}"
        return f"{self.engine}: {self.seconds:.3g} s, relative L2 {self.error:.1e}"


@dataclass(frozen=True)
class Tuned:
    """The fastest engine that passes, and what was tried."""

    engine: str
    tried: tuple[Tried, ...]

    def __str__(self) -> str:
        return f"{self.engine} is the fastest here ({'; '.join(map(str, self.tried))})"


def tune(model: Any, level: str, call: Call, bound: float | None, again: bool = False) -> Tuned:
    """Measure every engine in turn, or remember; the model is left as torch computes it."""
    place = _place(model, level, bound)
    kept = None if again else _read(place)
    if kept is not None:
        return kept
    make_cache_folder()  # before minutes of measuring that could not be remembered
    model.accelerate("off")
    with torch.no_grad():
        exact = call(model)
    tried = tuple(_try(model, engine, level, call, bound, exact) for engine in (OWN, *ENGINES))
    model.accelerate("off")
    able = [one for one in tried if one.seconds is not None]
    found = Tuned(min(able, key=lambda one: one.seconds or 0.0).engine if able else OWN, tried)
    with atomic(place) as temporary:
        temporary.write_text(json.dumps(asdict(found), indent=1))
    return found


def _read(place: Path) -> Tuned | None:
    """What was found before; None where nothing was, or what is there cannot be read."""
    try:
        kept = json.loads(place.read_text())
        return Tuned(kept["engine"], tuple(Tried(**one) for one in kept["tried"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _try(model: Any, engine: str, level: str, call: Call, bound: float | None, exact: torch.Tensor) -> Tried:
    more = {} if bound is None else {"bound": bound}
    try:
        model.accelerate(level, engine=engine, example=call, **more)
    except LockstepError as problem:
        return Tried(engine, refused=str(problem))
    except Exception as problem:  # another library's converter may raise anything
        return Tried(engine, refused=(str(problem).splitlines() or [type(problem).__name__])[0][:200])
    seconds = []
    with torch.no_grad():
        result = call(model)
        for _ in range(ROUNDS):
            started = time.perf_counter()
            call(model)
            seconds.append(time.perf_counter() - started)
    return Tried(engine, min(seconds), float((result - exact).norm() / exact.norm()))


def _place(model: Any, level: str, bound: float | None) -> Path:
    """One file for all that the choice depends on."""
    packages = [(name, engine.missing() is None) for name, engine in ENGINES.items()]
    facts = [weights_digest(model), type(model).__name__, level, bound, torch.get_num_threads(), torch.__version__]
    text = json.dumps([*facts, __version__, packages, torch.backends.cpu.get_cpu_capability()])
    return cache_folder() / f"tuned-{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
