"""The hidden states of captions that come again and again, for words that do not learn any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ...training.precision import autocast


class KeptTexts:
    """Captions to hidden states, in bf16 in memory; `most` of them are kept."""

    def __init__(
        self, text_encoder: nn.Module, tokens: Callable[[Sequence[str]], Tensor], bfloat16: bool, most: int
    ) -> None:
        self.text_encoder, self.tokens, self.bfloat16, self.most = text_encoder, tokens, bfloat16, most
        self.kept: dict[str, Tensor] = {}

    @torch.no_grad()
    def hidden(self, captions: Sequence[str]) -> Tensor:
        found = {caption: self.kept[caption] for caption in captions if caption in self.kept}
        missing = [caption for caption in dict.fromkeys(captions) if caption not in found]
        if missing:
            with autocast(self.bfloat16):
                hidden = self.text_encoder(self.tokens(missing), return_dict=False)[0].to(torch.bfloat16)
            found |= dict(zip(missing, hidden, strict=True))
            room = max(0, self.most - len(self.kept))
            self.kept |= {caption: found[caption].clone() for caption in missing[:room]}
        return torch.stack([found[caption] for caption in captions]).float()
