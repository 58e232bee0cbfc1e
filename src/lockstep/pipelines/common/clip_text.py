"""Long prompts for CLIP, whose tokenizer has room for 75 words: in pieces, each with its own begin and end mark."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...errors import InputError
from ...tokenizers import CLIPTokenizer

Tensor = torch.Tensor


def check_clip_skip(clip_skip: int | None, encoder: Any) -> None:
    layers = encoder.config.num_hidden_layers if encoder is not None else None
    if clip_skip is not None and layers is not None and not 0 <= clip_skip < layers:
        raise InputError(
            f"'clip_skip' leaves out layers at the end; the text encoder has {layers}, so it takes 0 to {layers - 1}, "
            f"got {clip_skip}."
        )


def num_pieces(tokenizer: CLIPTokenizer, texts: list[str]) -> int:
    """How many pieces of the tokenizer's length the longest text needs."""
    room = tokenizer.model_max_length - 2
    lengths = [len(tokenizer(text, add_special_tokens=False).input_ids) for text in texts]
    return max(1, math.ceil(max(lengths, default=0) / room))


def token_pieces(tokenizer: CLIPTokenizer, texts: list[str], count: int) -> list[tuple[Tensor, Tensor]]:
    """Token ids and mask of each of `count` pieces, every piece with its own begin and end mark."""
    length, room = tokenizer.model_max_length, tokenizer.model_max_length - 2
    pieces: list[tuple[list[list[int]], list[list[int]]]] = [([], []) for _ in range(count)]
    for text in texts:
        words = tokenizer(text, add_special_tokens=False).input_ids
        for index, (ids, masks) in enumerate(pieces):
            row = [tokenizer.bos_token_id, *words[index * room : (index + 1) * room], tokenizer.eos_token_id]
            padding = length - len(row)
            ids.append(row + [tokenizer.pad_token_id] * padding)
            masks.append([1] * len(row) + [0] * padding)
    return [(torch.tensor(ids), torch.tensor(masks)) for ids, masks in pieces]
