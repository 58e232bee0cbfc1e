"""What an edited run is measured against: the other side's value at the first bad node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..comparison.priors import unit
from ..comparison.results import NodeResult
from ..recording.sketch_torch import Sketcher
from ..trace.container import Array
from ..trace.reader import Entry, Trace
from ..trace.sketch import ratio

LAST_BITS = 4.0  # times the unit roundoff


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

    def difference(self, value: torch.Tensor) -> Array | None:
        """What is left between the live value and the goal, element by element or as a sketch; None for another
        shape."""
        if value.numel() != self.size:
            return None
        if self.array is not None:
            # float64 on purpose: the residual of a right hypothesis is the last bits
            return value.detach().to("cpu", torch.float64).reshape(-1).numpy() - self.array
        return np.asarray(Sketcher()(value.detach())[0] - self.sketch)

    def residual(self, value: torch.Tensor) -> float:
        difference = self.difference(value)
        if difference is None or not np.isfinite(difference).all():
            return float("inf")
        return ratio(float(np.linalg.norm(difference)), self.norm)


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
    # another kernel's last bits may be left even where the verdict could be stricter than that
    goal.tau = max(goal.tau, LAST_BITS * unit(*node.dtypes)) if goal.tau > 0 else max(node.prior, 1e-6)
    return goal
