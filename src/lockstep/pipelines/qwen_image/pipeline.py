"""QwenImagePipeline and those that edit: the faces of the blocks."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ...blocks.compose import Block
from ...blocks.face import Face
from ...blocks.vocabulary import Pictures
from ..common.face import PicturePipeline
from .blocks import QwenImageBlocks, QwenImageEditBlocks, QwenImageEditPlusBlocks

BEFORE_SIZE = ("prompt", "negative_prompt", "true_cfg_scale")
SIZE_AND_STEPS = ("height", "width", "num_inference_steps", "sigmas", "guidance_scale", "num_images_per_prompt")


class QwenImagePipeline(PicturePipeline):
    """Qwen-Image (arXiv:2508.02324); a `negative_prompt`, even an empty one, switches guidance on."""

    pairs_for_callbacks = False

    default_blocks: ClassVar[Block | None] = QwenImageBlocks
    _callback_tensor_inputs: ClassVar[list[str]] = ["latents", "prompt_embeds"]
    face = Face((*BEFORE_SIZE, *SIZE_AND_STEPS))

    def encode_prompt(
        self, prompt: str | list[str] | None, device: str | torch.device | None = None, num_images_per_prompt: int = 1,
        prompt_embeds: Tensor | None = None, prompt_embeds_mask: Tensor | None = None, max_sequence_length: int = 1024,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """The embeddings of prompts as a call takes them, and which of their tokens count, where not all do."""
        ready = {"prompt_embeds": prompt_embeds, "prompt_embeds_mask": prompt_embeds_mask}
        given = {"prompt": prompt, "max_sequence_length": max_sequence_length, **ready}
        embeds, _, mask, _ = self.encoded(num_images_per_prompt, False, None, given, {})
        return embeds, None if bool(mask.all()) else mask


class QwenImageEditPipeline(QwenImagePipeline):
    """Qwen-Image-Edit: changes a picture as words say."""

    default_blocks = QwenImageEditBlocks
    face = Face(("image", *BEFORE_SIZE, *SIZE_AND_STEPS))

    def encode_prompt(  # type: ignore[override]
        self, prompt: str | list[str] | None, image: Pictures | None = None, device: str | torch.device | None = None,
        num_images_per_prompt: int = 1, prompt_embeds: Tensor | None = None, prompt_embeds_mask: Tensor | None = None,
        max_sequence_length: int = 1024, max_area: int = 1024**2,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """The same for prompts beside a picture, which is brought to the size at which a call reads it."""
        ready = {"prompt_embeds": prompt_embeds, "prompt_embeds_mask": prompt_embeds_mask}
        given = {"prompt": prompt, "image": image, "max_area": max_area, **ready}
        given["max_sequence_length"] = max_sequence_length
        embeds, _, mask, _ = self.encoded(num_images_per_prompt, False, None, given, {}, before=("picture",))
        return embeds, None if bool(mask.all()) else mask


class QwenImageEditPlusPipeline(QwenImageEditPipeline):
    """Qwen-Image-Edit-2509 and 2511: changes one picture or several as words say."""

    default_blocks = QwenImageEditPlusBlocks
