"""The search for causes on one live side: which part to run again, which hypotheses in which order, and what is left behind each."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from ..comparison.answer import compare
from ..comparison.results import Cause, Comparison, NodeResult, SearchLog, Verdict
from ..recording.recorder import record
from ..trace.names import Key, literal
from ..trace.reader import Trace
from .calls import RecordedCalls
from .edits import Edit, Site
from .examples import Example, example_of
from .failures import noted
from .goals import Goal, goal_of
from .hypotheses.catalogue import (
    attribute_edits,
    child_edits,
    deep_edits,
    input_edits,
    module_as_activation,
    operand_edits,
    own_frame_edits,
    parameter_edits,
    rotary_edits,
    swapped_weights,
    widened,
)
from .hypotheses.frames import repeated_children, scale_edits, several_edits, sines_and_cosines
from .live import Live
from .pipeline_probe import PipelineProbe, root_edits, scheduler_edits
from .probe import Probe, Read, Survey, Trial, families
from .rounding import rounding_causes

TRIALS = 1500  # of one stage
AFTER_EXACT = 60  # more hypotheses that are tried once one fits to the last bit
CHECKED = 12  # accepted hypotheses whose other consequences are looked at
PROMISING = 0.2  # of the error: what a factor may leave to first order
FITTED = 6  # quantities that are fitted, the most promising first
FULL_ELEMENTS = 1 << 26  # kept whole in a run that only compares again
UNREPEATABLE = 4.0  # times the threshold: what a second run may differ by


class CauseSearch(RecordedCalls):
    """Causes of one comparison, tried on one live side."""

    def __init__(
        self, live: Live, own: Trace, foreign: Trace, turned: bool, weights: dict[str, torch.Tensor] | None,
        floor: Any, map: Any, late: Callable[[], bool], log: SearchLog,
    ) -> None:  # fmt: skip
        self.live, self.own, self.foreign, self.turned = live, own, foreign, turned
        self.weights, self.floor, self.map, self.late = weights, floor, map, late
        self.modules = live.parts.named_modules()
        self.held: list[Edit] = []
        self.explained: Comparison | None = None  # the comparison with everything that is held in force
        self.log = log
        self.runs = 0

    def all_causes(self, comparison: Comparison, limit: int) -> list[Cause]:
        """The first cause, then with it in force the next one, until nothing is over the floor."""
        found: list[Cause] = []
        current: Comparison | None = comparison
        while current is not None and current.first is not None and len(found) < limit:
            trials = self._explain(current, current.first)
            best = _ranked(trials)
            accepted = [t for t in best if t.accepted]
            if not accepted:
                found += [self._cause(t, current.first, False) for t in best[:1] if t.residual <= 0.7 * t.goal.before]
                return found
            shown = self._at_the_node(accepted[0], current, current.first)
            found.append(self._cause(shown, current.first, True, accepted[1:4]))
            current = self._behind(accepted[0], current, found[-1]) if limit > 1 else None
        return found

    def unrepeatable(self, comparison: Comparison) -> list[Cause]:
        """A candidate that gives something else when it is run once more keeps something from one run to the next."""
        first = comparison.first
        if not self.turned or self.live.call is None or self.live.parts.pipeline is None or first is None:
            return []
        behind = (n for n in comparison.nodes if n.bad and n.order > first.order and not n.key.is_operation)
        for node in [first, *islice(behind, 1)]:
            goal, again = self._repeated(node)
            if goal is None or not UNREPEATABLE * max(goal.tau, node.prior) < again < float("inf"):
                continue
            why = (
                f"the candidate does not repeat itself: the same run once more differs by {again:.2g} from the recorded one, "
                f"threshold {goal.tau:.1e}: something (scheduler, guider, global random numbers) is kept from run to run"
            )
            evidence = {"accepted": True, "measured_at": str(node.key), "threshold": goal.tau, "runs": self.runs}
            fix = "reset what is kept at the begin of a run"
            return [Cause("stale_state", why, str(first.key), goal.before, 0.0, node.floor, fix, evidence)]
        return []

    def _repeated(self, node: NodeResult) -> tuple[Goal | None, float]:
        """How far the live side is from its own recorded value when it is run again."""
        entry = self.own.get(node.other) if node.other is not None else None
        if entry is None or not entry.is_float or node.other is None:
            return None, 0.0
        goal = goal_of(node, self.foreign, self.own, entry)
        self.runs += 1
        value = None
        with noted(self.log, (), str(node.other)):
            value = PipelineProbe(self.live, self.own, node.other, goal, ()).value()
        return goal, goal.residual(value) if value is not None else 0.0

    def _at_the_node(self, trial: Trial, comparison: Comparison, node: NodeResult) -> Trial:
        """The proof at the first bad value itself, where it holds there too: further on other values dilute the error."""
        if trial.goal.node is node or not node.key.is_operation:
            return trial
        for probe in self.module_probes(comparison, node):
            if probe.goal.node is node:
                again = probe.attempt(trial.edit)
                self.runs += 1
                return again if again is not None and again.accepted else trial
        return trial

    def _behind(self, trial: Trial, comparison: Comparison, cause: Cause) -> Comparison | None:
        """What is left with this cause in force too: everywhere it applies if that explains more than here alone."""
        best: tuple[int, Edit, Comparison] | None = None
        wide = widened(trial.edit, self._sites(), comparison.attributes)
        for edit in [wide, trial.edit] if wide is not None else [trial.edit]:
            again = self._compared_again([*self.held, edit])
            if again is None:
                continue
            over = again.verdict in (Verdict.BUG, Verdict.DRIFT) and again.first is not None
            reach = again.first.order if over and again.first is not None else 1 << 60
            if best is None or reach > best[0]:
                best = (reach, edit, again)
        if best is None:
            return None
        reach, edit, again = best
        self.held.append(edit)
        self.explained = again
        cause.evidence["with it"] = again.sentence()
        cause.evidence["everywhere"] = edit is not trial.edit
        if edit is not trial.edit:
            cause.fix = edit.detail
        before = comparison.first.order if comparison.first is not None else -1
        return again if reach > before and again.verdict in (Verdict.BUG, Verdict.DRIFT) else None

    def roundings(self, comparison: Comparison) -> list[Cause]:
        """Behind all causes: what is above the rounding prior though inside the floor."""
        current = self.explained or comparison
        edits, causes = rounding_causes(self, current) if current.verdict is Verdict.NOISE else ([], [])
        again = self._compared_again([*self.held, *edits]) if edits else None
        if again is None:
            return []
        self.held += edits
        self.explained = again
        causes[-1].evidence["with it"] = again.sentence()
        return causes

    def module_probes(self, comparison: Comparison, node: NodeResult) -> Iterator[Probe]:
        """The live modules that make a value, smallest first."""
        own, foreign = (node.other, node.key) if self.turned else (node.key, node.other)
        entry = self.foreign.get(foreign) if foreign is not None else None
        if own is not None and entry is not None:
            reference = self.foreign if self.turned else self.own
            probes = self._probes(own, goal_of(node, reference, self.foreign, entry), comparison, reference)
            yield from (probe for probe, *_ in probes if type(probe) is Probe)

    def rounding_cause(self, trial: Trial, node: NodeResult, before: float) -> Cause:
        trial.goal = replace(trial.goal, before=before)
        return self._cause(trial, node, True)

    def _sites(self) -> dict[Site, Example]:
        """Every operation of the live side, by a run that only looks."""
        sites: dict[Site, Example] = {}
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            with PipelineProbe.edited(self.live, (), lambda s, c, r: sites.setdefault(s, example_of(c, r, {}))):
                self.live.run(self.own)
        return sites

    def _full(self) -> dict[str, str]:
        """Values that the other side holds whole are compared whole, if that is not a matter of gigabytes."""
        held = [entry for entry in self.own.entries if entry.has_data and not entry.key.is_operation]
        if sum(math.prod(entry.shape) for entry in held) > FULL_ELEMENTS:
            return {}
        return {literal(entry.key.path): "full" for entry in held}

    def _compared_again(self, edits: list[Edit]) -> Comparison | None:
        """The whole comparison once more with the edits in force on the live side."""
        with tempfile.TemporaryDirectory(prefix="parity-cause-") as folder:
            path = Path(folder, "edited.trace")
            level = self.own.meta.get("level", "module")
            done = False
            with noted(self.log, edits, "the whole run"):
                stop = self.own.meta.get("stopped_at")
                recorder = record(
                    self.live.target,
                    path,
                    keep=self._full(),
                    level=level,
                    weights=bool(self.own.params),  # what belongs together is known by them
                    name=self.live.name,
                    stop_at=stop,
                )
                with recorder, PipelineProbe.edited(self.live, edits):
                    self.live.run(self.own)
                done = True
            if not done:
                return None
            self.runs += 1
            pair = (self.foreign, Trace.open(path)) if self.turned else (Trace.open(path), self.foreign)
            return compare(*pair, floor=self.floor, map=self.map)

    def _explain(self, comparison: Comparison, node: NodeResult) -> list[Trial]:
        own_key, foreign_key = (node.other, node.key) if self.turned else (node.key, node.other)
        if own_key is None or foreign_key is None:
            return []
        entry = self.foreign.get(foreign_key)
        if entry is None:
            return []
        reference = self.foreign if self.turned else self.own
        goal = goal_of(node, reference, self.foreign, entry)
        tried: list[Trial] = []
        for probe, focus, deep in self._probes(own_key, goal, comparison, reference):
            tried += self._try(probe, focus, deep, comparison)
            if any(t.accepted and t.whole and not t.broken for t in tried) or self.late():
                break
        return tried

    def _probes(
        self, key: Key, goal: Goal, comparison: Comparison, reference: Trace
    ) -> Iterator[tuple[Any, Site | None, bool]]:
        """The smallest live thing around the bad value first, then what contains it."""
        path, focus, site = key.path, None, None
        if key.is_operation:
            path, _, operation = key.path.partition("/")
            name, _, index = operation.rpartition(".")
            site = focus = Site(path, name, int(index)) if index.isdigit() else None
        elif key.is_input:
            path = self._parent(path)
        while path != "@pipeline":
            if self._callable(path) is not None:
                yield from self._module_probes(path, key, site, focus, goal, comparison, reference)
            if key.is_input or site is not None:
                break
            path, site = self._parent(path), None
            if path == "@pipeline" or path not in self.modules or self._parent(key.path) != path:
                break  # one level up: a sibling's weights, another input
        if self.live.call is not None:
            yield PipelineProbe(self.live, self.own, key, goal, self.held, self.log), focus, False

    def _module_probes(
        self,
        path: str,
        key: Key,
        site: Site | None,
        focus: Site | None,
        goal: Goal,
        comparison: Comparison,
        reference: Trace,
    ) -> Iterator[tuple[Probe, Site | None, bool]]:
        captured = self._arguments(path, key)
        if captured is None:
            return
        results = list(self._results_of(path, key, comparison, reference))
        checks = [(read.slot, found) for found, read in results]
        inner = Read(key.path, key.slot, self._relative_call(path, key), site)
        outer = [
            (found, read)
            for found, read in results
            if found.before > found.tau and (path, read.slot) != (key.path, key.slot)
        ]
        coarse = not key.is_operation and key.path == path and self._is_coarse(path)
        # operations are numbered, and one more or less on the other side moves the numbers: results first for those
        order = [*outer, (goal, inner)] if site is not None else [(goal, inner), *outer]
        for chosen, read in order:
            yield Probe(self.modules, path, *captured, read, chosen, self.held, checks, self.log), focus, coarse

    def _results_of(self, path: str, key: Key, comparison: Comparison, reference: Trace) -> Iterator[tuple[Goal, Read]]:
        """What the probed part gave in the recorded run: right again if the cause is right."""
        call = (key.step, self._outer_call(path, key))
        for node in comparison.nodes:
            own, foreign = (node.other, node.key) if self.turned else (node.key, node.other)
            if own is None or foreign is None or own.path != path or own.is_input or (own.step, own.call) != call:
                continue
            entry = self.foreign.get(foreign)
            if entry is not None and node.error is not None:
                yield goal_of(node, reference, self.foreign, entry), Read(path, own.slot)

    def _try(self, probe: Any, focus: Site | None, deep: bool, comparison: Comparison) -> list[Trial]:
        survey = None
        with noted(self.log, self.held, probe.path):
            survey = probe.survey()
        if survey is None:
            return []
        for stage in self._stages(probe, survey, focus, deep, comparison):
            left = TRIALS
            for edit in stage:
                if not left or self.late():
                    break
                trial = probe.attempt(edit)
                if trial is not None and trial.accepted and trial.residual == 0:
                    left = min(left, AFTER_EXACT)
                left -= 1
            if not any(t.accepted for t in probe.trials):
                for family in families(probe.trials)[:FITTED]:
                    if not self.late():
                        probe.fit(family)
            for trial in sorted((t for t in probe.trials if t.accepted), key=lambda t: t.order)[:CHECKED]:
                if not trial.checked:
                    probe.check(trial)
            if any(t.decisive for t in probe.trials):
                break
        self.runs += probe.runs
        return probe.trials

    def _stages(
        self, probe: Any, survey: Any, focus: Site | None, deep: bool, comparison: Comparison
    ) -> Iterator[Iterable[Edit]]:
        differing = [{**d, "other": d["a"] if self.turned else d["b"]} for d in comparison.attributes]
        if isinstance(probe, PipelineProbe):
            yield scheduler_edits(probe, comparison, self.turned)
            yield own_frame_edits(probe, survey, focus)
            yield root_edits(probe)
            if not probe.key.is_operation:
                yield deep_edits(probe.everywhere, singly=False)
            yield operand_edits(probe, survey)
            return
        yield attribute_edits(probe, differing)
        yield parameter_edits(probe, self.weights, bool(comparison.weights))
        if deep:
            yield deep_edits(survey)
            return
        yield chain(module_as_activation(probe), child_edits(probe, survey), repeated_children(probe, survey))
        own = own_frame_edits(probe, survey, focus, self._unseen(survey))
        yield chain(sines_and_cosines(probe, survey), own)
        yield chain(input_edits(probe), rotary_edits(probe, survey))
        yield several_edits(probe, survey)
        yield self._fitted_scales(probe, survey)
        yield operand_edits(probe, survey)
        yield swapped_weights(probe)

    def _fitted_scales(self, probe: Probe, survey: Survey) -> Iterator[Edit]:
        """Values that only a factor is missing from, with the factor fitted."""
        for edit in scale_edits(probe, survey):
            if self.late() or probe.screen(edit) > PROMISING:
                continue
            best = probe.fit([Trial(edit, probe.goal.before, probe.goal, False)])
            if best is not None and best.accepted:
                yield best.edit
                return

    def _unseen(self, survey: Survey) -> frozenset[str]:
        """Modules that the other side does not call: it does their work in some other way."""
        known = {entry.key.path for entry in self.foreign.entries}
        return frozenset(site.path for site in survey.sites if site.path in self.modules and site.path not in known)

    def _cause(self, trial: Trial, node: NodeResult, accepted: bool, others: list[Trial] | None = None) -> Cause:
        goal = trial.goal
        sides = ("candidate", "reference") if self.turned else ("reference", "candidate")
        where = str(node.key)
        floor = goal.node.floor
        tail = f", floor {floor:.1e}" if floor is not None else f", threshold {goal.tau:.1e}"
        verb = "takes" if accepted else "only takes"
        proof = (
            f"doing so in the {sides[0]}, too, {verb} the error from {goal.before:.2g} to {trial.residual:.2g}{tail}"
        )
        name = "extra_step" if self.turned and trial.edit.name == "left_out" else trial.edit.name
        return Cause(
            name, f"{trial.edit.detail} in the {sides[1]}: {proof}", where, goal.before, trial.residual, floor,
            fix=f"{trial.edit.detail} at `{_place(trial.edit) or node.key.path}`",
            evidence={
                "accepted": accepted, "measured_at": str(goal.node.key), "threshold": goal.tau, "exact": trial.exact, "runs": self.runs,
                "alternatives": [{"name": t.edit.name, "detail": t.edit.detail, "residual": t.residual} for t in others or []],
            },
        )  # fmt: skip


def _place(edit: Edit) -> str:
    change = edit.changes[0]
    sites = sorted(getattr(change, "sites", ()))
    if sites:
        return str(sites[0]) + (f" and {len(sites) - 1} more" if len(sites) > 1 else "")
    return str(getattr(change, "path", ""))


def _ranked(trials: Iterable[Trial]) -> list[Trial]:
    best: dict[str, Trial] = {}
    for trial in trials:
        known = best.get(trial.edit.label())
        if known is None or trial.residual < known.residual:
            best[trial.edit.label()] = trial
    return sorted(best.values(), key=lambda t: (not t.accepted, t.order))
