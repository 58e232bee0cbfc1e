"""Sigma grids: how much noise is left at each step of a run. All run from high to low, without the final zero."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ..errors import InputError

RHO = 7.0  # arXiv:2206.00364, table 1


def training_sigmas(alphas_cumprod: torch.Tensor) -> np.ndarray:
    """Noise to signal of every training timestep, rising."""
    return (((1 - alphas_cumprod) / alphas_cumprod) ** 0.5).numpy()


def sigmas_to_timesteps(
    sigmas: np.ndarray, log_sigmas: np.ndarray, precision: type[np.floating] = np.float64
) -> np.ndarray:
    """Fractional training timesteps at which training had these sigmas, interpolated in log sigma."""
    wanted = np.log(np.maximum(sigmas, 1e-10))
    # The last timestep not above: a floor under the final one (zero terminal SNR) can put it below those before it.
    rising = np.minimum.accumulate(log_sigmas[::-1])[::-1]
    low = (np.searchsorted(rising, wanted, side="right") - 1).clip(0, len(log_sigmas) - 2)
    below, above = log_sigmas[low], log_sigmas[low + 1]
    weight = np.clip((below - wanted) / (below - above), 0, 1)
    return (1 - weight) * low.astype(precision) + weight * (low + 1).astype(precision)


def karras_sigmas(sigma_max: float, sigma_min: float, num_steps: int) -> np.ndarray:
    """Even in sigma^(1/7): arXiv:2206.00364, equation 5."""
    ramp = np.linspace(0, 1, num_steps)
    high, low = sigma_max ** (1 / RHO), sigma_min ** (1 / RHO)
    return (high + ramp * (low - high)) ** RHO


def exponential_sigmas(sigma_max: float, sigma_min: float, num_steps: int) -> np.ndarray:
    """Even in log sigma."""
    return np.exp(np.linspace(math.log(sigma_max), math.log(sigma_min), num_steps))


def beta_sigmas(sigma_max: float, sigma_min: float, num_steps: int, shape: float = 0.6) -> np.ndarray:
    """Quantiles of a symmetric beta distribution, dense at both ends: arXiv:2407.12173."""
    return sigma_min + symmetric_beta_quantile(1 - np.linspace(0, 1, num_steps), shape) * (sigma_max - sigma_min)


def lu_sigmas(log_sigma_max: float, log_sigma_min: float, num_steps: int) -> np.ndarray:
    """Even in the log signal to noise ratio, with the ramp of DPM-Solver (arXiv:2206.00927, section 3.4)."""
    ramp = np.linspace(0, 1, num_steps)
    return np.exp(log_sigma_max + ramp * (log_sigma_min - log_sigma_max))


def symmetric_beta_quantile(probabilities: np.ndarray, shape: float) -> np.ndarray:
    """Inverse of the regularised incomplete beta function with both parameters equal, to fp64 accuracy.

    Below the median x <= 1/2, where the series of the incomplete beta function gains a bit with every term; above it
    the distribution is the mirror image. Newton's method runs in log x, which keeps the steep lower end straight.
    """
    mirrored = probabilities > 0.5
    lower = np.where(mirrored, 1 - probabilities, probabilities)
    normaliser = math.gamma(shape) ** 2 / math.gamma(2 * shape)
    inside = np.where(lower == 0, 0.5, lower)  # log 0 has no Newton step; put back below
    log_x = np.log(inside * shape * normaliser) / shape
    for _ in range(12):
        x = np.minimum(np.exp(log_x), 0.5)
        density = x**shape * (1 - x) ** (shape - 1) / normaliser
        log_x = np.log(x) - (_incomplete_beta(x, shape) / normaliser - inside) / density
    x = np.where(lower == 0, 0.0, np.exp(log_x))
    return np.where(mirrored, 1 - x, x)


def _incomplete_beta(x: np.ndarray, shape: float) -> np.ndarray:
    """x^a · sum_n (1 - a)_n / (n! (a + n)) · x^n, for x up to 1/2."""
    term, total = np.ones_like(x), np.zeros_like(x)
    for n in range(60):
        total += term / (shape + n)
        term *= (n + 1 - shape) / (n + 1) * x
    return x**shape * total


def ancestral_sigmas(sigma: torch.Tensor, sigma_next: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The fresh noise that leads up to the next sigma, and the lower sigma that a step goes down to before it."""
    up = (sigma_next**2 * (sigma**2 - sigma_next**2) / sigma**2) ** 0.5
    return up, (sigma_next**2 - up**2) ** 0.5


def shift_sigmas(sigmas: np.ndarray, shift: float) -> np.ndarray:
    """More of the steps at high noise, as larger pictures need it: arXiv:2403.03206, equation 23."""
    return shift * sigmas / (1 + (shift - 1) * sigmas)


def shift_sigmas_by_mu(sigmas: np.ndarray, mu: float, kind: str) -> np.ndarray:
    """The same shift with a strength that depends on the picture's size; `exponential` takes its logarithm."""
    strength = math.exp(mu) if kind == "exponential" else mu
    return strength / (strength + (1 / sigmas - 1) ** 1.0)


def stretch_to_terminal(sigmas: np.ndarray, terminal: float) -> np.ndarray:
    """Stretch so that the last sigma is `terminal` and 1 stays where it is (LTX-Video, arXiv:2501.00103)."""
    rest = 1 - sigmas
    if rest[-1] == 0:
        raise InputError(
            "shift_terminal moves the last sigma and cannot where that is 1, in a grid of one step. Use two or more."
        )
    return 1 - rest / (rest[-1] / (1 - terminal))


def flow_sigmas(sigmas: np.ndarray, config: Mapping[str, Any], shift: float, mu: float | None) -> np.ndarray:
    """A flow grid shifted as the config says: by `mu` where that is dynamic, and stretched to `shift_terminal`."""
    if config["use_dynamic_shifting"] and mu is not None:
        sigmas = shift_sigmas_by_mu(sigmas, mu, config["time_shift_type"])
    else:
        sigmas = shift_sigmas(sigmas, shift)
    return stretch_to_terminal(sigmas, config["shift_terminal"]) if config["shift_terminal"] else sigmas


def flow_sigmas_from_alphas(num_steps: int, num_train: int, shift: float) -> np.ndarray:
    """The flow grid of the solvers that count in alpha; its top is 1 - 1/num_train, where log alpha is finite."""
    alphas = np.linspace(1, 1 / num_train, num_steps + 1)
    return np.flip(shift_sigmas(1.0 - alphas, shift))[:-1].copy()
