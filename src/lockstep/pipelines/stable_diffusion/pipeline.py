"""StableDiffusionPipeline: the face of the blocks."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ...blocks.compose import Block
from ...blocks.face import Face
from ..common.face import PicturePipeline
from ..corrections import NO_CLIPPING, STEPS_OFFSET
from .blocks import StableDiffusionBlocks


class StableDiffusionPipeline(PicturePipeline):
    """Latent diffusion with CLIP text conditioning, versions 1.x and 2.x (arXiv:2112.10752)."""

    default_blocks: ClassVar[Block | None] = StableDiffusionBlocks
    _optional_components: ClassVar[list[str]] = ["safety_checker", "feature_extractor", "image_encoder"]
    _callback_tensor_inputs: ClassVar[list[str]] = ["latents", "prompt_embeds", "negative_prompt_embeds"]
    corrections = (STEPS_OFFSET, NO_CLIPPING)
    face = Face(("prompt", "height", "width", "num_inference_steps", "timesteps", "sigmas", "guidance_scale"))

    def encode_prompt(
        self,
        prompt: str | list[str] | None,
        device: str | torch.device | None = None,
        num_images_per_prompt: int = 1,
        do_classifier_free_guidance: bool = True,
        negative_prompt: str | list[str] | None = None,
        prompt_embeds: Tensor | None = None,
        negative_prompt_embeds: Tensor | None = None,
        lora_scale: float | None = None,
        clip_skip: int | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Embeddings of the prompts and of the negative ones, as a call takes them."""
        given = {"prompt": prompt, "prompt_embeds": prompt_embeds, "clip_skip": clip_skip}
        negative = {"negative_prompt": negative_prompt, "negative_prompt_embeds": negative_prompt_embeds}
        return self.encoded(num_images_per_prompt, do_classifier_free_guidance, lora_scale, given, negative)
