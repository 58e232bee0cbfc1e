"""Long prompts for CLIP, whose tokenizer has room for 75 words: in pieces, each with its own begin and end mark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch

from ...blocks import InputParam
from ...errors import InputError
from ...notes import say_once
from ...tokenizers import CLIPTokenizer

Tensor = torch.Tensor
PIECES, CUT = "pieces", "cut"
LONG_PROMPTS = InputParam(
    "long_prompts",
    Literal["pieces", "cut"],
    default=PIECES,
    description="What becomes of a prompt with more than 75 words: read on in pieces, or cut as elsewhere.",
)


def check_clip_skip(clip_skip: int | None, encoder: Any) -> None:
    layers = encoder.config.num_hidden_layers if encoder is not None else None
    if clip_skip is not None and layers is not None and not 0 <= clip_skip < layers:
        raise InputError(
            f"'clip_skip' leaves out layers at the end; the text encoder has {layers}, so it takes 0 to {layers - 1}, "
            f"got {clip_skip}."
        )


def pieces_per_row(tokenizer: CLIPTokenizer, *columns: list[str], long_prompts: str = PIECES) -> list[int]:
    """How many pieces of the tokenizer's length each row needs, for its longest text (prompt, negative prompt)."""
    room = tokenizer.model_max_length - 2
    counts = []
    for row in zip(*columns, strict=True):
        words = max(len(tokenizer(text, add_special_tokens=False).input_ids) for text in row)
        if words > room and long_prompts == CUT:
            say_once(
                f"A prompt of {words} words or parts of words is cut after {room}, as long_prompts='cut' asks for."
            )
        counts.append(1 if long_prompts == CUT else max(1, math.ceil(words / room)))
    return counts


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


def side_by_side(pieces: Sequence[Tensor], counts: list[int]) -> Tensor:
    """The hidden states of the pieces one after the other, as many tokens in each row.

    A row with fewer pieces than its neighbours is said again until it is as long: attention to every token as often is
    attention to each of them once, so the row stays what it is alone.
    """
    whole, length = torch.cat(list(pieces), dim=1), pieces[0].shape[1]
    total = math.lcm(*counts)
    if whole.shape[1] == total * length and len(set(counts)) == 1:
        return whole
    return torch.stack([row[: n * length].repeat(total // n, 1) for row, n in zip(whole, counts, strict=True)])
