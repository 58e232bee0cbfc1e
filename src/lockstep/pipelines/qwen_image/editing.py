"""Editing: pictures are read by the language model beside the words, and by the denoiser behind the latents."""

from __future__ import annotations

import math
from typing import Any

import torch
from PIL.Image import Image

from ...blocks import LATER, BlockView, ComponentSpec, InputParam, ModularPipelineBlocks, OutputParam, needs
from ..common.parts import AUTOENCODER, AUTOENCODER_OUTLINE, DENOISER_OUTLINE, Components
from ..common.qwen2_vl import MARK, Qwen2VLProcessor
from ..common.sizes import check_size, packed, packed_side, picture_processor, size_step
from ..common.start import to_latents
from ..common.tokens import REFERENCE
from .encoders import ANSWER, EncodePrompt

Tensor = torch.Tensor
Size = tuple[int, int]
TASK = (
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects, "
    "background), then explain how the user's text instruction should alter or modify the image. Generate a new image "
    "that meets the user's requirements while maintaining consistency with the original input where "
    "appropriate.<|im_end|>\n<|im_start|>user\n"
)
TASK_TOKENS = 64  # of the task, which the denoiser does not read
PLACE = f"<|vision_start|>{MARK}<|vision_end|>"  # of a picture in a text
STEP = 32  # of the sides of a picture that is read, in pixels
EDITED = "The pictures to edit, at the size at which the denoiser reads them."
SEEN = "The same at the size at which the language model sees them."
IMAGE = InputParam.template("image", required=True, description="The picture to edit.")
MAX_AREA = InputParam("max_area", int, default=1024**2, description="Pixels at which a picture is read.", minimum=1024)
SEEN_AREA = InputParam(
    "seen_area", int, default=384**2, description="Pixels at which the language model sees a picture.", minimum=1024
)


class FitPicture(ModularPipelineBlocks):
    """The picture to edit at as many pixels as the model was trained at, and the same size for what is made of it."""

    expected_components = [DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [IMAGE, *["height", "width"], MAX_AREA]
    outputs = ["height", "width", OutputParam("edited", list[Image], EDITED), OutputParam("seen", list[Image], SEEN)]

    def check(self, components: Components, inputs: BlockView) -> None:
        check_size(components, inputs)
        if inputs.image is not LATER:
            self.pictures(components, inputs)  # what it refuses, it refuses now

    def __call__(self, components: Components, state: BlockView) -> None:
        processor, pictures = picture_processor(components), self.pictures(components, state)
        read, seen = self.sizes(pictures, state)
        state.edited = [processor.resize(one, *size) for one, size in zip(pictures, read, strict=True)]
        state.seen = [processor.resize(one, *size) for one, size in zip(pictures, seen, strict=True)]
        height, width = (side // size_step(components) * size_step(components) for side in read[-1])
        state.height, state.width = state.height or height, state.width or width

    def sizes(self, pictures: list[Image], state: BlockView) -> tuple[list[Size], list[Size]]:
        """Height and width at which each is read and seen: those of the first for all, one for each sample."""
        size = fitted(state.max_area, pictures[0])
        return [size] * len(pictures), [size] * len(pictures)

    @staticmethod
    def pictures(components: Components, state: BlockView) -> list[Image]:
        """As PIL pictures, in whatever form they were given."""
        given: Any = state.image
        listed = given if isinstance(given, list) else [given]
        if all(isinstance(one, Image) for one in listed):
            return listed
        processor = picture_processor(components, None, vae_scale_factor=1)
        pictures: Any = processor.postprocess(processor.preprocess(given), output_type="pil")
        return pictures


class FitEachPicture(FitPicture):
    """Several pictures for one prompt, each of its own proportions; what is made has the size of the last."""

    inputs = [*FitPicture.inputs, SEEN_AREA]

    def sizes(self, pictures: list[Image], state: BlockView) -> tuple[list[Size], list[Size]]:
        read, seen = ([fitted(area, one) for one in pictures] for area in (state.max_area, state.seen_area))
        return read, seen


def fitted(area: int, picture: Image) -> Size:
    """Height and width of so many pixels, in whole steps, of a picture's proportions."""
    proportions = picture.width / picture.height
    width = math.sqrt(area * proportions)
    return round(width / proportions / STEP) * STEP, round(width / STEP) * STEP


class EncodeInstruction(EncodePrompt):
    """Prompts to the last hidden states of Qwen2.5-VL, which sees the picture before it reads them."""

    expected_components = [
        *EncodePrompt.expected_components,
        ComponentSpec("processor", Qwen2VLProcessor, optional=True),
    ]
    inputs = [*EncodePrompt.inputs, InputParam("seen", list[Image], required=True, given=False, description=SEEN)]

    def encode_rows(self, components: Components, texts: list[str], state: BlockView) -> list[Tensor]:
        encoder, rows = components.text_encoder, []
        for number, text in enumerate(texts):
            places, pictures = self.shown(number, state.seen)
            ids, seen = components.processor(TASK + places + text + ANSWER, pictures)
            states = encoder(
                torch.tensor([ids], device=encoder.device),
                pixel_values=seen.pixel_values.to(encoder.device, encoder.dtype),
                image_grid_thw=seen.image_grid_thw.tolist(),
            ).last_hidden_state
            rows.append(states[0, TASK_TOKENS:].to(encoder.dtype))
        return rows

    def shown(self, number: int, pictures: list[Image]) -> tuple[str, list[Image]]:
        """What stands before a prompt, and the pictures in it: one for each prompt, or one for all."""
        return PLACE, [pictures[number % len(pictures)]]


class EncodeInstructionOnSeveral(EncodeInstruction):
    """The same with all pictures before each prompt, numbered."""

    def shown(self, number: int, pictures: list[Image]) -> tuple[str, list[Image]]:
        return "".join(f"Picture {k}: {PLACE}" for k in range(1, len(pictures) + 1)), pictures


class EncodeEdited(ModularPipelineBlocks):
    """The picture to edit as tokens."""

    expected_components = [AUTOENCODER, DENOISER_OUTLINE]
    inputs = [
        InputParam("edited", list[Image], required=True, given=False, description=EDITED),
        *needs("prompt_embeds"),
        "generator",
    ]
    outputs = [
        OutputParam("reference_latents", Tensor, REFERENCE.description),
        OutputParam("reference_sizes", list[Size], "Rows and columns of those tokens, for each picture."),
    ]

    def __call__(self, components: Components, state: BlockView) -> None:
        side, tokens, sizes = packed_side(components.denoiser), [], []
        for group in self.groups(state.edited):
            pixels = picture_processor(components).preprocess(group)
            latents = to_latents(components, pixels, state, drawn=False)
            sizes.append((latents.shape[2] // side, latents.shape[3] // side))
            tokens.append(packed(components.denoiser, latents))
        state.reference_latents, state.reference_sizes = torch.cat(tokens, dim=1), sizes

    def groups(self, pictures: list[Image]) -> list[list[Image]]:
        """Pictures that the samples share among them; a sample reads one of each group."""
        return [pictures]


class EncodeEachEdited(EncodeEdited):
    """Several pictures as tokens, one behind the other; each sample reads all of them."""

    def groups(self, pictures: list[Image]) -> list[list[Image]]:
        return [[one] for one in pictures]
