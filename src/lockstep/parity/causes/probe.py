"""A part of a live model that is run again on the inputs of the recorded run, each time with one thing changed."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from ..comparison.results import SearchLog
from ..recording.values import inputs, map_tensors, outputs
from .edits import Call, Edit, Edited, ModuleChange, Site
from .examples import Example, example_of
from .failures import noted
from .flow import DataFlow
from .goals import Goal
from .remembered import Remembered

FIT_STEPS = 8
SIGNED = ("scale", "sign")  # quantities that may be fitted to a negative number
FIT_NEAR = 1e-3  # relative step of the slope
SPECIFIC = 3  # rank from which a hypothesis describes more than one fault
COST_UNIT = 1 << 22  # weights
EXACT = 1.0  # times the rounding prior: a residual that nothing can be better than


class Reached(Exception):
    """The value that was waited for has come by."""

    def __init__(self, value: torch.Tensor) -> None:
        super().__init__("reached")
        self.value = value


@dataclass
class Read:
    """Where the value is taken: a slot of a module, or an operation's result."""

    path: str
    slot: str
    call: int = 0  # the how-manieth time inside the probed call
    site: Site | None = None


@dataclass
class Trial:
    """One hypothesis tried."""

    edit: Edit
    residual: float
    goal: Goal
    exact: bool
    whole: bool = True  # every result of the probed part is right with it
    broken: bool = False  # a result that was right before is wrong with it
    checked: bool = False
    fitted: bool = False  # to a number that nobody would write: anything with a free number may come near
    unheard_of: bool = False  # the other side is said to have a number that it has nowhere
    probe: Any = None  # the part that was run

    @property
    def part(self) -> str:
        return self.probe.path if self.probe is not None else ""

    @property
    def decisive(self) -> bool:
        """True if no other hypothesis has to be looked at."""
        near = self.exact or self.residual < 0.02 * self.goal.before
        written = (self.residual == 0 or not self.fitted) and not self.unheard_of
        return self.checked and self.whole and near and written

    @property
    def _floor(self) -> float:
        return max(self.goal.node.floor or 0.0, self.goal.node.prior)

    @property
    def accepted(self) -> bool:
        """Under the threshold, and either a tenth of what it was or down at the floor itself."""
        far = self.residual <= 0.1 * self.goal.before
        near = far or self.residual <= min(2 * self._floor, 0.5 * self.goal.before)
        return near and self.residual <= self.goal.tau and not self.unheard_of

    @property
    def fits_whole(self) -> bool:
        """True if it makes every result of its part right."""
        return self.accepted and self.whole and not self.broken

    @property
    def at_the_floor(self) -> bool:
        """True if a specific hypothesis leaves no more than another library's rounding does."""
        return self.edit.rank < SPECIFIC and self.residual <= min(2 * self._floor, 0.1 * self.goal.before)

    @property
    def order(self) -> tuple[float, ...]:
        """Equal to the last bit first, then what rounding explains, then by residual in steps of a factor 2; the
        more specific name among equals."""
        level = (
            -1.0
            if self.residual == 0
            else 0.0
            if self.exact
            else 1 + max(0.0, _log2(self.residual / max(self.goal.node.prior, 1e-12)))
        )
        return (
            float(self.broken),
            float(not (self.checked and self.whole)),
            level,
            float(self.edit.rank),
            self.residual,
        )


def _is_round(value: float) -> bool:
    """True for a number of at most three digits, or one divided by such."""
    return any(math.isclose(v, float(f"{v:.3g}"), rel_tol=1e-6) for v in (value, 1 / value)) if value else True


def _log2(x: float) -> float:
    return float(round(math.log2(x))) if 0 < x < math.inf else (1e6 if x > 0 else -60.0)


@dataclass
class Survey:
    """What the probed call does, from one run without changes."""

    sites: dict[Site, Example] = field(default_factory=dict)
    values: dict[str, tuple[int, tuple[int, ...]]] = field(
        default_factory=dict
    )  # label -> (order, shape), own frame only
    order: dict[Site, int] = field(default_factory=dict)  # of every operation of the own frame, whatever it gives
    children: list[str] = field(default_factory=list)  # paths of modules called directly, in order
    flow: DataFlow | None = None

    def follow(self, site: Site, call: Call, result: Any) -> None:
        if self.flow is not None:
            self.flow.note(site, call, result)

    def note(self, site: Site, result: Any, place: int) -> None:
        """An operation of the own frame, and its result if that is a value which another place may take."""
        self.order.setdefault(site, place)
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.values.setdefault(str(site), (place, tuple(result.shape)))


class Probe:
    """One module of a live model with the arguments of one recorded call."""

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        path: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        read: Read,
        goal: Goal,
        held: Iterable[Edit] = (),
        checks: Iterable[tuple[str, Goal]] = (),
        log: SearchLog | None = None,
    ) -> None:
        self.path, self.read, self.goal, self.everything = path, read, goal, modules
        self.makers: frozenset[str] = frozenset()  # modules inside that alone are suspect; none: all that is inside
        self.owner, _, self.method = (path, "", "") if path in modules else path.rpartition(".")
        self.modules = {p: m for p, m in modules.items() if p == self.owner or p.startswith(f"{self.owner}.")}
        self.checks = list(checks)  # (slot, goal) of every result of the probed part
        self.held = tuple(held)  # causes already found, which stay in force
        self.trials: list[Trial] = []
        self.log = log if log is not None else SearchLog()
        self.runs = 0
        self._here: Any = None  # the difference without any change
        self._args, self._kwargs = args, kwargs
        self.children = children_of(self.modules, self.owner)
        self._called = {self.owner: self.modules[self.owner], **self.children}
        self._remembered = Remembered(self.children)
        self._operands: dict[tuple[Site, int], torch.Tensor | None] = {}
        self.cost = cost_of([self.modules[self.owner]])

    @property
    def module(self) -> nn.Module:
        return self.modules[self.owner]

    def _run(self, edited: Edited) -> Any:
        """The module, or a method of it such as `decode`; what one run writes into its arguments the next does not
        see."""
        copies: dict[int, torch.Tensor] = {}
        given = with_own_generators((self._args, self._kwargs))
        args, kwargs = map_tensors(given, lambda tensor: _copied(tensor, copies))
        if not self.method:
            return self.module(*args, **kwargs)
        edited.frames.push(self.path)
        edited.values.update({f"{self.path}|in.{i}": tensor for i, tensor in enumerate(self.tensors_in())})
        for change in (c for edit in edited.edits for c in edit.changes):
            if isinstance(change, ModuleChange) and change.path == self.path and change.before:
                args, kwargs = change.apply(edited.values, args, kwargs, None)  # no hook is called for a method
        return getattr(self.module, self.method)(*args, **kwargs)

    def tensors_in(self) -> list[torch.Tensor]:
        return [v for v in [*self._args, *self._kwargs.values()] if isinstance(v, torch.Tensor)]

    def value(self, edits: Iterable[Edit] = (), observe: Any = None) -> torch.Tensor | None:
        """The watched value of one run with `edits` in force; None if the run does not get there."""
        self.runs += 1
        edits = [*self.held, *edits]
        watch = self._watch_site if self.read.site is not None else None

        def observed(site: Site, call: Call, result: Any) -> None:
            if observe is not None:
                observe(site, call, result)
            if watch is not None:
                watch(site, result)

        observing = observed if observe is not None or watch is not None else None
        try:
            outside = self._is_outside(edits)
            edited = Edited(self._called if outside and observe is None else self.modules, edits, observing)
            self.log.spent += 1.0 if outside and observe is None else self.cost
            with warnings.catch_warnings(), torch.no_grad(), ExitStack() as stack, edited, self._watched():
                warnings.simplefilter("ignore")
                if outside:
                    self._remembered.in_force(stack, writing=observe is not None)
                result = self._run(edited)
        except Reached as reached:
            return reached.value
        if self.read.site is not None or self.read.path != self.path or self.read.slot.startswith("in."):
            return None
        found = dict(outputs(result))
        return found.get(self.read.slot, found.get("out"))

    def _is_outside(self, edits: Iterable[Edit]) -> bool:
        """True if no edit changes what a child computes from its arguments, and the value is not inside of one."""
        if any(self.read.path.startswith(f"{child}.") for child in self.children):
            return False
        changes = [change for edit in edits for change in edit.changes]
        return all(
            isinstance(c, ModuleChange) or {s.path for s in getattr(c, "sites", ())} == {self.path} for c in changes
        )

    def _watch_site(self, site: Site, result: Any) -> None:
        if site == self.read.site and isinstance(result, torch.Tensor):
            raise Reached(result)

    def _watched(self) -> Any:
        return watching(self.modules.get(self.read.path), self.read, self.read.path == self.path)

    def survey(self) -> Survey:
        """Operations, values and children of the probed call."""
        survey = Survey(flow=DataFlow(self.path, self.children))
        makers: dict[int, str] = {}
        kept: list[torch.Tensor] = []
        counter = iter(range(1 << 30))

        def observe(site: Site, call: Call, result: Any) -> None:
            survey.sites.setdefault(site, example_of(call, result, makers))
            survey.follow(site, call, result)
            if isinstance(result, torch.Tensor) and call.op in ("sin", "cos"):
                kept.append(result)  # alive, so that its identity stays its own
                makers[id(result)] = call.op
            if site.path == self.path:
                survey.note(site, result, next(counter))

        handles = []
        for path, module in self.children.items():
            handles.append(module.register_forward_hook(note_child(survey, path, counter)))
        for index, tensor in enumerate(self.tensors_in()):
            survey.values[f"{self.path}|in.{index}"] = (-1, tuple(tensor.shape))
        try:
            self.value(observe=observe)
        finally:
            for handle in handles:
                handle.remove()
        return survey

    def plain_operand(self, site: Site, index: int) -> torch.Tensor | None:
        """What goes into an operation when nothing is changed."""
        if (site, index) not in self._operands:
            seen: list[torch.Tensor] = []

            def observe(at: Site, call: Call, result: Any) -> None:
                if at == site and len(call.args) > index and isinstance(call.args[index], torch.Tensor) and not seen:
                    seen.append(call.args[index])

            self.value(observe=observe)
            self._operands[site, index] = seen[0] if seen else None
        return self._operands[site, index]

    def attempt(self, edit: Edit) -> Trial | None:
        """Run with one more edit; None if that cannot run."""
        self.log.trying(edit.name, self.path)
        value = self._tried([edit])
        if value is None:
            return None
        trial = self._trial(edit, self.goal.residual(value))
        self.trials.append(trial)
        return trial

    def _tried(self, edits: list[Edit]) -> torch.Tensor | None:
        """The watched value, or None where the run fails: a hypothesis that does not fit these shapes is simply
        wrong."""
        value = None
        with noted(self.log, [*self.held, *edits], self.path):
            value = self.value(edits)
        return value

    def check(self, trial: Trial) -> None:
        """Does the hypothesis make every result of the probed part right, and leave right ones right?"""
        trial.checked = True
        if not self.checks:
            return
        self.runs += 1
        self.log.spent += self.cost
        found: dict[str, torch.Tensor] | None = None
        edited = Edited(self.modules, [*self.held, trial.edit])
        with noted(self.log, edited.edits, self.path), warnings.catch_warnings(), torch.no_grad(), edited:
            warnings.simplefilter("ignore")
            found = dict(outputs(self._run(edited)))
        if found is None:
            trial.whole, trial.broken = False, True
            return
        for slot, goal in self.checks:
            value = found.get(slot, found.get("out"))
            residual = goal.residual(value) if value is not None else math.inf
            trial.whole = trial.whole and residual <= goal.tau
            trial.broken = trial.broken or (goal.before <= goal.tau < residual / 4)

    def _trial(self, edit: Edit, residual: float) -> Trial:
        return Trial(edit, residual, self.goal, residual <= EXACT * self.goal.node.prior, probe=self)

    def fit(self, family: list[Trial]) -> Trial | None:
        """The best value of a one-parameter hypothesis: Gauss-Newton steps from the best one tried."""
        best = min(family, key=lambda t: t.residual)
        refit, value = best.edit.refit, best.edit.parameter
        if refit is None or not value:
            return None
        for _ in range(FIT_STEPS):
            here, near = self._differences(refit(value), refit(value * (1 + FIT_NEAR)))
            if here is None or near is None or not (np.isfinite(here).all() and np.isfinite(near).all()):
                return best
            slope = (near - here) / (value * FIT_NEAR)
            length = float(slope @ slope)
            if length == 0 or not np.isfinite(length):
                return best
            step = -float(slope @ here) / length
            if best.edit.name not in SIGNED:  # an epsilon stays positive
                step = max(-0.75 * abs(value), min(4 * abs(value), step))
            value = value + step
            trial = self.attempt(refit(value))
            if trial is not None:
                trial.fitted = not _is_round(value)
            if trial is None or best.exact:
                return self._as_written(best)
            settled = trial.residual > 0.9 * best.residual
            best = min(best, trial, key=lambda t: t.residual)
            if settled and _ > 1:
                break
        return self._as_written(best)

    def _as_written(self, best: Trial) -> Trial:
        """The number that a person would have written, where it does as well as the one that was fitted."""
        value, refit = best.edit.parameter, best.edit.refit
        if not value or refit is None or not best.fitted or not math.isfinite(value):
            return best
        for digits in (2, 3, 4):
            trial = self.attempt(refit(float(f"{value:.{digits}g}")))
            if trial is not None and trial.residual <= max(best.residual, self.goal.node.prior):
                trial.fitted = trial.residual > 0  # three digits come near many a number: others are looked at, too
                return trial
        return best

    def screen(self, edit: Edit) -> float:
        """How much of the error is left, to first order, for the best value of a quantity that is one now; 1 for
        nothing."""
        if edit.refit is None or not math.isfinite(self.goal.before):
            return 1.0
        if self._here is None:
            (self._here,) = self._differences()
        (near,) = self._differences(edit.refit(1 + FIT_NEAR))
        if self._here is None or near is None or not np.isfinite(near).all() or not np.isfinite(self._here).all():
            return 1.0
        slope = near - self._here
        length, before = float(slope @ slope), float(self._here @ self._here)
        if length == 0 or before == 0:
            return 1.0
        return math.sqrt(max(0.0, 1 - float(slope @ self._here) ** 2 / (length * before)))

    def _differences(self, *edits: Edit) -> list[Any]:
        found: list[Any] = []
        for given in [[edit] for edit in edits] or [[]]:
            value = self._tried(given)
            found.append(self.goal.difference(value) if value is not None else None)
        return found


def _copied(tensor: torch.Tensor, copies: dict[int, torch.Tensor]) -> torch.Tensor:
    """The same copy wherever a tensor is given."""
    if id(tensor) not in copies:
        copies[id(tensor)] = tensor.clone()
    return copies[id(tensor)]


def with_own_generators(value: Any) -> Any:
    """Arguments with every generator as it is now: a run draws on from it, and the next one must draw the same."""
    if isinstance(value, torch.Generator):
        return value.clone_state()
    if type(value) in (list, tuple):
        return type(value)(with_own_generators(item) for item in value)
    return {k: with_own_generators(v) for k, v in value.items()} if type(value) is dict else value


def cost_of(modules: Iterable[nn.Module]) -> float:
    """Evaluations that one run of these modules counts as: one, and one more for every four million weights."""
    return 1 + sum(p.numel() for module in modules for p in module.parameters()) / COST_UNIT


def children_of(modules: Mapping[str, nn.Module], owner: str) -> dict[str, nn.Module]:
    """Modules that the owner calls itself; those of a list count as its own."""
    children = {p: m for p, m in modules.items() if p != owner and "." not in p[len(owner) + 1 :]}
    listed = {p for p, m in children.items() if isinstance(m, (nn.ModuleList, nn.ModuleDict))}
    own = {p: m for p, m in children.items() if p not in listed}
    return own | {p: m for p, m in modules.items() if p.rpartition(".")[0] in listed}


def watching(module: nn.Module | None, read: Read, own: bool) -> Any:
    """A context that raises `Reached` when the inner module's slot has its value."""
    stack = ExitStack()
    if module is None or read.site is not None or (own and not read.slot.startswith("in.")):
        return stack
    seen = [0]

    def pick(values: list[tuple[str, torch.Tensor]]) -> None:
        seen[0] += 1
        if seen[0] - 1 != read.call:
            return
        found = dict(values)
        value = found.get(read.slot, found.get("out") if read.slot.startswith("out") else None)
        if value is not None:
            raise Reached(value)

    if read.slot.startswith("in."):

        def before(m: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            pick(inputs(m, args, kwargs))

        stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
    else:

        def after(m: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            pick(outputs(result))

        stack.callback(module.register_forward_hook(after).remove)
    return stack


def note_child(survey: Survey, path: str, counter: Iterator[int]) -> Callable[..., None]:
    def note(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        if path not in survey.children:
            survey.children.append(path)
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            survey.values.setdefault(f"{path}|out", (next(counter), tuple(result.shape)))

    return note


def families(trials: Iterable[Trial]) -> list[list[Trial]]:
    """Trials of one fitted quantity each, the most promising first."""
    found: dict[tuple[str, Any], list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.edit.refit is not None:
            change = trial.edit.changes[0]
            found[trial.edit.name, getattr(change, "sites", getattr(change, "path", None))].append(trial)
    return sorted(found.values(), key=lambda family: min(trial.residual for trial in family))
