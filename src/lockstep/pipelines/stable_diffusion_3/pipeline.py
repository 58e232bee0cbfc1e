"""StableDiffusion3Pipeline: the face of the blocks."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ...blocks.face import Face
from ..common.face import PicturePipeline
from .blocks import StableDiffusion3Blocks

Texts = str | list[str] | None


class StableDiffusion3Pipeline(PicturePipeline):
    """Stable Diffusion 3 and 3.5 (arXiv:2403.03206)."""

    default_blocks = StableDiffusion3Blocks
    _callback_tensor_inputs: ClassVar[list[str]] = ["latents", "prompt_embeds", "pooled_prompt_embeds"]
    face = Face(
        ("prompt", "prompt_2", "prompt_3", "height", "width", "num_inference_steps", "sigmas", "guidance_scale"),
        defaults={"num_inference_steps": 28},
    )

    def encode_prompt(
        self, prompt: Texts, prompt_2: Texts, prompt_3: Texts, device: str | torch.device | None = None,
        num_images_per_prompt: int = 1, do_classifier_free_guidance: bool = True, negative_prompt: Texts = None,
        negative_prompt_2: Texts = None, negative_prompt_3: Texts = None, prompt_embeds: Tensor | None = None,
        negative_prompt_embeds: Tensor | None = None, pooled_prompt_embeds: Tensor | None = None,
        negative_pooled_prompt_embeds: Tensor | None = None, clip_skip: int | None = None,
        max_sequence_length: int = 256, lora_scale: float | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:  # fmt: skip
        """Embeddings of the prompts and of the negative ones, and the pooled vectors of both, as a call takes them."""
        given = {
            "prompt": prompt,
            "prompt_2": prompt_2,
            "prompt_3": prompt_3,
            "prompt_embeds": prompt_embeds,
            "pooled_prompt_embeds": pooled_prompt_embeds,
            "clip_skip": clip_skip,
            "max_sequence_length": max_sequence_length,
        }
        negative = {
            "negative_prompt": negative_prompt,
            "negative_prompt_2": negative_prompt_2,
            "negative_prompt_3": negative_prompt_3,
            "negative_prompt_embeds": negative_prompt_embeds,
            "negative_pooled_prompt_embeds": negative_pooled_prompt_embeds,
        }
        return self.encoded(num_images_per_prompt, do_classifier_free_guidance, lora_scale, given, negative)
