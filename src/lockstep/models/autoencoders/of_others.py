"""Another library's autoencoder of a kind that Lockstep does not have, used as it is."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...configuration import FrozenDict
from .parts import AutoencoderMixin

ASKED = ("scaling_factor", "latent_channels", "block_out_channels")  # of its config


class AutoencoderOfOthers(AutoencoderMixin, nn.Module):
    """It encodes, it decodes, and its config says how many pixels a latent has and on which scale."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.config = FrozenDict(dict(self.model.config))

    @staticmethod
    def wraps(component: Any) -> bool:
        """Whether a component behaves as an autoencoder of pictures does."""
        config = getattr(component, "config", {})
        methods = all(callable(getattr(component, name, None)) for name in ("encode", "decode"))
        return isinstance(component, nn.Module) and methods and all(name in config for name in ASKED)

    @property
    def spatial_scale_factor(self) -> int:
        return 2 ** (len(self.config["block_out_channels"]) - 1)

    @property
    def dtype(self) -> torch.dtype:
        return self.model.dtype

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def paints(self) -> bool:
        """Whether its decoder takes the picture and the mask, to keep by itself what is not painted."""
        return "mask" in inspect.signature(self.model.decode).parameters

    def encode(self, sample: Tensor, return_dict: bool = True) -> Any:
        return self.model.encode(sample, return_dict=return_dict)

    def decode(self, latents: Tensor, return_dict: bool = True, **painted_on: Tensor) -> Any:
        """A decoder that draws noise draws the same at each call; one that paints is told picture and mask."""
        draws = "generator" in inspect.signature(self.model.decode).parameters
        seeded = {"generator": torch.Generator().manual_seed(0)} if draws else {}
        return self.model.decode(latents, return_dict=return_dict, **seeded, **painted_on)

    def save_pretrained(self, folder: str | Path, **options: Any) -> None:
        self.model.save_pretrained(folder, **options)
