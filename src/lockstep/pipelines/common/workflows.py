"""The tables of workflows: where a run starts, by what is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...blocks import AutoPipelineBlocks, ModularPipelineBlocks
from ...blocks.compose import Block
from .painting import StartPainting
from .start import EncodeImage, StartFromImage, StartFromNoise


class AutoStart(AutoPipelineBlocks):
    """Grid and first latents, by what is given."""

    block_classes = [StartPainting, StartFromImage, StartFromNoise]
    block_names = ["inpainting", "image2image", "text2image"]
    block_trigger_inputs = ["mask_image", "image", None]


def where_given(trigger: str, **part: type[ModularPipelineBlocks]) -> type[AutoPipelineBlocks]:
    """A block that runs only where an input is given."""
    ((name, block),) = part.items()
    told = {"block_classes": [block], "block_names": [name], "block_trigger_inputs": [trigger]}
    return type(f"Auto{block.__name__}", (AutoPipelineBlocks,), {"__doc__": f"Only with {trigger!r}.", **told})


def starting(whole: Block, ended: Block, painting: Block, encode_image: Block = EncodeImage) -> type[AutoStart]:
    """The same with a family's own parts: the whole grid, its end, the latents to paint in, pictures to latents."""
    return AutoStart.with_parts(
        inpainting=StartPainting.with_parts(timesteps=ended, latents=painting),
        image2image=StartFromImage.with_parts(timesteps=ended, encode_image=encode_image),
        text2image=StartFromNoise.with_parts(timesteps=whole),
    )


FROM_TEXT: dict[str, list[str]] = {"text2image": []}
FROM_PICTURES: dict[str, list[str]] = {"image2image": ["image"]}
PAINTING: dict[str, list[str]] = {"inpainting": ["image", "mask_image"]}


STEERING = {"controlnet": "control_image", "adapter": "adapter_image"}  # by what -> the picture that it is given


def steered(workflows: Mapping[str, list[str]], by: Iterable[str] = STEERING) -> dict[str, list[str]]:
    """The workflows, and each of them steered by the picture of a ControlNet or of a T2I-Adapter."""
    more = {f"{one}_{name}": [*given, STEERING[one]] for one in by for name, given in workflows.items()}
    return {**workflows, **more}
