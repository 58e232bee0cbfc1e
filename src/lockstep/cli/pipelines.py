"""A pipeline for a command: loaded as the options say, or only described."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, UnknownNameError
from ..files import read_json

DEFAULT_MODEL = "lockstep/emoji"
AUTO, OFF = "auto", "off"


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
    embeddings: Sequence[str] = (),
    controlnets: Sequence[str] = (),
    adapters: Sequence[str] = (),
    ip_adapters: Sequence[str] = (),
    variant: str | None = None,
    speed: str = "off",
    max_memory: str | None = None,
    **file_options: Any,
) -> Any:
    """The pipeline of a model, ready to run."""
    from ..models.modeling import resolve_device
    from ..pipelines.pipeline import DiffusionPipeline
    from ..schedulers import exchanged
    from ..schedulers.names import find_scheduler

    speed = level_of(speed, dtype, device, max_memory)
    if speed != OFF and dtype == "auto" and resolve_device(device).type == "cpu":
        dtype = "float32"  # what the kernels take in and give
    steps = (
        find_scheduler(scheduler) if scheduler is not None else None
    )  # a mistyped name is told before weights are read
    guidance = make_guider(guider) if guider is not None else None
    options = {"dtype": dtype, "device": device, "workflow": workflow, "variant": variant, **file_options}
    pipe = DiffusionPipeline.from_pretrained(model, **options)
    if steps is not None:
        kind, settings = steps
        pipe.scheduler = exchanged(pipe.scheduler, kind, **settings)
    if guidance is not None:
        pipe.guider = guidance
    for name, kind, places in (("controlnet", "ControlNetModel", controlnets), ("adapter", "T2IAdapter", adapters)):
        if places:
            setattr(pipe, name, steering_models(kind, places, dtype, device, **file_options))
    if ip_adapters:
        pairs = [file_and_strength(text) for text in ip_adapters]
        pipe.load_ip_adapter([file for file, _ in pairs], allow_pickle=file_options.get("allow_pickle", False))
        pipe.set_ip_adapter_scale([scale for _, scale in pairs])
    for text in loras:
        file, strength = file_and_strength(text)
        pipe.load_lora_weights(file, strength=strength)
    for text in embeddings:
        word, equals, path = text.partition("=")
        pipe.load_textual_inversion(
            path if equals else text, word if equals else None, allow_pickle=file_options.get("allow_pickle", False)
        )
    if speed != OFF:
        from .. import kernels

        kernels.keep_freed_memory()
        pipe.accelerate(speed, max_memory=max_memory)
    return pipe


def level_of(speed: str, dtype: str, device: str | None, max_memory: str | None = None) -> str:
    """The level of acceleration; auto is `exact` for fp32 on a processor that our kernels compute right on."""
    from ..models import accelerated
    from ..models.accelerated import EXACT
    from ..models.modeling import resolve_device, resolve_dtype
    from ..models.weights import parse_size
    from ..pipelines.speed import FAST, LEVELS

    if speed not in (AUTO, *LEVELS):
        raise UnknownNameError("speed", speed, (AUTO, *LEVELS))
    if max_memory is not None and speed not in (AUTO, EXACT, FAST):
        raise InputError(f"--max-memory goes with --speed {EXACT} or {FAST}, not {speed}.")
    if max_memory is not None:
        parse_size(max_memory, "--max-memory")
    if speed != AUTO:
        return speed
    where = resolve_device(device)
    able = where.type == "cpu" and accelerated.why_not() is None
    return EXACT if able and (max_memory is not None or str(resolve_dtype(dtype, where)) == "torch.float32") else OFF


def steering_models(kind: str, places: Sequence[str], dtype: str, device: str | None, **file_options: Any) -> Any:
    """ControlNets or T2I-Adapters from their folders or files: one, or a list of several."""
    from ..blocks.params import public_class
    from ..loaders.header import is_checkpoint

    pickles = {key: value for key, value in file_options.items() if key == "allow_pickle"}
    models = [
        public_class(said_class(place) or kind, "a picture that steers").from_pretrained(
            place, dtype=dtype, device=device, **(pickles if is_checkpoint(place) else {})
        )
        for place in places
    ]
    return models if len(models) > 1 else models[0]


def said_class(place: str) -> str | None:
    """The class that the config of a model's folder says."""
    config = Path(place) / "config.json"
    return read_json(config).get("_class_name") if config.is_file() else None


def file_and_strength(text: str) -> tuple[str, float]:
    """`style.safetensors:0.8` -> (file, 0.8); without a number the strength is 1."""
    file, _, number = text.rpartition(":")
    try:
        return (file, float(number)) if file else (text, 1.0)
    except ValueError:
        if Path(file).exists() and not Path(text).exists():
            raise InputError(f"The strength behind {file} has to be a number, got {number!r}.") from None
        return text, 1.0


def make_guider(text: str) -> Any:
    """`ClassifierFreeGuidance`, or with settings: `AdaptiveProjectedGuidance:eta=0.5,guidance_scale=6`."""
    from .. import guiders
    from ..configuration import config_defaults, config_types
    from ..extensions import all_brought
    from .inputs import _as, _kinds

    name, _, settings = text.partition(":")
    own = {n: getattr(guiders, n) for n in guiders.__all__ if n.endswith("Guidance") and n != "BaseGuidance"}
    known = all_brought("guider", guiders.BaseGuidance) | own
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
