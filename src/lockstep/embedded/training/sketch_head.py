"""The linear map from hidden states behind the words to the latents of a picture."""

from __future__ import annotations

from torch import Tensor, nn

from .latents import SHAPE


class SketchHead(nn.Module):
    """Hidden states of the last `fields` x `fields` places to latents, a square of them from each."""

    def __init__(self, width: int, fields: int, shape: tuple[int, int, int] = SHAPE) -> None:
        super().__init__()
        self.fields, self.channels, self.side = fields, shape[0], shape[1] // fields
        self.out = nn.Linear(width, self.channels * self.side**2)

    def forward(self, hidden_BLC: Tensor) -> Tensor:
        squares = self.out(hidden_BLC[:, -(self.fields**2) :])
        squares = squares.unflatten(-1, (self.channels, self.side, self.side))
        rows = squares.unflatten(1, (self.fields, self.fields)).permute(0, 3, 1, 4, 2, 5)
        return rows.flatten(4, 5).flatten(2, 3)
