"""Control pictures for ControlNets (arXiv:2302.05543), and when and how strongly each net acts."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from ...blocks import (
    LATER,
    AutoPipelineBlocks,
    BlockView,
    ComponentSpec,
    InputParam,
    ModularPipelineBlocks,
    OutputParam,
    needs,
)
from ...errors import InputError
from ...models.controlnets.controlnet import ControlNetModel
from ...models.controlnets.multi import MultiControlNetModel
from .parts import AUTOENCODER_OUTLINE, DENOISER_OUTLINE, GUIDER, Components
from .several import for_each, nets_of, pictures_for_each
from .sizes import check_size, given_size, picture_processor, pixel_size, repeated

Tensor = torch.Tensor
CONTROLNET = ComponentSpec("controlnet", ControlNetModel | MultiControlNetModel, optional=True)
CONTROL_PIXELS = OutputParam("control_pixels", list[Tensor], "The control picture as each ControlNet reads it.")
CONTROL: list[Any] = [
    InputParam("control_pixels", list[Tensor], required=True, description="The control picture of each ControlNet."),
    *["control_image", "controlnet_conditioning_scale", "control_guidance_start", "control_guidance_end"],
    "guess_mode",
]


class PrepareControl(ModularPipelineBlocks):
    """The control picture of each net. Its size is that of the picture to make, unless one is given."""

    normalized: ClassVar[bool] = False  # whether a net reads pixels from -1 to 1, or from 0
    expected_components = [CONTROLNET, AUTOENCODER_OUTLINE, DENOISER_OUTLINE]
    inputs = [
        InputParam.template("control_image", required=True),
        *needs("prompt_embeds"),
        *["height", "width", "padding_mask_crop"],
    ]
    outputs = [CONTROL_PIXELS, "height", "width"]

    def check(self, components: Components, inputs: BlockView) -> None:
        if components.controlnet is None:
            raise InputError(
                "'control_image' needs a ControlNet: load the pipeline with "
                "controlnet=ControlNetModel.from_pretrained(…)."
            )
        if inputs.padding_mask_crop is not None:
            raise InputError("'padding_mask_crop' and 'control_image' do not go together; crop the pictures yourself.")
        check_size(components, inputs)
        self.pixels(components, inputs)  # what it refuses, it refuses now

    def __call__(self, components: Components, state: BlockView) -> None:
        samples = len(state.prompt_embeds)
        pixels = [repeated(rows, samples, "control_image") for rows in self.pixels(components, state)]
        pairs = zip(steering_nets(components, state), pixels, strict=True)
        state.control_pixels = [self.seen(components, state, net, rows).to(state.prompt_embeds) for net, rows in pairs]
        state.height, state.width = pixels[0].shape[-2:]

    def pixels(self, components: Components, state: BlockView) -> list[Tensor]:
        """What each net sees; the first picture decides on the size."""
        nets = len(steering_nets(components, state))
        pictures = pictures_for_each(by_net(state.control_image, nets), nets, "control_image", "ControlNet")
        processor = picture_processor(components, "control_image_processor", do_normalize=self.normalized)
        size = given_size(state) if LATER in (state.height, state.width) else self.size(components, state)
        first = processor.preprocess(pictures[0], height=size[0], width=size[1]).float()
        height, width = first.shape[-2:]
        return [first, *(processor.preprocess(one, height=height, width=width).float() for one in pictures[1:])]

    def seen(self, components: Components, state: BlockView, net: Any, rows: Tensor) -> Tensor:
        """What a net reads of its picture."""
        return rows

    def size(self, components: Components, state: BlockView) -> tuple[int | None, int | None]:
        """The size to bring it to; its own where nothing is said."""
        return state.height, state.width


def steering_nets(components: Components, state: BlockView) -> list[Any]:
    """The ControlNet of each control picture."""
    return nets_of(components.controlnet, state.control_image)


def by_net(given: Any, nets: int) -> Any:
    """Pictures of several nets for several prompts, given as a list of one for each net for each prompt, as batches;
    others as they are."""
    rows = given if isinstance(given, (list, tuple)) else []
    if nets == 1 or not rows or not all(isinstance(row, (list, tuple)) for row in rows):
        return given
    odd = next((len(row) for row in rows if len(row) != nets), None)
    if odd is not None:
        raise InputError(f"'control_image' wants a picture for each of {nets} ControlNets for each prompt, got {odd}.")
    return [list(batch) for batch in zip(*rows, strict=True)]


class EncodeControl(PrepareControl):
    """The same for nets that read latents; a picture without a size is brought to the one of the training."""

    normalized = True
    inputs = [*PrepareControl.inputs, "generator"]

    def size(self, components: Components, state: BlockView) -> tuple[int, int]:
        return pixel_size(components, state)


class AutoControl(AutoPipelineBlocks):
    """Only where there is a control picture."""

    block_classes = [PrepareControl]
    block_names = ["prepare"]
    block_trigger_inputs = ["control_image"]


def control_settings(components: Components, state: BlockView) -> list[tuple[float, float, float]]:
    """Begin, end and weight of each net."""
    nets = len(steering_nets(components, state))
    names = ("control_guidance_start", "control_guidance_end", "controlnet_conditioning_scale")
    return list(zip(*(for_each(state[name], nets, name, "ControlNet") for name in names), strict=True))


def check_control(components: Components, inputs: BlockView) -> None:
    """Every net begins before it ends."""
    for start, end, _ in control_settings(components, inputs):
        if start >= end:
            raise InputError(f"'control_guidance_start' ({start}) has to be before 'control_guidance_end' ({end}).")


def control_scales(components: Components, state: BlockView, step: int, steps: int) -> list[float]:
    """The weight of each net at a step; nothing outside of its part of the way."""
    return [
        scale * float(step / steps >= start and (step + 1) / steps <= end)
        for start, end, scale in control_settings(components, state)
    ]


class SteeredByControl(ModularPipelineBlocks):
    """What every prediction with ControlNets does: check what steers it, and weigh it by the step."""

    expected_components = [CONTROLNET, GUIDER]
    inputs = [*CONTROL, *needs("timesteps")]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        check_control(components, inputs)

    def scales(self, components: Components, state: BlockView) -> list[Any]:
        """The weight of each net at this step."""
        return control_scales(components, state, components.guider.get_state()["step"], len(state.timesteps))
