"""The grid of timesteps: whole, or its end where a picture is given to start from."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from ...blocks import BlockView, InputParam, ModularPipelineBlocks
from ...errors import InputError
from ...schedulers.scheduling import FLOW, SchedulerMixin
from .parts import SCHEDULER, Components

Tensor = torch.Tensor


class SetTimesteps(ModularPipelineBlocks):
    """The grid of timesteps, from the number of steps or as given."""

    expected_components = [SCHEDULER]
    inputs = ["num_inference_steps", "timesteps", "sigmas"]
    outputs = ["timesteps"]

    def check(self, components: Components, inputs: BlockView) -> None:
        given = [name for name in ("timesteps", "sigmas") if getattr(inputs, name) is not None]
        if len(given) == 2:
            raise InputError("Give 'timesteps' or 'sigmas', not both: either of them says all about the grid.")
        check_flow(components.scheduler, inputs.sigmas)
        scheduler = components.scheduler.fresh()
        begin = self.first_timestep(scheduler, components, inputs)  # what the grid refuses, it refuses now
        scheduler.check_grid(begin)

    def __call__(self, components: Components, state: BlockView) -> None:
        self.set_grid(components.scheduler, components, state)
        components.scheduler.set_begin_index(0)
        state.timesteps = components.scheduler.timesteps

    def first_timestep(self, scheduler: Any, components: Components, state: BlockView) -> int:
        """Set a scheduler's grid; the index of the timestep that is run first."""
        self.set_grid(scheduler, components, state)
        return 0

    def set_grid(self, scheduler: Any, components: Components, state: BlockView) -> int:
        """Set a scheduler's whole grid; returns its number of steps."""
        told = self.grid(scheduler, components, state)
        scheduler.set_timesteps(device=components.device, **told)
        return told.get("num_inference_steps") or scheduler.num_inference_steps or len(scheduler.timesteps)

    def grid(self, scheduler: Any, components: Components, state: BlockView) -> dict[str, Any]:
        """What `set_timesteps` is told; a family whose grid follows from more (its size, say) adds that here."""
        given = {name: value for name in ("timesteps", "sigmas") if (value := getattr(state, name)) is not None}
        given = {name: value.tolist() if isinstance(value, Tensor) else value for name, value in given.items()}
        return given or {"num_inference_steps": state.num_inference_steps}


def signatures(scheduler: Any, method: str) -> list[Mapping[str, inspect.Parameter]]:
    """What a method takes in the scheduler's class, and in those before it that have one of their own."""
    own = [
        vars(kind)[method] for kind in type(scheduler).__mro__ if kind is not SchedulerMixin and method in vars(kind)
    ]
    return [inspect.signature(one).parameters for one in own]


def grid_takes(scheduler: Any, name: str) -> bool:
    """Whether `set_timesteps` takes an argument; one that hands on whatever it is given takes what the class before it
    does, and anything where none says."""
    for taken in signatures(scheduler, "set_timesteps"):
        if name in taken or all(one.kind is not one.VAR_KEYWORD for one in taken.values()):
            return name in taken
    return True


def check_flow(scheduler: Any, sigmas: Any) -> None:
    """Along a flow a sigma is the share of noise: those that a person gives fall, from 1 at most."""
    if sigmas is None or scheduler.trained_for != FLOW or scheduler.config.get("invert_sigmas"):
        return
    given = [float(sigma) for sigma in sigmas]
    if not given:
        raise InputError("'sigmas' wants one value for each step, got none.")
    if max(given) > 1.0 or min(given) < 0.0:
        raise InputError(f"'sigmas' of {type(scheduler).__name__} are shares of noise, from 1 to 0, got {given}.")
    if any(after >= before for before, after in itertools.pairwise(given)):
        raise InputError(f"'sigmas' wants falling values, from much noise to little, got {given}.")


class SetTimestepsByStrength(SetTimesteps):
    """The end of the grid: the stronger the change, the more of it."""

    inputs = [*SetTimesteps.inputs, "strength"]
    strength_name: ClassVar[str] = "strength"

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        steps = self.set_grid(components.scheduler.fresh(), components, inputs)
        name, strength = self.strength_name, inputs[self.strength_name]
        if self.left_out(steps, strength) >= steps:
            raise InputError(f"{name}={strength} of {steps} steps leaves no step to run. Raise one of them.")

    def __call__(self, components: Components, state: BlockView) -> None:
        skipped = self.first_timestep(components.scheduler, components, state)
        components.scheduler.set_begin_index(skipped)
        state.timesteps = components.scheduler.timesteps[skipped:]

    def first_timestep(self, scheduler: Any, components: Components, state: BlockView) -> int:
        """Set a scheduler's grid; how many of its timesteps the strength leaves out."""
        steps = self.set_grid(scheduler, components, state)
        return self.left_out(steps, state[self.strength_name]) * scheduler.order

    def left_out(self, steps: int, strength: float) -> int:
        """How many steps a strength leaves out; a step that is begun is left out too."""
        return max(steps - min(int(steps * strength), steps), 0)


class SetTimestepsForPainting(SetTimestepsByStrength):
    """The end of the grid; painting starts from pure noise unless told otherwise."""

    inputs = [*SetTimesteps.inputs, InputParam.template("strength", default=1.0)]
