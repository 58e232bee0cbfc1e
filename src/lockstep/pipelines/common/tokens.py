"""Latents as tokens: the place of each, and a size for models that were trained at one number of pixels."""

from __future__ import annotations

import torch

from ...blocks import BlockView, InputParam, ModularPipelineBlocks, needs
from .denoise import Denoise, Predict, ScaleModelInput, SchedulerStep
from .parts import AUTOENCODER_OUTLINE, DENOISER_OUTLINE, Components
from .sizes import check_size, latent_size, packed_side, pixel_size, size_step

Tensor = torch.Tensor
REFERENCE = InputParam("reference_latents", Tensor, description="The tokens of the reference picture.", given=False)


class PreparePositions(ModularPipelineBlocks):
    """The place of every token: the picture's index, its row and its column; those of a reference picture follow."""

    expected_components = [DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [
        *needs("prompt_embeds", "latents"),
        *["height", "width"],
        InputParam("reference_size", tuple[int, int], given=False, description="Rows and columns of its tokens."),
    ]
    outputs = ["img_ids"]

    def __call__(self, components: Components, state: BlockView) -> None:
        side = packed_side(components.denoiser)
        rows, columns = (size // side for size in latent_size(components, state))
        places = [token_places(rows, columns, 0)]
        if state.reference_size is not None:
            further_rows, further_columns = state.reference_size
            places.append(token_places(further_rows, further_columns, 1))
        state.img_ids = torch.cat(places).to(state.prompt_embeds)


def token_places(rows: int, columns: int, picture: int) -> Tensor:
    """(tokens, 3): the index of the picture, row, column."""
    grid = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
    return torch.cat([torch.full((len(grid), 1), picture), grid], dim=1)


class AppendReference(ModularPipelineBlocks):
    """The tokens of the picture to edit behind the latents."""

    inputs = [*needs("model_input"), REFERENCE]
    outputs = ["model_input"]

    def __call__(self, components: Components, state: BlockView, i: int, t: Tensor) -> None:
        state.model_input = torch.cat([state.model_input, state.reference_latents], dim=1)


class DenoiseEdited(Denoise):
    """Scale, append what is edited, predict, guide, step: once per timestep."""

    block_classes = [ScaleModelInput, AppendReference, Predict, SchedulerStep]
    block_names = ["scale", "append_reference", "predict", "step"]


class FitArea(ModularPipelineBlocks):
    """Height and width of the same proportions with about as many pixels as the model was trained at."""

    expected_components = [DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [
        *["height", "width"],
        InputParam("max_area", int, default=1024**2, description="Pixels of the picture to make.", minimum=256),
    ]
    outputs = ["height", "width"]

    def check(self, components: Components, inputs: BlockView) -> None:
        check_size(components, inputs)

    def __call__(self, components: Components, state: BlockView) -> None:
        height, width = pixel_size(components, state)
        step, proportions = size_step(components), width / height
        sides = round((state.max_area / proportions) ** 0.5), round((state.max_area * proportions) ** 0.5)
        state.height, state.width = (side // step * step for side in sides)
