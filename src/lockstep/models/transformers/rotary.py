"""Rotary position embeddings (RoFormer, arXiv:2104.09864) over several axes: time or index, row, column.

Axes: L tokens, K width of a head. A table is a pair of cosines and sines, LK each, in fp32.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...attention.kernels import OWN, OWN_BF16
from ...errors import ConfigError
from ...kernels import found, operators

Tensor = torch.Tensor
Table = tuple[Tensor, Tensor]


def rotary_table(
    positions: Tensor, widths: Sequence[int], theta: float = 10_000.0, *, single: bool = False, coarse: bool = False
) -> Table:
    """Cosines and sines for positions (tokens, axes); axis i turns `widths[i]` of a head's numbers, pair by pair.

    With `single` the angles are rounded to fp32 first, with `coarse` they are computed in it, as models were taught.
    """
    exact = torch.float32 if coarse or positions.device.type == "mps" else torch.float64
    angles = []
    for axis, width in enumerate(widths):
        frequencies = 1.0 / theta ** (torch.arange(0, width, 2, dtype=exact, device=positions.device) / width)
        angles.append(torch.outer(positions[:, axis].to(exact), frequencies))
    pairs = torch.cat(angles, dim=1).repeat_interleave(2, dim=1)
    pairs = pairs.float() if single else pairs
    return pairs.cos().float(), pairs.sin().float()


def rotate(x_BLHK: Tensor, table: Table, backend: str | None = None) -> Tensor:
    """Turn each pair of neighbouring numbers (2i, 2i + 1) by its angle, in fp32; a table may differ by sample (BLK).

    Where the backend of the attention is our own, so is what turns.
    """
    if backend in (OWN, OWN_BF16) and operators.takes(x_BLHK, *table) and not x_BLHK.shape[-1] % found().lanes:
        return operators.turn(x_BLHK, *table)
    cos, sin = (part.unsqueeze(-2).to(x_BLHK.device) for part in table)
    even, odd = x_BLHK.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([-odd, even], dim=-1).flatten(3)
    return (x_BLHK.float() * cos + turned.float() * sin).to(x_BLHK.dtype)


def check_axes(owner: str, widths: Sequence[int], head_width: int) -> None:
    """Refuse axes that do not share a head's numbers among them in pairs."""
    if sum(widths) != head_width or any(width % 2 for width in widths):
        raise ConfigError(
            f"{owner}: axes_dims_rope has to be even numbers that sum to attention_head_dim, {head_width}, "
            f"got {list(widths)}."
        )
