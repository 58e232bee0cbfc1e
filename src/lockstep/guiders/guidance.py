"""The base of every guider: what a step is, which branches it needs, and the interval in which guidance acts."""

from __future__ import annotations

import copy
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import torch

from ..configuration import ConfigMixin, register_to_config
from ..errors import ConfigError, InputError
from ..files import HubArguments
from ..outputs import Output

Tensor = torch.Tensor
CONDITIONAL, UNCONDITIONAL = 0, 1  # place of a value in a pair of inputs
Condition = Tensor | tuple[Tensor | None, ...]  # for every branch, or one for each place


@dataclass
class GuiderOutput(Output):
    """The prediction to step with, and those that it came from."""

    pred: Tensor
    pred_cond: Tensor | None = None
    pred_uncond: Tensor | None = None


@typing.dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
@dataclass(eq=False, repr=False, kw_only=True)
class BaseGuidance(ConfigMixin):
    """A guider: `set_state` at each step, `prepare_inputs`, one prediction per branch, then call it with them.

    A subclass says which branches a step needs (`branches`) and how their predictions combine (`forward`). The values
    that it annotates, and those that it inherits, are its config and the arguments it is made with.
    """

    config_name = "guider_config.json"
    _identifier_key: ClassVar[str] = "__guidance_identifier__"
    batchable: ClassVar[bool] = True  # whether the branches may go through the model as one batch

    start: float = 0.0
    stop: float = 1.0
    enabled: bool = True

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        dataclass(eq=False, repr=False, kw_only=True)(cls)
        kinds = typing.get_type_hints(cls)  # a name means what it does in the module of the class that has it
        init = vars(cls)["__init__"]
        init.__annotations__ = {value.name: kinds[value.name] for value in fields(cls)}
        cls.__init__ = register_to_config(init)  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        check_interval(type(self).__name__, "start", "stop", *self.interval)
        self._step: int | None = None
        self._num_inference_steps: int | None = None
        self._timestep: Any = None
        self._count_prepared = 0

    @property
    def interval(self) -> tuple[float, float]:
        """The part of the run in which guidance acts."""
        return self.start, self.stop

    def acts(self) -> bool:
        """Whether this step needs the prediction without the prompt."""
        return self.acts_within(*self.interval)

    def branches(self) -> list[tuple[str, int]]:
        """What has to be predicted at this step: (name, which of a pair of inputs)."""
        both = [("pred_cond", CONDITIONAL), ("pred_uncond", UNCONDITIONAL)]
        return both if self.acts() else both[:1]

    def forward(self, **predictions: Tensor) -> GuiderOutput:
        """Combine the predictions, given by the branches' names."""
        raise NotImplementedError

    def set_state(self, step: int, num_inference_steps: int, timestep: Tensor | float | None) -> None:
        """Say which step comes now."""
        self._step, self._num_inference_steps, self._timestep = step, num_inference_steps, timestep
        self._count_prepared = 0

    def get_state(self) -> dict[str, Any]:
        return {
            "step": self._step,
            "num_inference_steps": self._num_inference_steps,
            "timestep": self._timestep,
            "count_prepared": self._count_prepared,
            "enabled": self.enabled,
            "num_conditions": self.num_conditions,
        }

    def prepare_inputs(self, data: Mapping[str, Condition]) -> list[SimpleNamespace]:
        """One set of inputs a branch; a pair is (with prompt, without prompt), a single tensor goes to every branch."""
        return [self._batch(data, name, which) for name, which in self.branches()]

    def prepare_inputs_from_block_state(
        self, state: object, fields: Mapping[str, str | tuple[str, str]]
    ) -> list[SimpleNamespace]:
        """The same, with the values looked up in a block state by name."""
        looked_up = {
            key: tuple(getattr(state, name) for name in names) if isinstance(names, tuple) else getattr(state, names)
            for key, names in fields.items()
        }
        return self.prepare_inputs(looked_up)

    def _batch(self, data: Mapping[str, Any], name: str, which: int) -> SimpleNamespace:
        values = {}
        for key, value in data.items():
            value = value[which] if isinstance(value, tuple) else value
            if value is None:
                kind = "without" if which == UNCONDITIONAL else "with"
                raise InputError(f"{type(self).__name__} needs {key!r} for the branch {kind} the prompt, and got None.")
            values[key] = value
        return SimpleNamespace(**values, **{self._identifier_key: name})

    def check_places(self, places: int) -> None:
        """Refuse conditions with fewer places than this guider has kinds of branches."""
        if any(which >= places for _, which in self.branches()):
            raise InputError(
                f"{type(self).__name__} compares runs with and without the picture that is edited; this pipeline has "
                "branches with and without the prompt alone. Use ClassifierFreeGuidance or a relative of it."
            )

    def check_model(self, denoiser: torch.nn.Module) -> None:
        """Refuse a model that lacks what this guider reaches into; called before anything is computed."""

    def prepare_models(self, denoiser: torch.nn.Module) -> None:
        """Called before each branch's prediction."""
        self._count_prepared += 1

    def cleanup_models(self, denoiser: torch.nn.Module) -> None:
        """Called after each branch's prediction; undoes what `prepare_models` did."""

    def __call__(self, batches: list[SimpleNamespace]) -> GuiderOutput:
        wanted = [name for name, _ in self.branches()]
        got = [getattr(batch, self._identifier_key) for batch in batches]
        if sorted(wanted) != sorted(got):
            raise InputError(f"{type(self).__name__} wants the branches {wanted} at step {self._step}, got {got}.")
        missing = [name for name, batch in zip(got, batches, strict=True) if not hasattr(batch, "noise_pred")]
        if missing:
            raise InputError(f"{type(self).__name__} wants `noise_pred` set on every branch; {missing[0]!r} has none.")
        return self.forward(**{name: batch.noise_pred for name, batch in zip(got, batches, strict=True)})

    @property
    def num_conditions(self) -> int:
        """How many predictions this step needs."""
        return len(self.branches())

    @property
    def is_conditional(self) -> bool:
        """Whether the branch that is being prepared has the prompt."""
        branches = self.branches()
        return 0 < self._count_prepared <= len(branches) and branches[self._count_prepared - 1][1] == CONDITIONAL

    @property
    def is_unconditional(self) -> bool:
        return not self.is_conditional

    @property
    def needs_unconditional(self) -> bool:
        """Whether some step may ask for a prediction without the prompt."""
        guider = self.fresh()
        guider._num_inference_steps = None  # outside of a run every interval counts
        return any(which == UNCONDITIONAL for _, which in guider.branches())

    def enable(self) -> None:
        self.enabled = True

    def disable(self) -> None:
        self.enabled = False

    def new(self, **values: Any) -> typing.Self:
        """Another guider with some config values replaced."""
        return self.from_config(self.config, **values)

    def fresh(self) -> typing.Self:
        """An independent copy without the state of an earlier run."""
        copied = copy.copy(self)
        copied.set_state(0, 1, None)
        copied._step = copied._num_inference_steps = None
        return copied

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, *, subfolder: str | None = None, **hub: typing.Unpack[HubArguments]
    ) -> typing.Self:
        return cls.from_config(cls.load_config(name_or_path, subfolder=subfolder, **hub))

    def save_pretrained(self, folder: str | Path) -> None:
        self.save_config(folder)

    def acts_within(self, start: float, stop: float, *, open_start: bool = False) -> bool:
        """Whether this step lies in the part of the run from `start` to `stop`."""
        if not self.enabled:
            return False
        if self._num_inference_steps is None or self._step is None:
            return True
        first, last = int(start * self._num_inference_steps), int(stop * self._num_inference_steps)
        return (first < self._step if open_start else first <= self._step) and self._step < last

    def __repr__(self) -> str:
        values = ", ".join(f"{key}={value!r}" for key, value in self.config.items())
        return f"{type(self).__name__}({values})"


def check_interval(owner: str, start_name: str, stop_name: str, start: float, stop: float) -> None:
    if not 0.0 <= start < 1.0:
        raise ConfigError(f"{owner}: {start_name!r} is a part of the run and has to be in [0, 1), got {start}.")
    if not start <= stop <= 1.0:
        raise ConfigError(f"{owner}: {stop_name!r} has to be between {start_name!r} ({start}) and 1, got {stop}.")


class ScaledGuidance(BaseGuidance):
    """What all guiders with one scale share; a scale can be given without its name, all else by name."""

    guidance_scale: float = field(default=7.5, kw_only=False)
    guidance_rescale: float = 0.0
    use_original_formulation: bool = False

    def acts(self) -> bool:
        return not is_off(self.guidance_scale, self.use_original_formulation) and super().acts()

    def extrapolate(self, cond: Tensor, other: Tensor, scale: float | Tensor) -> Tensor:
        """Away from the other prediction, by this guider's formula."""
        return extrapolate(cond, other, scale, self.use_original_formulation)

    def output(self, pred: Tensor, pred_cond: Tensor, pred_uncond: Tensor | None) -> GuiderOutput:
        """The guided prediction, its spread brought back as far as `guidance_rescale` asks."""
        if self.guidance_rescale > 0.0:
            pred = rescale_noise_cfg(pred, pred_cond, self.guidance_rescale)
        return GuiderOutput(pred, pred_cond, pred_uncond)


def is_off(scale: float, original_formulation: bool) -> bool:
    """Whether a guidance scale leaves the conditional prediction as it is."""
    return math.isclose(scale, 0.0 if original_formulation else 1.0)


def extrapolate(cond: Tensor, uncond: Tensor, scale: float | Tensor, original_formulation: bool) -> Tensor:
    """Away from one prediction along the line to the other; the original formula starts from `cond`."""
    shift = cond - uncond
    return (cond if original_formulation else uncond) + scale * shift


def rescale_noise_cfg(noise_cfg: Tensor, noise_pred_text: Tensor, guidance_rescale: float = 0.0) -> Tensor:
    """Bring the guided prediction back to the spread of the conditional one (arXiv:2305.08891, section 3.4)."""
    axes = list(range(1, noise_cfg.ndim))
    spread = noise_pred_text.std(dim=axes, keepdim=True) / noise_cfg.std(dim=axes, keepdim=True)
    return guidance_rescale * (noise_cfg * spread) + (1 - guidance_rescale) * noise_cfg
