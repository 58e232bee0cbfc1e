"""Latents to what the caller asked for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch

from ...blocks import BlockView, ModularPipelineBlocks, needs
from ...errors import InputError
from ...images import VaeImageProcessor
from .painting import PAINTED_ON
from .parts import AUTOENCODER, DENOISER_OUTLINE, Components
from .sizes import latent_size, unpacked


class Decode(ModularPipelineBlocks):
    """Through the autoencoder, and into the form that was asked for."""

    upcast_on_nonfinite = ("autoencoder",)
    expected_components = [replace(AUTOENCODER, optional=True)]
    inputs = [*needs("latents"), "output_type", PAINTED_ON]
    outputs = ["images"]

    def unneeded(self, inputs: BlockView) -> Collection[str]:
        return ["autoencoder"] if inputs.output_type == "latent" else []

    def check(self, components: Components, inputs: BlockView) -> None:
        if inputs.output_type != "latent" and components.autoencoder is None:
            raise InputError(
                f"output_type={inputs.output_type!r} needs the component {self.cast['autoencoder'].name!r}, which this "
                "pipeline does not have. Load it with one, or ask for output_type='latent'."
            )

    def __call__(self, components: Components, state: BlockView) -> None:
        if state.output_type == "latent":
            state.images = self.final(state)
            return
        vae, latents = components.autoencoder, self.unpacked(components, state)
        told = {name: value.to(vae.dtype) for name, value in (state.painted_on or {}).items()}
        pixels = vae.decode(vae.denormalize_latents(latents.to(vae.dtype)), return_dict=False, **told)[0]
        state.images = self.finished(self.arranged(pixels, state), state.output_type)

    def unpacked(self, components: Components, state: BlockView) -> torch.Tensor:
        """The latents as the autoencoder takes them; a family whose denoiser reads tokens lays them out again here."""
        return self.final(state)

    def final(self, state: BlockView) -> torch.Tensor:
        """The latents of the picture; a family that ends with others says so here."""
        return state.latents

    def arranged(self, pixels: torch.Tensor, state: BlockView) -> torch.Tensor:
        """The pixels of the pictures; a family that decodes them in parts puts these together here."""
        return pixels

    def finished(self, pixels: torch.Tensor, output_type: str) -> Any:
        """Pixels in [-1, 1] as pictures."""
        return VaeImageProcessor(do_convert_rgb=True).postprocess(pixels, output_type=output_type)


class DecodePacked(Decode):
    """The same for latents that lie as tokens."""

    expected_components = [*Decode.expected_components, DENOISER_OUTLINE]
    inputs = [*Decode.inputs, "height", "width"]

    def unpacked(self, components: Components, state: BlockView) -> torch.Tensor:
        return unpacked(components.denoiser, state.latents, *latent_size(components, state))
