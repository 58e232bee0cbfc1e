"""Where an error arises: single nodes on the reference's inputs, coarse-to-fine search, and the gain of every step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .comparison import compare, errors
from .errors import InjectionError
from .floor_file import Floor
from .names import NO_STEP, Key, step_index
from .priors import prior, reduction_length
from .recorder import record
from .replay import call_entries, call_module, recorded_arguments
from .results import Comparison, NodeResult, Role, Status, Verdict
from .trace import Entry, Trace
from .values import outputs
from .verdict import Thresholds

STATE = ("@scheduler.step", "@latents")  # what carries a loop from step to step
CHAOTIC = 10.0  # product of the gains above which only teacher-forced steps can be compared


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
        raise InjectionError(f"{trace.path.name} has inputs of `{at}` but no outputs to compare with")
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
    from .effective import attributes

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
    from .sketch import sketch_error
    from .sketch_torch import Sketcher

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


def bisect(
    trace: str | Path | Trace,
    target: Any,
    call: Callable[[], Any],
    *,
    floor: Floor | str | Path | None = None,
    level: str = "module",
    name: str | None = None,
    folder: str | Path | None = None,
) -> Comparison:
    """Coarse to fine: watch only what carries the loop, then record the first bad step alone and stop after it."""
    trace = Trace.open(trace)
    with tempfile.TemporaryDirectory(prefix="parity-bisect-") as temporary:
        base = Path(folder or temporary)
        coarse = base / "coarse.trace"
        with record(target, coarse, keep={"*": "none", "@*": "sketch"}, weights=False, name=name):
            call()
        step = _first_bad_step(compare(trace, coarse, floor=floor))
        fine = base / "fine.trace"
        stop = None if step in (None, NO_STEP) else step
        number = step_index(step) if stop is not None and step is not None else None
        with record(
            target, fine, level=level, steps=[number] if number is not None else "all", stop_at=stop, name=name
        ):
            call()
        return compare(trace, fine, floor=floor)


def _first_bad_step(coarse: Comparison) -> str | None:
    if coarse.verdict is Verdict.INVALID:
        return None
    bad = next((n for n in coarse.nodes if n.bad and n.key.step != NO_STEP), None)
    return bad.key.step if bad is not None else None


@dataclass(frozen=True)
class StepGain:
    """What one step of the loop does to the error."""

    step: str
    error: float
    gain: float | None  # error after the step over error before it
    floor: float | None
    floor_gain: float | None  # the same for the reference against itself


def gain_curve(
    reference: str | Path | Trace, candidate: str | Path | Trace, floor: Floor | str | Path | None = None
) -> list[StepGain]:
    """Error of the loop's state after every step, and how each step changes it."""
    a, b = Trace.open(reference), Trace.open(candidate)
    measured = Floor.load(floor) if isinstance(floor, (str, Path)) else floor
    curve: list[StepGain] = []
    for entry, other in _states(a, b):
        error = _pair_error(a, entry, b, other)
        value = measured.value(entry.key, other.key) if measured is not None else None
        before = curve[-1] if curve else None
        curve.append(
            StepGain(
                entry.key.step,
                error,
                error / before.error if before is not None and before.error else None,
                value.f if value is not None else None,
                value.f / before.floor if value is not None and before is not None and before.floor else None,
            )
        )
    return curve


def is_chaotic(curve: list[StepGain]) -> bool:
    """True if the loop multiplies its own rounding noise so much that whole runs cannot be compared."""
    product = 1.0
    for step in curve:
        product *= step.floor_gain or step.gain or 1.0
    return product > CHAOTIC


def _states(a: Trace, b: Trace) -> list[tuple[Entry, Entry]]:
    found = []
    for step in a.steps:
        if step == NO_STEP:
            continue
        left = _state(a, step)
        right = _state(b, step)
        if left is not None and right is not None:
            found.append((left, right))
    return found


def _state(trace: Trace, step: str) -> Entry | None:
    for path in STATE:
        entry = trace.get(Key(step, path, "out", 0))
        if entry is not None:
            return entry
    return None


def _pair_error(a: Trace, left: Entry, b: Trace, right: Entry) -> float:
    from .sketch import sketch_error

    if left.has_data and right.has_data:
        return errors(a.array(left), b.array(right))[0]
    return sketch_error(a.sketch(left), b.sketch(right), a.stats(left).l2)
