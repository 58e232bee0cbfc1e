"""The ways in which the rows of one batch are the rows of other batches."""

from __future__ import annotations

import numpy as np

from ..trace.container import Array

ROW_WORDS = {"in order": "", "calls reversed": ", in the other order", "copies": ", copied as a whole",
          "each twice": ", each row copied", "repeated": ", copied as a whole in the reference",
          "each repeated": ", each row copied in the reference", "by turns": "",
          "by turns reversed": ", in the other order"}  # fmt: skip


def batch_kinds(rows_a: int, rows_b: int, calls_a: int = 1, calls_b: int = 1) -> list[str]:
    """The ways in which rows_b rows of so many calls may be rows_a rows."""
    if rows_a == rows_b:
        few, many = sorted((calls_a, calls_b))
        turns = 1 < few < many and many % few == 0  # a layer that is used several times in each call of its model
        return ["in order", "calls reversed", *(["by turns", "by turns reversed"] if turns else [])]
    if rows_a and rows_b % rows_a == 0:
        return ["copies", "each twice"]
    if rows_b and rows_a % rows_b == 0:
        return ["repeated", "each repeated"]
    return []


def as_rows(kind: str, parts: list[Array], rows: int, calls: int = 1) -> Array:
    """The rows of several calls as so many rows of the reference's calls."""
    if kind.startswith("by turns"):
        return _by_turns(parts, calls, kind.endswith("reversed"))
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


def _by_turns(parts: list[Array], calls: int, reverse: bool) -> Array:
    """One call of the model makes every call of a layer once: its first in one call of the one side are all of its
    first ones in several calls of the other."""
    if len(parts) < calls:
        pieces = [np.split(part, calls // len(parts)) for part in parts]
        turns = [[piece[turn] for piece in pieces] for turn in range(calls // len(parts))]
        return np.concatenate([part for turn in (reversed(turns) if reverse else turns) for part in turn])
    own = [parts[i::calls] for i in range(calls)]
    return np.concatenate([part for group in own for part in (reversed(group) if reverse else group)])


def are_some_rows(mine: list[Array], theirs: list[Array], near: float) -> bool:
    """True if a batch is a part of a larger one: one prompt where the reference has two. What is not computed at all is
    seen where it would be used."""
    large, small = (np.concatenate([np.asarray(part, np.float64) for part in parts]) for parts in (mine, theirs))
    if large.shape[1:] != small.shape[1:]:
        return False
    blocks = [large[begin : begin + len(small)] for begin in range(0, len(large), len(small))]
    limit = near * max(float(np.linalg.norm(small)), 1e-30)
    return any(block.shape == small.shape and float(np.linalg.norm(block - small)) <= limit for block in blocks)
