"""What a UNet is measured by: what the text encoder of its own pipeline says of some words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from ..models.examples import TextCall, text_call

WORDS = "a red heart"
READ_BY = "UNet2DConditionModel"  # the class whose text is known; its attention to noise can be chaotic


def text_call_of(model: nn.Module, held: Callable[[str], Any]) -> TextCall | None:
    """A call of a UNet with such a text; `held` gives components by name. None where there is no text for it.

    An encoder that was not loaded yet is loaded now: what is measured shall not depend on who comes first.
    """
    if type(model).__name__ != READ_BY:
        return None
    tokenizer, encoder = held("tokenizer"), held("text_encoder")
    if tokenizer is None or not isinstance(encoder, nn.Module):
        return None
    words = tokenizer([WORDS], padding="max_length", truncation=True, return_tensors="pt")["input_ids"]
    return text_call(model, encoder, words)
