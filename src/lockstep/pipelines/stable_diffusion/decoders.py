"""Latents to pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...blocks import AutoPipelineBlocks, InputParam, ModularPipelineBlocks, needs
from ...errors import InputError
from .before_denoise import VAE, picture_processor


class Decode(ModularPipelineBlocks):
    """Through the autoencoder, and into the form that was asked for."""

    upcast_on_nonfinite = ("vae",)
    expected_components = [replace(VAE, optional=True)]
    inputs = [*needs("latents"), "output_type"]
    outputs = ["images"]

    def check(self, components: Any, inputs: Any) -> None:
        if components.vae is None and inputs.output_type != "latent":
            raise InputError(
                f"output_type={inputs.output_type!r} needs the component 'vae', which this pipeline does not have. Load "
                "it with one, or ask for output_type='latent'."
            )

    def __call__(self, components: Any, state: Any) -> None:
        if state.output_type == "latent":
            state.images = state.latents
            return
        vae = components.vae
        pixels = vae.decode(vae.denormalize_latents(state.latents.to(vae.dtype)), return_dict=False)[0]
        state.images = picture_processor(components).postprocess(pixels, output_type=state.output_type)


class PasteCrop(ModularPipelineBlocks):
    """The painted crop back into the whole picture."""

    inputs = [
        InputParam("images", list, required=True, given=False, description="The pictures."),
        InputParam.template("image", required=True),
        InputParam.template("mask_image", required=True),
        InputParam("crop_box", tuple, required=True, given=False, description="Where the crop belongs."),
        "output_type",
    ]
    outputs = ["images"]

    def check(self, components: Any, inputs: Any) -> None:
        if inputs.output_type != "pil":
            raise InputError(
                f"'padding_mask_crop' pastes PIL pictures; it wants output_type='pil', got {inputs.output_type!r}."
            )

    def __call__(self, components: Any, state: Any) -> None:
        processor = picture_processor(components)
        state.images = [
            processor.apply_overlay(state.mask_image, state.image, one, state.crop_box) for one in state.images
        ]


class AutoPasteCrop(AutoPipelineBlocks):
    """Only where the picture was cropped to the mask."""

    block_classes = [PasteCrop]
    block_names = ["paste"]
    block_trigger_inputs = ["padding_mask_crop"]
