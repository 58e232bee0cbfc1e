"""The ways in which the rows of one batch are the rows of other batches."""

from __future__ import annotations

import numpy as np

from ..trace.container import Array

ROW_WORDS = {"in order": "", "calls reversed": ", in the other order", "copies": ", copied as a whole",
          "each twice": ", each row copied", "repeated": ", copied as a whole in the reference",
          "each repeated": ", each row copied in the reference"}  # fmt: skip


def batch_kinds(rows_a: int, rows_b: int) -> list[str]:
    """The ways in which rows_b rows may be rows_a rows."""
    if rows_a == rows_b:
        return ["in order", "calls reversed"]
    if rows_a and rows_b % rows_a == 0:
        return ["copies", "each twice"]
    if rows_b and rows_a % rows_b == 0:
        return ["repeated", "each repeated"]
    return []


def as_rows(kind: str, parts: list[Array], rows: int) -> Array:
    """The rows of several calls as so many rows."""
    if kind == "calls reversed":
        if len(parts) == 1:  # one call holds what the other side did call by call
            half = parts[0].shape[0] // 2
            return np.concatenate([parts[0][half:], parts[0][:half]])
        return np.concatenate(parts[::-1])
    values = np.concatenate(parts)
    if kind == "copies":
        return values[:rows]
    if kind == "each twice":
        return values[:: values.shape[0] // rows]
    if kind == "repeated":
        return np.concatenate([values] * (rows // values.shape[0]))
    if kind == "each repeated":
        return np.repeat(values, rows // values.shape[0], axis=0)
    return values


def are_some_rows(mine: list[Array], theirs: list[Array], near: float) -> bool:
    """True if a batch is a part of a larger one: one prompt where the reference has two. What is not computed at all is
    seen where it would be used."""
    large, small = (np.concatenate([np.asarray(part, np.float64) for part in parts]) for parts in (mine, theirs))
    if large.shape[1:] != small.shape[1:]:
        return False
    blocks = [large[begin : begin + len(small)] for begin in range(0, len(large), len(small))]
    limit = near * max(float(np.linalg.norm(small)), 1e-30)
    return any(block.shape == small.shape and float(np.linalg.norm(block - small)) <= limit for block in blocks)
