"""Denoisers that read a picture beside the latents, in further channels: to edit or enlarge it, to keep its depth."""

from __future__ import annotations

import torch

from ...blocks import BlockView, needs
from ...errors import InputError
from ...guiders import Condition
from .parts import Components
from .start import PrepareLatents
from .unet import PredictWithUNet

Tensor = torch.Tensor


class PrepareLatentsBeside(PrepareLatents):
    """Noise of the size of the latents that the denoiser reads beside it."""

    inputs = [*needs("prompt_embeds", "timesteps", "image_latents"), "generator", "latents"]

    def check(self, components: Components, inputs: BlockView) -> None:
        self.check_channels(components)

    def check_channels(self, components: Components) -> None:
        require_channels(components, components.autoencoder.latent_channels, "a picture's latents")

    def shape(self, components: Components, state: BlockView, samples: int) -> tuple[int, ...]:
        return (samples, components.autoencoder.latent_channels, *state.image_latents.shape[-2:])


class PredictBeside(PredictWithUNet):
    """The UNet's prediction for each branch, from the latents and what stands beside them."""

    def beside(self, state: BlockView) -> Condition:
        """What the denoiser reads in its further channels, in every branch or in each."""
        raise NotImplementedError

    def conditions(self, state: BlockView) -> dict[str, Condition]:
        return {**super().conditions(state), "beside": self.beside(state)}

    def sample(self, state: BlockView, inputs: dict[str, Tensor], repeats: int) -> Tensor:
        return torch.cat([super().sample(state, inputs, repeats), inputs["beside"]], dim=1)


def require_channels(components: Components, beside: int, what: str) -> None:
    """A denoiser that reads the latents and so many channels beside them."""
    got, latent = components.denoiser.config.in_channels, components.autoencoder.latent_channels
    if got != latent + beside:
        raise InputError(
            f"This needs a denoiser that reads {latent + beside} channels: {latent} of latents, and {what} ({beside}) "
            f"beside them. This one reads {got}; load the model that was made for it."
        )
