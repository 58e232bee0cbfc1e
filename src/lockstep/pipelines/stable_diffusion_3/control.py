"""ControlNets in Stable Diffusion 3: the control picture as latents, and residuals for the blocks."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import interpolate

from ...blocks import BlockView, ComponentSpec, InputParam
from ...errors import InputError
from ...models.controlnets.controlnet_flux import summed
from ...models.controlnets.controlnet_sd3 import SD3ControlNetModel, SD3MultiControlNetModel
from ..common.control import CONTROL, AutoControl, EncodeControl, SteeredByControl, steering_nets
from ..common.denoise import without_lora_scale
from ..common.parts import AUTOENCODER, DENOISER_OUTLINE, Components
from ..common.several import nets_of
from ..common.sizes import masks_processor, repeated
from ..common.start import to_latents
from ..common.unet import AutoPredict
from .denoise import PredictSD3

Tensor = torch.Tensor
SD3_CONTROLNET = ComponentSpec("controlnet", SD3ControlNetModel | SD3MultiControlNetModel, optional=True)
BLACK = -1.0  # of pixels from -1 to 1: what a net that paints does not see
MASK = InputParam.template("mask_image", name="control_mask", description="White is what a net that paints fills in.")
POOLED = InputParam("controlnet_pooled_projections", torch.Tensor, description="The pooled vector that nets are told.")


class PrepareSD3Control(EncodeControl):
    """The control picture of each net, encoded; nets that are told no pooled text know latents that are not shifted,
    and nets that paint see what is not masked, and the mask."""

    expected_components = [SD3_CONTROLNET, AUTOENCODER, DENOISER_OUTLINE]
    inputs = [*EncodeControl.inputs, MASK]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        paints = any(map(is_painter, steering_nets(components, inputs)))
        if paints == (inputs.control_mask is None):
            told = "paints in a part of its picture: give" if paints else "was not taught a mask: leave away"
            raise InputError(f"This ControlNet {told} 'control_mask'.")
        if paints:
            self.mask(components, inputs, self.pixels(components, inputs)[0])

    def mask(self, components: Components, state: BlockView, like: Tensor) -> Tensor:
        """One where a net paints, of the size of its picture."""
        height, width = like.shape[-2:]
        mask = masks_processor(components).preprocess(state.control_mask, height=height, width=width)
        return repeated(mask, len(like), "control_mask").to(like)

    def seen(self, components: Components, state: BlockView, net: Any, rows: Tensor) -> Tensor:
        if is_painter(net):
            mask = self.mask(components, state, rows)
            latents = to_latents(components, torch.where(mask > 0.5, BLACK, rows), state, drawn=False)
            return torch.cat([latents, 1 - interpolate(mask, size=latents.shape[-2:]).to(latents)], dim=1)
        latents = to_latents(components, rows, state, drawn=False)
        config: Any = components.autoencoder.config
        shifted = net.config.force_zeros_for_pooled_projection and config.get("shift_factor")
        return latents + config.shift_factor * config.scaling_factor if shifted else latents


class PredictSD3WithControl(SteeredByControl, PredictSD3):
    """The same, steered by ControlNets, which see each branch of the guidance."""

    expected_components = [*PredictSD3.expected_components, SD3_CONTROLNET]
    inputs = [*PredictSD3.inputs, *(one for one in CONTROL if one != "guess_mode"), POOLED]

    def residuals(
        self, components: Components, state: BlockView, t: Tensor, sample: Tensor, inputs: dict[str, Tensor]
    ) -> dict[str, Any]:
        scales, repeats = self.scales(components, state), len(sample) // len(state.model_input)
        kwargs = without_lora_scale(components.denoiser, state.joint_attention_kwargs)
        found = []
        for net, rows, scale in zip(nets_of(components.controlnet), state.control_pixels, scales, strict=True):
            told = {"timestep": t.expand(len(sample)), "pooled_projections": self.pooled(net, state, repeats, inputs)}
            if net.config.joint_attention_dim is not None:
                told["encoder_hidden_states"] = inputs["encoder_hidden_states"]
            seen = sample if net.config.use_pos_embed else components.denoiser.pos_embed(sample)
            picture = torch.cat([rows] * repeats)
            found += net(seen, picture, scale, **told, joint_attention_kwargs=kwargs, return_dict=False)
        return {"block_controlnet_hidden_states": summed(found)}

    def pooled(self, net: Any, state: BlockView, repeats: int, inputs: dict[str, Tensor]) -> Tensor:
        """The pooled text, what was given for it, or nothing for nets that were taught without it."""
        text, given = inputs["pooled_projections"], state.controlnet_pooled_projections
        if net.config.force_zeros_for_pooled_projection or (is_painter(net) and given is None):
            return torch.zeros_like(text)
        return text if given is None else torch.cat([given.to(text)] * repeats).expand_as(text)


def is_painter(net: Any) -> bool:
    """Whether a net reads a mask beside its picture."""
    return bool(net.config.extra_conditioning_channels)


AutoSD3Control = AutoControl.with_parts(prepare=PrepareSD3Control)
AutoPredictSD3 = AutoPredict.with_parts(with_control=PredictSD3WithControl, plain=PredictSD3)
