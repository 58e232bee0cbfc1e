"""StableDiffusionXLPipeline: the face of the blocks."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ...blocks.face import Face
from ..common.face import PicturePipeline
from .blocks import StableDiffusionXLBlocks


class StableDiffusionXLPipeline(PicturePipeline):
    """Stable Diffusion XL, base and refiner (arXiv:2307.01952)."""

    default_blocks = StableDiffusionXLBlocks
    _optional_components: ClassVar[list[str]] = [
        "tokenizer",
        "tokenizer_2",
        "text_encoder",
        "text_encoder_2",
        "image_encoder",
        "feature_extractor",
    ]
    _callback_tensor_inputs: ClassVar[list[str]] = ["latents", "prompt_embeds", "add_text_embeds", "add_time_ids"]
    face = Face(
        ("prompt", "prompt_2", "height", "width", "num_inference_steps", "timesteps", "sigmas", "denoising_end")
    )

    def encode_prompt(
        self,
        prompt: str | list[str] | None,
        prompt_2: str | list[str] | None = None,
        device: str | torch.device | None = None,
        num_images_per_prompt: int = 1,
        do_classifier_free_guidance: bool = True,
        negative_prompt: str | list[str] | None = None,
        negative_prompt_2: str | list[str] | None = None,
        prompt_embeds: Tensor | None = None,
        negative_prompt_embeds: Tensor | None = None,
        pooled_prompt_embeds: Tensor | None = None,
        negative_pooled_prompt_embeds: Tensor | None = None,
        lora_scale: float | None = None,
        clip_skip: int | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
        """Embeddings of the prompts and of the negative ones, and the pooled vectors of both, as a call takes them."""
        ready = {"prompt_embeds": prompt_embeds, "pooled_prompt_embeds": pooled_prompt_embeds}
        given = {"prompt": prompt, "prompt_2": prompt_2, "clip_skip": clip_skip, **ready}
        negative = {
            "negative_prompt": negative_prompt,
            "negative_prompt_2": negative_prompt_2,
            "negative_prompt_embeds": negative_prompt_embeds,
            "negative_pooled_prompt_embeds": negative_pooled_prompt_embeds,
        }
        return self.encoded(num_images_per_prompt, do_classifier_free_guidance, lora_scale, given, negative)
