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
    """How often things happen: checkpoints by wall time, evaluations by steps, so that a slow machine does not
    evaluate all day."""

    checkpoint_minutes: float = 5.0
    evaluate_steps: int = 500
    log_seconds: float = 30.0
    log_steps: int = 0


@dataclass(frozen=True)
class TrainingSettings:
    """What every training has: where its draws begin, how it learns, and how often it tells."""

    seed: int = 0
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    cadence: Cadence = field(default_factory=Cadence)


def find_settings(name_or_path: str | Path, shipped: Path) -> Path:
    """The settings file at a path, or the one of that name among those that come with the package."""
    path = Path(name_or_path)
    if not path.is_file() and not path.suffix:
        path = shipped / f"{name_or_path}.toml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in shipped.glob("*.toml")))
        raise NotFoundError(f"No settings file {str(name_or_path)!r}. Give a path to a TOML file, or one of: {known}.")
    return path


def load_settings(cls: type[Settings], path: Path) -> Settings:
    """Settings from a TOML file."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"Wanted the settings file {path}, and it is not there.") from None
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
