"""Words to what FLUX reads: the hidden states of T5, and CLIP's pooled vector."""

from __future__ import annotations

from collections.abc import Collection

import torch

from ...blocks import BlockView, ComponentSpec
from ...models.text_encoders.clip import CLIPTextModel
from ...models.text_encoders.t5 import T5EncoderModel
from ...tokenizers import CLIPTokenizer, T5Tokenizer
from ..common.flow import TRUE_GUIDER
from ..common.parts import DENOISER_OUTLINE, Components
from ..common.prompts import EncodeTextAndPooled, without_words
from ..common.t5_text import encode_t5

Tensor = torch.Tensor


class EncodePrompt(EncodeTextAndPooled):
    """Prompts to T5's hidden states, padding included, and CLIP's pooled vector."""

    expected_components = [
        ComponentSpec("tokenizer", CLIPTokenizer, optional=True),  # ready embeddings need none of them
        ComponentSpec("text_encoder", CLIPTextModel, optional=True),
        ComponentSpec("tokenizer_2", T5Tokenizer, optional=True),
        ComponentSpec("text_encoder_2", T5EncoderModel, optional=True),
        TRUE_GUIDER,
        DENOISER_OUTLINE,
    ]

    def unneeded(self, inputs: BlockView) -> Collection[str]:
        return self.encoders if without_words(inputs) else ()

    def encode_columns(
        self, components: Components, state: BlockView, columns: list[list[str]], *, negative: bool
    ) -> tuple[Tensor, Tensor]:
        for_clip, for_t5 = columns
        clip, t5 = components.text_encoder, components.text_encoder_2
        ids = components.tokenizer(for_clip, padding="max_length", truncation=True, return_tensors="pt").input_ids
        pooled = clip(ids.to(clip.device)).pooler_output.to(clip.dtype)
        return encode_t5(components.tokenizer_2, t5, for_t5, state.max_sequence_length), pooled
