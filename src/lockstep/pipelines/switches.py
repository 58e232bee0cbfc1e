"""Switches that scripts carry along: what does nothing here says so once, what cannot be done says why."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from PIL.Image import Image

from .. import files
from ..images import VaeImageProcessor
from ..notes import say_once


class SwitchesMixin:
    """Methods of the field's pipelines that have no work to do here."""

    def enable_attention_slicing(self, slice_size: str | int | None = "auto") -> None:
        """Nothing: attention is computed without the large matrix that slices would cut."""
        say_once("enable_attention_slicing changes nothing: attention needs no memory here that slices would save.")

    def disable_attention_slicing(self) -> None:
        """Nothing, as nothing was sliced."""

    def enable_xformers_memory_efficient_attention(self, attention_op: object = None) -> None:
        """Nothing: `attention_backend(…)` chooses another kernel."""
        say_once(
            "enable_xformers_memory_efficient_attention changes nothing: torch's own attention is as frugal. Another "
            "kernel is chosen with lockstep.attention_backend('xformers')."
        )

    def disable_xformers_memory_efficient_attention(self) -> None:
        """Nothing, as nothing was enabled."""

    def enable_sequential_cpu_offload(
        self, gpu_id: int | None = None, device: str | torch.device | None = None
    ) -> Self:
        """Offload model by model: layer by layer saves little more and costs much more time."""
        say_once("enable_sequential_cpu_offload moves whole models here, as enable_model_cpu_offload does.")
        where = device if device is not None or gpu_id is None else f"cuda:{gpu_id}"
        return self.enable_model_cpu_offload(where)  # type: ignore[attr-defined]

    @staticmethod
    def numpy_to_pil(images: np.ndarray) -> list[Image]:
        """Arrays from 0 to 1 as pictures."""
        return VaeImageProcessor.numpy_to_pil(images)

    def maybe_free_model_hooks(self) -> None:
        """Nothing: offloading needs no hooks."""

    def remove_all_hooks(self) -> None:
        """Nothing: offloading needs no hooks."""

    def reset_device_map(self) -> None:
        """Nothing: a pipeline is on one device."""

    def push_to_hub(self, repo_id: str, *, variant: str | None = None, **options: Any) -> str:
        """Send the whole folder to the hub; the address of what was sent."""
        kept = {key: options.pop(key) for key in ("max_shard_size", "safe_serialization") if key in options}
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder, variant=variant, **kept)  # type: ignore[attr-defined]
            return files.upload(Path(folder), repo_id, **options)
