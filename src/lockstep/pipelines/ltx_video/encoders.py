"""Words to what LTX-Video reads: T5's hidden states, a fixed number of them, and which of them count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ...blocks import BlockView, InputParam
from ...errors import InputError
from ...models.text_encoders.t5 import T5EncoderModel
from ..common.parts import Components
from ..common.prompts import ENCODED, MASKS, as_lists, check_mask, per_picture
from ..common.t5_text import t5_tokens
from ..common.umt5_text import EncodeVideoText, read_by

Tensor = torch.Tensor
EMBEDS = ENCODED[:2]
LENGTH = InputParam.template("max_sequence_length", default=128)


class EncodePrompt(EncodeVideoText):
    """Prompts to T5's hidden states, padding included, and to masks by which the denoiser leaves that out."""

    expected_components = read_by(T5EncoderModel, guidance_scale=3.0)
    inputs = [
        *(param for param in EncodeVideoText.inputs if param.name != LENGTH.name),
        *[InputParam.template(name, given=True) for name in MASKS],
        LENGTH,
    ]
    outputs = [*EMBEDS, *MASKS]

    def check_ready(self, inputs: BlockView) -> None:
        super().check_ready(inputs)
        for name, mask in zip(EMBEDS, MASKS, strict=True):
            embeds, counted, shown = inputs[name], inputs[mask], mask.replace("embeds_mask", "attention_mask")
            if embeds is not None and (counted is None or counted.shape != embeds.shape[:2]):
                got = None if counted is None else list(counted.shape)
                raise InputError(
                    f"Ready {name!r} need a mask that says of each of {list(embeds.shape[:2])} tokens whether it "
                    f"counts ({shown!r}), got {got}."
                )
            if embeds is not None:
                check_mask(shown, counted, name)

    def __call__(self, components: Components, state: BlockView) -> None:
        texts = as_lists(state.prompt, state.negative_prompt, state.prompt_embeds)
        wanted = (True, components.guider.needs_unconditional)
        for words, name, mask, is_wanted in zip(texts, EMBEDS, MASKS, wanted, strict=True):
            if not is_wanted:
                state[name] = state[mask] = None
                continue
            encoded = (state[name], state[mask]) if state[name] is not None else self.encoded(components, words, state)
            state[name], state[mask] = (per_picture(part, state[self.per_prompt]) for part in encoded)

    def encoded(self, components: Components, texts: list[str], state: BlockView) -> tuple[Tensor, Tensor]:
        """Hidden states of all tokens, and which of them are words."""
        encoder = components.text_encoder
        ids, mask = t5_tokens(components.tokenizer, texts, state.max_sequence_length)
        counted = mask.bool().to(encoder.device)
        return self.read(encoder, ids.to(encoder.device), counted).to(encoder.dtype), counted

    def read(self, encoder: Any, ids: Tensor, counted: Tensor) -> Tensor:
        """What the encoder makes of all tokens, those that fill up included."""
        hidden: Tensor = encoder(ids)[0]
        return hidden


class EncodeCountedPrompt(EncodePrompt):
    """The same by an encoder that is told which tokens count, with more room for them."""

    inputs = [*(param for param in EncodePrompt.inputs if param.name != LENGTH.name), replace(LENGTH, default=256)]

    def read(self, encoder: Any, ids: Tensor, counted: Tensor) -> Tensor:
        hidden: Tensor = encoder(ids, attention_mask=counted)[0]
        return hidden
