"""The first difference of a comparison, seen in the steps of both live sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...comparison.layout import is_exchanged
from ...comparison.results import Comparison, NodeResult
from ..edits import Change, Edit, NotApplicable, Site, site_of
from ..failures import noted
from ..probe import SPECIFIC
from .frames import SharedFrame, results_of
from .graph import FrameStep, FrameValue, Graph, TooLarge, graph_of
from .kinds import MOVABLE
from .lines import done_at, told_line
from .loops import made_first, one_for_each_line
from .matching import Matching, Parting
from .places import earliest, givers_of, place_of, places_of, taken_at, where
from .sameness import gives_alike
from .smallest import smallest_difference
from .transplant import Transplant, joined
from .used_weights import weights_of_another_place
from .words import PlaceWords, are_exchanged, words_of

LEVELS = 4  # modules around each other whose code is looked at
ROUNDS = 4  # lines of one frame that are put right one behind the other
MOST_PLACES = 40  # of these lines: a helper is used in every layer
OTHER_KERNELS = 10.0  # times the tolerance
FAR_BELOW = 1e-3  # of the difference that is looked for: what hides nothing of it
ROUNDED = 1e-4  # what the sine of a large number may be off by, where its frequency was rounded in another way
STEPS_OF_EVALUATION = 400
MOST_STEPS = 40_000  # done again in one frame
UNNAMED = "other_computation"
LEAST = 1e-6  # relative: values nearer than this are the same, whatever kernel made them
TABLE = "rope_table"

Kind = tuple[str, tuple[str, ...], tuple[str, ...]]  # the name of a difference, and the steps that one side alone takes


@dataclass
class Observed:
    """What the candidate computes otherwise, as an edit of the reference; and which of its places differ."""

    edit: Edit
    wider: Edit | None  # the same in the place of more steps
    places: frozenset[str]  # steps of the reference that the candidate does not have
    near: frozenset[str]  # and those that give these what both sides have
    place: NodeResult | None = None  # the smallest value that is wrong, by the reference's name
    first: Kind | None = None  # of the first place
    further: Edit | None = None  # another table of rotations, where that is what goes in
    seen: Callable[[Edit], bool] = lambda edit: True  # whether with an edit the reference computes what was seen there
    kinds: tuple[Kind, ...] = ()  # of the places, those that say least first
    only: Callable[[frozenset[Kind]], Edit | None] = lambda kinds: None  # with the places of these kinds alone

    def narrowed(self, kinds: frozenset[Kind], edit: Edit) -> Observed:
        """The same without places that were seen to do no harm."""
        place = self.place if self.kinds[:1] and self.first in kinds else None
        return replace(self, edit=edit, wider=None, place=place, kinds=tuple(k for k in self.kinds if k in kinds))

    def edits(self) -> list[Edit]:
        """What is to be tried, the most telling first."""
        known = [edit for edit in (self.edit, self.wider, self.further) if edit is not None]
        return sorted(known, key=lambda edit: edit.rank >= SPECIFIC and edit is not self.further)


@dataclass
class _Outside:
    """Something goes in that the other side is not given: only a table of rotations, which is known by what it does."""

    observed: Observed | None


def observed_difference(search: Any, comparison: Comparison, coarse: bool = False, around: int = 0) -> Observed | None:
    """None where only one side can be run, or where both take the same steps.

    With `coarse` what is far below the difference that is looked for is the same: a table that was rounded otherwise.
    The code `around` the smallest one, so many levels out, shows what the one side does inside and the other outside.
    """
    node = comparison.first
    if search.turned or search.across is None or node is None or node.other is None:
        return None
    found: Observed | None = None
    with noted(search.log, search.held, "the steps of both sides"):
        try:
            found = _smallest_frame(search, comparison, node, coarse, around)
        except TooLarge:
            search.log.say("too many numbers to put the steps of both sides side by side")
    return found


def _smallest_frame(
    search: Any, comparison: Comparison, node: NodeResult, coarse: bool, around: int
) -> Observed | None:
    """What is seen in the smallest code around the value that is given the same on both sides.

    Where it is given another table of rotations, that table is told if the code around says no more.
    """
    table: Observed | None = None
    for above in range(around, LEVELS):
        seen = _observed(search, comparison, node, above, coarse)
        if not isinstance(seen, _Outside):
            return replace(seen, further=table.edit) if seen is not None and table is not None else seen or table
        table = table or seen.observed
    return table


def _observed(
    search: Any, comparison: Comparison, node: NodeResult, above: int, coarse: bool
) -> Observed | _Outside | None:
    """`_Outside` where something goes into the candidate's code that the reference's is not given: put into the
    reference that would prove itself."""
    assert node.other is not None
    frames = SharedFrame(search, comparison, node, above)
    theirs_graph = graph_of(search.across, *frames.theirs, open_=frames.open_theirs)
    if theirs_graph is None:
        return None
    walk = _Walk(search, comparison, node, frames, theirs_graph, coarse)
    while walk.may_go_on() and walk.goes_on():
        pass
    seen = walk.observed()
    if walk.from_outside:
        return _Outside(seen)
    unnamed = seen is None or seen.edit.name == UNNAMED  # two long expressions say less than other weights do
    return (walk.other_weights() if unnamed else None) or seen


class _Walk:
    """The places of one frame where the sides part, each put right in the reference before the next is looked for."""

    def __init__(
        self, search: Any, comparison: Comparison, node: NodeResult, frames: SharedFrame, theirs: Graph, coarse: bool
    ) -> None:
        self.search, self.comparison, self.node, self.frames, self.theirs = search, comparison, node, frames, theirs
        self.tolerance = max(node.tau, LEAST)
        if coarse and node.error is not None:
            self.tolerance = max(self.tolerance, min(ROUNDED, node.error * FAR_BELOW))
        if node.arranged and node.error is not None:  # other batches are other kernels
            self.tolerance = max(self.tolerance, min(OTHER_KERNELS * self.tolerance, node.error * FAR_BELOW))
        if node.error is not None and node.error > 0:
            self.tolerance = min(self.tolerance, node.error / 4)
        self.ours = Graph("", {})  # the reference's steps, as they were before anything was put right
        self.plans: list[Transplant] = []
        self.wider: list[Transplant | None] = []  # the same in the place of more steps
        self.told: list[list[PlaceWords]] = []  # of each place
        self.places: set[str] = set()
        self.near: set[str] = set()
        self.done_at: list[FrameStep | None] = []  # the candidate's step whose line is told, for each place
        self.lines: list[str] = []  # of the candidate's code, one for each place
        self.place: NodeResult | None = None
        self.from_outside = False
        self.wrong: list[FrameValue] = []  # what the candidate has at the first place
        self._tried: set[Any] = set()
        self._reached = -1  # number of the reference's step that was last put right
        self._steps = 0  # done again

    @property
    def said(self) -> list[PlaceWords]:
        return [words for place in self.told for words in place]

    def may_go_on(self) -> bool:
        """Few lines, however often each of them is run."""
        apart = sum(1 for i, line in enumerate(self.lines) if not line or line not in self.lines[:i])
        return apart < ROUNDS and len(self.lines) < MOST_PLACES and not self._is_late()

    def _is_late(self) -> bool:
        return self._steps > MOST_STEPS or self.search.late()

    def goes_on(self) -> bool:
        """One place more; False where there is none, or where it cannot be told."""
        matching = self._matching()
        differences = made_first(matching, matching.differences(self._kept())) if matching is not None else []
        if matching is None or not differences or any(_is_unexplained(matching, d.theirs) for d in differences):
            return False
        if self._went_back(differences):
            return True
        if (place := where(differences[0])) in self._tried:
            return False  # putting it right did not help
        self._tried.add(place)
        if matching.anchor is not None and not self.search.held:
            self.comparison.place = self.comparison.place or place_of(differences[0], self.node, self.tolerance)
        sides = self.search.modules, self.search.across.modules
        like = one_for_each_line(differences)  # what a loop does wrong is looked into once
        known: dict[int, tuple[list[Parting], PlaceWords]] = {}
        for i in sorted(set(like)):
            d = differences[i]
            inside = [] if _takes_in_other_order(matching, d) else smallest_difference(matching, d, *reversed(sides))
            known[i] = inside, words_of(matching, d, inside, *sides)
        inner = [known[i][0] if i in known else [] for i in range(len(differences))]
        words = [known[i][1] for i in like]
        small = [p for d, i in zip(differences, inner, strict=True) for p in (i if _is_smallest(matching, i) else [d])]
        if any(_comes_from_outside(matching, p.theirs) for p in small):
            self.from_outside = not self.plans or self.from_outside
            if not all(one.name == TABLE for one in words):
                self.plans, self.told, self.done_at = [], [], []
                return False
        if any(self._holds_too_much(matching, p.theirs) for p in small):
            # nearly the whole run of the candidate put into the reference closes any run: it is looked into
            self._tried.discard(place)  # nothing was put right yet
            return self._opened(matching, small)
        self.told.append([one for one in words if one.detail])
        self.places |= places_of(matching, [*differences, *(p for places in inner for p in places)])
        self.near |= givers_of(matching, differences)
        made = [step for p in [*inner[0], *small] if (step := done_at(matching, p)) is not None]
        self.lines.append(made[0].line if made else "")
        self.done_at.append(next(iter(made), None))
        outside = small == differences or any(_comes_from_outside(matching, d.theirs) for d in differences)
        self.wider.append(None if outside else self._plan(matching, differences))
        self.plans.append(self._plan(matching, small))
        if len(self.plans) == 1:
            self.wrong = [d.theirs for d in [*differences, *inner[0]] if not matching.is_leaf(d.theirs)]
            self.place = self._place_of(matching, differences[0], inner[0], words[0])
        self._reached = differences[0].ours.number
        return True

    def _kept(self) -> tuple[Site, Site] | None:
        """The steps that made the value which is looked for, where the code of both sides is that of the frame."""
        keys = self.node.key, self.node.other
        sites = [site_of(key.path) for key in keys if key is not None and key.is_operation]
        frames = self.frames.ours[0], self.frames.theirs[0]
        known = [s for s, frame in zip(sites, frames, strict=False) if s is not None and s.path == frame]
        return (known[0], known[1]) if len(known) == len(frames) else None

    def _done_again(self, steps: int) -> None:
        """Steps done again count as evaluations, as a part of a run does."""
        self._steps += steps
        self.search.log.spent += steps / STEPS_OF_EVALUATION
        self.search.log.say("the steps of both sides")

    def _place_of(
        self, matching: Matching, difference: Parting, inner: list[Parting], words: PlaceWords
    ) -> NodeResult | None:
        """The value that is wrong: of several alike the first; and where only the result of the whole frame was
        compared, what was seen inside of it."""
        if _is_smallest(matching, inner):
            return place_of(inner[0], self.node, self.tolerance)
        first, frame = (inner or [difference])[0], self.frames.ours[0]
        like = first.ours.step and first.theirs.step and first.ours.step.name == first.theirs.step.name
        has_both = matching.partner(first.ours) is not None and matching.partner(first.theirs) is not None
        if has_both or (not like and matching.partner(first.ours) is not None):
            if difference.exit is not None:
                return None
            taken = taken_at(matching, first.ours, difference.ours) if inner and matching.anchor is not None else None
            if taken is not None:
                return place_of(difference, self.node, self.tolerance, taken)
            first = difference  # the candidate has it, too: where it is taken is the place
        site = first.ours.step.place if first.ours.step is not None else frame
        path, known = (site if isinstance(site, str) else site.path), self.node.key.path
        inside = self.node.key.path == frame
        outside = not (path == known or known.startswith(f"{path}.") or path.startswith(f"{known}."))
        made = self.node.key.is_input and isinstance(site, Site) and path == known.rpartition(".")[0]
        made = made and words.name != "axes_swapped"  # else it is right until it is read
        if not made and (path == frame or not (inside or outside)):
            return None  # both sides know it by the name of the node, and no step before the part that takes it does
        # one thing that one step does otherwise is at that step; else it begins with the first step of the place
        alone = bool(inner) or (words.rank < SPECIFIC and words.name != "order_exchanged")
        return place_of(first, self.node, self.tolerance, None if alone else earliest(matching, first))

    def _holds_too_much(self, matching: Matching, value: FrameValue) -> bool:
        """True for many steps, and for whole blocks of the candidate that the reference has not: any fault may be
        inside of them."""
        modules = self.search.across.modules
        blocks = [s for s in matching.called(value) if s.place in modules and list(modules[s.place].children())]
        return matching.is_large(value) or not all(self._has_twin(step) for step in blocks)

    def _has_twin(self, step: FrameStep) -> bool:
        """True if a block of the reference makes the same of what the candidate's is given: then it is another block
        that is called, not another one that was written."""
        own = self.search.modules
        paths = [path for path in own if path == step.place or self.frames.paths.of(path) == step.place]
        return any(gives_alike(own[path], step, self.tolerance) for path in paths)

    def _opened(self, matching: Matching, places: list[Parting]) -> bool:
        """Look into the first block on the way from what both have; False where there is none."""
        modules, frames = self.search.across.modules, self.frames
        steps = [
            s for p in places if not matching.is_leaf(p.theirs) for s in matching.until_shared(p.theirs, most=None)
        ]
        for step in sorted(steps, key=lambda s: s.number):
            path = step.place
            if not isinstance(path, str) or path in frames.open_theirs or not list(modules[path].children()):
                continue
            mine = [own for own in self.search.modules if frames.paths.of(own) == path]
            frames.open_theirs, frames.open_ours = frames.open_theirs | {path}, frames.open_ours | set(mine)
            theirs = graph_of(self.search.across, *frames.theirs, open_=frames.open_theirs)
            self.theirs = theirs if theirs is not None else self.theirs
            return theirs is not None
        return False

    def _plan(self, matching: Matching, places: list[Parting]) -> Transplant:
        return Transplant(matching, places, self.search.modules, self.search.across.modules)

    def _matching(self) -> Matching | None:
        frame = self.frames.ours
        changes = [*self.search.held, Edit("observed", "", _changes(self.plans, frame[0]))]
        try:
            graph = graph_of(self.search, *frame, changes, self.frames.open_ours)
        except (NotApplicable, RuntimeError, TypeError, ValueError, IndexError):
            if not self.plans:
                raise
            return None  # what was seen until here stays seen
        return self._beside(graph) if graph is not None else None

    def _beside(self, graph: Graph) -> Matching:
        """The candidate's steps beside those of the reference."""
        self.ours = self.ours if self.plans else graph
        paths, exchanged = self.frames.paths.of, is_exchanged(self.comparison)
        results = results_of(self.comparison, self.frames)
        return Matching(graph, self.theirs, self.tolerance, paths, exchanged, self._done_again, results)

    def _went_back(self, differences: list[Parting]) -> bool:
        """True if what was put right last made something before it wrong: the reference uses that value elsewhere, so
        only what comes of it is put right."""
        if not self.plans or differences[0].ours.number >= self._reached or self.wider[-1] is None:
            return False
        self.plans[-1], self.wider[-1] = self.wider[-1], None
        return True

    def observed(self) -> Observed | None:
        if not self.plans or not self._says_something(self.said):
            return None
        wider, kinds = self.wider[0], [_kind_of(told) for told in self.told]
        alone = wider is not None and len(self.plans) == 1
        places, near = frozenset(self.places), frozenset(self.places | self.near)
        every = range(len(self.plans))
        return Observed(
            self._made(self.plans, every),
            self._made([wider], every) if wider is not None and alone else None,
            places,
            near,
            self.place,
            kinds[0],
            seen=self.is_seen,
            kinds=tuple(sorted(dict.fromkeys(kinds), key=lambda kind: kind[0] != UNNAMED)),
            only=self.only,
        )

    def other_weights(self) -> Observed | None:
        """No step is another one, but the weights of another module are taken."""
        plans, self.plans = self.plans, []  # as it was, with nothing put right
        matching = self._matching() if self.frames.ours[0] in self.search.live.parts.modules else None
        self.plans = plans
        edit = weights_of_another_place(matching, self.search.modules) if matching is not None else None
        if edit is None:
            return None
        places = frozenset([edit.owner])
        return Observed(edit, None, places, places)

    def only(self, kinds: frozenset[Kind]) -> Edit | None:
        """What was seen at places of these kinds alone; None where that says nothing."""
        which = [i for i, told in enumerate(self.told) if _kind_of(told) in kinds]
        said = [words for i in which for words in self.told[i]]
        return self._made([self.plans[i] for i in which], which) if which and self._says_something(said) else None

    def _says_something(self, said: list[PlaceWords]) -> bool:
        """Not nothing, and not the same thing twice."""
        wrong, _, right = said[0].detail.partition(" instead of ") if said else ("", "", "")
        return wrong != right

    def _made(self, plans: list[Transplant], which: Sequence[int]) -> Edit:
        """The plans as an edit, in the words of the places they are for."""
        said = [words for i in which for words in self.told[i]]
        name, detail, rank = _together(said)
        frame, first = self.frames.ours[0], said[0]
        done_at = next((step for i in which if (step := self.done_at[i]) is not None), None)
        step = first.by if first.loaded or first.form else done_at
        line = told_line(self.ours, self.theirs, step, len(which))

        def at(path: str) -> Edit:
            return Edit(name, detail, _changes(plans, path), rank)

        return replace(at(frame), elsewhere=at, owner=frame, line=line)

    def is_seen(self, edit: Edit) -> bool:
        """True if with the edit the reference makes what the candidate has at the first place, or that is not known."""
        changes, graph = [*self.search.held, edit], None
        with noted(self.search.log, changes, self.frames.ours[0]):
            graph = graph_of(self.search, *self.frames.ours, changes, self.frames.open_ours)
        if graph is None or not self.wrong:
            return True
        matching = self._beside(graph)
        return all(matching.partner(value) is not None for value in self.wrong)


def _kind_of(told: list[PlaceWords]) -> Kind:
    return (told[0].name, told[0].mine, told[0].others) if told else ("", (), ())


def _comes_from_outside(matching: Matching, value: FrameValue) -> bool:
    """True if an argument of the candidate's code goes in that the reference does not have."""
    taken = [value, *(v for step in matching.until_shared(value) for v in step.operands())]
    given = [v for v in taken if v.given.startswith("in.") and matching.partner(v) is None]
    return any(not matching.is_rearranged(v) for v in given)


def _is_smallest(matching: Matching, inner: list[Parting]) -> bool:
    """True for values that the reference makes and the candidate has nowhere, which are wrong wherever they are used;
    and for two that are exchanged."""
    made = bool(inner) and all(p.ours.step is not None for p in inner)
    return made and (all(matching.partner(p.ours) is None for p in inner) or are_exchanged(matching, inner))


def _takes_in_other_order(matching: Matching, difference: Parting) -> bool:
    """True for one step of the same values in another order: that step is the place, not what made the values."""
    a, b = difference.ours.step, difference.theirs.step
    if difference.exit is not None or a is None or b is None or a.name != b.name or len(a.operands()) < 2:
        return False
    return sorted(map(id, a.operands())) == sorted(id(matching.partner(v)) for v in b.operands())


def _is_unexplained(matching: Matching, value: FrameValue) -> bool:
    """True for numbers that nobody was seen to make, or that a module of both sides makes of the same: put into the
    reference they would prove themselves."""
    if value.step is None:
        indices = not value.content.is_floating_point() and matching.anchor is not None
        return not value.given and value.content.numel() > 1 and not indices
    called = [step for step in matching.until_shared(value) if isinstance(step.place, str)]
    return any(_differs_inside(matching, step) for step in called)


def _differs_inside(matching: Matching, step: FrameStep) -> bool:
    """True if the reference calls that module with the same values, and gets something else."""
    if all(matching.is_leaf(value) for value in step.values):
        return False
    alike = [s for s in matching.ours.steps if isinstance(s.place, str) and matching.paths(s.place) == step.place]
    given = [(s.operands(), step.operands()) for s in alike if len(s.operands()) == len(step.operands())]
    return any(all(matching.same_numbers(x, y) for x, y in zip(*pair, strict=True)) for pair in given)


def _changes(plans: list[Transplant], frame: str) -> tuple[Change, ...]:
    changes: tuple[Change, ...] = ()
    for plan in plans:
        changes = joined(changes, plan.changes(frame))
    return changes


def _together(said: list[PlaceWords]) -> tuple[str, str, int]:
    """One name for several places: the first one's, with what else there is."""
    first = said[0]
    mine, theirs = (sorted(step for w in said for step in steps(w)) for steps in (lambda w: w.mine, lambda w: w.others))
    moved = _moved_to(said)
    if len(said) > 1 and first.name in MOVABLE and (mine == theirs != [] or moved is not None):
        first = replace(first, name="order_exchanged")  # the same steps, before something instead of behind it
        if moved is not None:
            return first.name, f"{first.detail}; and {moved.detail}", first.rank
    alike = all(words.name == said[0].name for words in said)
    alike = alike and (first.name != UNNAMED or len({(words.mine, words.others) for words in said}) == 1)
    if len(said) > 1 and alike and first is said[0]:
        return first.name, f"{first.detail} (and so in {len(said) - 1} more places)", first.rank
    others = list(dict.fromkeys(words.detail for words in said[1:] if words.detail != first.detail))
    detail = first.detail + "".join(f"; and {other}" for other in others[:1])
    return first.name, detail + (f"; and {len(others) - 1} more" if len(others) > 1 else ""), first.rank


def _moved_to(said: list[PlaceWords]) -> PlaceWords | None:
    """Where a step is taken at one place and left out at another: the first such place of the other kind."""
    first = said[0]
    if bool(first.mine) == bool(first.others) or any(w.name not in MOVABLE for w in said):
        return None
    return next((w for w in said if bool(w.mine) == bool(first.others) and bool(w.others) == bool(first.mine)), None)
