"""ControlNets in FLUX: control pictures as tokens, and residuals for both kinds of blocks."""

from __future__ import annotations

from typing import Any

import torch

from ...blocks import BlockView, ComponentSpec, InputParam
from ...errors import InputError
from ...models.controlnets.controlnet_flux import FluxControlNetModel, FluxMultiControlNetModel
from ..common.control import CONTROL, AutoControl, EncodeControl, SteeredByControl, steering_nets
from ..common.denoise import with_prompt
from ..common.parts import AUTOENCODER, DENOISER_OUTLINE, Components
from ..common.several import for_each
from ..common.sizes import packed
from ..common.start import to_latents
from ..common.unet import AutoPredict
from .denoise import PredictFlux

Tensor = torch.Tensor
FLUX_CONTROLNET = ComponentSpec("controlnet", FluxControlNetModel | FluxMultiControlNetModel, optional=True)
MODE = InputParam(
    "control_mode",
    int | list[int],
    description="Kind of the control picture, by its number, for nets of several kinds.",
)


class PrepareFluxControl(EncodeControl):
    """The control picture of each net, encoded and packed; as pixels for nets that read them."""

    expected_components = [FLUX_CONTROLNET, AUTOENCODER, DENOISER_OUTLINE]
    inputs = [*EncodeControl.inputs, MODE]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        for net, mode in zip(steering_nets(components, inputs), modes(components, inputs), strict=True):
            kinds = net.config.num_mode
            if kinds is not None and not (isinstance(mode, int) and 0 <= mode < kinds):
                raise InputError(f"'control_mode' has to be 0 to {kinds - 1} for this ControlNet, got {mode}.")

    def seen(self, components: Components, state: BlockView, net: Any, rows: Tensor) -> Tensor:
        reads_pixels = net.config.conditioning_embedding_channels is not None
        return rows if reads_pixels else packed(components.denoiser, to_latents(components, rows, state))


class PredictFluxWithControl(SteeredByControl, PredictFlux):
    """The same, steered by ControlNets, which see the prompt in each branch of the guidance."""

    expected_components = [*PredictFlux.expected_components, FLUX_CONTROLNET]
    inputs = [*PredictFlux.inputs, *(one for one in CONTROL if one != "guess_mode"), MODE]

    def residuals(self, components: Components, state: BlockView, t: Tensor, sample: Tensor) -> dict[str, Any]:
        nets, rows = steering_nets(components, state), len(state.latents)
        scales = self.scales(components, state)
        numbers = [None if mode is None else torch.full((rows, 1), mode) for mode in modes(components, state)]
        positive = with_prompt(self.conditions(state))
        given = {**positive, **self.told(nets[0], state, t, state.latents, positive)}
        found = FluxMultiControlNetModel(nets)(
            state.model_input[..., : nets[0].config.in_channels],
            state.control_pixels,
            [None if one is None else one.to(sample.device) for one in numbers],
            scales,
            **given,
        )
        repeats = len(sample) // rows
        double, one = (None if parts is None else [torch.cat([part] * repeats) for part in parts] for parts in found)
        return {
            "controlnet_block_samples": double,
            "controlnet_single_block_samples": one,
            "controlnet_blocks_repeat": nets[0].config.conditioning_embedding_channels is not None,
        }


def modes(components: Components, state: BlockView) -> list[int | None]:
    """The kind of picture of each net."""
    return list(for_each(state.control_mode, len(steering_nets(components, state)), "control_mode", "ControlNet"))


AutoFluxControl = AutoControl.with_parts(prepare=PrepareFluxControl)
AutoPredictFlux = AutoPredict.with_parts(with_control=PredictFluxWithControl, plain=PredictFlux)
