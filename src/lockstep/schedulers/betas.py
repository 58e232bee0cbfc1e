"""The training noise: how fast the signal is lost, as one beta per training timestep (DDPM, arXiv:2006.11239)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from ..errors import UnsupportedError
from .spacing import check_num_train

TrainedBetas = np.ndarray | list[float] | None  # those that a file brings along, in place of a named schedule
MAX_BETA = 0.999  # beta = 1 would lose the signal whole and divide by zero on the way back
ZERO_SNR_FLOOR = 2**-24  # the smallest fp16 step: sigma = sqrt(1 / floor) = 4096 stays finite


def make_betas(schedule: str, start: float, end: float, num_steps: int, trained: TrainedBetas = None) -> torch.Tensor:
    """The betas of a named schedule, or the trained ones where a file brings its own."""
    if trained is not None:
        return torch.tensor(np.asarray(trained), dtype=torch.float32)
    return BETA_SCHEDULES[schedule](start, end, num_steps)


def check_beta_schedule(owner: str, schedule: str, known: Sequence[str], num_steps: int) -> None:
    """Refuse a schedule that a class does not know, and one that no table can be made for."""
    check_num_train(owner, num_steps)
    if schedule not in known:
        raise UnsupportedError(f"{owner} has no beta_schedule {schedule!r}. It has: {', '.join(known)}.")


def _linear(start: float, end: float, num_steps: int) -> torch.Tensor:
    return torch.linspace(start, end, num_steps, dtype=torch.float32)


def _scaled_linear(start: float, end: float, num_steps: int) -> torch.Tensor:
    """Linear in sqrt(beta): latent diffusion (arXiv:2112.10752)."""
    return torch.linspace(start**0.5, end**0.5, num_steps, dtype=torch.float32) ** 2


def _sigmoid(start: float, end: float, num_steps: int) -> torch.Tensor:
    """GeoDiff (arXiv:2203.02923)."""
    return torch.sigmoid(torch.linspace(-6, 6, num_steps)) * (end - start) + start


def betas_from_alpha_bar(alpha_bar: Callable[[float], float], num_steps: int) -> torch.Tensor:
    """Betas whose cumulative product follows a given curve over time 0..1 (arXiv:2102.09672, section 3.2)."""
    times = [i / num_steps for i in range(num_steps + 1)]
    betas = [min(1 - alpha_bar(after) / alpha_bar(before), MAX_BETA) for before, after in itertools.pairwise(times)]
    return torch.tensor(betas, dtype=torch.float32)


def _cosine_alpha_bar(time: float) -> float:
    return math.cos((time + 0.008) / 1.008 * math.pi / 2) ** 2


def _exponential_alpha_bar(time: float) -> float:
    return math.exp(time * -12.0)


def _laplace_alpha_bar(time: float) -> float:
    """arXiv:2407.03297."""
    log_snr = -0.5 * math.copysign(1, 0.5 - time) * math.log(1 - 2 * math.fabs(0.5 - time) + 1e-6)
    snr = math.exp(log_snr)
    return math.sqrt(snr / (1 + snr))


BETA_SCHEDULES: dict[str, Callable[[float, float, int], torch.Tensor]] = {
    "linear": _linear,
    "scaled_linear": _scaled_linear,
    "squaredcos_cap_v2": lambda start, end, num_steps: betas_from_alpha_bar(_cosine_alpha_bar, num_steps),
    "exp": lambda start, end, num_steps: betas_from_alpha_bar(_exponential_alpha_bar, num_steps),
    "laplace": lambda start, end, num_steps: betas_from_alpha_bar(_laplace_alpha_bar, num_steps),
    "sigmoid": _sigmoid,
}


def rescale_to_zero_terminal_snr(betas: torch.Tensor) -> torch.Tensor:
    """The betas of a schedule whose last timestep is pure noise (arXiv:2305.08891, algorithm 1)."""
    alpha_bar = stretch_to_zero_terminal_snr(torch.cumprod(1.0 - betas, dim=0))
    return 1 - torch.cat([alpha_bar[:1], alpha_bar[1:] / alpha_bar[:-1]])


def stretch_to_zero_terminal_snr(alpha_bar: torch.Tensor) -> torch.Tensor:
    """Shift and stretch sqrt(alpha_bar) so that it is zero at the last timestep."""
    root = alpha_bar.sqrt()
    first, last = root[0], root[-1]
    return ((root - last) * (first / (first - last))) ** 2
