"""Why the first difference arises: hypotheses tried on the live models, or on the recorded values alone."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .causes.catalogue import (
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
from .causes.edits import Edit, Site
from .causes.examples import Example, example_of
from .causes.goals import Goal, goal_of
from .causes.pipeline_probe import PipelineProbe, scheduler_edits
from .causes.probe import Probe, Reached, Read, Survey, Trial, families
from .causes.recorded import recorded_causes
from .comparison import compare
from .floor_file import Floor
from .names import Key
from .patching import watch_attribute
from .recorder import record
from .replay import replay
from .results import Cause, Comparison, NodeResult, Verdict
from .targets import Target, find_target
from .trace import Trace

LIMIT = 4  # causes looked for, one behind the other
TRIALS = 1500  # of one stage
AFTER_EXACT = 60  # more hypotheses that are tried once one fits to the last bits
CHECKED = 12  # accepted hypotheses whose other consequences are looked at
FITTED = 6  # quantities that are fitted, the most promising first
METHODS = ("encode", "decode")
SECONDS = 120.0


@dataclass
class Live:
    """A model or pipeline that can be run again; `call` repeats the recorded run (a module needs none)."""

    target: Any
    call: Callable[[], Any] | None = None
    name: str | None = None
    parts: Target = field(init=False)

    def __post_init__(self) -> None:
        self.parts = find_target(self.target, self.name)

    def rename(self, trace: Trace) -> None:
        """The root name that the trace was recorded under."""
        roots = [path for path in trace.meta.get("modules", {}) if "." not in path]
        if self.name is None and len(self.parts.modules) == 1 and len(roots) == 1 and self.parts.pipeline is None:
            self.name = roots[0]
            self.parts = find_target(self.target, self.name)

    def run(self, trace: Trace) -> Any:
        if self.call is not None:
            return self.call()
        (root, module), *_ = self.parts.modules.items()
        return replay(trace, module, root)


def diagnose(
    comparison: Comparison,
    *,
    reference: Any = None,
    candidate: Any = None,
    floor: str | Path | Floor | None = None,
    limit: int = LIMIT,
    seconds: float = SECONDS,
    map: Any = "auto",
    traces: tuple[Trace, Trace] | None = None,
) -> list[Cause]:
    """Name the causes of a BUG or DRIFT with their proof, and put them into `comparison.causes`.

    `reference` and `candidate` are what was recorded (a module, a pipeline, or `Live(target, call)`); give the one, the
    other, or both. With neither, only what the recorded values themselves prove is found.
    """
    if comparison.verdict not in (Verdict.BUG, Verdict.DRIFT) or comparison.first is None:
        return []
    a, b = traces or (Trace.open(comparison.reference_path), Trace.open(comparison.candidate_path))
    sides = [(_live(reference, a), a, b, False), (_live(candidate, b), b, a, True)]
    floor = floor if floor is not None else (comparison.floor_path or None)
    other = [_weights(sides[1][0]), _weights(sides[0][0])]
    causes: list[Cause] = []
    deadline = time.perf_counter() + seconds
    for (live, own, foreign, turned), weights in zip(sides, other, strict=True):
        if live is not None:
            search = _Search(live, own, foreign, turned, weights, floor, map, deadline)
            causes = search.all_causes(comparison, limit)
            if causes and causes[0].evidence.get("accepted"):
                break
    proven = [c for c in causes if c.evidence.get("accepted")]
    recorded = recorded_causes(comparison, comparison.first, a, b)
    recorded = [c for c in recorded if not proven or c.name != "wrong_operand"]
    comparison.causes = [*proven, *recorded, *[c for c in causes if c not in proven]]
    return comparison.causes


def _live(side: Any, trace: Trace) -> Live | None:
    if side is None:
        return None
    live = side if isinstance(side, Live) else Live(side)
    live.rename(trace)
    return live


def _weights(live: Live | None) -> dict[str, torch.Tensor] | None:
    if live is None:
        return None
    named = {}
    for root, module in live.parts.modules.items():
        named.update(
            {f"{root}.{path}": t.detach() for path, t in [*module.named_parameters(), *module.named_buffers()]}
        )
    return named


class _Search:
    """Causes of one comparison, tried on one live side."""

    def __init__(
        self, live: Live, own: Trace, foreign: Trace, turned: bool, weights: dict[str, torch.Tensor] | None,
        floor: Any, map: Any, deadline: float,
    ) -> None:  # fmt: skip
        self.live, self.own, self.foreign, self.turned = live, own, foreign, turned
        self.weights, self.floor, self.map, self.deadline = weights, floor, map, deadline
        self.modules = live.parts.named_modules()
        self.held: list[Edit] = []
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
            found.append(self._cause(accepted[0], current.first, True, accepted[1:4]))
            current = self._behind(accepted[0], current.first, found[-1]) if limit > 1 else None
        return found

    def _behind(self, trial: Trial, node: NodeResult, cause: Cause) -> Comparison | None:
        """What is left with this cause in force too: everywhere it applies if that explains more than here alone."""
        best: tuple[int, Edit, Comparison] | None = None
        wide = widened(trial.edit, self._sites())
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
        cause.evidence["with it"] = again.sentence()
        cause.evidence["everywhere"] = edit is not trial.edit
        if edit is not trial.edit:
            cause.fix = edit.detail
        return again if reach > node.order and again.verdict in (Verdict.BUG, Verdict.DRIFT) else None

    def _sites(self) -> dict[Site, Example]:
        """Every operation of the live side, by a run that only looks."""
        sites: dict[Site, Example] = {}
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            with PipelineProbe.edited(self.live, (), lambda s, c, r: sites.setdefault(s, example_of(c, r, {}))):
                self.live.run(self.own)
        return sites

    def _compared_again(self, edits: list[Edit]) -> Comparison | None:
        """The whole comparison once more with the edits in force on the live side."""
        with tempfile.TemporaryDirectory(prefix="parity-cause-") as folder:
            path = Path(folder, "edited.trace")
            level = self.own.meta.get("level", "module")
            try:
                stop = self.own.meta.get("stopped_at")
                recorder = record(self.live.target, path, level=level, weights=False, name=self.live.name, stop_at=stop)
                with recorder, PipelineProbe.edited(self.live, edits):
                    self.live.run(self.own)
            except Exception:
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
            if any(t.accepted and not t.broken for t in tried) or time.perf_counter() > self.deadline:
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
            yield PipelineProbe(self.live, self.own, key, goal, self.held), focus, False

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
            yield Probe(self.modules, path, *captured, read, chosen, self.held, checks), focus, coarse

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

    def _callable(self, path: str) -> Any:
        """The live module of a path, or the method of one (`vae.decode`)."""
        if path in self.modules:
            return self.modules[path]
        owner, _, method = path.rpartition(".")
        return getattr(self.modules.get(owner), method, None) if method in METHODS else None

    def _outer_call(self, path: str, key: Key) -> int:
        return key.call if key.is_operation or key.path == path else self._begun_before(path, key)

    def _parent(self, path: str) -> str:
        """The module whose code calls this one (a ModuleList is not called itself)."""
        below = path
        while "." in path:
            path = path.rpartition(".")[0]
            if path in self.modules and not isinstance(self.modules[path], (nn.ModuleList, nn.ModuleDict)):
                return self._method_of(path, below)
        return "@pipeline"

    def _method_of(self, root: str, below: str) -> str:
        """`vae.decode` for what only that method calls, `vae` where the model itself was called."""
        if self._calls(root):
            return root
        for method in METHODS:
            if self._calls(f"{root}.{method}") and self._callable(f"{root}.{method}") is not None:
                return f"{root}.{method}"
        return root

    def _calls(self, path: str) -> list[tuple[int, Key]]:
        """(first seq, key) of every recorded call of a module, in order."""
        found: dict[tuple[str, str, int], tuple[int, Key]] = {}
        for entry in self.own.entries:
            if entry.key.path == path:
                found.setdefault(entry.key.node, (entry.seq, entry.key))
        return sorted(found.values(), key=lambda item: item[0])

    def _begun_before(self, path: str, key: Key) -> int:
        """Call number, inside the step, of the container that was running when `key` came to be."""
        entry = self.own.get(key)
        begun = [k for seq, k in self._calls(path) if entry is not None and seq <= entry.seq]
        return begun[-1].call if begun else 0

    def _arguments(self, path: str, key: Key) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """What the live module is given in the recorded call, taken from a run that stops there."""
        if key.path == path or key.is_operation:
            number = next(
                (i for i, (_, k) in enumerate(self._calls(path)) if (k.step, k.call) == (key.step, key.call)), 0
            )
        else:
            entry = self.own.get(key)
            number = max(0, sum(1 for seq, _ in self._calls(path) if entry is not None and seq <= entry.seq) - 1)
        seen = [0]
        kept: list[Any] = []

        def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen[0] += 1
            if seen[0] - 1 == number:
                kept.extend([_copied(args), _copied(kwargs)])
                raise Reached(torch.zeros(()))

        def around(module: nn.Module, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            before(module, args, kwargs)
            return original(*args, **kwargs)

        try:
            with torch.no_grad(), PipelineProbe.edited(self.live, self.held), ExitStack() as stack:
                if path in self.modules:
                    stack.callback(self.modules[path].register_forward_pre_hook(before, with_kwargs=True).remove)
                else:
                    owner, _, method = path.rpartition(".")
                    watch_attribute(stack, self.modules[owner], method, around)
                self.live.run(self.own)
        except Reached:
            pass
        except Exception:
            return None
        self.runs += 1
        return (kept[0], kept[1]) if kept else None

    def _relative_call(self, path: str, key: Key) -> int:
        """The how-manieth call of the watched module inside the probed one."""
        if key.path == path or key.is_operation:
            return 0
        entry = self.own.get(key)
        began = max((seq for seq, _ in self._calls(path) if entry is not None and seq <= entry.seq), default=0)
        return max(
            0, sum(1 for seq, k in self._calls(key.path) if seq >= began and entry is not None and seq <= entry.seq) - 1
        )

    def _is_coarse(self, path: str) -> bool:
        """True if the other side's trace says nothing about what is inside this module."""
        if path not in self.modules or not any(True for _ in self.modules[path].children()):
            return False
        inside = [e for e in self.foreign.entries if e.key.path.startswith((f"{path}.", f"{path}/"))]
        return not inside

    def _try(self, probe: Any, focus: Site | None, deep: bool, comparison: Comparison) -> list[Trial]:
        try:
            survey = probe.survey()
        except Exception:
            return []
        for stage in self._stages(probe, survey, focus, deep, comparison):
            left = TRIALS
            for edit in stage:
                if not left or time.perf_counter() > self.deadline:
                    break
                trial = probe.attempt(edit)
                if trial is not None and trial.accepted and trial.exact:
                    left = min(left, AFTER_EXACT)
                left -= 1
            if not any(t.accepted for t in probe.trials):
                for family in families(probe.trials)[:FITTED]:
                    if time.perf_counter() < self.deadline:
                        probe.fit(family)
            for trial in sorted((t for t in probe.trials if t.accepted), key=lambda t: t.order)[:CHECKED]:
                if not trial.checked:
                    probe.check(trial)
            if any(t.checked and t.whole and (t.exact or t.residual < 0.02 * t.goal.before) for t in probe.trials):
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
            if not probe.key.is_operation:
                yield deep_edits(probe.everywhere, singly=False)
            yield operand_edits(probe, survey)
            return
        yield attribute_edits(probe, differing)
        yield parameter_edits(probe, self.weights)
        if deep:
            yield deep_edits(survey)
            return
        yield module_as_activation(probe)
        yield own_frame_edits(probe, survey, focus, self._unseen(survey))
        yield input_edits(probe)
        yield rotary_edits(probe, survey)
        yield child_edits(probe, survey)
        yield operand_edits(probe, survey)
        yield swapped_weights(probe)

    def _unseen(self, survey: Survey) -> frozenset[str]:
        """Modules that the other side does not call: it does their work in some other way."""
        known = {entry.key.path for entry in self.foreign.entries}
        return frozenset(
            site.path for site in survey.sites if site.path in self.modules and self._partner(site.path) not in known
        )

    def _partner(self, path: str) -> str:
        return path

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
        return Cause(
            trial.edit.name, f"{trial.edit.detail} in the {sides[1]}: {proof}", where, goal.before, trial.residual, floor,
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


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (list, tuple):
        return type(value)(_copied(v) for v in value)
    if type(value) is dict:
        return {k: _copied(v) for k, v in value.items()}
    return value
