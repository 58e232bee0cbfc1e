"""Timestep grids: which of the training timesteps a run visits (arXiv:2305.08891, table 2)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ..errors import ConfigError, InputError

MOST_TRAIN_TIMESTEPS = 1_000_000
BYTES_PER_TRAIN_TIMESTEP = 40  # betas, alphas, their products, sigmas, timesteps
SPACINGS = ("linspace", "leading", "trailing")


def check_spacing(owner: str, spacing: str, known: tuple[str, ...] = SPACINGS) -> None:
    """Refuse a spacing that a class does not know."""
    if spacing not in known:
        raise ConfigError(f"{owner}: timestep_spacing wants one of {', '.join(known)}, got {spacing!r}.")


def check_num_train(owner: str, num_train: int) -> None:
    """A number of training timesteps that tables can be made for."""
    if num_train < 1:
        raise ConfigError(f"{owner}: num_train_timesteps wants at least 1, got {num_train}.")
    if num_train > MOST_TRAIN_TIMESTEPS:
        gigabytes = num_train * BYTES_PER_TRAIN_TIMESTEP / 1e9
        raise ConfigError(
            f"{owner}: num_train_timesteps wants at most {MOST_TRAIN_TIMESTEPS:,} (published models have 1,000), "
            f"got {num_train:,}: its tables would take about {gigabytes:,.0f} GB."
        )


def check_num_steps(num_steps: int | None, at_most: int | None = None) -> int:
    """A number of steps that a grid can have."""
    if isinstance(num_steps, bool) or not isinstance(num_steps, (int, np.integer)) or num_steps < 1:
        raise InputError(f"num_inference_steps wants a whole number of at least 1, got {num_steps!r}.")
    if at_most is not None and num_steps > at_most:
        raise InputError(
            f"num_inference_steps wants at most {at_most}, the number of training timesteps, got {num_steps}."
        )
    return int(num_steps)


def explicit_grid(name: str, values: Sequence[float], dtype: type[np.generic]) -> np.ndarray:
    """A grid that the caller wrote out."""
    try:
        grid = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        grid = np.array(np.nan)
    if grid.ndim != 1 or not grid.size or not np.isfinite(grid).all():
        raise InputError(f"{name} wants a list of at least one finite number, got {values!r}.")
    return np.array(values).astype(dtype)


def check_descending(timesteps: np.ndarray, num_train: int) -> None:
    """Explicit timesteps have to fall, from a trained one on."""
    if any(after >= before for before, after in itertools.pairwise(timesteps)):
        raise InputError(f"timesteps wants falling values, got {timesteps.tolist()}.")
    if timesteps[0] >= num_train:
        raise InputError(f"timesteps wants values below num_train_timesteps = {num_train}, got {timesteps[0]}.")


def spaced_timesteps(
    spacing: str,
    num_train: int,
    num_steps: int,
    *,
    offset: int = 0,
    dtype: type[np.generic] = np.int64,
    one_more: bool = False,
    last: int | None = None,
) -> np.ndarray:
    """`num_steps` timesteps from high to low.

    `one_more` lays the grid with one point more and leaves the lowest out (the solvers that end in a sigma of their
    own). `last` is where the grid starts when the noisiest timesteps are cut off. An integer dtype is rounded to.
    The quotient of `trailing` can round down (61 steps of 1000), and then the range has one point too many: it is cut.
    """
    last = num_train if last is None else last
    num_points = num_steps + 1 if one_more else num_steps
    if spacing == "linspace":
        grid = np.linspace(0, last - 1, num_points)
        grid = grid.round() if np.issubdtype(dtype, np.integer) else grid
        return grid[::-1][:num_steps].astype(dtype)
    if spacing == "leading":
        multiples = np.arange(num_points) * (last // num_points)
        return multiples[::-1][:num_steps].astype(dtype) + dtype(offset)
    return np.arange(last, 0, -num_train / num_steps).round()[:num_steps].astype(dtype) - dtype(1)
