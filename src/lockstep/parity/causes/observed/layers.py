"""One layer's step on the reference's side, and what the candidate has in its place."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .expressions import once
from .graph import FrameValue
from .matching import Matching

_WITH_BIAS = ("linear", "conv1d", "conv2d", "conv3d")


def lacking_bias(matching: Matching, ours: FrameValue, theirs: FrameValue) -> str:
    """The bias of the reference's layer, where that is all that the candidate lacks, in whatever form it is written."""
    ours = once(ours)
    step = ours.step
    taken = step.operands()[2:] if step is not None and step.name in _WITH_BIAS else []
    if len(taken) != 1 or not taken[0].given.startswith("weight:") or taken[0].content.ndim != 1:
        return ""
    axis = -1 if step is None or step.name == "linear" else 1
    with torch._C.DisableTorchFunction():
        made = (ours.content.movedim(axis, -1) - taken[0].content).movedim(-1, axis)
        same = matching.same_numbers(FrameValue(made), theirs)
    return taken[0].given.partition(":")[2] if same else ""


def other_layer(matching: Matching, ours: FrameValue, theirs: FrameValue, modules: Iterable[str]) -> str:
    """Another layer of the reference's that the candidate calls with what the reference's own step takes."""
    a, b = once(ours).step, once(theirs).step
    if a is None or b is None or isinstance(a.place, str) or not isinstance(b.place, str) or not b.operands():
        return ""
    owners = {v.given.partition(":")[2].rpartition(".")[0] for v in a.operands() if v.given.startswith("weight:")}
    given = all(any(matching.same(x, y) for x in a.operands()) for y in b.operands())
    known = [path for path in modules if matching.paths(path) == b.place]
    if not given or len(owners) != 1 or len(known) != 1 or known[0] in owners:
        return ""
    return f"`{known[0]}` is called in the place of `{next(iter(owners))}`"
