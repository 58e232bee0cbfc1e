"""Random draws that mean the same picture in any batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..errors import InputError

Generators = torch.Generator | Sequence[torch.Generator] | None


def draw_noise(shape: Sequence[int], generator: Generators, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Normal noise, drawn where the generator lives and then moved; a list of generators means one draw per sample."""
    shape = tuple(shape)
    if generator is None or isinstance(generator, torch.Generator):
        return _draw(shape, generator, device, dtype)
    if not isinstance(generator, (list, tuple)) or not all(isinstance(one, torch.Generator) for one in generator):
        raise InputError(f"A generator is a torch.Generator or a list of them, got {generator!r}.")
    if len(generator) == 1:
        return _draw(shape, generator[0], device, dtype)
    if len(generator) != shape[0]:
        raise InputError(f"A list of generators wants one per sample: {shape[0]} for this batch, got {len(generator)}.")
    return torch.cat([_draw((1, *shape[1:]), one, device, dtype) for one in generator])


def _draw(
    shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device, dtype: torch.dtype
) -> torch.Tensor:
    where = device if generator is None else generator.device
    if where.type not in ("cpu", device.type):
        raise InputError(f"A generator on {where} cannot make noise for {device}. Use one on {device} or on the CPU.")
    return torch.randn(shape, generator=generator, device=where, dtype=dtype).to(device)


class Churn(NamedTuple):
    """Noise added before a step, between two sigmas (arXiv:2206.00364, algorithm 2)."""

    s_churn: float
    s_tmin: float
    s_tmax: float
    s_noise: float

    def add(
        self, sample: torch.Tensor, sigma: torch.Tensor, num_steps: int, like: torch.Tensor, generator: Generators
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The sample with more noise, and its higher sigma; the noise is drawn in the dtype of `like`."""
        gamma = min(self.s_churn / num_steps, 2**0.5 - 1) if self.s_tmin <= sigma <= self.s_tmax else 0.0
        sigma_hat = sigma * (gamma + 1)
        if gamma > 0:
            noise = draw_noise(like.shape, generator, like.device, like.dtype)
            sample = sample + noise * self.s_noise * (sigma_hat**2 - sigma**2) ** 0.5
        return sample, sigma_hat
