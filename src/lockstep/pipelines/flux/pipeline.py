"""FluxPipeline and FluxKontextPipeline: the faces of the blocks."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ...blocks.compose import Block
from ...blocks.face import Face
from ..common.face import PicturePipeline
from .blocks import FluxBlocks, FluxKontextBlocks

BEFORE_SIZE = ("prompt", "prompt_2", "negative_prompt", "negative_prompt_2", "true_cfg_scale")
SIZE_AND_STEPS = ("height", "width", "num_inference_steps", "sigmas", "guidance_scale", "num_images_per_prompt")
STEPS = {"num_inference_steps": 28}


class FluxPipeline(PicturePipeline):
    """FLUX.1 (Black Forest Labs), dev, schnell and Fill."""

    pairs_for_callbacks = False

    default_blocks: ClassVar[Block | None] = FluxBlocks
    _callback_tensor_inputs: ClassVar[list[str]] = ["latents", "prompt_embeds"]
    face = Face((*BEFORE_SIZE, *SIZE_AND_STEPS), defaults=STEPS)

    def encode_prompt(
        self, prompt: str | list[str] | None, prompt_2: str | list[str] | None = None,
        device: str | torch.device | None = None, num_images_per_prompt: int = 1, prompt_embeds: Tensor | None = None,
        pooled_prompt_embeds: Tensor | None = None, max_sequence_length: int = 512, lora_scale: float | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """Embeddings and pooled vectors of prompts as a call takes them, and the places of the text's tokens."""
        ready = {"prompt_embeds": prompt_embeds, "pooled_prompt_embeds": pooled_prompt_embeds}
        given = {"prompt": prompt, "prompt_2": prompt_2, "max_sequence_length": max_sequence_length, **ready}
        embeds, _, pooled, _ = self.encoded(num_images_per_prompt, False, lora_scale, given, {})
        return embeds, pooled, embeds.new_zeros(embeds.shape[1], 3)


class FluxKontextPipeline(FluxPipeline):
    """FLUX.1 Kontext (arXiv:2506.15742): edits a picture as words say."""

    default_blocks = FluxKontextBlocks
    face = Face(("image", *BEFORE_SIZE, *SIZE_AND_STEPS), defaults=STEPS)
