"""Words for the video models that read UMT5: a fixed number of tokens, zeros behind the last word."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import torch

from ...blocks import BlockView, ComponentSpec, InputParam
from ...models.text_encoders.t5 import T5EncoderModel, UMT5EncoderModel
from ...tokenizers import T5Tokenizer
from .parts import DENOISER_OUTLINE, GUIDER, Components
from .prompts import ENCODED, EncodeText, check_shapes, tell_of_cut

Tensor = torch.Tensor


def read_by(encoder: type[T5EncoderModel], guidance_scale: float) -> list[ComponentSpec]:
    """What encodes (ready embeddings need none of it), and guidance as strong as a family is published with."""
    return [
        ComponentSpec("tokenizer", T5Tokenizer, optional=True),
        ComponentSpec("text_encoder", encoder, optional=True),
        replace(GUIDER, config={"guidance_scale": guidance_scale}),
        DENOISER_OUTLINE,
    ]


class EncodeVideoText(EncodeText):
    """Prompts to UMT5's hidden states, one row per video."""

    per_prompt = "num_videos_per_prompt"
    expected_components = read_by(UMT5EncoderModel, guidance_scale=5.0)
    inputs = [
        *[
            InputParam.template("num_videos_per_prompt") if param.name == "num_images_per_prompt" else param
            for param in EncodeText.inputs
        ],
        "max_sequence_length",
    ]

    def check_widths(self, components: Components, inputs: BlockView) -> None:
        check_shapes(components.denoiser, inputs, ENCODED[:2])

    def encode_for(self, components: Components, texts: list[str], state: BlockView) -> Tensor:
        length, encoder = state.max_sequence_length, components.text_encoder
        texts = [cleaned(text) for text in texts]
        tokens = components.tokenizer(
            texts, padding="max_length", max_length=length, truncation=True, return_tensors="pt"
        )
        if bool(tokens.attention_mask[:, -1].any()):
            tell_of_cut(max(len(components.tokenizer(text).input_ids) for text in texts), length)
        mask = tokens.attention_mask.to(encoder.device)
        hidden = encoder(tokens.input_ids.to(encoder.device), mask)[0].to(encoder.dtype)
        return torch.where(mask.bool()[..., None], hidden, torch.zeros_like(hidden))


def cleaned(text: str) -> str:
    """HTML entities as what they stand for (twice, as some texts were escaped so), one space between words."""
    return re.sub(r"\s+", " ", html.unescape(html.unescape(text)).strip()).strip()
