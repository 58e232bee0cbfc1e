"""Where noise comes from: the one rule by which a seed means the same picture in any batch.

- `seed=s`: sample k of the batch has its own generator, seeded s + k. So image k of a batch is image 0 of seed s + k.
- `seed=[…]`: one seed per sample.
- `generator=g`: one draw for the whole batch, as is usual in the field; `generator=[…]`: one generator per sample.
- neither: a seed is chosen and recorded in the manifest, so that the picture can be made again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..errors import InputError
from ..schedulers.noise import Generators, draw_noise

LARGEST_SEED = 2**63 - 1


def randn_tensor(
    shape: Sequence[int],
    generator: Generators = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Normal noise; a list of generators draws each sample from its own."""
    return draw_noise(shape, generator, torch.device(device or "cpu"), dtype or torch.get_default_dtype())


def choose_seed() -> int:
    """A seed for a run that was given none; short, so that a person can type it again."""
    return secrets.randbelow(2**32)


def seeds_per_sample(seed: int | Sequence[int], samples: int) -> list[int]:
    """One seed per sample."""
    seeds = [int(one) for one in seed] if isinstance(seed, Sequence) else [int(seed) + k for k in range(samples)]
    if len(seeds) != samples:
        raise InputError(f"A list of seeds wants one per sample: {samples} for this call, got {len(seeds)}.")
    for one in seeds:
        if not 0 <= one <= LARGEST_SEED:
            raise InputError(f"A seed has to be between 0 and 2**63 - 1, got {one}.")
    return seeds


def generators_for(seeds: Sequence[int]) -> list[torch.Generator]:
    """One generator per seed. They live on the CPU, whose draws are the same on every machine."""
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def copy_generator(generator: torch.Generator) -> torch.Generator:
    """A generator that will draw what this one is about to draw."""
    return torch.Generator(device=generator.device).set_state(generator.get_state())


def count_samples(values: Mapping[str, Any]) -> int:
    """How many samples a call makes: rows of prompt or picture, times the number for each."""
    given = [name for name in ("prompt", "prompt_embeds", "image", "video") if values.get(name) is not None]
    if not given and values.get("latents") is not None:
        return len(values["latents"])
    rows = _rows(given[0], values[given[0]]) if given else 1
    samples = rows * (values.get("num_images_per_prompt") or values.get("num_videos_per_prompt") or 1)
    for name in ("image", "mask_image"):
        pictures = 1 if values.get(name) is None else _rows(name, values[name])
        if pictures and samples % pictures:
            raise InputError(
                f"{name!r} has {pictures} pictures, which do not divide evenly among {samples} samples. Give one for "
                "all, or one for each prompt."
            )
    if values.get("latents") is not None and len(values["latents"]) != samples:
        raise InputError(f"'latents' has {len(values['latents'])} rows; this call makes {samples} samples.")
    return samples


def _rows(name: str, value: Any) -> int:
    if isinstance(value, (list, tuple)):
        return len(value)
    axes = getattr(value, "ndim", 0)
    return int(value.shape[0]) if axes == 4 or (axes and name == "prompt_embeds") else 1
