"""Words to what Z-Image reads: a chat's hidden states, as many as the prompt has tokens."""

from __future__ import annotations

from dataclasses import replace

import torch

from ...blocks import BlockView, ComponentSpec
from ...errors import InputError
from ...models.text_encoders.qwen3 import Qwen3Model
from ...tokenizers import Qwen2Tokenizer
from ...tokenizers.qwen2 import chat_text
from ..common.masked_text import EncodeMaskedText
from ..common.parts import DENOISER_OUTLINE, GUIDER, Components
from ..common.prompts import tell_of_cut

Tensor = torch.Tensor


class EncodePrompt(EncodeMaskedText):
    """Prompts to the hidden states of Qwen3 before its last layer, of what a person says in a chat.

    Each text goes through the encoder by itself, without padding: it sees only what stands before, so that nothing
    behind it or beside it could change it.
    """

    expected_components = [
        ComponentSpec("tokenizer", Qwen2Tokenizer, optional=True),
        ComponentSpec("text_encoder", Qwen3Model, optional=True),  # ready embeddings need neither
        replace(GUIDER, config={"guidance_scale": 5.0, "use_original_formulation": True}),
        DENOISER_OUTLINE,
    ]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        places = components.denoiser.config.axes_lens[0] - 2  # the picture has one, after those of the text
        most = places // 32 * 32
        if inputs.max_sequence_length > most:
            got = inputs.max_sequence_length
            raise InputError(f"'max_sequence_length' is at most {most} for this denoiser, got {got}.")

    def encode_rows(self, components: Components, texts: list[str], state: BlockView) -> list[Tensor]:
        encoder, length = components.text_encoder, state.max_sequence_length
        rows = []
        for text in texts:
            ids = components.tokenizer(chat_text(text)).input_ids
            tell_of_cut(len(ids), length)
            given = torch.tensor([ids[:length]], device=encoder.device)
            rows.append(encoder(given, output_hidden_states=True).hidden_states[-2][0].to(encoder.dtype))
        return rows
