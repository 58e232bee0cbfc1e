"""Prompts with weights to embeddings: what a weight does to hidden states, by the rules of docs/prompt-weights.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from ...blocks import BlockView, InputParam
from ...errors import InputError
from ...tokenizers import CLIPTokenizer
from .clip_text import CUT, pieces_per_row
from .prompt_weights import Fragment, Reading, Text, note_weights, read_prompt

Tensor = torch.Tensor
Encode = Callable[[Tensor, Tensor], Tensor]  # (ids, mask: 1 where a token is seen) -> hidden states, all (1, tokens …)
SMALLEST = 1e-5  # a weight of 0 is this much, so that its tangent is finite
PROMPT_WEIGHTING = InputParam(
    "prompt_weighting",
    Literal["a1111", "compel"] | None,
    default=None,
    description="Read weights in prompts: (red:1.5) as a1111 writes them, or red++ as compel does. Off by default.",
)


@dataclass(frozen=True)
class Piece:
    """As many tokens as the encoder has room for, with the weight and the fragment of each."""

    ids: list[int]
    weights: list[float]
    owners: list[int]


def check_weighting(inputs: BlockView, *texts: str) -> None:
    """Weights are read from words; words that look weighted, where nobody asked, are told once."""
    given = [inputs[name] for name in texts if inputs[name] is not None]
    if inputs.prompt_weighting is None:
        note_weights(given)
        return
    if not given:
        raise InputError(
            "'prompt_weighting' reads weights from words, and only ready embeddings were given. Leave it out, or give "
            "the prompt."
        )
    for value in given:
        for text in [value] if isinstance(value, str) else value:
            read_prompt(text, inputs.prompt_weighting)


def cut_pieces(tokenizer: CLIPTokenizer, text: Text, long_prompts: str) -> list[Piece]:
    """The tokens of a text, cut as long prompts are; a group begins a piece of its own."""
    room, pieces, owner = tokenizer.model_max_length - 2, [], 0
    for group in text:
        tokens: list[tuple[int, float, int]] = []
        for fragment in group:
            ids = tokenizer(fragment.text, add_special_tokens=False).input_ids if fragment.text.strip() else []
            tokens += [(index, fragment.weight, owner) for index in ids]
            owner += 1
        for start in range(0, max(len(tokens), 1), room):
            pieces.append(_piece(tokenizer, tokens[start : start + room]))
    return pieces[:1] if long_prompts == CUT else pieces


def _piece(tokenizer: CLIPTokenizer, tokens: Sequence[tuple[int, float, int]]) -> Piece:
    padding = tokenizer.model_max_length - len(tokens) - 2
    ids = [tokenizer.bos_token_id, *(token[0] for token in tokens), tokenizer.eos_token_id]
    return Piece(
        ids + [tokenizer.pad_token_id] * padding,
        [1.0, *(token[1] for token in tokens), *[1.0] * (padding + 1)],
        [-1, *(token[2] for token in tokens), *[-1] * (padding + 1)],
    )


def count_pieces(tokenizer: CLIPTokenizer, reading: Reading, long_prompts: str) -> int:
    """How many pieces a prompt needs: side by side they add up, mixed they overlap."""
    counts = [len(cut_pieces(tokenizer, text, long_prompts)) for text in reading.texts]
    return sum(counts) if reading.how == "and" else max(counts)


def pieces_of_rows(
    tokenizer: CLIPTokenizer, columns: Sequence[list[str]], form: str | None, long_prompts: str
) -> list[int]:
    """How many pieces each row needs, for the longest of its texts (prompt, negative prompt)."""
    if form is None:
        return pieces_per_row(tokenizer, *columns, long_prompts=long_prompts)
    read = [[count_pieces(tokenizer, read_prompt(text, form), long_prompts) for text in one] for one in columns]
    return [max(row) for row in zip(*read, strict=True)]


def weighted_row(
    tokenizer: CLIPTokenizer, encode: Encode, reading: Reading, form: str, count: int, long_prompts: str
) -> Tensor:
    """The hidden states of one prompt, (1, count · tokens, width)."""
    texts = [cut_pieces(tokenizer, text, long_prompts) for text in reading.texts]
    empty = _piece(tokenizer, [])
    if reading.how != "and":
        texts = [pieces + [empty] * (count - len(pieces)) for pieces in texts]
    encoded = [
        weight * torch.cat(RULES[form](tokenizer, encode, text, pieces), dim=1)
        for text, pieces, weight in zip(reading.texts, texts, reading.weights, strict=True)
    ]
    if reading.how == "blend":
        return torch.stack(encoded).sum(0)
    missing = count - sum(len(pieces) for pieces in texts)
    rest = [encode(*_rows(empty))] * missing
    return torch.cat([*encoded, *rest], dim=1)


def _rows(piece: Piece, hidden: int | None = None) -> tuple[Tensor, Tensor]:
    """Ids and mask of a piece; the tokens of a fragment can be hidden from all others."""
    mask = [0 if owner == hidden and owner >= 0 else 1 for owner in piece.owners]
    return torch.tensor([piece.ids]), torch.tensor([mask])


def _fragments(text: Text) -> list[Fragment]:
    return [fragment for group in text for fragment in group]


def a1111_states(tokenizer: CLIPTokenizer, encode: Encode, text: Text, pieces: list[Piece]) -> list[Tensor]:
    """Every token's state times its weight, and the piece scaled back to the mean that it had."""
    states = []
    for piece in pieces:
        plain = encode(*_rows(piece))
        if any(weight != 1 for weight in piece.weights):
            weighted = plain.float() * torch.tensor(piece.weights, device=plain.device)[None, :, None]
            plain = (weighted * (plain.float().mean() / weighted.mean())).to(plain.dtype)
        states.append(plain)
    return states


def compel_states(tokenizer: CLIPTokenizer, encode: Encode, text: Text, pieces: list[Piece]) -> list[Tensor]:
    """Away from the empty prompt by each token's weight; below 1 also towards the prompt without the fragment."""
    lowered = {k: one.weight for k, one in enumerate(_fragments(text)) if one.weight < 1 and one.text.strip()}
    if all(weight == 1 for piece in pieces for weight in piece.weights):
        return [encode(*_rows(piece)) for piece in pieces]
    empty = encode(*_rows(_piece(tokenizer, []))).float()
    states = []
    for piece in pieces:
        factors = torch.tensor(piece.weights, device=empty.device)[None, :, None]

        def away(hidden: int | None, piece: Piece = piece, factors: Tensor = factors) -> Tensor:
            return empty + (encode(*_rows(piece, hidden)).float() - empty) * factors

        base = away(None)
        total, share = base, 1.0
        for owner, weight in lowered.items():
            pull = math.tan((1 - max(weight, SMALLEST)) * math.pi / 2)
            total = total + pull * (away(owner) if owner in piece.owners else base)
            share += pull
        states.append(total / share)
    return states


RULES = {"a1111": a1111_states, "compel": compel_states}


def as_long(rows: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
    """Rows of different lengths as one tensor: each is said again until all are as long (see `side_by_side`)."""
    total = math.lcm(*counts)
    return torch.cat([row.repeat(1, total // count, 1) for row, count in zip(rows, counts, strict=True)])
