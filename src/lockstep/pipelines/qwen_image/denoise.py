"""What is Qwen-Image's own in the loop: the sizes of what the model reads, its call, and the length of predictions."""

from __future__ import annotations

import torch

from ...blocks import BlockView, InputParam, ModularPipelineBlocks, OutputParam, needs
from ...guiders import GuiderOutput
from ...notes import say_once
from ..common.denoise import PredictWithMask, without_lora_scale
from ..common.parts import AUTOENCODER_OUTLINE, DENOISER_OUTLINE, Components
from ..common.sizes import latent_size, packed_side

Tensor = torch.Tensor
Shape = tuple[int, int, int]
SHAPES = "Frames, rows and columns of the picture that is made, and of those that are edited, in tokens."


class PrepareShapes(ModularPipelineBlocks):
    """The size in tokens of the picture that is made, and of those that are edited behind it."""

    expected_components = [DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [
        *needs("latents"),
        *["height", "width"],
        InputParam(
            "reference_sizes", list[tuple[int, int]], given=False, description="Rows and columns of the others."
        ),
    ]
    outputs = [OutputParam("img_shapes", list[Shape], SHAPES)]

    def __call__(self, components: Components, state: BlockView) -> None:
        side = packed_side(components.denoiser)
        rows, columns = (size // side for size in latent_size(components, state))
        state.img_shapes = [(1, *size) for size in [(rows, columns), *(state.reference_sizes or [])]]


class PredictQwenImage(PredictWithMask):
    """The flow for each branch; guidance changes its direction at each token, not its length."""

    inputs = [
        *PredictWithMask.inputs,
        *needs("latents"),
        "attention_kwargs",
        InputParam("img_shapes", list[Shape], required=True, given=False, description=SHAPES),
        InputParam("guidance_scale", float, description="Of models that were taught it, of which none is published."),
    ]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        if inputs.guidance_scale is not None:
            say_once(f"guidance_scale={inputs.guidance_scale} does nothing to Qwen-Image; true_cfg_scale guides it.")

    def denoise(
        self, components: Components, state: BlockView, t: Tensor, inputs: dict[str, Tensor], repeats: int
    ) -> Tensor:
        dtype = components.denoiser.dtype
        sample = self.sample(state, inputs, repeats).to(dtype)
        counted = inputs["counted"]
        longest = int(counted.sum(1).max())
        counted = counted[:, :longest]
        predicted = components.denoiser(
            sample,
            inputs["encoder_hidden_states"][:, :longest].to(dtype),
            None if bool(counted.all()) else counted,
            t.expand(len(sample)).to(sample.dtype) / 1000,
            [state.img_shapes] * len(sample),
            attention_kwargs=without_lora_scale(components.denoiser, state.attention_kwargs),
            return_dict=False,
        )[0]
        return predicted[:, : state.latents.shape[1]]  # the tokens of pictures that are edited come after

    def mixed(self, components: Components, state: BlockView, t: Tensor, guided: GuiderOutput) -> Tensor:
        if guided.pred_uncond is None or guided.pred_cond is None:
            return guided.pred
        alone, both = (torch.linalg.vector_norm(part, dim=-1, keepdim=True) for part in (guided.pred_cond, guided.pred))
        return guided.pred * torch.where(both == 0, 1.0, alone / both)  # nothing has no direction
