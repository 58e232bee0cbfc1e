"""One node alone on the reference's recorded inputs: its own error, without what came before."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ..comparison.answer import errors
from ..comparison.priors import prior, reduction_length
from ..comparison.results import NodeResult, Role, Status
from ..comparison.verdict import Thresholds
from ..errors import TeacherForcingError
from ..recording.effective import attributes
from ..recording.replay import call_entries, call_module, recorded_arguments
from ..recording.sketch_torch import Sketcher
from ..recording.values import outputs
from ..trace.reader import Entry, Trace
from ..trace.sketch import sketch_error


def local(
    trace: str | Path | Trace,
    module: nn.Module,
    at: str,
    *,
    step: str | None = None,
    call: int = 0,
    thresholds: Thresholds | None = None,
) -> list[NodeResult]:
    """Run one node on the reference's recorded inputs: its own error, without what came before.

    `module` is the node itself, or the model that contains it under the path `at`.
    """
    limits = thresholds or Thresholds()
    trace = Trace.open(trace)
    node = _submodule(module, at)
    entries = call_entries(trace, at, step, call)
    with torch.no_grad():
        result = call_module(node, recorded_arguments(trace, entries))
    key = entries[0].key
    own = dict(outputs(result))
    wanted = [e for e in trace.entries if e.key.node == key.node and not e.key.is_input]
    if not wanted:
        raise TeacherForcingError(f"{trace.path.name} has inputs of `{at}` but no outputs to compare with")
    return [_local_result(trace, entry, own, node, order, limits) for order, entry in enumerate(wanted)]


def _submodule(module: nn.Module, at: str) -> nn.Module:
    below = at.partition(".")[2]
    if below:
        try:
            return module.get_submodule(below)
        except AttributeError:
            return module
    return module


def _local_result(
    trace: Trace, entry: Entry, own: dict[str, torch.Tensor], module: nn.Module, order: int, limits: Thresholds
) -> NodeResult:
    length = reduction_length(type(module).__name__, attributes(module))
    node = NodeResult(
        entry.key, order, Status.SAME, entry.key, "local", type(module).__name__, entry.shape, (entry.dtype, "")
    )
    tensor = own.get(entry.key.slot)
    if tensor is None or tuple(tensor.shape) != entry.shape:
        node.status = Status.STRUCT
        node.problem = "not returned" if tensor is None else f"shape {list(entry.shape)} became {list(tensor.shape)}"
        return node
    node.error, node.exact = _error(trace, entry, tensor)
    node.local_error = node.error
    node.prior = prior((entry.dtype, entry.dtype), length, limits.prior)
    node.tau = limits.local * node.prior
    node.ratio = node.error / node.tau if node.tau else (0.0 if node.error == 0 else float("inf"))
    if node.error:
        node.status = Status.OVER if node.ratio > 1 else Status.PRIOR
    node.role = Role.ORIGIN if node.status is Status.OVER else Role.NONE
    return node


def _error(trace: Trace, entry: Entry, tensor: torch.Tensor) -> tuple[float, bool]:
    if entry.has_data:
        return errors(trace.array(entry), tensor.detach().double().cpu().numpy())[0], True
    sketch, _ = Sketcher()(tensor)
    return sketch_error(trace.sketch(entry), sketch, trace.stats(entry).l2), False


def local_errors(trace: str | Path | Trace, module: nn.Module, root: str = "model") -> dict[str, float]:
    """Teacher-forced error of every node whose inputs the trace holds in full; feed it to `compare(local=...)`."""
    trace = Trace.open(trace)
    paths = {f"{root}.{path}" if path else root for path, _ in module.named_modules()}
    found: dict[str, float] = {}
    for node in trace.nodes:
        if node.path in paths and node.inputs and all(e.has_data for e in node.inputs):
            for result in local(trace, module, node.path, step=node.step, call=node.call):
                if result.local_error is not None:
                    found[str(result.key)] = result.local_error
    return found
