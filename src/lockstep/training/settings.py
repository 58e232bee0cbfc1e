"""What a training run is made of, read from a TOML file: every value has a name, a type and a default."""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..configuration import check_types
from ..errors import ConfigError, FileFormatError, NotFoundError, did_you_mean

Settings = TypeVar("Settings")
CONFIGS = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class Mixture:
    """Shares of the training draws; a style or kind that is not named is not drawn."""

    styles: dict[str, float] = field(default_factory=lambda: {"3d": 0.34, "noto": 0.33, "flat": 0.33})
    kinds: dict[str, float] = field(default_factory=lambda: {"base": 0.75, "colour": 0.15, "background": 0.1})
    mirrored: float = 0.2
    beyond_core: float = 0.0
    concepts: list[str] = field(default_factory=list)  # only these, by name; all of them where the list is empty
    favourites: list[str] = field(default_factory=list)  # what people ask for first …
    favour: float = 1.0  # … is drawn this many times as often
    scenes: float = 0.0  # of all draws: counts, pairs, places, put together for the step


@dataclass(frozen=True)
class OptimizerSettings:
    """AdamW (arXiv:1711.05101) or Muon, a linear warm-up, a clipped gradient and an average of the weights."""

    learning_rate: float = 1e-3
    muon: bool = False  # for matrices and convolutions; AdamW for the rest
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.01
    warmup_steps: int = 100
    clip: float = 1.0
    ema_limit: float = 0.999
    final_share: float = 0.02


@dataclass(frozen=True)
class Cadence:
    """How often things happen: checkpoints by wall time, evaluations by steps, so that a slow machine does not evaluate all day."""

    checkpoint_minutes: float = 5.0
    evaluate_steps: int = 500
    log_seconds: float = 30.0
    log_steps: int = 0


@dataclass(frozen=True)
class EvaluationSettings:
    """Fixed questions to a model in training."""

    loss_items: int = 256
    retrieval_items: int = 48
    steps: int = 25
    guidance: float = 4.0
    seed: int = 0
    prompts: list[str] = field(default_factory=lambda: ["a red heart", "a dog"])


@dataclass(frozen=True)
class DiffusionSettings:
    """Text encoder and UNet, trained together on latents."""

    seed: int = 0
    batch_size: int = 32
    noise_power: float = 0.7
    empty_captions: float = 0.1
    compile: bool = False
    bfloat16: bool = False  # native bf16 is no promise of speed: time 20 steps of both before a run
    word_vectors: float = 0.1
    unet: dict[str, Any] = field(default_factory=dict)
    text_encoder: dict[str, Any] = field(default_factory=dict)
    scheduler: dict[str, Any] = field(default_factory=dict)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    mixture: Mixture = field(default_factory=Mixture)
    cadence: Cadence = field(default_factory=Cadence)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)


@dataclass(frozen=True)
class AutoencoderSettings:
    """Decoder and encoder of the shipped folder, learned from the teacher's latents."""

    seed: int = 0
    batch_size: int = 16
    decoder_steps: int = 3000
    encoder_steps: int = 1500
    decay_share: float = 0.5
    held_out: int = 96
    held_out_share: float = 0.06
    gradient_weight: float = 1.0
    bfloat16: bool = False
    model: dict[str, Any] = field(default_factory=dict)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    mixture: Mixture = field(default_factory=Mixture)
    cadence: Cadence = field(default_factory=Cadence)


def load_settings(cls: type[Settings], name_or_path: str | Path) -> Settings:
    """Settings from a TOML file, or from one that comes with the package by its name alone."""
    path = Path(name_or_path)
    if not path.is_file() and not path.suffix:
        path = CONFIGS / f"{name_or_path}.toml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in CONFIGS.glob("*.toml")))
        raise NotFoundError(f"No settings file {str(name_or_path)!r}. Give a path to a TOML file, or one of: {known}.")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise FileFormatError(f"{path} is not valid TOML: {problem}.") from None
    return build_settings(cls, values, path.name)


def build_settings(cls: type[Settings], values: dict[str, Any], where: str) -> Settings:
    """A settings object from nested dicts; an unknown name or a wrong type is refused."""
    hints = typing.get_type_hints(cls)
    built = {}
    for name, value in values.items():
        if name not in hints:
            raise ConfigError(
                f"{where}: unknown setting {name!r}{did_you_mean(name, hints)} Known: {', '.join(hints)}."
            )
        if dataclasses.is_dataclass(hints[name]) and isinstance(value, dict):
            value = build_settings(typing.cast(type, hints[name]), value, f"{where}: {name}")
        built[name] = value
    check_types(where, built, hints)
    return cls(**built)
