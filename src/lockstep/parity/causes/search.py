"""The search for causes on one live side: which part to run again, and which hypotheses in which order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import torch

from ..comparison.results import Cause, Comparison, NodeResult, SearchLog, Verdict
from ..trace.names import Key
from ..trace.reader import Trace
from .calls import RecordedCalls
from .edits import Edit, Site, Wide, site_of
from .facts import differing, from_facts, unexplained_edits
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
    rotary_edits,
    together_edits,
)
from .hypotheses.chains import chain_edits
from .hypotheses.code_numbers import number_edits
from .hypotheses.frames import repeated_children, scale_edits, several_edits, sines_and_cosines
from .hypotheses.orders import order_edits, resized_edits
from .hypotheses.own_code import own_number_edits
from .hypotheses.weights import parameter_edits, swapped_weights
from .judgement import (
    Judgement,
    are_handed_over,
    chosen_of,
    is_closed,
    is_closed_by,
    judge,
    judge_observed,
    without_harmless,
)  # fmt: skip
from .live import Live
from .numbers import SideNumbers, numbers_of
from .observed.difference import Observed, observed_difference
from .observed.frames import code_of
from .pipeline_probe import PipelineProbe, is_about_time, root_edits, scheduler_edits
from .probe import SPECIFIC, Probe, Read, Survey, Trial, families
from .rearranged import behind_rearranged, rearranged_modules
from .rounding import rounding_causes
from .sentences import found_cause, is_repeated, once_more, proven_cause, settled, unknown_cause
from .whole_run import WholeRun

TRIALS = 1500  # of one stage
AFTER_EXACT = 60  # more hypotheses that are tried once one fits to the last bit
AFTER_FLOOR = 240.0  # more evaluations once a specific one is down at the floor: rivals, but not all there are
AFTER_LINE = 60.0  # more evaluations once a line is known with which all is right
AFTER_SEEN = 300.0  # more evaluations once it was seen what the two sides do: for a better name of it
CHECKED = 12  # accepted hypotheses whose other consequences are looked at
PROMISING = 0.2  # of the error: what a factor may leave to first order
MOST_REPEATS = 24  # places of one cause that are put right one behind the other
FITTED = 6  # quantities that are fitted, the most promising first


class CauseSearch(RecordedCalls):
    """Causes of one comparison, tried on one live side."""

    def __init__(
        self, live: Live, own: Trace, foreign: Trace, turned: bool, weights: dict[str, torch.Tensor] | None,
        floor: Any, map: Any, late: Callable[[], bool], log: SearchLog, other: Live | None = None,
    ) -> None:  # fmt: skip
        self.live, self.own, self.foreign, self.turned = live, own, foreign, turned
        self.weights, self._spent, self.log, self.other = weights, late, log, other
        self._until = self._most = math.inf  # evaluations, once it was seen what is the matter, or a line is known
        self.modules = live.parts.named_modules()
        self.whole = WholeRun(live, own, foreign, turned, floor, map, log)
        self.held: list[Edit] = []
        self.explained: Comparison | None = None  # the comparison with everything that is held in force
        self.found: list[Cause] = []
        self.runs = 0
        self.across: CauseSearch | None = None  # the search on the other side, if that can be run
        self.seen: Observed | None = None  # what the two sides were last seen to do differently
        self.repeats = 0  # places where a cause was met again
        self.by_line: Callable[[], bool] | None = (
            None  # whether a line of the candidate is known with which all is right
        )
        self.brief = False  # what is the matter was seen: only hypotheses that say more than that are tried

    def all_causes(self, comparison: Comparison, limit: int, begun: Judgement | None = None) -> list[Cause]:
        """The first cause, then with it in force the next one, until nothing is over the floor."""
        self.whole.without = comparison.without
        found = self.found  # stored as they are found: an interrupt ends the search, not the answer
        current: Comparison | None = comparison
        while current is not None and current.first is not None and len(found) < limit:
            known = begun if not found else from_facts(self, current)
            known = known or from_facts(self, current, unexplained_edits(self, current))
            judgement = known or self._judged_past_order(current, current.first)
            if judgement.chosen is None:
                found.append(unknown_cause(self, current, judgement))
                break
            cause = found_cause(self, current, judgement)
            repeated = found and is_repeated(found[-1], cause)
            current = self._behind(judgement)
            if repeated:
                once_more(found[-1], cause)
            else:
                found.append(cause)
            self.repeats += bool(repeated)
            if self.repeats > MOST_REPEATS:
                break
        return settled(found)

    def _judged_past_order(self, current: Comparison, node: NodeResult) -> Judgement:
        """Values in the order that their weight's rows have are passed over first: what is told of them has to explain
        the whole run."""
        later = list(behind_rearranged(self, current))
        for one in later:
            current.first = one
            seen, observed = self.observed(current)
            if seen is not None and observed is not None and is_closed_by(observed, seen.edit):
                return observed
        current.first = node
        judgement = self._judged(current, node)
        if later and judgement.closing is not None and not judgement.closing.closes:
            judgement.stands = False
        return judgement

    def observed(self, current: Comparison) -> tuple[Observed | None, Judgement | None]:
        """What can be seen to differ in the steps of both sides, without what does no harm.

        Where that is no cause, what is far below the difference may have hidden it: it is passed over.
        """
        place = current.place
        seen, observed = self._told_apart(current, coarse=False)
        if observed is not None and observed.stands and (seen is None or is_closed(observed)):
            return seen, observed
        near, current.place = current.place, place
        if observed is None or not observed.stands:
            further = self._told_apart(current, coarse=True)
            if further[1] is not None and further[1].stands:
                return further
            current.place = place
        if seen is not None and self._is_of_whole_model(current):
            # what the one side does in the model the other may do with what the model gives
            around = self._told_apart(current, coarse=False, around=1)
            if around[1] is not None and is_closed(around[1]):
                return around
        current.place = near
        return seen, observed

    def _is_of_whole_model(self, current: Comparison) -> bool:
        """True where the first bad value is made by the code of a model itself: what calls that may go on with it."""
        key = current.first.key if current.first is not None else None
        return key is not None and self.live.call is not None and code_of(self, key) in self.live.parts.modules

    def _told_apart(
        self, current: Comparison, coarse: bool, around: int = 0
    ) -> tuple[Observed | None, Judgement | None]:
        seen = observed_difference(self, current, coarse, around)
        observed = judge_observed(self, seen, current)
        if seen is not None and observed is not None and is_closed_by(observed, seen.edit):
            seen, observed = without_harmless(self, seen, observed, current)
        return seen, observed

    def _judged(self, current: Comparison, node: NodeResult) -> Judgement:
        """Hypotheses, beside what can be seen to differ in the steps of both sides."""
        seen, observed = self.observed(current)
        self.seen = seen
        self.brief = observed is not None and observed.stands
        if observed is not None and observed.stands and seen is not None and self._is_known(seen.edit.line):
            return observed
        self._until = self.log.spent + AFTER_SEEN if self.brief else math.inf
        closed = observed is not None and is_closed(observed)
        if not closed and not self.held and self.by_line is not None and self.by_line():
            self._most = min(self._most, self.log.spent + AFTER_LINE)
        chosen = chosen_of(judge(self, self._interruptible(current, node), current), observed, seen)
        if seen is not None and seen.place is not None and chosen is observed and chosen.stands and not self.held:
            current.place = seen.place
        return chosen

    def _is_known(self, line: str) -> bool:
        """True for a line of the candidate that a cause was found in before: it is run in other places, too."""
        return bool(line) and any(edit.line == line for edit in self.held)

    @cached_property
    def rearranged(self) -> frozenset[str]:
        return rearranged_modules(differing(self))

    @cached_property
    def numbers(self) -> SideNumbers:
        return numbers_of(self)

    def late(self) -> bool:
        """True when the evaluations are used up, or somebody does not want to wait any longer."""
        return self.log.interrupted or self._spent() or self.log.spent > min(self._until, self._most)

    def _interruptible(self, current: Comparison, node: NodeResult) -> list[Trial]:
        """An interrupt ends the search, not the answer."""
        tried: list[Trial] = []
        try:
            self._explain(current, node, tried)
        except KeyboardInterrupt:
            self.log.interrupted = True
        return tried

    def _behind(self, judgement: Judgement) -> Comparison | None:
        """What is left with this cause in force, if the cause stands so far."""
        closing = judgement.closing
        if closing is None or not judgement.stands:
            return None
        self.held.append(closing.edit)
        self.explained = closing.again
        return None if closing.closes else closing.again

    def at_the_node(self, trial: Trial, comparison: Comparison, node: NodeResult) -> Trial:
        """The proof at the first bad value itself, where it holds there too: further on other values dilute the
        error."""
        if trial.goal.node is node or not node.key.is_operation or self.log.interrupted:
            return trial
        for probe in self.module_probes(comparison, node):
            if probe.goal.node is node:
                again = probe.attempt(trial.edit)
                self.runs += 1
                return again if again is not None and again.accepted else trial
        return trial

    def roundings(self, comparison: Comparison) -> list[Cause]:
        """Behind all causes: what is above the rounding prior though inside the floor."""
        current = self.explained or comparison
        edits, causes = rounding_causes(self, current) if current.verdict is Verdict.NOISE else ([], [])
        again = self.whole.compared_again([*self.held, *edits]) if edits else None
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
        return proven_cause(self, trial, node)

    def _explain(self, comparison: Comparison, node: NodeResult, tried: list[Trial]) -> None:
        """Every probe around the first bad value, until a hypothesis makes all of its results right."""
        own_key, foreign_key = (node.other, node.key) if self.turned else (node.key, node.other)
        entry = self.foreign.get(foreign_key) if foreign_key is not None else None
        if own_key is None or entry is None:
            return
        reference = self.foreign if self.turned else self.own
        goal = goal_of(node, reference, self.foreign, entry)
        for probe, focus, deep in self._probes(own_key, goal, comparison, reference, tried):
            try:
                self._try(probe, focus, deep, comparison)
            finally:
                tried += probe.trials
            if (any(t.fits_whole for t in tried) and not are_handed_over(tried)) or self.late():
                break

    def _probes(
        self, key: Key, goal: Goal, comparison: Comparison, reference: Trace, tried: Sequence[Trial] = ()
    ) -> Iterator[tuple[Any, Site | None, bool]]:
        """The smallest live thing around the bad value first, then what contains it; and as long as all that fits of
        what was `tried` is said of what goes in, the code that hands it over."""
        path, focus, site = key.path, None, None
        if key.is_operation:
            path, site = key.path.partition("/")[0], site_of(key.path)
            focus = site
        elif key.is_input:
            path = self.parent_of(path)
        yield from self._maker_probes(key, site, goal, comparison, reference)
        while path != "@pipeline":
            if self._callable(path) is not None:
                yield from self._module_probes(path, key, site, focus, goal, comparison, reference)
            if key.is_input or site is not None:
                break
            path, site = self.parent_of(path), None
            is_near = self.parent_of(key.path) == path  # one level up: a sibling's weights, another input
            if path == "@pipeline" or path not in self.modules or not (is_near or are_handed_over(tried)):
                break
        if self.live.call is not None and not self.is_given_right(key, comparison):
            yield from self._pipeline_probes(key, focus, goal, comparison, reference)

    def _pipeline_probes(
        self, key: Key, focus: Site | None, goal: Goal, comparison: Comparison, reference: Trace
    ) -> Iterator[tuple[Any, Site | None, bool]]:
        """The code between the models; an operation there is numbered, and what it leads to is looked at first."""
        root = key.path.partition("/")[0].partition(".")[0]
        inside = (root, self.call_number(root, key)) if root in self.live.parts.modules and root != key.path else None
        first, right = goal.node, self._rightly_called(comparison, goal.node)
        if key.is_operation and inside is None:
            later = (n for n in comparison.nodes if n.bad and n.order > first.order and not n.key.is_operation)
            behind = next((n for n in later if n.key.step == first.key.step and n.key.path.startswith("@")), None)
            own, foreign = (None, None) if behind is None else (behind.key, behind.other)
            if self.turned:
                own, foreign = foreign, own
            entry = self.foreign.get(foreign) if foreign is not None else None
            if behind is not None and own is not None and entry is not None and behind.error is not None:
                then = goal_of(behind, reference, self.foreign, entry)
                yield PipelineProbe(self.live, self.own, own, then, self.held, self.log, None, right), focus, False
        yield PipelineProbe(self.live, self.own, key, goal, self.held, self.log, inside, right), focus, False

    def _rightly_called(self, comparison: Comparison, first: NodeResult) -> frozenset[tuple[str, int]]:
        """Models, and which of their calls, that are given the same on both sides before the first bad value."""
        right: dict[tuple[str, int], bool] = {}
        for node in comparison.nodes:
            own = node.other if self.turned else node.key
            if own is not None and own.is_input and own.path in self.live.parts.modules and node.order < first.order:
                call = (own.path, self.call_number(own.path, own))
                right[call] = right.get(call, True) and not node.bad
        return frozenset(call for call, so in right.items() if so)

    def _maker_probes(
        self, key: Key, site: Site | None, goal: Goal, comparison: Comparison, reference: Trace
    ) -> Iterator[tuple[Probe, Site | None, bool]]:
        """The whole model, where what made a value that the other side has in another form is suspect alone: it was not
        compared."""
        root, makers = key.path.partition(".")[0].partition("/")[0], self._makers(comparison)
        if makers and root in self.modules:
            for probe, focus, _ in self._module_probes(root, key, site, None, goal, comparison, reference):
                if probe.goal is goal:
                    probe.makers = makers
                    yield probe, focus, False

    def _makers(self, comparison: Comparison) -> frozenset[str]:
        entries = [self.own.get(pair[self.turned]) for pair in comparison.other_form]
        made = [self.own.by_seq.get(e.same) for e in entries if e is not None and e.same is not None]
        paths = {e.key.path.partition("/")[0] for e in made if e is not None and not e.key.is_input}
        return frozenset(path for path in paths if path in self.modules)

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

    def _try(self, probe: Any, focus: Site | None, deep: bool, comparison: Comparison) -> None:
        survey = None
        with noted(self.log, self.held, probe.path):
            survey = probe.survey()
        if survey is None:
            return
        for stage in self._stages(probe, survey, focus, deep, comparison):
            with noted(self.log, (), probe.path):
                self._try_stage(probe, stage)
            if not any(t.accepted for t in probe.trials):
                for family in families(probe.trials)[:FITTED]:
                    if not self.late():
                        probe.fit(family)
                self._doubt(probe.trials)
            for trial in sorted((t for t in probe.trials if t.accepted), key=lambda t: t.order)[:CHECKED]:
                if not trial.checked:
                    probe.check(trial)
            if any(t.decisive for t in probe.trials):
                break
        self.runs += probe.runs

    def _doubt(self, trials: Iterable[Trial]) -> None:
        """No number is the cause that the other side has nowhere."""
        for trial in trials:
            if self.across is not None and trial.edit.parameter is not None and trial.accepted:
                trial.unheard_of = self.across.numbers.lack(trial.edit, trial.fitted)

    def _try_stage(self, probe: Any, stage: Iterable[Edit]) -> None:
        left, most, wide = TRIALS, math.inf, isinstance(stage, Wide)
        for edit in stage:
            if not left or self.log.spent > most or self.late():
                break
            if edit.name == "timestep_dtype" and not is_about_time(probe):
                continue
            trial = probe.attempt(edit)
            self._doubt([trial] if trial is not None else [])
            if trial is not None and trial.accepted:
                left = min(left, AFTER_EXACT) if trial.residual == 0 else left
                most = min(most, self.log.spent + AFTER_FLOOR) if wide and trial.at_the_floor else most
            left -= 1

    def _stages(
        self, probe: Any, survey: Any, focus: Site | None, deep: bool, comparison: Comparison
    ) -> Iterator[Iterable[Edit]]:
        differing = [{**d, "other": d["a"] if self.turned else d["b"]} for d in comparison.attributes]
        if isinstance(probe, PipelineProbe):
            yield scheduler_edits(probe, comparison, self.turned)
            if self.across is not None and not self._is_told():
                yield own_number_edits(self.live, self.across.live)
            yield number_edits(self.live.parts.schedulers)
            yield chain(chain_edits(probe, survey), own_frame_edits(probe, survey, focus))
            yield root_edits(probe)
            if self.brief:
                return
            yield Wide(deep_edits(self._unwatched(probe, comparison), singly=False))
            yield operand_edits(probe, survey)
            return
        if probe.makers:
            yield attribute_edits(probe, [d for d in differing if d["path"] in probe.makers])
            if self.brief:
                return
            made = Survey({site: example for site, example in survey.sites.items() if site.path in probe.makers})
            yield chain(own_frame_edits(probe, made, focus, probe.makers), together_edits(made))
            return
        yield attribute_edits(probe, differing)
        yield parameter_edits(probe, self.weights, bool(comparison.weights))
        if deep:
            yield Wide(deep_edits(survey))
            return
        yield rotary_edits(probe, survey)
        yield chain(module_as_activation(probe), child_edits(probe, survey), repeated_children(probe, survey))
        own = own_frame_edits(probe, survey, focus, self._unseen(survey))
        yield chain(sines_and_cosines(probe, survey), own)
        yield chain(order_edits(probe, survey), input_edits(probe))
        yield chain(several_edits(probe, survey), chain_edits(probe, survey), resized_edits(probe, survey))
        if self.brief:
            return
        yield self._fitted_scales(probe, survey)
        yield operand_edits(probe, survey)
        yield swapped_weights(probe)

    def _is_told(self) -> bool:
        """True if what was seen stands and says one specific thing."""
        return self.brief and self.seen is not None and self.seen.edit.rank < SPECIFIC

    def _unwatched(self, probe: PipelineProbe, comparison: Comparison) -> Survey:
        """Operations inside of models whose results the other side's trace does not show; between models that it does
        show nothing inside of them can be the cause."""
        if probe.key.path in self.modules:
            return probe.everywhere
        results = [n.other if self.turned else n.key for n in comparison.nodes if not n.key.is_input]
        shown = {key.path.partition(".")[0] for key in results if key is not None}
        sites = probe.everywhere.sites
        return Survey({site: example for site, example in sites.items() if site.path.partition(".")[0] not in shown})

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
