"""ZImagePipeline: the face of the blocks."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ...blocks.compose import Block
from ...blocks.face import Face
from ..common.face import PicturePipeline
from ..common.masked_text import cut
from .blocks import ZImageBlocks

Texts = str | list[str] | None


class ZImagePipeline(PicturePipeline):
    """Z-Image and Z-Image-Turbo (arXiv:2511.22699); here a `guidance_scale` of 0 is without guidance."""

    pairs_for_callbacks = False

    default_blocks: ClassVar[Block | None] = ZImageBlocks
    _callback_tensor_inputs: ClassVar[list[str]] = ["latents", "prompt_embeds"]
    face = Face(
        (
            *("prompt", "height", "width", "num_inference_steps", "sigmas", "guidance_scale", "cfg_normalization"),
            *("cfg_truncation", "negative_prompt", "num_images_per_prompt"),
        )
    )

    def encode_prompt(
        self, prompt: Texts, device: str | torch.device | None = None, do_classifier_free_guidance: bool = True,
        negative_prompt: Texts = None, prompt_embeds: list[Tensor] | None = None,
        negative_prompt_embeds: list[Tensor] | None = None, max_sequence_length: int = 512,
    ) -> tuple[list[Tensor], list[Tensor]]:  # fmt: skip
        """The embeddings of each prompt and of each negative one, as a call takes them."""
        given = {"prompt": prompt, "prompt_embeds": prompt_embeds, "max_sequence_length": max_sequence_length}
        negative = {"negative_prompt": negative_prompt, "negative_prompt_embeds": negative_prompt_embeds}
        embeds, others, mask, other_mask = self.encoded(1, do_classifier_free_guidance, None, given, negative)
        return cut(embeds, mask), [] if others is None else cut(others, other_mask)
