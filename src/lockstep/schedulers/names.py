"""The names by which people call schedulers: `euler`, `dpm++_2m_karras`, `DPM++ 2M Karras`, a class name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..configuration import config_defaults
from ..errors import InputError, UnknownNameError
from ..extensions import all_brought


class Choice(NamedTuple):
    """A scheduler's class, by its name, and the settings that a short name stands for."""

    kind: str
    settings: Mapping[str, Any] = {}


# what people call them elsewhere; every class has its own short name besides
WELL_KNOWN = {
    "dpm": Choice("DPMSolverMultistepScheduler"),
    "dpm++_2m": Choice("DPMSolverMultistepScheduler"),
    "dpm++_2m_sde": Choice("DPMSolverMultistepScheduler", {"algorithm_type": "sde-dpmsolver++"}),
    "dpm++_2s": Choice("DPMSolverSinglestepScheduler"),
    "dpm++_sde": Choice("DPMSolverSDEScheduler"),
    "dpm2": Choice("KDPM2DiscreteScheduler"),
    "dpm2_a": Choice("KDPM2AncestralDiscreteScheduler"),
    "euler_a": Choice("EulerAncestralDiscreteScheduler"),
    "flow": Choice("FlowMatchEulerDiscreteScheduler"),
    "plms": Choice("PNDMScheduler", {"skip_prk_steps": True}),
}
GRIDS = {grid: f"use_{grid}_sigmas" for grid in ("karras", "exponential", "beta")}


def classes() -> dict[str, Any]:
    """Every scheduler by the name of its class: ours, and those that installed packages bring."""
    from .. import schedulers

    own = {name: getattr(schedulers, name) for name in schedulers.__all__ if name.endswith("Scheduler")}
    return all_brought("scheduler", schedulers.SchedulerMixin) | own


def short_names() -> dict[str, Choice]:
    """Every short name: `EulerDiscreteScheduler` is `euler`."""
    return {_short(kind): Choice(kind) for kind in classes()} | WELL_KNOWN


def find_scheduler(name: str) -> tuple[Any, dict[str, Any]]:
    """The class and the settings that a name stands for: `euler`, `EulerDiscrete`, `dpm++_2m_karras`, `DPM++ 2M
    Karras`."""
    known, short = classes(), short_names()
    plain = {plain_name(kind): Choice(kind) for kind in known}
    plain |= {plain_name(kind.removesuffix("Scheduler")): Choice(kind) for kind in known}
    plain |= {plain_name(one): choice for one, choice in short.items()}
    wanted = plain_name(name)
    grid = next((grid for grid in GRIDS if wanted.endswith(grid)), None)
    found = plain.get(wanted.removesuffix(grid)) if grid else plain.get(wanted)
    if found is None:
        raise UnknownNameError("scheduler", name, [*short, *known], "`lockstep schedulers` says what each of them is.")
    kind, settings = known[found.kind], dict(found.settings)
    if grid:
        if GRIDS[grid] not in config_defaults(kind):
            raise InputError(f"{found.kind} has no {grid} sigmas, which {name!r} asks for. Leave the ending out.")
        settings[GRIDS[grid]] = True
    return kind, settings


def described(kind: str, found: Any) -> dict[str, Any]:
    """A scheduler for people and programs: its class, its names, its grids, what it is."""
    names = [name for name, choice in short_names().items() if choice.kind == kind]
    grids = [grid for grid, option in GRIDS.items() if option in config_defaults(found)]
    return {
        "class": kind,
        "names": names,
        "grids": grids,
        "description": inspect.cleandoc(found.__doc__).split("\n")[0],
    }


def _short(kind: str) -> str:
    bare = kind.removesuffix("Scheduler").replace("Discrete", "").replace("Multistep", "")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", bare).lower()


def plain_name(name: str) -> str:
    """A name without what people write differently."""
    return re.sub(r"[ _-]", "", name.lower()).replace("++", "pp")
