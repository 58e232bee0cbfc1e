"""A look at the finished pictures, where the pipeline has a safety checker."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from PIL import Image

from ...blocks import BlockView, ComponentSpec, ConfigSpec, InputParam, ModularPipelineBlocks
from ...errors import InputError
from ...images import VaeImageProcessor
from ...models.vision.clip_pictures import CLIPImageProcessor
from ...models.vision.safety_checker import StableDiffusionSafetyChecker
from ...notes import say_once
from .parts import Components

CHECKER = ComponentSpec("safety_checker", StableDiffusionSafetyChecker, optional=True)
READER = ComponentSpec("feature_extractor", CLIPImageProcessor, optional=True)


class CheckSafety(ModularPipelineBlocks):
    """Black in place of the pictures that the safety checker finds; nothing where there is none."""

    expected_components = [CHECKER, READER]
    inputs = [InputParam("images", required=True, given=False, description="The pictures."), "output_type"]
    outputs = ["images", "nsfw_content_detected"]

    def unneeded(self, inputs: BlockView) -> Collection[str]:
        return [CHECKER.name, READER.name] if inputs.output_type == "latent" else []

    def check(self, components: Components, inputs: BlockView) -> None:
        if inputs.output_type != "latent" and components.safety_checker and components.feature_extractor is None:
            raise InputError(
                "The safety checker needs the component 'feature_extractor' (CLIPImageProcessor), which this pipeline "
                "does not have. Give it, or leave the checker away: pipe.safety_checker = None."
            )

    def __call__(self, components: Components, state: BlockView) -> None:
        state.images, state.nsfw_content_detected = state.images, None
        checker = components.safety_checker
        if checker is None or state.output_type == "latent":
            return
        seen = components.feature_extractor(as_pictures(state.images), return_tensors="pt").pixel_values
        _, found = checker(clip_input=seen.to(components.device, checker.dtype), images=None)
        if any(found):
            say_once("The safety checker found pictures that it does not let pass; they are black.")
            state.images = with_black(state.images, found)
        state.nsfw_content_detected = found


class CheckRequiredSafety(CheckSafety):
    """The same, in families whose folders say whether a checker belongs to them."""

    expected_configs = [ConfigSpec("requires_safety_checker", default=True)]


def as_pictures(images: Any) -> list[Image.Image]:
    """The pictures of a result in any of its forms as PIL."""
    if isinstance(images, torch.Tensor):
        images = VaeImageProcessor.pt_to_numpy(images)
    return VaeImageProcessor.numpy_to_pil(images) if isinstance(images, np.ndarray) else list(images)


def with_black(images: Any, found: list[bool]) -> Any:
    """The same with black where something was found."""
    if isinstance(images, list):
        return [Image.new(one.mode, one.size) if bad else one for one, bad in zip(images, found, strict=True)]
    kept = torch.tensor([not bad for bad in found]).view(-1, 1, 1, 1)
    return images * (kept.to(images) if isinstance(images, torch.Tensor) else kept.numpy())
