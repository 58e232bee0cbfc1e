"""`lockstep schedulers`, and the names by which a command line knows them: `euler`, `dpm++_2m_karras`, a class name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import InputError, UnknownNameError
from .console import out, print_json
from .options import Json


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
    """Every scheduler by the name of its class."""
    from .. import schedulers

    return {name: getattr(schedulers, name) for name in schedulers.__all__ if name.endswith("Scheduler")}


def short_names() -> dict[str, Choice]:
    """Every short name: `EulerDiscreteScheduler` is `euler`."""
    return {_short(kind): Choice(kind) for kind in classes()} | WELL_KNOWN


def find_scheduler(name: str) -> tuple[Any, dict[str, Any]]:
    """The class and the settings that a name stands for: `euler`, `EulerDiscrete`, `dpm++_2m_karras`, `DPM++ 2M
    Karras`."""
    known, short = classes(), short_names()
    plain = {_plain(kind): Choice(kind) for kind in known}
    plain |= {_plain(kind.removesuffix("Scheduler")): Choice(kind) for kind in known}
    plain |= {_plain(one): choice for one, choice in short.items()}
    wanted = _plain(name)
    grid = next((grid for grid in GRIDS if wanted.endswith(grid)), None)
    found = plain.get(wanted.removesuffix(grid)) if grid else plain.get(wanted)
    if found is None:
        raise UnknownNameError("scheduler", name, [*short, *known], "`lockstep schedulers` says what each of them is.")
    kind, settings = known[found.kind], dict(found.settings)
    if grid:
        if GRIDS[grid] not in _options(kind):
            raise InputError(f"{found.kind} has no {grid} sigmas, which {name!r} asks for. Leave the ending out.")
        settings[GRIDS[grid]] = True
    return kind, settings


def schedulers(json: Json = False) -> None:
    """List the schedulers that `generate --scheduler` takes."""
    rows = [_row(kind, found) for kind, found in sorted(classes().items())]
    if json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column, style in (("--scheduler", "cyan"), ("class", "dim"), ("what it is", None)):
        table.add_column(column, style=style, overflow="fold")
    for row in rows:
        table.add_row("\n".join(row["names"]), row["class"], row["description"].replace("[", r"\["))
    out.print(table)
    out.print(f"[dim]With an ending for its grid where the class has it: {', '.join(f'euler_{g}' for g in GRIDS)}.[/]")


def _row(kind: str, found: Any) -> dict[str, Any]:
    names = [name for name, choice in short_names().items() if choice.kind == kind]
    grids = [grid for grid, option in GRIDS.items() if option in _options(found)]
    return {
        "class": kind,
        "names": names,
        "grids": grids,
        "description": inspect.cleandoc(found.__doc__).split("\n")[0],
    }


def _options(kind: Any) -> Mapping[str, Any]:
    from ..configuration import config_defaults

    return config_defaults(kind)


def _short(kind: str) -> str:
    bare = kind.removesuffix("Scheduler").replace("Discrete", "").replace("Multistep", "")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", bare).lower()


def _plain(name: str) -> str:
    return re.sub(r"[ _-]", "", name.lower()).replace("++", "pp")
