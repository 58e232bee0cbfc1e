"""Two traces to one verdict, with numpy alone.

align.py, weights.py   which value belongs to which, by name, by the weights' values, by order
layout.py              other axes, other batches, fused layers: read in the reference's order
answer.py              `compare`: every pair measured, then judged
priors.py              what rounding alone explains
verdict.py, guards.py  from the measured values to PASS, NOISE, BUG, DRIFT, INVALID, INCONCLUSIVE
structure.py           what a difference looks like
config_table.py        the settings of both sides, by where they come from
results.py             what all of this says: the objects that the later rooms read
"""

from .align import align_traces
from .answer import compare
from .results import Cause, Comparison, Coverage, NodeResult, Role, Status, Structure, Verdict
from .verdict import Thresholds

__all__ = [
    "Cause",
    "Comparison",
    "Coverage",
    "NodeResult",
    "Role",
    "Status",
    "Structure",
    "Thresholds",
    "Verdict",
    "align_traces",
    "compare",
]
