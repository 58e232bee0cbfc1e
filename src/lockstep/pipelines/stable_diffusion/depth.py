"""Image to image that keeps the depth of the picture: the denoiser reads a depth map beside the latents."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import interpolate

from ...blocks import (
    BlockView,
    ComponentSpec,
    InputParam,
    ModularPipelineBlocks,
    OutputParam,
    SequentialPipelineBlocks,
    needs,
)
from ...errors import InputError
from ...guiders import Condition
from ..common.beside import PredictBeside, require_channels
from ..common.decode import Decode
from ..common.denoise import Denoise
from ..common.parts import AUTOENCODER_OUTLINE, Components
from ..common.sizes import repeated, scale_factor
from ..common.start import AddNoise, StartFromImage
from ..common.unet import EmbedGuidance, SetUNetGuidance
from .blocks import StableDiffusionBlocks
from .encoders import EncodePrompt

Tensor = torch.Tensor
COLOURS = 3


@runtime_checkable
class DepthEstimator(Protocol):
    """Any model that is called with pixel values and gives `predicted_depth`, such as DPTForDepthEstimation."""

    def __call__(self, pixel_values: Tensor) -> Any: ...


@runtime_checkable
class PictureReader(Protocol):
    """Whatever makes `pixel_values` of pictures for a depth estimator, such as DPTImageProcessor."""

    def __call__(self, images: Any, return_tensors: str) -> Any: ...


ESTIMATOR = ComponentSpec("depth_estimator", DepthEstimator, optional=True)
READER = ComponentSpec("feature_extractor", PictureReader, optional=True)
DEPTH_MASK = OutputParam("depth_mask", Tensor, "The depth of the picture from -1 to 1, at the size of the latents.")


class EstimateDepth(ModularPipelineBlocks):
    """The depth of the picture, as it is given or by the depth estimator, at the size of the latents."""

    expected_components = [ESTIMATOR, READER, AUTOENCODER_OUTLINE]
    inputs = [
        InputParam.template("image", required=True),
        InputParam("depth_map", Tensor, description="Depth of every point (pictures, rows, columns), any scale."),
        *needs("prompt_embeds"),
        *["height", "width"],
    ]
    outputs = [DEPTH_MASK]

    def unneeded(self, inputs: BlockView) -> Collection[str]:
        return [] if inputs.depth_map is None else [ESTIMATOR.name, READER.name]

    def check(self, components: Components, inputs: BlockView) -> None:
        missing = [name for name in (ESTIMATOR.name, READER.name) if getattr(components, name) is None]
        if inputs.depth_map is None and missing:
            raise InputError(
                f"The depth of the picture needs {' and '.join(missing)}, which this pipeline does not have. Give a "
                "'depth_map', or the parts: pipe.depth_estimator = transformers.DPTForDepthEstimation.from_pretrained("
                "folder, subfolder='depth_estimator'), and pipe.feature_extractor likewise (DPTImageProcessor)."
            )
        if inputs.depth_map is not None and inputs.depth_map.ndim != 3:
            raise InputError(f"'depth_map' wants (pictures, rows, columns), got {list(inputs.depth_map.shape)}.")
        if isinstance(inputs.image, Tensor) and inputs.image.shape[-3] != COLOURS:
            raise InputError(
                f"'image' wants a picture of {COLOURS} colours, to tell its depth, got {list(inputs.image.shape)}."
            )

    def __call__(self, components: Components, state: BlockView) -> None:
        sides = zip((state.height, state.width), size_of(state.image), strict=True)
        height, width = ((wanted or own) // scale_factor(components) for wanted, own in sides)
        depth = self.estimated(components, state) if state.depth_map is None else state.depth_map
        depth = depth.to(state.prompt_embeds)[:, None]
        depth = interpolate(depth, size=(height, width), mode="bicubic", align_corners=False)
        low, high = (bound(depth, dim=(1, 2, 3), keepdim=True) for bound in (torch.amin, torch.amax))
        span = (high - low).clamp(min=torch.finfo(depth.dtype).tiny)  # what is flat is finite too
        state.depth_mask = repeated(2.0 * (depth - low) / span - 1.0, len(state.prompt_embeds), "depth_map")

    @staticmethod
    def estimated(components: Components, state: BlockView) -> Tensor:
        pictures = state.image if isinstance(state.image, list) else [state.image]
        pixels = components.feature_extractor(images=pictures, return_tensors="pt").pixel_values
        place, half = components.device, state.prompt_embeds.dtype
        # batch norms in published estimators do not compute in half precision: autocast leaves them in full
        with torch.autocast(place.type, dtype=half, enabled=half in (torch.float16, torch.bfloat16)):
            return components.depth_estimator(pixels.to(place, half)).predicted_depth


def size_of(pictures: Any) -> tuple[int, int]:
    """Rows and columns of the first picture."""
    first = pictures[0] if isinstance(pictures, (list, tuple)) else pictures
    if isinstance(first, Image.Image):
        return first.height, first.width
    rows, columns = first.shape[-3:-1] if isinstance(first, np.ndarray) else first.shape[-2:]
    return rows, columns


class AddNoiseBesideDepth(AddNoise):
    """The start picture with as much noise as the first timestep has, for a denoiser that reads depth too."""

    expected_components = [*AddNoise.expected_components, AUTOENCODER_OUTLINE]

    def check_channels(self, components: Components) -> None:
        require_channels(components, 1, "a depth map")


class PredictWithDepth(PredictBeside):
    """The UNet's prediction for each branch, beside the depth of the picture, and the guider's mix of them."""

    inputs = [*PredictBeside.inputs, InputParam("depth_mask", Tensor, required=True, description="The depth.")]

    def beside(self, state: BlockView) -> Condition:
        return state.depth_mask


class DepthToImageBlocks(SequentialPipelineBlocks):
    """Image to image that keeps the depth of the picture."""

    pipeline_class_name = "StableDiffusionDepth2ImgPipeline"
    roles = StableDiffusionBlocks.roles
    block_classes = {
        "guidance": SetUNetGuidance,
        "text_encoder": EncodePrompt,
        "embed_guidance": EmbedGuidance,
        "depth": EstimateDepth,
        "start": StartFromImage.with_parts(latents=AddNoiseBesideDepth),
        "denoise": Denoise.with_parts(predict=PredictWithDepth),
        "decode": Decode,
    }
    outputs = ["images"]
    workflows = {"depth2image": ["image"]}
