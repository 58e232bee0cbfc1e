"""Words to what the denoiser reads: hidden states of two CLIPs beside each other, those of T5 behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import pad

from ...blocks import BlockView, ComponentSpec, InputParam
from ...errors import InputError
from ...models.text_encoders.clip import CLIPTextModelWithProjection
from ...models.text_encoders.t5 import T5EncoderModel
from ...tokenizers import CLIPTokenizer, T5Tokenizer
from ..common.clip_text import check_clip_skip
from ..common.parts import DENOISER_OUTLINE, GUIDER, Components
from ..common.prompts import EncodeTextAndPooled
from ..common.t5_text import encode_t5

Tensor = torch.Tensor
CLIPS = (("tokenizer", "text_encoder"), ("tokenizer_2", "text_encoder_2"))
CLIP_TOKENS = 77


class EncodePrompt(EncodeTextAndPooled):
    """Prompts to the penultimate hidden states of both CLIPs and T5's, and the pooled vectors of the CLIPs.

    An encoder that is left away gives zeros, as the denoiser was taught to do without each of them.
    """

    further = ("_2", "_3")
    expected_components = [
        *[ComponentSpec(name, CLIPTokenizer, optional=True) for name, _ in CLIPS],
        *[ComponentSpec(name, CLIPTextModelWithProjection, optional=True) for _, name in CLIPS],
        ComponentSpec("tokenizer_3", T5Tokenizer, optional=True),
        ComponentSpec("text_encoder_3", T5EncoderModel, optional=True),
        replace(GUIDER, config={"guidance_scale": 7.0}),
        DENOISER_OUTLINE,
    ]
    inputs = [
        *(param for param in EncodeTextAndPooled.inputs if param.name != "max_sequence_length"),
        InputParam.template("max_sequence_length", default=256),
        *["prompt_3", "negative_prompt_3", "clip_skip"],
    ]

    @property
    def required_encoders(self) -> Sequence[str]:
        return ()

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        words = [name for name in ("prompt", "negative_prompt") if inputs[name] is not None]
        found = [encoder for encoder in self.encoders if "text_encoder" in encoder and getattr(components, encoder)]
        if words and not found:
            raise InputError(
                f"{words[0]!r} needs a text encoder, and this pipeline has none. Load it with one of them."
            )
        for name in found:
            check_tokenizer(components, name)
        if found and found[0] != "text_encoder_3":
            check_clip_skip(inputs.clip_skip, getattr(components, found[0]))

    def encode_columns(
        self, components: Components, state: BlockView, columns: list[list[str]], *, negative: bool
    ) -> tuple[Tensor, Tensor]:
        layer = -2 if negative or state.clip_skip is None else -(state.clip_skip + 2)
        config, encoder_3 = components.denoiser.config, components.text_encoder_3
        clips = [self.clip(components, index, texts, layer) for index, texts in enumerate(columns[:2])]
        like = next((part for pair in clips if pair is not None for part in pair), None)
        if encoder_3 is not None:
            long = encode_t5(components.tokenizer_3, encoder_3, columns[2], state.max_sequence_length)
        else:
            shape = (len(columns[0]), state.max_sequence_length, config.joint_attention_dim)
            long = torch.zeros(shape, device=components.device, dtype=like.dtype)  # type: ignore[union-attr]
        known = sum(pair[1].shape[-1] for pair in clips if pair is not None)
        missing = (config.pooled_projection_dim - known) // max(sum(pair is None for pair in clips), 1)
        rows = len(columns[0])
        pairs = [
            (long.new_zeros(rows, CLIP_TOKENS, missing), long.new_zeros(rows, missing)) if pair is None else pair
            for pair in clips
        ]
        short = torch.cat([hidden for hidden, _ in pairs], dim=-1)
        short = pad(short, (0, long.shape[-1] - short.shape[-1]))
        return torch.cat([short, long], dim=1), torch.cat([pooled for _, pooled in pairs], dim=-1)

    @staticmethod
    def clip(components: Components, index: int, texts: list[str], layer: int) -> tuple[Tensor, Tensor] | None:
        """Hidden states and pooled vectors of one CLIP, where the pipeline has it."""
        tokenizer, encoder = (getattr(components, name) for name in CLIPS[index])
        if encoder is None:
            return None
        ids = tokenizer(texts, padding="max_length", max_length=CLIP_TOKENS, truncation=True, return_tensors="pt")
        output = encoder(ids.input_ids.to(encoder.device), output_hidden_states=True)
        return output.hidden_states[layer].to(encoder.dtype), output.text_embeds


def check_tokenizer(components: Any, encoder: str) -> None:
    """An encoder needs its tokenizer."""
    name = encoder.replace("text_encoder", "tokenizer")
    if getattr(components, name) is None:
        raise InputError(f"The component {encoder!r} needs {name!r}, which this pipeline does not have.")
