"""Parts of a call that scripts with a loop of their own take by themselves: a bar, first latents, a step's options."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import torch

from ..blocks.index import read_index
from ..blocks.progress import StepBar
from ..blocks.randomness import randn_tensor
from ..errors import InputError
from ..files import HubArguments

Tensor = torch.Tensor
Generators = torch.Generator | Sequence[torch.Generator] | None


class HandworkMixin:
    """What a person calls who writes the denoising loop."""

    model_cpu_offload_seq: str | None = None  # the order follows from the blocks
    hf_device_map: dict[str, Any] | None = None  # a pipeline is on one device

    def progress_bar(self, iterable: Iterable[Any] | None = None, total: int | None = None) -> StepBar:
        """A bar over something, or of so many steps: `with pipe.progress_bar(total=20) as bar: bar.update()`."""
        if iterable is None and total is None:
            raise InputError("progress_bar wants something to go over, or total=, the number of steps.")
        return StepBar(self._bars, iterable, total)  # type: ignore[attr-defined]

    def prepare_latents(
        self, batch_size: int, num_channels_latents: int, height: int, width: int, dtype: torch.dtype,
        device: str | torch.device, generator: Generators = None, latents: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """The noise that a call would start from, of pictures of this size, as large as the scheduler wants it."""
        factor = self.vae_scale_factor  # type: ignore[attr-defined]
        shape = batch_size, num_channels_latents, int(height) // factor, int(width) // factor
        if isinstance(generator, (list, tuple)) and len(generator) != batch_size:
            raise InputError(f"Wanted a generator for each of {batch_size} pictures, got {len(generator)}.")
        made = randn_tensor(shape, generator, torch.device(device), dtype) if latents is None else latents.to(device)
        return made * self.scheduler.init_noise_sigma  # type: ignore[attr-defined]

    def prepare_extra_step_kwargs(self, generator: Generators, eta: float) -> dict[str, Any]:
        """Those of `eta` and `generator` that the scheduler's step takes."""
        taken = inspect.signature(self.scheduler.step).parameters  # type: ignore[attr-defined]
        given = {"eta": eta, "generator": generator}
        return {name: value for name, value in given.items() if name in taken}

    def get_timesteps(
        self, num_inference_steps: int, strength: float, device: str | torch.device | None = None
    ) -> tuple[Tensor, int]:
        """The end of the scheduler's grid that a start picture is changed by at this strength, and its length."""
        kept = min(int(num_inference_steps * strength), num_inference_steps)
        start = max(num_inference_steps - kept, 0)
        scheduler: Any = self.scheduler  # type: ignore[attr-defined]
        order = getattr(scheduler, "order", 1)
        if hasattr(scheduler, "set_begin_index"):
            scheduler.set_begin_index(start * order)
        return scheduler.timesteps[start * order :].to(device), num_inference_steps - start

    def upcast_vae(self) -> None:
        """The autoencoder in float32: some decode to black in 16 bits."""
        self.vae.to(dtype=torch.float32)  # type: ignore[attr-defined]

    @classmethod
    def load_config(cls, pretrained_model_name_or_path: str, **hub: Unpack[HubArguments]) -> dict[str, Any]:
        """What a folder's index says: components as (library, class), and settings."""
        index = read_index(pretrained_model_name_or_path, **hub)
        return {"_class_name": index.class_name, **index.entries, **index.configs}
