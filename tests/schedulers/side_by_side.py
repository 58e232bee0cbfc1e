"""Two schedulers with the same options, stepped in lockstep: ours and the reference."""

from __future__ import annotations

import copy
import itertools
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import diffusers
import torch

import lockstep.schedulers
from lockstep.errors import LockstepError

RUN_SLOW = os.environ.get("RUN_SLOW") == "1"
SHAPE = (2, 3, 4, 4)
NUM_STEPS = (1, 2, 7, 20, 50)
EVERY = {20: 5, 50: 7}  # of 5 combinations of options one runs 20 steps, of 7 one runs 50, unless RUN_SLOW=1
TOLERANCE = 1e-6
NOISY = ("DDPMScheduler", "EulerAncestralDiscreteScheduler", "LCMScheduler", "TCDScheduler", "EulerDiscreteScheduler")


@dataclass
class Tally:
    """What a comparison covered."""

    combinations: int = 0
    steps: int = 0
    compared: int = 0
    finite: int = 0
    bitwise: int = 0
    worst: float = 0.0


@contextmanager
def quiet_reference() -> Iterator[None]:
    """The reference warns of what it deprecates and of numpy's; neither is the subject here."""
    logger = logging.getLogger("diffusers")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logger.setLevel(level)


def reference(call: Callable[[], Any]) -> Any:
    with quiet_reference():
        return call()


def both(name: str, **options: Any) -> tuple[Any, Any]:
    """Our scheduler and the reference's, with the same options."""
    ours = getattr(lockstep.schedulers, name)(**options)
    return ours, reference(lambda: getattr(diffusers, name)(**options))


def same_refusal(theirs: Exception, ours: Exception) -> bool:
    """The same family of error where the reference raises on purpose, one of our own tree where it falls over."""
    if not isinstance(ours, LockstepError):
        return False
    for family in (NotImplementedError, ValueError):
        if isinstance(theirs, family):
            return isinstance(ours, family)
    return True


def assert_same_refusal(their_call: Callable[[], Any], our_call: Callable[[], Any], what: str) -> None:
    their_error = our_error = None
    try:
        reference(their_call)
    except Exception as problem:
        their_error = problem
    try:
        our_call()
    except Exception as problem:
        our_error = problem
    assert their_error is not None, f"{what}: the reference does not refuse this"
    assert our_error is not None, f"{what}: the reference refuses this ({their_error}), ours does not"
    assert same_refusal(their_error, our_error), f"{what}: theirs {their_error!r}, ours {our_error!r}"


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Relative L2, 0 for bitwise equal; where the reference has no finite number ours must have the same."""
    if torch.equal(ours, theirs):
        return 0.0
    finite = torch.isfinite(theirs)
    if not torch.equal(torch.isfinite(ours), finite):
        return float("inf")
    ours, theirs = ours[finite].double(), theirs[finite].double()
    return float((ours - theirs).norm() / theirs.norm().clamp_min(1e-30))


def assert_same_grid(ours: Any, theirs: Any, what: str, tally: Tally | None = None) -> None:
    for name in ("timesteps", "sigmas"):
        if not hasattr(theirs, name):
            continue
        our_grid, their_grid = getattr(ours, name), getattr(theirs, name)
        assert our_grid.shape == their_grid.shape, (
            f"{what}: {tuple(our_grid.shape)} {name}, wanted {tuple(their_grid.shape)}"
        )
        _compare(our_grid, their_grid, f"{what}: {name} differ", tally or Tally())
    our_sigma, their_sigma = float(ours.init_noise_sigma), float(getattr(theirs, "init_noise_sigma", 1.0))
    assert abs(our_sigma - their_sigma) <= TOLERANCE * their_sigma, (
        f"{what}: init_noise_sigma {our_sigma}, wanted {their_sigma}"
    )


def step_together(
    ours: Any,
    theirs: Any,
    *,
    what: str,
    dtype: torch.dtype = torch.float32,
    begin: int = 0,
    channels: int = 1,
    tally: Tally | None = None,
    shape: tuple[int, ...] = SHAPE,
    **step_options: Any,
) -> Tally:
    """Step both from the same sample with the same model outputs; every value and dtype has to agree."""
    tally = tally or Tally()
    timesteps = theirs.timesteps[begin:]
    draws = torch.Generator().manual_seed(0)
    noise = torch.randn(len(timesteps) + 1, *shape, generator=draws)
    our_sample = their_sample = (noise[-1] * float(getattr(theirs, "init_noise_sigma", 1.0))).to(dtype)
    outputs = (
        noise[:-1] if channels == 1 else torch.rand(len(timesteps), shape[0], channels * shape[1], *shape[2:])
    ).to(dtype)
    our_options, their_options = dict(step_options), dict(step_options)
    if step_options.pop("seeded", False):
        for options in (our_options, their_options):
            options.pop("seeded")
            options["generator"] = torch.Generator().manual_seed(1)
    for k, timestep in enumerate(timesteps):
        if hasattr(theirs, "scale_model_input"):
            our_input = ours.scale_model_input(our_sample, timestep)
            their_input = theirs.scale_model_input(their_sample, timestep)
            _compare(our_input, their_input, f"{what}: model inputs differ at step {k}", tally)
        our_output = ours.step(outputs[k], timestep, our_sample, **our_options)
        their_output = theirs.step(outputs[k], timestep, their_sample, **their_options)
        for field in their_output.keys():  # noqa: SIM118 (an output iterates over its values)
            _compare(our_output[field], their_output[field], f"{what}: outputs differ at step {k}: {field}", tally)
        our_sample, their_sample = our_output.prev_sample, their_output.prev_sample
        tally.steps += 1
    return tally


def _compare(ours: torch.Tensor, theirs: torch.Tensor, what: str, tally: Tally) -> None:
    assert ours.dtype == theirs.dtype, f"{what}: {ours.dtype}, wanted {theirs.dtype}"
    error = difference(ours, theirs)
    assert error <= TOLERANCE, f"{what}: relative L2 {error:.3g}"
    tally.compared += 1
    tally.finite += bool(torch.isfinite(theirs).all())
    tally.bitwise += error == 0.0
    tally.worst = max(tally.worst, error)


def combinations(
    product: dict[str, list[Any]], rotating: dict[str, list[Any]] | None = None
) -> Iterator[dict[str, Any]]:
    """Every combination of the first options; the others take turns, so that each value meets many combinations.

    A value that is a dict stands for several options at once.
    """
    turns = {name: itertools.cycle(values) for name, values in (rotating or {}).items()}
    for chosen in itertools.product(*product.values()):
        options: dict[str, Any] = {}
        for name, value in [*zip(product, chosen, strict=True), *((name, next(turn)) for name, turn in turns.items())]:
            options.update(value if isinstance(value, dict) else {name: value})
        yield options


def describe(name: str, options: dict[str, Any], *more: Any) -> str:
    said = ", ".join(f"{key}={value!r}" for key, value in options.items())
    return " ".join([f"{name}({said})", *map(str, more)])


def compare_all(
    name: str,
    product: dict[str, list[Any]],
    rotating: dict[str, list[Any]],
    step_options: list[dict[str, Any]],
    *,
    usable: Callable[[str, dict[str, Any]], bool] = lambda name, options: True,
    prepare: Callable[[str, Any], None] = lambda name, theirs: None,
    num_steps: tuple[int, ...] = NUM_STEPS,
) -> Tally:
    """Grids and steps of both over all combinations of options, in both precisions."""
    tally = Tally()
    for number, options in enumerate(combinations(product, rotating)):
        if not usable(name, options):
            continue
        ours, theirs = both(name, **options)
        prepare(name, theirs)
        for steps in num_steps:
            too_few_for_runge_kutta = steps < 4 and not options.get("skip_prk_steps", True)
            if number % EVERY.get(steps, 1) and not RUN_SLOW:
                continue  # most of the time, for what the shorter runs show as well
            if too_few_for_runge_kutta or (steps == 1 and options.get("shift_terminal")):
                continue  # refused
            if name == "DPMSolverSinglestepScheduler":  # the reference changes its own config in set_timesteps
                ours, theirs = both(name, **options)
            ours.set_timesteps(steps)
            reference(lambda theirs=theirs, n=steps: theirs.set_timesteps(n))
            what = describe(name, options, steps, "steps")
            assert_same_grid(ours, theirs, what, tally)
            for dtype in (torch.float32, torch.bfloat16) if steps < 20 or RUN_SLOW else (torch.float32,):
                run, their_run = ours.fresh(), copy.deepcopy(theirs)
                if begins_twice(theirs):
                    run.set_begin_index(0)
                    their_run.set_begin_index(0)
                chosen = step_options[number % len(step_options)]
                with quiet_reference():
                    step_together(run, their_run, what=f"{what} {dtype}", dtype=dtype, tally=tally, **chosen)
                tally.combinations += 1
    return tally


def begins_twice(theirs: Any) -> bool:
    """Whether rounding made another timestep equal to the first:
    the reference then begins there and falls off the end."""
    return hasattr(theirs, "set_begin_index") and int((theirs.timesteps == theirs.timesteps[0]).sum()) > 1
