"""What every scheduler has: a config on disk, a grid of timesteps, a place in it, and steps along it."""

from __future__ import annotations

import copy
import importlib
import json
import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from .. import files
from ..configuration import ConfigMixin, config_defaults
from ..errors import ConfigError, InputError, UnsupportedError
from .template import NO_PLACE, Grid, Step, StepOutput, lays_grid, takes_step

# Trained on the same noise, so that one's config runs in the other.
INTERCHANGEABLE = (
    "DDIMScheduler",
    "DDPMScheduler",
    "PNDMScheduler",
    "LMSDiscreteScheduler",
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "EulerAncestralDiscreteScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSinglestepScheduler",
    "KDPM2DiscreteScheduler",
    "KDPM2AncestralDiscreteScheduler",
    "DEISMultistepScheduler",
    "UniPCMultistepScheduler",
    "DPMSolverSDEScheduler",
    "EDMEulerScheduler",
)

logger = logging.getLogger(__name__)
DIFFUSION, FLOW, EDM = "diffusion", "flow matching", "preconditioned diffusion (EDM)"  # how a model was trained
LEARNED_VARIANCES = ("learned", "learned_range")  # the model's output has the variance in a second half of channels


class SchedulerMixin(ConfigMixin):
    """Base of the schedulers: `set_timesteps`, then `scale_model_input` and `step` once per timestep."""

    config_name: ClassVar[str] = "scheduler_config.json"
    marks_defaults: ClassVar[bool] = True
    training: ClassVar[str] = DIFFUSION  # of the models that the class is for, unless its config says otherwise
    order: ClassVar[int] = 1  # model calls per step of the grid
    added_config_keys: ClassVar[tuple[str, ...]] = ()  # not in the published format: written only when they are used
    interchangeable: ClassVar[tuple[str, ...]] = ()
    _deprecated_kwargs: ClassVar[tuple[str, ...]] = ()  # no argument is on its way out; the reference's tools ask
    needs_grid: ClassVar[bool] = False  # whether a step wants set_timesteps before it, or can go by the training grid
    keeps_place: ClassVar[bool] = True  # False where the timestep alone says all about a step
    fractional_timesteps: ClassVar[bool] = False  # an integer is then most likely an index given by mistake
    init_noise_sigma: float | Tensor = 1.0
    num_inference_steps: int | None = None
    timesteps: Tensor
    sigmas: Tensor
    history: object = None  # what a run remembers of its steps: an empty one here, which every run begins anew
    _step_index: int | None = None
    _begin_index: int | None = None

    def check_grid(self, begin: int = 0) -> None:
        """Refuse, before anything is computed, a grid from whose timestep `begin` on this method cannot work."""

    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, subfolder: str | None = None, **options: Any) -> Self:
        """Build from the scheduler_config.json of a folder or hub id; config values may be replaced by name."""
        hub = {key: options.pop(key) for key in files.HUB_ARGUMENTS & options.keys()}
        return cls.from_config(cls.config_path(name_or_path, subfolder=subfolder, **hub), **options)

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | str | Path, **overrides: Any) -> Self:
        """Build from a config, its own or another scheduler's; what has no meaning here is kept, and noted."""
        built = super().from_config(config, **overrides)
        if isinstance(config, Mapping):
            from_file = type(config) is dict  # published files carry options of other classes: those are no news
            unused = [name for name in built.unknown_config_keys if not built._is_no_news(name, from_file)]
            if unused:
                said = ", ".join(f"{name}={built.config[name]!r}" for name in unused)
                logger.warning("%s has no use for %s: left out of account.", cls.__name__, said)
        return built

    def _is_no_news(self, name: str, from_file: bool) -> bool:
        """Whether another class has this option and, where it comes from a scheduler, has it so by default."""
        home = importlib.import_module(__package__)
        others = [config_defaults(getattr(home, other)) for other in home.__all__ if other.endswith("Scheduler")]
        value, defaults = self.config[name], [other[name] for other in others if name in other]
        return any(from_file or (type(default) is type(value) and default == value) for default in defaults)

    if not TYPE_CHECKING:  # a checker shall see a mistyped name

        def __getattr__(self, name: str) -> Any:
            """A config value by its name alone, as older scripts read it."""
            config = self.__dict__.get("_config", {})
            if name not in config:
                raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
            warnings.warn(
                f"Read `scheduler.config.{name}` instead of `scheduler.{name}`: what it was built with is there.",
                FutureWarning,
                stacklevel=2,
            )
            return config[name]

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write scheduler_config.json into the folder."""
        return self.save_config(folder)

    def config_to_json(self) -> str:
        """The config as JSON; a key that the published format does not know is left out while it is at its default."""
        own: type = type(self)
        values, defaults = json.loads(super().config_to_json()), config_defaults(own)
        kept = {
            key: value for key, value in values.items() if key not in self.added_config_keys or value != defaults[key]
        }
        return json.dumps(kept, indent=2) + "\n"

    @property
    def trained_for(self) -> str:
        """How the models were trained that this scheduler is for."""
        flows = self._option("use_flow_sigmas") or self._option("prediction_type") == "flow_prediction"
        return FLOW if flows else self.training

    @property
    def compatibles(self) -> list[type[SchedulerMixin]]:
        """The classes that this scheduler's config can be given to."""
        home = importlib.import_module(__package__)
        names = dict.fromkeys([type(self).__name__, *self.interchangeable])
        return [getattr(home, name) for name in names if name in home.__all__]

    def _option(self, name: str, default: Any = None) -> Any:
        """A config value if this class has it; one that another class left in the config does not count."""
        own: type = type(self)
        return self.config[name] if name in config_defaults(own) else default

    def _rename_option(self, name: str, known: Sequence[str], renamed: Sequence[str], own: str) -> str:
        """An option that another class of the family calls by another name becomes this class's own; else refuse."""
        value = self.config[name]
        if value in known:
            return str(value)
        if value not in renamed:
            raise UnsupportedError(f"{type(self).__name__} has no {name} {value!r}. It has: {', '.join(known)}.")
        self.register_to_config(**{name: own})
        return own

    def _check_order(self, highest: int = 3) -> None:
        if not 1 <= self.config.solver_order <= highest:
            raise ConfigError(
                f"{type(self).__name__}: solver_order wants 1 to {highest}, got {self.config.solver_order}."
            )

    def fresh(self) -> Self:
        """An independent copy for one run: same config and grid, nothing of another run's place or history."""
        run = copy.copy(self)  # tensors are replaced, never written into, so they may be shared
        run._begin_index = None
        run._restart()
        return run

    def _restart(self) -> None:
        """Forget the place and the history; subclasses that keep more than a history extend this."""
        self._step_index = None
        if self.history is not None:
            self.history = type(self.history)()

    @property
    def step_index(self) -> int | None:
        """Place in the grid; None before the first step, and in schedulers that read it off the timestep."""
        return self._step_index

    @property
    def begin_index(self) -> int | None:
        """Where a run begins that does not begin at the first timestep."""
        return self._begin_index

    def set_begin_index(self, begin_index: int = 0) -> None:
        """Begin at this index of the grid instead of looking the first timestep up."""
        if not isinstance(begin_index, (int, np.integer)) or begin_index < 0:
            raise InputError(f"begin_index wants an index of the grid, a whole number from 0 on, got {begin_index!r}.")
        self._begin_index = begin_index

    def index_for_timestep(self, timestep: float | Tensor, schedule_timesteps: Tensor | None = None) -> int:
        """Place of a timestep: the second one if it occurs twice, so that a run begun in the middle skips no sigma.

        Rounding can make the first two timesteps equal; a run that begins with them begins at the first.
        """
        check_one_timestep(type(self).__name__, timestep)
        grid = self.timesteps if schedule_timesteps is None else schedule_timesteps
        found = (grid == (timestep.to(grid.device) if isinstance(timestep, Tensor) else timestep)).nonzero()
        if len(found) == 0:
            return self._index_off_grid(timestep)
        return int(found[1 if len(found) > 1 and found[0] > 0 else 0].item())

    def _index_off_grid(self, timestep: float | Tensor) -> int:
        grid = [round(float(t), 3) for t in self.timesteps]
        shown = ", ".join(map(str, grid[:4])) + (", …" if len(grid) > 4 else "")
        raise InputError(
            f"Timestep {float(timestep):g} is not one of this run's timesteps ({shown}). "
            "Pass one of `scheduler.timesteps`."
        )

    def _locate(self, timestep: float | Tensor) -> int:
        """The place of this step; looked up at the first one, counted from then on."""
        if self._step_index is None:
            self._step_index = self.index_for_timestep(timestep) if self._begin_index is None else self._begin_index
        if self._step_index >= len(self.timesteps):
            raise InputError(
                f"{type(self).__name__} is at index {self._step_index} of a grid of {len(self.timesteps)} timesteps: "
                "the run is over. Call set_timesteps for another one."
            )
        return self._step_index

    def _enter_step(self, model_output: Tensor, timestep: float | Tensor, sample: Tensor) -> int:
        """The place of this step, after a look at what was given for it."""
        if self.needs_grid:
            self._require_timesteps_set()
        if self.fractional_timesteps:
            self._refuse_index(timestep)
        self._check_step(model_output, timestep, sample)
        return self._locate(timestep) if self.keeps_place else NO_PLACE

    def _check_step(self, model_output: Tensor, timestep: float | Tensor, sample: Tensor) -> None:
        """Refuse what no step can use: not floating-point tensors, shapes that differ, several timesteps."""
        owner = type(self).__name__
        for name, value in (("model_output", model_output), ("sample", sample)):
            if not isinstance(value, Tensor) or not value.is_floating_point():
                got = value.dtype if isinstance(value, Tensor) else type(value).__name__
                raise InputError(f"{owner}.step wants {name} as a floating-point tensor, got {got}.")
        learned = self._option("variance_type") in LEARNED_VARIANCES
        per_sample = model_output[:, : sample.shape[1]] if learned else model_output
        if per_sample.shape != sample.shape:
            raise InputError(
                f"{owner}.step wants a model_output of the sample's shape {tuple(sample.shape)}, "
                f"got {tuple(model_output.shape)}."
            )
        check_one_timestep(owner, timestep)

    def _refuse_index(self, timestep: float | Tensor) -> None:
        """A whole number is most likely a loop index given by mistake where timesteps are fractional."""
        if isinstance(timestep, int) or (isinstance(timestep, Tensor) and timestep.dtype in (torch.int32, torch.int64)):
            raise InputError(
                f"{type(self).__name__} wants one of `scheduler.timesteps` (a float) as the timestep, "
                f"got the integer {int(timestep)}. An index from `enumerate(timesteps)` is not a timestep."
            )

    def _begin_grid(self, grid: Grid, device: str | torch.device | None) -> None:
        """Take a new grid and start over."""
        if not len(grid.timesteps):
            raise InputError("A grid wants at least one timestep, got none.")
        at = grid.timesteps if isinstance(grid.timesteps, Tensor) else torch.from_numpy(grid.timesteps.copy())
        self.timesteps = at.to(device)
        if grid.sigmas is not None:
            self.sigmas = grid.sigmas
        self.num_inference_steps = grid.num_inference_steps or len(grid.timesteps)
        self._begin_index = None
        self._restart()

    def _refuse_two_grids(self, num_inference_steps: int | None, *others: Any) -> None:
        if num_inference_steps is not None and any(other is not None for other in others):
            raise InputError(
                "Give num_inference_steps or an explicit grid, not both: the grid says how many steps it has."
            )

    def _require_timesteps_set(self) -> int:
        if self.num_inference_steps is None:
            raise InputError(
                f"{type(self).__name__} has no timesteps yet: call set_timesteps(num_inference_steps) before step."
            )
        return self.num_inference_steps

    def scale_model_input(self, sample: Tensor, timestep: float | Tensor | None = None) -> Tensor:
        """The sample as the model wants it; unchanged unless the sampler works on another scale."""
        return sample

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None, *how: Any, **named: Any) -> Grid:
        """Lay the grid of a run, by a number of steps or explicitly, and start over."""
        raise UnsupportedError(f"{type(self).__name__} has no set_timesteps.")

    @takes_step
    def step(self, at: Step, *options: Any, **named: Any) -> StepOutput:
        """The sample one step further along; every scheduler takes `generator` and `return_dict`."""
        raise UnsupportedError(f"{type(self).__name__} has no step.")

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """Clean samples with as much noise as they have at these timesteps."""
        raise UnsupportedError(f"{type(self).__name__} has no add_noise.")

    def __len__(self) -> int:
        return int(self.config.num_train_timesteps)


def check_one_timestep(owner: str, timestep: float | Tensor) -> None:
    """A timestep is one number, or a tensor of one value."""
    if isinstance(timestep, Tensor):
        if timestep.numel() != 1:
            raise InputError(f"{owner} wants one timestep at a time, got a tensor of shape {tuple(timestep.shape)}.")
    elif not isinstance(timestep, (int, float, np.number)):
        raise InputError(f"{owner} wants a number as the timestep, got {type(timestep).__name__} {timestep!r}.")


def check_noise_timesteps(owner: str, timesteps: Tensor, sample: Tensor) -> None:
    """Noise is added at one timestep for all samples, or at one for each."""
    if not isinstance(timesteps, Tensor) or timesteps.numel() not in (1, sample.shape[0]):
        got = f"{timesteps.numel()} values" if isinstance(timesteps, Tensor) else type(timesteps).__name__
        raise InputError(
            f"{owner} wants a tensor of one timestep, or one for each of {sample.shape[0]} samples, got {got}."
        )


def broadcast_to(values: Tensor, sample: Tensor) -> Tensor:
    """One value per sample, with as many axes as the samples."""
    return values.flatten().reshape(-1, *[1] * (sample.ndim - 1))
