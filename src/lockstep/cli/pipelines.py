"""A pipeline for a command: loaded as the options say, or only described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError, UnknownNameError

DEFAULT_MODEL = "lockstep/emoji"


def described(model: str) -> Any:
    """The pipeline of a model without its weights."""
    from ..pipelines.pipeline import DiffusionPipeline

    return DiffusionPipeline.from_pretrained(model, load=False)


def loaded(
    model: str, *, dtype: str, device: str | None, workflow: str | None, scheduler: str | None, guider: str | None
) -> Any:
    """The pipeline of a model, ready to run."""
    from ..pipelines.pipeline import DiffusionPipeline

    pipe = DiffusionPipeline.from_pretrained(model, dtype=dtype, device=device, workflow=workflow)
    if scheduler:
        pipe.scheduler = scheduler_class(scheduler).from_config(pipe.scheduler.config)
    if guider:
        pipe.guider = make_guider(guider)
    return pipe


def scheduler_class(name: str) -> Any:
    """`euler`, `EulerDiscrete` or `EulerDiscreteScheduler`."""
    from .. import schedulers

    known = {n: getattr(schedulers, n) for n in schedulers.__all__ if n.endswith("Scheduler")}
    short = {_plain(n.removesuffix("Scheduler")): n for n in known}
    short |= {_plain(n.removesuffix("Scheduler")).replace("discrete", "").replace("multistep", ""): n for n in known}
    short |= {
        "dpm": "DPMSolverMultistepScheduler",
        "euler_a": "EulerAncestralDiscreteScheduler",
        "flow": "FlowMatchEulerDiscreteScheduler",
    }
    found = known.get(name) or known.get(short.get(_plain(name), "")) or known.get(short.get(name.lower(), ""))
    if found is None:
        raise UnknownNameError("scheduler", name, known)
    return found


def make_guider(text: str) -> Any:
    """`ClassifierFreeGuidance`, or with settings: `AdaptiveProjectedGuidance:eta=0.5,guidance_scale=6`."""
    from .. import guiders
    from ..configuration import config_defaults, config_types
    from .inputs import _as, _kinds

    name, _, settings = text.partition(":")
    known = {n: getattr(guiders, n) for n in guiders.__all__ if n.endswith("Guidance") and n != "BaseGuidance"}
    kind = known.get(name) or next((k for n, k in known.items() if _plain(n) == _plain(f"{name}Guidance")), None)
    if kind is None:
        raise UnknownNameError("guider", name, known)
    values: dict[str, Any] = {}
    for pair in filter(None, settings.split(",")):
        key, equals, value = pair.partition("=")
        if not equals or key not in config_defaults(kind):
            raise UnknownNameError(f"setting of {kind.__name__} (written name=value)", key, config_defaults(kind))
        hints = [*_kinds(config_types(kind)[key]), float, int]
        values[key] = next(made for hint in [*hints, str] if (made := _as(value, hint)) is not None)
    return kind(**values)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def target_path(output: Path, index: int, total: int) -> Path:
    """Where picture number `index` goes: the path itself, a numbered neighbour, or a file in a folder."""
    if output.suffix.lower() == ".png":
        return output if total == 1 else output.with_stem(f"{output.stem}-{index}")
    if output.suffix and output.suffix.lower() not in (".png",) and not output.is_dir():
        raise InputError(
            f"Pictures are written as PNG, which carries the manifest; got {output.name!r}. Use a name that ends in .png."
        )
    return output / f"picture-{index}.png"
