"""Words for T5 and UMT5: a fixed number of tokens, padded."""

from __future__ import annotations

from typing import Any

import torch

from .prompts import tell_of_cut

Tensor = torch.Tensor


def t5_tokens(tokenizer: Any, texts: list[str], length: int) -> tuple[Tensor, Tensor]:
    """Token ids and mask of `length` tokens a row; what is cut is told."""
    tokens = tokenizer(texts, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
    tell_of_cut(max(len(tokenizer(text).input_ids) for text in texts), length)
    return tokens.input_ids, tokens.attention_mask


def encode_t5(tokenizer: Any, encoder: Any, texts: list[str], length: int) -> Tensor:
    """Hidden states of `length` tokens a row, padding included and not masked, as FLUX and SD 3 were taught them."""
    ids, _ = t5_tokens(tokenizer, texts, length)
    return encoder(ids.to(encoder.device))[0].to(encoder.dtype)
