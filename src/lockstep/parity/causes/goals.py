"""What an edited run is measured against: the other side's value at the first bad node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..container import Array
from ..results import NodeResult
from ..sketch import ratio, sketch_and_stats
from ..sketch_torch import Sketcher
from ..trace import Entry, Trace


@dataclass
class Goal:
    """The other side's value, whole or as a sketch, and what counts as having reached it."""

    node: NodeResult
    norm: float  # of the reference's value: what errors are relative to
    before: float
    tau: float
    array: Array | None = None
    sketch: Array | None = None
    size: int = 0

    def residual(self, value: torch.Tensor) -> float:
        if value.numel() != self.size:
            return float("inf")
        if self.array is not None:
            # float64 on purpose: the residual of a right hypothesis is the last bits
            got = value.detach().to("cpu", torch.float64).reshape(-1).numpy()
            difference = float(np.linalg.norm(got - self.array))
        else:
            difference = float(np.linalg.norm(Sketcher()(value.detach())[0] - self.sketch))
        return ratio(difference, self.norm) if np.isfinite(difference) else float("inf")


def goal_of(node: NodeResult, reference: Trace, other: Trace, entry: Entry) -> Goal:
    """`entry` is the value of `other` (the side that is not run) that the live side should have given."""
    own = reference.get(node.key)
    norm = reference.stats(own).l2 if own is not None else other.stats(entry).l2
    goal = Goal(node, norm, node.error or 0.0, node.tau, size=int(np.prod(entry.shape)) if entry.shape else 1)
    if entry.has_data:
        goal.array = np.nan_to_num(other.array(entry).astype(np.float64).reshape(-1))
    else:
        goal.sketch = other.sketch(entry)
    if node.error is None or not np.isfinite(goal.before):
        goal.before = float("inf")
    if goal.tau <= 0:
        goal.tau = max(node.prior, 1e-6)
    return goal


def sketch_of(values: Array) -> Array:
    return sketch_and_stats(values)[0]
