"""One value in two arrangements: other axes, other batches, layers fused or split. The values tell which.

A candidate that keeps its numbers in another order is read in the reference's order before anything is compared, so
that errors, floors and causes see one value. What cannot be read so, because only sketches were kept, is left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ..trace.container import Array
from ..trace.names import Key
from ..trace.reader import Entry, Trace
from ..trace.sketch import ratio, sketch, sketch_error
from .align import Alignment, Pair
from .axes import Axes, as_shape, axis_of_parts, axis_orders, is_spread, joins, to_a, to_b
from .batch_rows import ROW_WORDS, are_some_rows, as_rows, batch_kinds
from .branch_order import errors_of_both, exchanged_batches, has_halves, turned
from .fused import Fusion, Fusions
from .results import Comparison
from .weights import owner

RECOGNISED = 0.5  # error up to which an arrangement is believed; numbers in a wrong order differ by more than 1
CERTAIN = 1e-2  # error up to which no other arrangement is tried, and equal shapes are believed to be rearranged
MANY = 4  # values whose extents leave one order alone: that is how the candidate lays them
EXCHANGED = "halves of the batch are exchanged, and the guidance takes them so"


def is_exchanged(result: Comparison) -> bool:
    """True if guidance's branches stand in each other's place, and rightly so."""
    return any(node.arranged.startswith(EXCHANGED) for node in result.nodes)


@dataclass
class Layout:
    """What was found: which pairs are read in another order, and which could not be."""

    told: dict[int, str] = field(default_factory=dict)  # seq of A -> what was done, in words
    unmeasured: list[Pair] = field(default_factory=list)
    not_made: list[Pair] = field(default_factory=list)  # the candidate computes only some of the rows


class Computed:
    """The numbers of an entry that are made from those of others, each time they are asked for."""

    def __init__(self, make: Callable[[], Array]) -> None:
        self._make = make

    def array(self, name: str) -> Array:
        return self._make()

    def raw(self, name: str) -> bytes:
        return self._make().tobytes()


def arrange(
    a: Trace, b: Trace, alignment: Alignment, branches_exchanged: bool = False
) -> tuple[Trace, Trace, Alignment, Layout]:
    """Both traces with every pair in one order, as far as the values say how."""
    work = _Arranging(a, b, alignment)
    work.exchanged_calls()
    work.fused_and_split()
    work.batches()
    work.branches(branches_exchanged)
    work.spread()
    work.axes()
    return work.result()


class _Arranging:
    """Entries of either side that were made anew, and the pairs that stand on them."""

    def __init__(self, a: Trace, b: Trace, alignment: Alignment) -> None:
        self.a, self.b, self.alignment = a, b, alignment
        self.pairs = {(pair.a.seq, pair.b.seq): pair for pair in alignment.pairs}
        self._partners: dict[int, set[int]] = defaultdict(set)  # of the values of A, those that they had before, too
        for mine, theirs in self.pairs:
            self._partners[mine].add(theirs)
        self.layout = Layout()
        self.new_a: dict[int, list[Entry]] = {}
        self.new_b: dict[int, list[Entry]] = defaultdict(list)
        self._next = max([*b.by_seq, 0]) + 1
        self._worked: dict[tuple[int, int], list[tuple[Axes, bool]]] = defaultdict(list)  # (ndim, ndim) -> orders
        self._fusions = Fusions(RECOGNISED, CERTAIN)
        self._copies: list[str] = []  # kinds of batch that fitted before
        self._partial: set[tuple[str, str]] = set()  # steps and models of which the candidate computes some rows only

    def result(self) -> tuple[Trace, Trace, Alignment, Layout]:
        if not self.layout.told and not self.layout.unmeasured and not self.layout.not_made:
            return self.a, self.b, self.alignment, self.layout
        a = self.a.with_entries(self.new_a) if self.new_a else self.a
        b = self.b.with_entries(dict(self.new_b)) if self.new_b else self.b
        pairs = sorted(self.pairs.values(), key=lambda pair: pair.a.seq)
        partners = {pair.a.key for pair in pairs}
        missing = [e for e in self.alignment.missing if e.key not in partners]
        missing += [pair.a for pair in [*self.layout.unmeasured, *self.layout.not_made]]
        taken = {entry.seq for entries in self.new_b.values() for entry in entries} | self.new_b.keys()
        extra = [e for e in self.alignment.extra if e.seq not in taken]
        return a, b, replace(self.alignment, pairs=pairs, missing=missing, extra=extra), self.layout

    def _make(self, like: Entry, target: Entry, make: Callable[[], Array], key: Key | None = None) -> Entry:
        """An entry of B with the shape of `target`."""
        name = like.name
        if like.seq in self.new_b:  # one of several that are made from it
            name, self._next = replace(name, seq=self._next), self._next + 1
        made = Entry(name, key or like.key, like.dtype, target.shape, op=like.op, meta=like.meta, file=Computed(make))
        self.new_b[like.seq].append(made)
        return made

    def _put(self, target: Entry, made: Entry, how: str, told: str) -> None:
        for key in self._pairs_of(target.seq):
            del self.pairs[key]
        self.pairs[target.seq, made.seq] = Pair(target, made, how)
        self._partners[target.seq].add(made.seq)
        self.layout.told[target.seq] = told

    def _pairs_of(self, seq: int) -> list[tuple[int, int]]:
        """The pairs in which a value of A stands."""
        return [key for other in self._partners[seq] if (key := (seq, other)) in self.pairs]

    def _give_up(self, pair: Pair) -> None:
        self.pairs.pop((pair.a.seq, pair.b.seq), None)
        self.layout.unmeasured.append(pair)

    def _error(self, target: Entry, values: Array) -> float:
        return sketch_error(self.a.sketch(target), sketch(values), self.a.stats(target).l2)

    # Calls in another order

    def exchanged_calls(self) -> None:
        """Two programs that make the same calls in another order: they were paired by what goes in."""
        for pair in self.pairs.values():
            mine, theirs = pair.a.key, pair.b.key
            if mine.call != theirs.call and not mine.is_operation:
                self.layout.told[pair.a.seq] = f"call {mine.call} is the candidate's call {theirs.call}"

    # Layers that are one here and several there

    def fused_and_split(self) -> None:
        for match in self.alignment.weights:
            if match.kind == "fused" and len(match.b) == 1:
                self._slices([owner(path) for path in match.a], owner(match.b[0]))
            elif match.kind == "split" and len(match.a) == 1:
                self._joined(owner(match.a[0]), [owner(path) for path in match.b])

    def _slices(self, parts: list[str], whole: str) -> None:
        """Several layers of A are one layer of B: each is compared with its part of the result."""
        for source in [e for e in self.b.entries if e.key.path == whole and not e.key.is_operation]:
            calls = self.alignment.calls
            targets = [
                self._at(self.a, source, path, calls.partner_of_b(source.key, path) if calls else source.key.call)
                for path in parts
            ]
            present = [t for t in targets if t is not None]
            if len(present) != len(parts):
                continue
            if source.key.is_input:
                for target in present:  # what goes in is the same for all of them
                    if target.shape == source.shape and not any(k[0] == target.seq for k in self.pairs):
                        self.pairs[target.seq, source.seq] = Pair(target, source, "weights")
                        self._partners[target.seq].add(source.seq)
                continue
            axis = axis_of_parts(source.shape, [t.shape for t in present])
            if axis is None:
                continue
            if not source.has_data:
                for pair in [p for (left, _), p in self.pairs.items() if left in {t.seq for t in present}]:
                    self._give_up(pair)
                continue
            self._cut(source, present, axis, whole)

    def _cut(self, source: Entry, targets: list[Entry], axis: int, whole: str) -> None:
        sizes = [t.shape[axis] for t in targets]

        def part(fusion: Fusion, index: int) -> Array:
            return fusion.part(self.b.array(source), sizes, index, axis)

        def error(fusion: Fusion) -> float:
            return max(self._error(t, part(fusion, i)) for i, t in enumerate(targets))

        fusion = self._fusions.find(whole, sizes, error)
        for index, target in enumerate(targets):
            span = fusion.named(sizes, index)
            key = replace(source.key, path=f"{source.key.path}[{span}]")
            made = self._make(source, target, partial(part, fusion, index), key)
            self._put(target, made, "weights", f"part {span} of the candidate's fused `{whole}`")

    def _joined(self, whole: str, parts: list[str]) -> None:
        """One layer of A is several layers of B: their results side by side are compared with its own."""
        for target in [e for e in self.a.entries if e.key.path == whole and not e.key.is_operation]:
            calls = self.alignment.calls
            partners = [
                self._at(self.b, target, path, calls.partner(target.key, path) if calls else target.key.call)
                for path in parts
            ]
            sources = [s for s in partners if s is not None]
            if len(sources) != len(parts) or target.key.is_input:
                continue
            axis = axis_of_parts(target.shape, [s.shape for s in sources])
            if axis is None:
                continue
            if not all(s.has_data for s in sources):
                for pair in [p for (left, _), p in self.pairs.items() if left == target.seq]:
                    self._give_up(pair)
                continue

            self._join(target, sources, axis)

    def _join(self, target: Entry, sources: list[Entry], axis: int) -> None:
        def join(fusion: Fusion) -> Array:
            return fusion.join([self.b.array(source) for source in sources], axis)

        sizes = [source.shape[axis] for source in sources]
        fusion = self._fusions.find(target.key.path, sizes, lambda fusion: self._error(target, join(fusion)))
        made = self._make(sources[0], target, partial(join, fusion))
        names = ", ".join(f"`{sources[i].key.path}`" for i in fusion.order)
        by_groups = "" if fusion.groups == 1 else f", in {fusion.groups} groups as their weights"
        self._put(target, made, "weights", f"the candidate's {names} side by side{by_groups}")

    def _at(self, trace: Trace, like: Entry, path: str, call: int | None) -> Entry | None:
        """The value of another module at the same step and slot, in that call; a single slot may have any name."""
        found = trace.get(replace(like.key, path=path, call=call)) if call is not None else None
        if found is not None:
            return found
        same = [e for e in trace.find(path=_literal(path), step=_literal(like.key.step))
                if e.key.call == call and e.key.is_input == like.key.is_input]  # fmt: skip
        return same[0] if len(same) == 1 else None

    # Batches

    def batches(self) -> None:
        """The same rows in other calls: one call of two for two calls of one, or every row more than once."""
        done: set[tuple[str, str, str, tuple[int, ...]]] = set()
        for pair in list(self.pairs.values()):
            where = (pair.a.key.step, pair.a.key.path, pair.a.key.slot, _trailing(pair.a))
            if where in done or pair.rows_a or pair.rows_b or not _other_rows(pair.a, pair.b):
                continue
            done.add(where)
            lefts = [e for e in self._calls(self.a, pair.a) if _trailing(e) == _trailing(pair.a)]
            rights = [e for e in self._calls(self.b, pair.b) if _trailing(e) == _trailing(pair.b)]
            self._batch(lefts, rights)
        for left in self.alignment.missing:
            where = (left.key.step, left.key.path, left.key.slot, _trailing(left))
            if where not in done and left.shape and not left.key.is_operation:
                done.add(where)
                self._branches(left)

    def _branches(self, left: Entry) -> None:
        """A step that is one here and has branches there (`denoise:07` and `denoise:07.cond`, `denoise:07.uncond`)."""
        path = self.alignment.modules.get(left.key.path, (left.key.path, ""))[0]
        rights = self._calls(self.b, replace(left, key=replace(left.key, path=path)))
        free = {e.seq for e in self.alignment.extra}
        rights = [e for e in rights if e.shape and e.seq in free and sorted(_trailing(e)) == sorted(_trailing(left))]
        if rights and {e.key.step for e in rights} != {left.key.step}:
            self._batch(self._calls(self.a, left), rights)

    def _calls(self, trace: Trace, entry: Entry) -> list[Entry]:
        """All calls of one value inside one step, branches of the step included."""
        step = entry.key.step.rpartition(".")[0] if "." in entry.key.step else entry.key.step
        steps = [s for s in trace.steps if s == step or s.startswith(f"{step}.")]
        return [
            e
            for s in steps
            for e in trace.find(path=_literal(entry.key.path), slot=_literal(entry.key.slot), step=_literal(s))
        ]

    def _batch(self, lefts: list[Entry], rights: list[Entry]) -> None:
        rows_a, rows_b = (sum(e.shape[0] for e in entries) for entries in (lefts, rights))
        known = [self.pairs[key] for left in lefts for key in self._pairs_of(left.seq)]
        kinds = batch_kinds(rows_a, rows_b, len(lefts), len(rights))
        if not kinds:
            return
        if not all(e.has_data for e in rights):
            for pair in known:
                self._give_up(pair)
            return

        def every(kind: str) -> Array:
            return as_rows(kind, [self.b.array(e) for e in rights], rows_a, len(lefts))

        def rows_of(index: int, kind: str) -> Array:
            begin = sum(e.shape[0] for e in lefts[:index])
            return every(kind)[begin : begin + lefts[index].shape[0]]

        chosen = self._kind_of_batch(lefts, kinds, rows_of) if _trailing(lefts[0]) == _trailing(rights[0]) else kinds[0]
        model = (lefts[0].key.step, lefts[0].key.path.partition("/")[0].partition(".")[0])
        if rows_a > rows_b and (model in self._partial or self._some_rows(lefts, rights, rows_of, chosen)):
            self._partial.add(model)
            for pair in known:
                self.pairs.pop((pair.a.seq, pair.b.seq), None)
                self.layout.not_made.append(pair)
            return
        for index, target in enumerate(lefts):
            shaped = replace(target, shape=(target.shape[0], *rights[0].shape[1:]))
            key = replace(rights[0].key, call=target.key.call)
            made = self._make(rights[min(index, len(rights) - 1)], shaped, partial(rows_of, index, chosen), key)
            for other in rights:
                self.new_b.setdefault(other.seq, [])
            told = f"{rows_a} rows in {len(lefts)} calls, {rows_b} in {len(rights)} of the candidate{ROW_WORDS[chosen]}"
            self._put(target, made, "rows", told)

    def _some_rows(
        self, lefts: list[Entry], rights: list[Entry], rows_of: Callable[[int, str], Array], kind: str
    ) -> bool:
        """True if the candidate's rows are some of the reference's, and the others are not computed at all."""
        if not all(e.has_data for e in lefts):
            return False
        if all(self._error(target, rows_of(index, kind)) <= CERTAIN for index, target in enumerate(lefts)):
            return False
        return are_some_rows([self.a.array(e) for e in lefts], [self.b.array(e) for e in rights], CERTAIN)

    def _kind_of_batch(self, lefts: list[Entry], kinds: list[str], rows_of: Callable[[int, str], Array]) -> str:
        """The order of the rows that fits best; one that fitted before is kept where it fits again."""
        errors = {kind: [self._error(t, rows_of(i, kind)) for i, t in enumerate(lefts)] for kind in kinds}
        kept = next((kind for kind in self._copies if max(errors.get(kind, [math.inf])) <= CERTAIN), None)
        if kept is not None:
            return kept
        best = min(kinds, key=lambda kind: sum(errors[kind]))
        if best not in self._copies:
            self._copies.append(best)
        return best

    # Branches of the guidance in another order

    def branches(self, known: bool) -> None:
        """The halves of a model's batches are exchanged, and the guidance takes them so."""
        batches = exchanged_batches(self.a, self.b, self.pairs.values(), known)
        for pair in list(self.pairs.values()) if batches else []:
            model = pair.a.key.path.partition("/")[0].partition(".")[0]
            if (pair.a.key.step, model) not in batches or not has_halves(pair):
                continue
            if not pair.b.has_data:
                if not (self.a.sketch(pair.a) == self.b.sketch(pair.b)).all():
                    self._give_up(pair)
                continue
            plain, other = errors_of_both(self.a, self.b, pair)
            if other < plain:
                self._read_as(pair, pair.a.shape, turned)
                self.layout.told[pair.a.seq] = EXCHANGED

    # Once, or once for each row

    def spread(self) -> None:
        """What is the same for every row of the batch: positions that one side holds once, the other for each row."""
        for pair in list(self.pairs.values()):
            small, large = sorted((pair.a.shape, pair.b.shape), key=math.prod)
            if small == large or not is_spread(small, large) or not (pair.a.has_data and pair.b.has_data):
                continue
            arrays = self.a.array(pair.a), self._array_b(pair.b)
            if not all(array.size for array in arrays):
                continue  # a file that says another shape than it holds
            x, y = (np.broadcast_to(array, large) for array in arrays)
            if np.linalg.norm(x.astype(np.float64) - y) <= CERTAIN * np.linalg.norm(x.astype(np.float64)):
                self._read_as(pair, pair.a.shape, partial(as_shape, shape=pair.a.shape))
                shapes = f"{list(pair.a.shape)} in the reference, {list(pair.b.shape)} in the candidate"
                self.layout.told[pair.a.seq] = f"the same for each row: {shapes}"

    # Axes

    def axes(self) -> None:
        """The same numbers with the axes in another order, such as channels last, or tokens for a feature map."""
        equal: list[Pair] = []
        only: dict[tuple[Axes, bool], list[Pair]] = defaultdict(list)
        for pair in list(self.pairs.values()):
            if pair.rows_a or pair.rows_b or not (pair.a.is_float and pair.b.is_float):
                continue
            if pair.a.shape == pair.b.shape:
                equal.append(pair)
                continue
            orders = list(axis_orders(pair.a.shape, pair.b.shape))
            if not orders or self._only_joined(pair):
                continue
            if not pair.a.has_data and not pair.b.has_data:
                self._give_up(pair)
                continue
            worked = self._worked[len(pair.a.shape), len(pair.b.shape)]
            known = [o for o in worked if o in orders]
            best = self._best(pair, known + [o for o in orders if o not in worked])
            if best is None and known:  # the numbers differ by far, but everything else of this kind lies so
                best = known[0]
            if best is not None:
                worked.insert(0, best)
                self._read_in_order(pair, best)
            elif len(orders) == 1 and len(pair.a.shape) == len(pair.b.shape) and not pair.a.key.is_operation:
                only[orders[0]].append(pair)
        for order, pairs in only.items():
            for pair in pairs if len(pairs) >= MANY else ():  # no other one has these extents, whatever the numbers are
                self._read_in_order(pair, order)
        self._squares(equal)

    def _squares(self, pairs: list[Pair]) -> None:
        """Equal extents hide another order: where values of other extents lie otherwise, and none of this kind as it
        stands, that is how they are read."""
        errors = {
            pair.a.seq: sketch_error(self.a.sketch(pair.a), self._sketch_b(pair.b), self.a.stats(pair.a).l2)
            for pair in pairs
            if self._worked and len(pair.a.shape) >= 3 and not pair.a.key.is_operation
        }
        as_they_stand = {len(p.a.shape) for p in pairs if _is_square(p.a) and errors.get(p.a.seq, 1.0) <= CERTAIN}
        for pair in pairs:
            if errors.get(pair.a.seq, 0.0) > RECOGNISED and _is_square(pair.a):
                self._square(pair, errors[pair.a.seq], len(pair.a.shape) not in as_they_stand)

    def _only_joined(self, pair: Pair) -> bool:
        """True for the same numbers in the same order, with neighbouring axes as one."""
        shapes = (pair.a.shape, pair.b.shape)
        if not joins(*shapes) and not joins(*reversed(shapes)):
            return False
        return sketch_error(self.a.sketch(pair.a), self._sketch_b(pair.b), self.a.stats(pair.a).l2) <= CERTAIN

    def _square(self, pair: Pair, as_it_stands: float, believed: bool) -> None:
        """The order in which the numbers agree; where they do in none, the nearest, if it is to be believed."""
        known = [o for orders in self._worked.values() for o in orders if len(o[0]) == len(pair.a.shape)]
        if not known:
            return
        if not (pair.a.has_data or pair.b.has_data):
            if believed:
                self._give_up(pair)
            return
        errors = {order: self._error_in_order(pair, order) for order in dict.fromkeys(known)}
        best = min(errors, key=errors.__getitem__)
        if errors[best] <= CERTAIN or (believed and errors[best] < as_it_stands):
            self._read_in_order(pair, best)

    def _sketch_b(self, entry: Entry) -> Array:
        return sketch(entry.file.array(str(entry.name))) if isinstance(entry.file, Computed) else self.b.sketch(entry)

    def _array_b(self, entry: Entry) -> Array:
        made = isinstance(entry.file, Computed)
        return entry.file.array(str(entry.name)) if made and entry.file is not None else self.b.array(entry)

    def _best(self, pair: Pair, orders: list[tuple[Axes, bool]]) -> tuple[Axes, bool] | None:
        found: tuple[float, tuple[Axes, bool]] | None = None
        for order in orders:
            error = self._error_in_order(pair, order)
            if found is None or error < found[0]:
                found = (error, order)
            if error <= CERTAIN:
                break
        return found[1] if found is not None and found[0] <= RECOGNISED else None

    def _error_in_order(self, pair: Pair, order: tuple[Axes, bool]) -> float:
        if pair.b.has_data:
            return self._error(pair.a, to_a(self._array_b(pair.b), pair.a.shape, order))
        values = to_b(self.a.array(pair.a), pair.b.shape, order)
        return ratio(float(np.linalg.norm(sketch(values) - self.b.sketch(pair.b))), self.a.stats(pair.a).l2)

    def _read_in_order(self, pair: Pair, order: tuple[Axes, bool]) -> None:
        told = self.layout.told.get(pair.a.seq, "")
        words = f"axes {list(pair.a.shape)} in the reference, {list(pair.b.shape)} in the candidate"
        if pair.b.has_data:
            shape = pair.a.shape
            self._read_as(pair, shape, lambda values: to_a(values, shape, order))
        else:
            make = Computed(lambda: to_b(self.a.array(pair.a), pair.b.shape, order))
            turned = replace(pair.a, shape=pair.b.shape, stats=None, packed_sketch="", same=None, file=make)
            self.new_a[pair.a.seq] = [turned]
            self.pairs[pair.a.seq, pair.b.seq] = replace(pair, a=turned)
        self.layout.told[pair.a.seq] = "; ".join(filter(None, [told, words]))

    def _read_as(self, pair: Pair, shape: tuple[int, ...], change: Callable[[Array], Array]) -> None:
        """The candidate's value of a pair is read in another order from now on."""
        make = Computed(lambda: change(self._array_b(pair.b)))
        made = replace(pair.b, shape=shape, stats=None, packed_sketch="", same=None, file=make)
        if isinstance(pair.b.file, Computed):
            for entries in self.new_b.values():
                entries[:] = [made if entry is pair.b else entry for entry in entries]
        else:
            self.new_b[pair.b.seq].append(made)
        self.pairs[pair.a.seq, pair.b.seq] = replace(pair, b=made)


def _is_square(entry: Entry) -> bool:
    """True if two axes are as long as each other, so that their order does not show."""
    longer = [extent for extent in entry.shape if extent > 1]
    return len(set(longer)) < len(longer)


def _trailing(entry: Entry) -> tuple[int, ...]:
    return entry.shape[1:]


def _other_rows(a: Entry, b: Entry) -> bool:
    """True for shapes that differ in the number of rows alone, up to the order of the other axes."""
    if not a.shape or len(a.shape) != len(b.shape) or a.shape[0] == b.shape[0] or 0 in (*a.shape, *b.shape):
        return False
    multiple = max(a.shape[0], b.shape[0]) % min(a.shape[0], b.shape[0]) == 0
    return multiple and sorted(a.shape[1:]) == sorted(b.shape[1:])


def _literal(text: str) -> str:
    return text.replace("[", "[[]")
