"""What A1111 calls samplers and grids, and what they are here. The names mean the same method, not the same noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..problems import Problem

SDE = {"algorithm_type": "sde-dpmsolver++"}
MULTISTEP = "DPMSolverMultistepScheduler"


@dataclass(frozen=True)
class Sampler:
    """A name of A1111's, the class and settings that it stands for, and the grid that it takes by itself."""

    name: str
    kind: str
    settings: dict[str, Any] = field(default_factory=dict)
    grid: str = "own"
    aliases: tuple[str, ...] = ()
    order: int = 1


SAMPLERS = (
    Sampler("Euler a", "EulerAncestralDiscreteScheduler", aliases=("k_euler_a", "euler_ancestral")),
    Sampler("Euler", "EulerDiscreteScheduler", aliases=("k_euler",)),
    Sampler("LMS", "LMSDiscreteScheduler", aliases=("k_lms",)),
    Sampler("Heun", "HeunDiscreteScheduler", aliases=("k_heun",), order=2),
    Sampler("DPM2", "KDPM2DiscreteScheduler", grid="karras", aliases=("k_dpm_2",), order=2),
    Sampler("DPM2 a", "KDPM2AncestralDiscreteScheduler", grid="karras", aliases=("k_dpm_2_a",), order=2),
    Sampler("DPM++ 2M", MULTISTEP, grid="karras", aliases=("k_dpmpp_2m",)),
    Sampler("DPM++ 2M SDE", MULTISTEP, SDE, "exponential", ("k_dpmpp_2m_sde",)),
    Sampler("DPM++ 2M SDE Heun", MULTISTEP, {**SDE, "solver_type": "heun"}, "exponential", ("k_dpmpp_2m_sde_heun",)),
    Sampler("DPM++ 3M SDE", MULTISTEP, {**SDE, "solver_order": 3}, "exponential", ("k_dpmpp_3m_sde",)),
    Sampler("DPM++ SDE", "DPMSolverSinglestepScheduler", SDE, "karras", ("k_dpmpp_sde",)),
    Sampler("DDIM", "DDIMScheduler", aliases=("ddim",)),
    Sampler("DDPM", "DDPMScheduler"),
    Sampler("PLMS", "PNDMScheduler", {"skip_prk_steps": True}, aliases=("plms",)),
    Sampler("UniPC", "UniPCMultistepScheduler", aliases=("unipc",)),
    Sampler("DEIS", "DEISMultistepScheduler"),
    Sampler("LCM", "LCMScheduler", aliases=("k_lcm",)),
    Sampler("TCD", "TCDScheduler"),
)  # fmt: skip
GRIDS: dict[str, dict[str, Any]] = {
    "karras": {"use_karras_sigmas": True}, "exponential": {"use_exponential_sigmas": True},
    "beta": {"use_beta_sigmas": True}, "uniform": {"timestep_spacing": "linspace"},
    "normal": {"timestep_spacing": "linspace"}, "sgm_uniform": {"timestep_spacing": "trailing"},
    "ddim": {"timestep_spacing": "leading"},
}  # fmt: skip
LABELS = {"automatic": "Automatic", "sgm_uniform": "SGM Uniform", "ddim": "DDIM"}
SPOILED = ("Heun", "DPM2", "DPM2 a")  # two calls a step, of which a first step of pure noise makes garbage


def listed(own_grid: bool) -> list[Sampler]:
    """The samplers of a model."""
    return [sampler for sampler in SAMPLERS if not (own_grid and sampler.name in SPOILED)]


def scheduler_for(
    name: str | None, grid: str | None, card: dict[str, Any], known: dict[str, Any]
) -> dict[str, Any] | None:
    """The scheduler that two names stand for: `DPM++ 2M` with `Karras`, or both in one; None is the model's own."""
    if not name or name.lower() == "automatic":
        return None
    base, grid = _split(name, grid)
    found = next((s for s in SAMPLERS if base in (s.name.lower(), *(alias.lower() for alias in s.aliases))), None)
    if found is None:
        names = ", ".join(sampler.name for sampler in listed(card["own_grid"]))
        raise Problem(
            422, "unknown_parameter", f"Sampler not found: {name[:60]!r}. There are: {names}.", param="sampler_name"
        )
    wanted = (grid or "automatic").lower().replace(" ", "_")
    if wanted == "automatic":
        wanted = "own" if card["own_grid"] else found.grid
    if wanted == "own":
        return {"class": found.kind, "settings": found.settings}
    if wanted not in GRIDS:
        raise Problem(
            422,
            "unsupported_parameter",
            f"Scheduler not found: {str(grid)[:60]!r}. There are: {', '.join(GRIDS)}.",
            param="scheduler",
        )
    settings = known.get(found.kind, {})
    if not all(option in settings for option in GRIDS[wanted]):
        raise Problem(422, "unsupported_parameter", f"{found.name} has no grid {wanted!r}.", param="scheduler")
    return {"class": found.kind, "settings": {**found.settings, **GRIDS[wanted]}}


def _split(name: str, grid: str | None) -> tuple[str, str | None]:
    """An old name carries its grid as its last word."""
    base, _, last = name.lower().rpartition(" ")
    if base and last in ("karras", "exponential"):
        return base, last
    return name.lower(), grid


def grid_of(settings: dict[str, Any]) -> str | None:
    """What A1111 calls the schedule type, where settings choose one."""
    found = next((name for name, wanted in GRIDS.items() if wanted.items() <= settings.items()), None)
    return None if found is None else LABELS.get(found, found.capitalize())


def name_of(kind: str, settings: dict[str, Any]) -> str:
    """The name of a scheduler that a picture was made with."""
    same = [s for s in SAMPLERS if s.kind == kind]
    exact = [s for s in same if all(settings.get(name) == value for name, value in s.settings.items())]
    return max(exact or same, key=lambda s: len(s.settings)).name if same else kind
