"""`set_timesteps` and `step` as every scheduler has them, around what only one scheduler knows.

A scheduler writes the grid that it lays and the formula by which it steps, with its own arguments only:

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None, mu: float | None = None) -> Grid: ...

    @takes_step
    def step(self, at: Step, eta: float = 0.0, generator: Generators = None) -> SchedulerOutput: ...

Callers, `inspect.signature` and type checkers see them with the arguments of all schedulers around those: `device`, and
`model_output, timestep, sample … return_dict`.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, did_you_mean
from ..outputs import Output

At = float | Tensor  # a timestep
NO_PLACE = -1  # the index of a step in schedulers that go by the timestep alone


@dataclass
class StepOutput(Output):
    """The sample one step further."""

    prev_sample: Tensor


@dataclass
class SchedulerOutput(StepOutput):
    """The sample one step further, and the clean sample that the step aimed at where the scheduler knows it."""

    pred_original_sample: Tensor | None = None


@dataclass(frozen=True)
class Step:
    """What a step is made from: the model's output at a timestep for a sample, and the place in the grid."""

    output: Tensor
    timestep: Any  # a number, or a tensor of one; it indexes tables of either kind
    sample: Tensor
    index: int


class Grid(NamedTuple):
    """The timesteps of a run, and the sigmas of those that go by sigma: one more, where the last step ends."""

    timesteps: np.ndarray | Tensor
    sigmas: Tensor | None = None
    num_inference_steps: int | None = None  # where it is not the number of timesteps


Scheduler = TypeVar("Scheduler")
Options = ParamSpec("Options")
Out = TypeVar("Out", bound=StepOutput, covariant=True)


class BoundStep(Protocol[Options, Out]):
    """`scheduler.step` to a type checker: with its own options, and a tuple where `return_dict` asks for one."""

    @overload
    def __call__(
        self, model_output: Tensor, timestep: At, sample: Tensor, *options: Options.args, **named: Options.kwargs
    ) -> Out: ...

    @overload
    def __call__(
        self, model_output: Tensor, timestep: At, sample: Tensor, *_: Any, return_dict: Literal[True], **named: Any
    ) -> Out: ...

    @overload
    def __call__(
        self, model_output: Tensor, timestep: At, sample: Tensor, *_: Any, return_dict: bool, **named: Any
    ) -> tuple[Tensor, ...]: ...


class BoundGrid(Protocol[Options]):
    """`scheduler.set_timesteps` to a type checker."""

    def __call__(
        self,
        num_inference_steps: int | None = None,
        device: str | torch.device | None = None,
        *options: Options.args,
        **named: Options.kwargs,
    ) -> None: ...


class StepMethod(Protocol[Options, Out]):
    """`step` in a class."""

    @overload
    def __get__(self, scheduler: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, scheduler: object, owner: type | None = None) -> BoundStep[Options, Out]: ...


class GridMethod(Protocol[Options]):
    """`set_timesteps` in a class."""

    @overload
    def __get__(self, scheduler: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, scheduler: object, owner: type | None = None) -> BoundGrid[Options]: ...


def takes_step(formula: Callable[Concatenate[Scheduler, Step, Options], Out]) -> StepMethod[Options, Out]:
    """Check what a step is given and find its place, take it by the formula, move on."""
    own = _parameters(formula)[2:]
    num_positional = sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in own)

    @functools.wraps(formula)
    def step(
        self: Any,
        model_output: Tensor,
        timestep: Any,
        sample: Tensor,
        *options: Any,
        return_dict: bool = True,
        **named: Any,
    ) -> StepOutput | tuple[Tensor, ...]:
        if len(options) > num_positional:
            options, return_dict = options[:-1], options[-1]
        at = Step(model_output, timestep, sample, self._enter_step(model_output, timestep, sample))
        result = formula(self, at, *options, **named)
        if at.index != NO_PLACE:
            self._step_index = at.index + 1
        return result if return_dict else result.to_tuple()

    step.__doc__ = formula.__doc__ or "The sample one step further along the grid."
    return cast(Any, _with_signature(step, _STEP_BEFORE, own, _STEP_AFTER))


def lays_grid(grid_of: Callable[Concatenate[Scheduler, int | None, Options], Grid]) -> GridMethod[Options]:
    """Lay the grid of a run, by a number of steps or explicitly, and start over."""
    own = _parameters(grid_of)[2:]
    known = ["num_inference_steps", "device", *(option.name for option in own)]

    @functools.wraps(grid_of)
    def set_timesteps(
        self: Any,
        num_inference_steps: int | None = None,
        device: str | torch.device | None = None,
        *options: Any,
        **named: Any,
    ) -> None:
        for name in named.keys() - known:
            raise InputError(
                f"{type(self).__name__}.set_timesteps takes no {name}{did_you_mean(name, known)} "
                f"It takes: {', '.join(known)}."
            )
        self._begin_grid(grid_of(self, num_inference_steps, *options, **named), device)

    set_timesteps.__doc__ = grid_of.__doc__ or lays_grid.__doc__
    return cast(Any, _with_signature(set_timesteps, _GRID_BEFORE, own))


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _with_signature(method: Callable[..., Any], *parts: list[inspect.Parameter]) -> Callable[..., Any]:
    parameters = sorted(itertools.chain(*parts), key=lambda parameter: parameter.kind)  # by name only: last
    method.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return method


_STEP_BEFORE = _parameters(lambda self, model_output, timestep, sample: None)
_STEP_AFTER = _parameters(lambda return_dict=True: None)
_GRID_BEFORE = _parameters(lambda self, num_inference_steps=None, device=None: None)
