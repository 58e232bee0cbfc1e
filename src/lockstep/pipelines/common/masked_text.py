"""Texts with as many tokens as each has: rows of embeddings, zeros behind the short ones, and which tokens count."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from ...blocks import BlockView, InputParam
from ...errors import InputError, UnsupportedError
from .parts import DENOISER_OUTLINE, GUIDER, Components
from .prompts import ENCODED, MASKS, EncodeText, as_lists, check_mask, check_shapes, per_picture

Tensor = torch.Tensor
EMBEDS = ENCODED[:2]
ROWS = Tensor | list[Tensor]


class EncodeMaskedText(EncodeText):
    """Prompt and negative prompt to embeddings and masks; ready ones may also be a list, a tensor for each prompt."""

    expected_components = [GUIDER, DENOISER_OUTLINE]
    inputs = [
        *(param for param in EncodeText.inputs if param.name not in EMBEDS),
        *[InputParam.template(name, required=False, given=True, type_hint=ROWS) for name in EMBEDS],
        *[InputParam.template(name, given=True) for name in MASKS],
        "max_sequence_length",
    ]
    outputs = [*EMBEDS, *MASKS]

    def check_widths(self, components: Components, inputs: BlockView) -> None:
        check_shapes(components.denoiser, inputs, EMBEDS)

    def check_ready(self, inputs: BlockView) -> None:
        rows = [inputs[name] for name in EMBEDS]
        if all(row is not None for row in rows) and len(rows[0]) != len(rows[1]):
            raise InputError(f"'negative_prompt_embeds' needs a row for each of {len(rows[0])}, got {len(rows[1])}.")
        for name, mask in zip(EMBEDS, MASKS, strict=True):
            embeds, counted = inputs[name], inputs[mask]
            if counted is not None and getattr(embeds, "shape", ())[:2] != counted.shape:
                raise InputError(f"{mask!r} has to say of each token of {name!r} whether it counts.")
            if counted is not None:
                check_mask(mask, counted, name)
            if counted is None and isinstance(embeds, Tensor) and bool((embeds[:, -1] == 0).all(-1).any()):
                raise InputError(
                    f"{name!r} ends in zeros, as short texts do beside longer ones; {mask!r} says which tokens count. "
                    "Give it too, or the texts as a list of tensors without them."
                )

    def __call__(self, components: Components, state: BlockView) -> None:
        texts = as_lists(state.prompt, state.negative_prompt, state.prompt_embeds)
        wanted = (True, components.guider.needs_unconditional)
        rows: list[list[Tensor]] = []
        for words, name, mask, is_wanted in zip(texts, EMBEDS, MASKS, wanted, strict=True):
            ready, counted = state[name], state[mask]
            if not is_wanted:
                rows.append([])
            elif ready is None:
                rows.append(self.encode_rows(components, words, state))
            else:
                rows.append(list(ready) if counted is None else cut(ready, counted))
        longest = max(len(row) for part in rows for row in part)
        for part, name, mask in zip(rows, EMBEDS, MASKS, strict=True):
            embeds, counted = padded(part, longest) if part else (None, None)
            state[name] = None if embeds is None else per_picture(embeds, state[self.per_prompt])
            state[mask] = None if counted is None else per_picture(counted, state[self.per_prompt])

    def encode_rows(self, components: Components, texts: list[str], state: BlockView) -> list[Tensor]:
        """The embeddings of a list of texts, tokens and width each."""
        raise UnsupportedError(f"{type(self).__name__} does not define encode_rows(self, components, texts, state).")


def cut(embeds: Tensor, mask: Tensor) -> list[Tensor]:
    """The tokens of each row that count."""
    return [row[counted.bool()] for row, counted in zip(embeds, mask, strict=True)]


def padded(rows: Sequence[Tensor], length: int) -> tuple[Tensor, Tensor]:
    """Rows as one tensor with zeros behind the short ones, and which tokens count."""
    counted = [torch.ones(len(row), dtype=torch.bool, device=row.device) for row in rows]
    like = rows[0].new_empty(length, *rows[0].shape[1:])  # so long that every row is filled up
    embeds = pad_sequence([*rows, like], batch_first=True)[:-1]
    return embeds, pad_sequence([*counted, counted[0].new_empty(length)], batch_first=True)[:-1]
