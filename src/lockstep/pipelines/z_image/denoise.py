"""What is Z-Image's own in the loop: how the model is called, and how guidance is bounded."""

from __future__ import annotations

import torch

from ...blocks import BlockView, InputParam
from ...guiders import BaseGuidance, GuiderOutput
from ..common.denoise import PredictWithMask, without_lora_scale
from ..common.masked_text import cut
from ..common.parts import Components

Tensor = torch.Tensor
BOUNDS = [
    InputParam(
        "cfg_normalization",
        bool | float,
        default=False,
        description="How much longer than without guidance a prediction may be, as a factor; False: as long as it is.",
        minimum=0.0,
    ),
    InputParam(
        "cfg_truncation",
        float,
        default=1.0,
        description="Part of the way from noise to picture after which guidance is left out.",
        minimum=0.0,
    ),
]


class PredictZImage(PredictWithMask):
    """The flow from noise to picture for each branch; guidance ends where it is told, no longer than it may be."""

    inputs = [*PredictWithMask.inputs, "joint_attention_kwargs", *BOUNDS]

    def guider(self, components: Components, state: BlockView, t: Tensor) -> BaseGuidance:
        if float(way(t)) <= state.cfg_truncation:
            return components.guider
        unguided = components.guider.fresh()
        unguided.disable()
        return unguided

    def denoise(
        self, components: Components, state: BlockView, t: Tensor, inputs: dict[str, Tensor], repeats: int
    ) -> Tensor:
        dtype = components.denoiser.dtype
        sample = self.sample(state, inputs, repeats).to(dtype)
        texts = cut(inputs["encoder_hidden_states"].to(dtype), inputs["counted"])
        kwargs = without_lora_scale(components.denoiser, state.joint_attention_kwargs)
        predicted = components.denoiser(
            list(sample[:, :, None]),  # a picture is a video of one frame
            way(t).expand(len(sample)),
            texts,
            joint_attention_kwargs=kwargs,
            return_dict=False,
        )[0]
        return -torch.stack(predicted)[
            :, :, 0
        ].float()  # it says the way to the picture, a scheduler wants the way back

    def mixed(self, components: Components, state: BlockView, t: Tensor, guided: GuiderOutput) -> Tensor:
        if not state.cfg_normalization or guided.pred_uncond is None or guided.pred_cond is None:
            return guided.pred
        alone, both = (length(part) for part in (guided.pred_cond, guided.pred))
        return guided.pred * (alone * float(state.cfg_normalization) / both).clamp(max=1.0)


def way(t: Tensor) -> Tensor:
    """How far a timestep is on the way from noise, 0, to the picture, 1."""
    return (1000 - t.float()) / 1000


def length(prediction: Tensor) -> Tensor:
    """The length of each sample's prediction as a vector."""
    return torch.linalg.vector_norm(prediction, dim=(1, 2, 3), keepdim=True)
