"""Our own ways to compute a model, and a whole picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..models import accelerated
from ..models.accelerated import EXACT, HIGH
from .peers import sd_cpp_picture, their_picture
from .runs import Absent, Run, Way
from .subjects import Subject


def own_sides(subject: Subject) -> list[Way]:
    """Eager, and each level; bf16 weights where the processor computes them natively."""
    return [
        Way("lockstep", lambda: subject.call(subject.again())),
        Way("lockstep, exact", lambda: _at(subject, EXACT, accelerated.why_not())),
        Way("lockstep, high", lambda: _at(subject, HIGH, accelerated.why_not_high())),
        Way("lockstep, bf16 weights", lambda: subject.call(subject.again().to(torch.bfloat16))),
    ]


def _at(subject: Subject, level: str, missing: str | None) -> Run:
    if missing is not None:
        raise Absent(missing)
    return subject.call(subject.again().accelerate(level))


def picture_sides(load: Callable[[], Any], folder: Callable[[], Path], call: dict[str, Any]) -> list[Way]:
    """A whole run of a pipeline, words to pixels, at every level, and by peers that can load the folder."""

    def at(level: str | None, missing: str | None = None) -> Run:
        if missing is not None:
            raise Absent(missing)
        pipe = load()
        pipe.set_progress_bar_config(disable=True)
        if level is not None:
            pipe.accelerate(level)
        return lambda: torch.as_tensor(pipe(**call, output_type="pt").images)

    return [
        Way("lockstep", lambda: at(None)),
        Way("lockstep, exact", lambda: at(EXACT, accelerated.why_not())),
        Way("lockstep, high", lambda: at(HIGH, accelerated.why_not_high())),
        Way("lockstep, fast", lambda: at("fast")),
        Way("diffusers", lambda: their_picture(folder(), call)),
        Way("stable-diffusion.cpp", lambda: sd_cpp_picture(folder(), call)),
    ]
