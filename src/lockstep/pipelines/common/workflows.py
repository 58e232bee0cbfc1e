"""The tables of workflows: where a run starts, by what is given."""

from __future__ import annotations

from collections.abc import Mapping

from ...blocks import AutoPipelineBlocks
from .painting import StartPainting
from .start import StartFromImage, StartFromNoise


class AutoStart(AutoPipelineBlocks):
    """Grid and first latents, by what is given."""

    block_classes = [StartPainting, StartFromImage, StartFromNoise]
    block_names = ["inpainting", "image2image", "text2image"]
    block_trigger_inputs = ["mask_image", "image", None]


FROM_TEXT: dict[str, list[str]] = {"text2image": []}
FROM_PICTURES: dict[str, list[str]] = {"image2image": ["image"]}
PAINTING: dict[str, list[str]] = {"inpainting": ["image", "mask_image"]}


STEERING = {"controlnet": "control_image", "adapter": "adapter_image"}  # by what -> the picture that it is given


def steered(workflows: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The workflows, and each of them steered by the picture of a ControlNet or of a T2I-Adapter."""
    more = {f"{by}_{name}": [*given, picture] for by, picture in STEERING.items() for name, given in workflows.items()}
    return {**workflows, **more}
