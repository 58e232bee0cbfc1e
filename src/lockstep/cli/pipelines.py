"""A pipeline for a command: loaded as the options say, or only described."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, UnknownNameError
from ..files import read_json
from .schedulers import find_scheduler

DEFAULT_MODEL = "lockstep/emoji"


def described(model: str, **file_options: Any) -> Any:
    """The pipeline of a model without its weights."""
    from ..pipelines.pipeline import DiffusionPipeline

    return DiffusionPipeline.from_pretrained(model, load=False, **file_options)


def file_options(family: str | None, prediction_type: str | None, allow_pickle: bool) -> dict[str, Any]:
    """What is said about a model that is one file."""
    said = {"family": family, "prediction_type": prediction_type, "allow_pickle": allow_pickle or None}
    return {name: value for name, value in said.items() if value is not None}


def loaded(
    model: str,
    *,
    dtype: str,
    device: str | None,
    workflow: str | None,
    scheduler: str | None,
    guider: str | None,
    loras: Sequence[str] = (),
    controlnets: Sequence[str] = (),
    variant: str | None = None,
    **file_options: Any,
) -> Any:
    """The pipeline of a model, ready to run."""
    from ..pipelines.pipeline import DiffusionPipeline

    steps = find_scheduler(scheduler) if scheduler else None  # a mistyped name is told before weights are read
    guidance = make_guider(guider) if guider else None
    options = {"dtype": dtype, "device": device, "workflow": workflow, "variant": variant, **file_options}
    pipe = DiffusionPipeline.from_pretrained(model, **options)
    if steps is not None:
        kind, settings = steps
        config = pipe.scheduler.config
        pipe.scheduler = kind.for_noise_of(config).from_config(config, **settings)
    if guidance is not None:
        pipe.guider = guidance
    if controlnets:
        nets = [controlnet_class(name).from_pretrained(name, dtype=dtype, device=device) for name in controlnets]
        pipe.controlnet = nets if len(nets) > 1 else nets[0]
    for text in loras:
        file, strength = lora_and_strength(text)
        pipe.load_lora_weights(file, strength=strength)
    return pipe


def controlnet_class(name: str) -> Any:
    """The class of a ControlNet, as the config of its folder says."""
    from ..blocks.params import public_class

    config = Path(name) / "config.json"
    said = read_json(config).get("_class_name") if config.is_file() else None
    return public_class(said or "ControlNetModel", f"the ControlNet {name}")


def lora_and_strength(text: str) -> tuple[str, float]:
    """`style.safetensors:0.8` -> (file, 0.8); without a number the strength is 1."""
    file, _, number = text.rpartition(":")
    try:
        return (file, float(number)) if file else (text, 1.0)
    except ValueError:
        return text, 1.0


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
        if not equals:
            raise InputError(f"A setting of {kind.__name__} is written name=value, got {pair!r}.")
        if key not in config_defaults(kind):
            raise UnknownNameError(f"setting of {kind.__name__}", key, config_defaults(kind))
        hints = [*_kinds(config_types(kind)[key]), float, int]
        values[key] = next(made for hint in [*hints, str] if (made := _as(value, hint)) is not None)
    return kind(**values)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
