"""Random draws that mean the same picture in any batch."""

from __future__ import annotations

from collections.abc import Sequence

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
