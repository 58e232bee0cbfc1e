"""The whole comparison once more with a hypothesis in force: what a cause has to stand."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..comparison.answer import compare
from ..comparison.results import Comparison, NodeResult, Role, SearchLog, Verdict
from ..recording.recorder import record
from ..trace.names import literal
from ..trace.reader import Trace
from .edits import Edit, ModuleChange, Site
from .examples import Example, example_of
from .failures import noted
from .hypotheses.widening import everywhere_alike, in_alike_modules, in_same_class
from .live import Live
from .pipeline_probe import PipelineProbe, run_cost
from .probe import Probe

FULL_ELEMENTS = 1 << 26  # kept whole in a run that only compares again
OPEN = (Verdict.BUG, Verdict.DRIFT)
NEVER = 1 << 60
ROUNDED = 2.0  # times the threshold: what is left where the other side's numbers are of another precision


@dataclass
class Closing:
    """What is left of the difference with one more edit in force."""

    edit: Edit
    again: Comparison
    reach: int  # order of the first value that is still bad; beyond all of them if there is none

    @property
    def closes(self) -> bool:
        """Nothing is different any more, but for names that two values have exchanged and the inside of what was
        moved."""
        if self.again.verdict in (Verdict.PASS, Verdict.NOISE):
            return True
        moved = tuple(
            f"{c.path}{end}"
            for c in self.edit.changes
            if isinstance(c, ModuleChange) and "." in c.path
            for end in ("|", ".", "/")
        )
        bad = [n for n in self.again.nodes if n.bad and n.role is not Role.HEALED and not n.key.is_operation]
        left = [n for n in bad if not f"{n.key.path}|".startswith(moved)]
        if left and all(n.ratio is not None and n.ratio <= ROUNDED for n in left):
            return True
        return bool(self.again.nodes) and not left and (bool(moved) or self.again.verdict is Verdict.INVALID)

    @property
    def first(self) -> NodeResult | None:
        return self.again.first if self.reach < NEVER else None


class WholeRun:
    """One live side, run again as it was recorded, with edits."""

    def __init__(
        self, live: Live, own: Trace, foreign: Trace, turned: bool, floor: Any, map: Any, log: SearchLog
    ) -> None:
        self.live, self.own, self.foreign, self.turned = live, own, foreign, turned
        self.floor, self.map, self.log = floor, map, log
        self.modules = live.parts.named_modules()
        self.without: list[str] = []
        self.cost = run_cost(live, own)
        self._known: dict[tuple[str, ...], Closing | None] = {}
        self._sites: dict[Site, Example] | None = None

    def closings(self, edit: Edit, held: list[Edit], probe: Probe | None, comparison: Comparison) -> Iterator[Closing]:
        """The edit everywhere it may have been ported so, then in modules of the same kind, then here alone."""
        for of_its_axes in (False, True):
            wide = everywhere_alike(edit, self.sites, comparison.attributes, of_its_axes)
            if wide is not None:
                yield from self._closing(wide, held)
        further = in_alike_modules(edit, probe, self.live, self.own, with_other_parts=True)
        for alike in (in_same_class(edit, self.live), further, in_alike_modules(edit, probe, self.live, self.own)):
            if alike is not None:
                yield from self._closing(alike, held)
        yield from self._closing(edit, held)

    def best(self, edit: Edit, held: list[Edit], probe: Probe | None, comparison: Comparison) -> Closing | None:
        """The first that closes the run, else the one that explains most of it."""
        best: Closing | None = None
        for closing in self.closings(edit, held, probe, comparison):
            if closing.closes:
                return closing
            if best is None or closing.reach > best.reach:
                best = closing
        return best

    def _closing(self, edit: Edit, held: list[Edit]) -> Iterator[Closing]:
        label = (*[e.label() for e in held], edit.label(), *sorted(edit.places()))
        if label not in self._known:
            self.log.say(f"the whole run with {edit.name}")
            again = self.compared_again([*held, edit])
            over = again is not None and again.verdict in OPEN and again.first is not None
            reach = again.first.order if over and again is not None and again.first is not None else NEVER
            self._known[label] = Closing(edit, again, reach) if again is not None else None
        known = self._known[label]
        if known is not None:
            yield known

    def sites(self) -> dict[Site, Example]:
        """Every operation of the live side, by a run that only looks."""
        if self._sites is None:
            found: dict[Site, Example] = {}
            with warnings.catch_warnings(), torch.no_grad(), noted(self.log, (), "the whole run"):
                warnings.simplefilter("ignore")
                with PipelineProbe.edited(self.live, (), lambda s, c, r: found.setdefault(s, example_of(c, r, {}))):
                    self.live.run(self.own)
            self._sites = found
            self.log.spent += self.cost
        return self._sites

    def compared_again(self, edits: Iterable[Edit], draw: Any = None) -> Comparison | None:
        """The whole comparison with the edits in force, and `draw(number, tensor)` for what is drawn at random; None if
        the model refuses them."""
        edits = list(edits)
        with tempfile.TemporaryDirectory(prefix="parity-cause-") as folder:
            path = Path(folder, "edited.trace")
            done = False
            with noted(self.log, edits, "the whole run"):
                recorder = record(
                    self.live.target,
                    path,
                    keep=self._full(),
                    level=self.own.meta.get("level", "module"),
                    weights=bool(self.own.params),  # what belongs together is known by them
                    name=self.live.name,
                    stop_at=self.own.meta.get("stopped_at"),
                    draw_hook=draw,
                )
                with recorder, PipelineProbe.edited(self.live, edits):
                    recorder.result(self.live.run(self.own))
                done = True
            self.log.runs += 1
            self.log.spent += self.cost
            if not done:
                return None
            pair = (self.foreign, Trace.open(path)) if self.turned else (Trace.open(path), self.foreign)
            return compare(*pair, floor=self.floor, map=self.map, without=self.without)

    def _full(self) -> dict[str, str]:
        """Values that the other side holds whole are compared whole, if that is not a matter of gigabytes."""
        held = [entry for entry in self.own.entries if entry.has_data and not entry.key.is_operation]
        if sum(math.prod(entry.shape) for entry in held) > FULL_ELEMENTS:
            return {}
        return {literal(entry.key.path): "full" for entry in held}
