"""Words to what Qwen-Image reads: the hidden states of Qwen2.5-VL, which is asked to describe a picture."""

from __future__ import annotations

from collections.abc import Collection

import torch

from ...blocks import BlockView, ComponentSpec
from ...errors import InputError
from ...models.text_encoders.qwen2_5_vl import Qwen2_5_VLForConditionalGeneration
from ...tokenizers import Qwen2Tokenizer
from ..common.flow import TRUE_GUIDER
from ..common.masked_text import EncodeMaskedText
from ..common.parts import DENOISER_OUTLINE, Components
from ..common.prompts import tell_of_cut, without_words

Tensor = torch.Tensor
MOST_TOKENS = 1024
TASK = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial "
    "relationships of the objects and background:<|im_end|>\n<|im_start|>user\n"
)
ANSWER = "<|im_end|>\n<|im_start|>assistant\n"
TASK_TOKENS = 34  # of the task, which the denoiser does not read


class EncodePrompt(EncodeMaskedText):
    """Prompts to the last hidden states of Qwen2.5-VL, without those of the task that comes before them; each text
    is read by itself, since it sees only what stands before it."""

    expected_components = [
        ComponentSpec("tokenizer", Qwen2Tokenizer, optional=True),
        ComponentSpec("text_encoder", Qwen2_5_VLForConditionalGeneration, optional=True),  # ready embeddings need none
        TRUE_GUIDER,
        DENOISER_OUTLINE,
    ]

    def unneeded(self, inputs: BlockView) -> Collection[str]:
        return self.encoders if without_words(inputs) else ()

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        if inputs.max_sequence_length > MOST_TOKENS:
            raise InputError(f"'max_sequence_length' is at most {MOST_TOKENS}, got {inputs.max_sequence_length}.")

    def encode_rows(self, components: Components, texts: list[str], state: BlockView) -> list[Tensor]:
        encoder, rows = components.text_encoder, []
        for text in texts:
            ids = components.tokenizer(TASK + text + ANSWER).input_ids
            tell_of_cut(len(ids) - TASK_TOKENS, state.max_sequence_length)
            given = torch.tensor([ids[: TASK_TOKENS + state.max_sequence_length]], device=encoder.device)
            rows.append(encoder(given).last_hidden_state[0, TASK_TOKENS:].to(encoder.dtype))
        return rows
