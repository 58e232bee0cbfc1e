"""Two traces side by side: by name, by the values of the weights, by order, by shape, or as a map file says."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from ..errors import AlignmentError
from ..trace.names import Key
from ..trace.reader import Entry, Trace
from ..trace.sketch import sketch_error
from .call_pairs import ALIKE, CallPairs
from .draws import same_draws
from .result_names import METHODS, last_given, slot_names
from .same_values import same_values
from .weights import WeightMatch, match_weights

# One value, several published names: (path, slot) pairs that mean the same, tried in this order.
ALIASES: list[tuple[tuple[str, str], tuple[str, str]]] = [
    (("@latents", "out"), ("@scheduler.step", "out")),
    (("@noise_pred", "out"), ("@scheduler.step", "in.model_output")),
    (("@timestep", "out"), ("@scheduler.step", "in.timestep")),
    (("@timesteps", "out"), ("@scheduler.timesteps", "out")),
    (("@sigmas", "out"), ("@scheduler.sigmas", "out")),
    (("vae", "out.image"), ("vae.decode", "out")),
    (("vae", "in.latents"), ("vae.decode", "in.z")),
]
ALIKE_VALUES = "alike"  # how a pair was found that only its numbers tell
ROLES = ("conv", "linear", "norm", "embedding", "dropout", "attention")
_SELECTION = re.compile(r"(.*)\[(\d*):(\d*)\]$")


@dataclass(frozen=True)
class Pair:
    """One value of A and its partner of B; `rows_*` takes a range of the first axis (a CFG branch of a batch)."""

    a: Entry
    b: Entry
    how: str
    rows_a: tuple[int | None, int | None] | None = None
    rows_b: tuple[int | None, int | None] | None = None


@dataclass
class Alignment:
    pairs: list[Pair] = field(default_factory=list)  # in A's order
    missing: list[Entry] = field(default_factory=list)  # of A
    extra: list[Entry] = field(default_factory=list)  # of B
    modules: dict[str, tuple[str, str]] = field(default_factory=dict)  # path of A -> (path of B, how)
    weights: list[WeightMatch] = field(default_factory=list)
    calls: CallPairs | None = None


def align_traces(a: Trace, b: Trace, map: str | Path | Mapping[str, Any] = "auto") -> Alignment:
    """Pair the values of two traces; `map` is "auto", a TOML file or its contents."""
    rules = _read_map(map)
    matches = match_weights(a, b)
    modules = _module_paths(a, b, rules["modules"], matches)
    work = _Work(a, b, modules)
    work.by_rules(rules["values"])
    work.by_result()
    work.by_draws()
    work.by_name()
    work.by_alias()
    work.by_slot_order()
    work.by_sequence()
    work.operations_of_other_shape()
    work.by_values()
    return work.result(matches)


def _read_map(source: str | Path | Mapping[str, Any]) -> dict[str, dict[str, str]]:
    if isinstance(source, Mapping):
        rules: Mapping[str, Any] = source
    elif str(source) == "auto":
        rules = {}
    else:
        try:
            rules = tomllib.loads(Path(source).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise AlignmentError(f"map file {source} cannot be read: {error}") from error
    unknown = set(rules) - {"modules", "values"}
    if unknown:
        raise AlignmentError(f"map has unknown tables {sorted(unknown)}; expected [modules] and [values]")
    tables = {name: dict(rules.get(name, {})) for name in ("modules", "values")}
    for name, table in tables.items():
        if not all(isinstance(k, str) and isinstance(v, str) for k, v in table.items()):
            raise AlignmentError(f"map table [{name}] must map text to text")
    return tables


def _paths(trace: Trace) -> set[str]:
    return {entry.key.path for entry in trace.entries if not entry.key.is_operation}


def _module_paths(a: Trace, b: Trace, rules: dict[str, str], matches: list[WeightMatch]) -> dict[str, tuple[str, str]]:
    """Path of A to path of B: the map's prefixes, equal names, equal weights, then equal names below another root."""
    paths_a, paths_b = _paths(a), _paths(b)
    found: dict[str, tuple[str, str]] = {}
    for prefix in rules:
        if not any(_below(path, prefix) for path in paths_a):
            raise AlignmentError(f"map names module {prefix!r}, which the reference trace does not have")
    for path in paths_a:
        best = max((p for p in rules if _below(path, p)), key=len, default=None)
        if best is not None:
            found[path] = (rules[best] + path[len(best) :], "map")
        elif path in paths_b:
            found[path] = (path, "name")
    equal = [m for m in matches if m.kind != "different"]
    votes, held = _weight_votes(equal), _held(equal)
    in_parts = _owned_in_parts(equal)
    for path in paths_a - found.keys():
        # a module with weights is a partner only if it has the same ones, or if these are a part of the other's
        partner = votes.get(path, "")
        part = path in in_parts and held[1][partner] <= in_parts[path]  # not of one that does more than that
        if partner in paths_b and (part or held[0][path] == held[1][partner]):
            found[path] = (partner, "weights")
    for path, partner in _containers(held, paths_a - found.keys(), paths_b - {p for p, _ in found.values()}).items():
        found[path] = (partner, "weights")
    for path in paths_a - found.keys():
        renamed = (
            _renamed_root(path, found, paths_b)
            or _only_root(path, a, b, paths_b)
            or _of_scheduler(path, a, b)
            or _of_method(path, held, paths_b)
        )
        if renamed:
            found[path] = (renamed, "name")
    return found


def _below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}.")


def _weight_votes(matches: list[WeightMatch]) -> dict[str, str]:
    """Owners of equal weights, and their ancestors as long as the trailing names agree."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for match in matches:
        for left, right in match.owners:
            votes[left][right] += 4
            while "." in left and "." in right and left.rpartition(".")[2] == right.rpartition(".")[2]:
                left, right = left.rpartition(".")[0], right.rpartition(".")[0]
                votes[left][right] += 1
    return {path: counter.most_common(1)[0][0] for path, counter in votes.items()}


def _owned_in_parts(matches: list[WeightMatch]) -> dict[str, set[int]]:
    """Modules of A whose weights are fused or split on the other side, and which weights these are."""
    found: dict[str, set[int]] = {left: set() for m in matches if m.kind in ("fused", "split") for left, _ in m.owners}
    for number, match in enumerate(matches):
        for left, _ in match.owners:
            if left in found:
                found[left].add(number)
    return found


Held = tuple[dict[str, set[int]], dict[str, set[int]]]


def _held(matches: list[WeightMatch]) -> Held:
    """Which equal weights every module of either side contains."""
    held: Held = (defaultdict(set), defaultdict(set))
    for number, match in enumerate(matches):
        for names, side in zip((match.a, match.b), held, strict=True):
            # of a weight that is split only what holds all of its parts
            for parent in set.intersection(*(set(_ancestors(name)) for name in names)):
                side[parent].add(number)
    return held


def _containers(held: Held, paths_a: set[str], paths_b: set[str]) -> dict[str, str]:
    """Modules without weights of their own, by what they contain: the one of either side that holds just these
    weights."""
    by_content: dict[frozenset[int], tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, paths in enumerate((paths_a, paths_b)):
        for path in sorted(paths & held[side].keys()):
            by_content[frozenset(held[side][path])][side].append(path)
    found = {}
    for left, right in by_content.values():
        if len(left) == 1 and right and all(_below(inner, outer) for outer, inner in itertools.pairwise(right)):
            found[left[0]] = right[-1]  # of wrappers around each other the innermost: it calls what the weights are in
    return found


def _ancestors(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _renamed_root(path: str, found: dict[str, tuple[str, str]], paths_b: set[str]) -> str | None:
    """A sibling's partner tells where this one lives: a.x -> b.x if a.y -> b.y."""
    parent, _, last = path.rpartition(".")
    while parent:
        if parent in found:
            candidate = f"{found[parent][0]}.{last}"
            return candidate if candidate in paths_b else None
        parent, _, head = parent.rpartition(".")
        last = f"{head}.{last}"
    return None


def _only_root(path: str, a: Trace, b: Trace, paths_b: set[str]) -> str | None:
    """Traces of one model each, recorded under different root names."""
    roots = [{e.key.path.split(".")[0] for e in t.entries if not e.key.path.startswith("@")} for t in (a, b)]
    if len(roots[0]) != 1 or len(roots[1]) != 1:
        return None
    candidate = ".".join([roots[1].pop(), *path.split(".")[1:]])
    return candidate if candidate in paths_b else None


def _of_scheduler(path: str, a: Trace, b: Trace) -> str | None:
    """The one scheduler of either side, whatever it is called."""
    names = [list(trace.meta.get("schedulers") or ()) for trace in (a, b)]
    if len(names[0]) != 1 or len(names[1]) != 1 or not path.startswith(f"@{names[0][0]}."):
        return None
    return f"@{names[1][0]}{path[1 + len(names[0][0]) :]}"


def _of_method(path: str, held: Held, paths_b: set[str]) -> str | None:
    """`vae.decode` where only methods of a model are called: by the weights that the model holds."""
    root, _, method = path.rpartition(".")
    mine = held[0].get(root)
    if method not in METHODS or "." in root or not mine:
        return None
    roots = [name for name, theirs in held[1].items() if "." not in name and theirs == mine]
    return f"{roots[0]}.{method}" if len(roots) == 1 and f"{roots[0]}.{method}" in paths_b else None


class _Work:
    """Pairs found so far, and what is left on either side."""

    def __init__(self, a: Trace, b: Trace, modules: dict[str, tuple[str, str]]) -> None:
        self.a, self.b, self.modules = a, b, modules
        self.left_a = {entry.seq: entry for entry in a.entries}
        self.left_b = {entry.seq: entry for entry in b.entries}
        self.pairs: list[Pair] = []
        self._partners = {path for path, _ in modules.values()}
        self._calls = CallPairs(a, b, modules)
        self._outputs: dict[tuple[str, str, int], list[Entry]] = defaultdict(list)
        for entry in b.entries:
            if not entry.key.is_input and not entry.key.is_operation:
                self._outputs[entry.key.node].append(entry)

    def take(self, left: Entry, right: Entry, how: str) -> None:
        self.pairs.append(Pair(left, right, how))
        del self.left_a[left.seq], self.left_b[right.seq]

    def partner_path(self, path: str) -> tuple[str, str] | None:
        """The path of B for a module or for an operation of a module."""
        if path in self.modules:
            return self.modules[path]
        if "/" in path:
            module, _, operation = path.partition("/")
            if module in self.modules:
                other, how = self.modules[module]
                return f"{other}/{operation}", how
            return path, "name"
        return None

    def by_rules(self, rules: dict[str, str]) -> None:
        """The map's [values]: `step|path|slot`, `*` as step for the same step on both sides, `[0:1]` for rows."""
        for left_text, right_text in rules.items():
            left_text, rows_a = _selection(left_text)
            right_text, rows_b = _selection(right_text)
            left, right = Key.parse(left_text), Key.parse(right_text)
            steps = [e.key.step for e in self.a.entries] if left.step == "*" else [left.step]
            matched = 0
            for step in dict.fromkeys(steps):
                x = self.a.get(Key(step, left.path, left.slot, left.call))
                y = self.b.get(Key(step if right.step == "*" else right.step, right.path, right.slot, right.call))
                if x is not None and y is not None:
                    matched += 1
                    self.pairs.append(Pair(x, y, "map", rows_a, rows_b))
                    self.left_a.pop(x.seq, None)
                    self.left_b.pop(y.seq, None)
            if not matched:
                raise AlignmentError(
                    f"map pairs {left_text!r} with {right_text!r}, but no such values are in the traces"
                )

    def by_result(self) -> None:
        """What a run gave in the end, where the two sides name it otherwise: a function around the model, a method."""
        mine, theirs = last_given(self.a), last_given(self.b)
        partner = self.partner_path(mine[0].key.path) if mine else None
        if not mine or not theirs or (partner is not None and partner[0] == theirs[0].key.path):
            return
        for left in mine:
            right = next((e for e in theirs if e.shape == left.shape and e.seq in self.left_b), None)
            if right is not None:
                self.take(left, right, "result")

    def by_draws(self) -> None:
        """Random numbers by what they are, where they come in another order."""
        for left, right in same_draws(self.a, self.b):
            if left.seq in self.left_a and right.seq in self.left_b:
                self.take(left, right, "name" if left.key == right.key else "values")

    def by_name(self) -> None:
        for left in list(self.left_a.values()):
            partner = self.partner_path(left.key.path)
            if partner is None:
                continue
            right = self._same_slot(left, partner[0])
            if right is not None and _similar_operation(left, right):
                self.take(left, right, partner[1])

    def _same_slot(self, left: Entry, path: str) -> Entry | None:
        """The slot of that name; or, where a result is wrapped in another way, the slot that holds the same numbers."""
        call = self._calls.partner(left.key, path)
        if call is None:
            return None
        found = self.b.get(Key(left.key.step, path, left.key.slot, call))
        if found is not None and found.seq in self.left_b:
            return self._in_another_place(left, found) or found
        aliases = [self.b.get(Key(left.key.step, path, slot, call)) for slot in slot_names(left.key.slot)]
        known = [entry for entry in aliases if entry is not None and entry.seq in self.left_b]
        if not known:
            return None
        others = [e for e in self._results(left.key.step, path, call) if e.shape == left.shape]
        return next((e for e in others if (self.b.sketch(e) == self.a.sketch(left)).all()), known[0])

    def _in_another_place(self, left: Entry, found: Entry) -> Entry | None:
        """Of several results the one that is meant, where a call gives them in another order."""
        if not left.key.slot.startswith("out.") or left.key.is_operation:
            return None
        others = [e for e in self._results(*found.key.node) if e.seq != found.seq and e.shape == left.shape]
        if found.shape == left.shape and self._near(left, found):
            return None
        near = next((other for other in others if self._near(left, other)), None)
        meant = near or self._in_other_wrapping(left, found)
        alone = found.shape != left.shape and len(others) == 1
        return meant or (others[0] if alone else None)

    def _in_other_wrapping(self, left: Entry, found: Entry) -> Entry | None:
        """The result at the same turn, where both give the same shapes: a list and one more may be one list."""
        mine = [e for e in self.a.entries if e.key.node == left.key.node and not e.key.is_input]
        others = self._outputs[found.key.node]
        shapes, slots = (
            [[e.shape for e in side] for side in (mine, others)],
            [[e.key.slot for e in side] for side in (mine, others)],
        )
        right = others[mine.index(left)] if shapes[0] == shapes[1] and slots[0] != slots[1] else None
        return right if right is not None and right.seq in self.left_b else None

    def _near(self, left: Entry, right: Entry) -> bool:
        return sketch_error(self.a.sketch(left), self.b.sketch(right), self.a.stats(left).l2) <= ALIKE

    def _results(self, step: str, path: str, call: int) -> list[Entry]:
        """What is left of the results of one call of B."""
        return [e for e in self._outputs[step, path, call] if e.seq in self.left_b]

    def by_alias(self) -> None:
        table = dict(ALIASES) | {y: x for x, y in ALIASES}
        for left in list(self.left_a.values()):
            name = (left.key.path, left.key.slot)
            if name not in table:
                continue
            path, slot = table[name]
            for candidate in slot_names(slot):
                right = self.b.get(Key(left.key.step, path, candidate, left.key.call))
                if right is not None and right.seq in self.left_b:
                    self.take(left, right, "alias")
                    break

    def by_slot_order(self) -> None:
        """Inside two calls that are partners: the same direction, the same shape, in order."""
        free: dict[tuple[str, str, int, bool], list[Entry]] = defaultdict(list)
        for right in self.left_b.values():
            free[(*right.key.node, right.key.is_input)].append(right)
        for left in list(self.left_a.values()):
            partner = self.partner_path(left.key.path)
            if partner is None or left.key.is_operation:
                continue
            call = self._calls.partner(left.key, partner[0])
            candidates = free[(left.key.step, partner[0], call, left.key.is_input)] if call is not None else []
            fitting = [right for right in candidates if right.shape == left.shape and self._may_be(left, right)]
            fitting = self._not_another(left, fitting)
            if not fitting and len(candidates) == 1 and candidates[0].shape != left.shape:
                fitting = [right for right in candidates if _arranged(left, right)]
            if fitting:
                candidates.remove(fitting[0])
                self.take(left, fitting[0], "order")

    def _not_another(self, left: Entry, fitting: list[Entry]) -> list[Entry]:
        """Of results in other wrappings the one that is meant, and none that is another result of the same call."""
        if left.key.is_input or not fitting:
            return fitting
        others = [e for e in self.left_a.values() if e.key.node == left.key.node and e.shape == left.shape]
        others = [e for e in others if e is not left and not e.key.is_input]
        near = [right for right in fitting if self._near(left, right)]
        return near or [right for right in fitting if not any(self._near(other, right) for other in others)]

    def _may_be(self, left: Entry, right: Entry) -> bool:
        """Integers under two names are one value only if they are equal."""
        if left.is_float or right.is_float or not left.key.is_input:
            return True
        return bool((self.a.sketch(left) == self.b.sketch(right)).all())

    def by_sequence(self) -> None:
        """What is left inside one parent and step, matched as a sequence of (operation, shape)."""
        groups: dict[tuple[str, str, int], tuple[list[Entry], list[Entry]]] = defaultdict(lambda: ([], []))
        for left in self.left_a.values():
            parent = _parent(left.key.path)
            partner = self.partner_path(parent)
            groups[(left.key.step, partner[0] if partner else parent, 0)][0].append(left)
        for right in self.left_b.values():
            groups[(right.key.step, _parent(right.key.path), 0)][1].append(right)
        for lefts, rights in groups.values():
            if not lefts or not rights:
                continue
            matcher = SequenceMatcher(
                None, [_signature(e) for e in lefts], [_signature(e) for e in rights], autojunk=False
            )
            for block in matcher.get_matching_blocks():
                for offset in range(block.size):
                    left, right = lefts[block.a + offset], rights[block.b + offset]
                    if self._same_role(left, right) and self._may_be(left, right):
                        self.take(left, right, "sequence")

    def by_values(self) -> None:
        """What is left of the reference's modules, where an operation of the candidate makes the very same numbers."""
        taken: dict[int, Entry] = {}
        inner = [e for e in self.left_a.values() if "." in e.key.path]  # ends are known by their names
        for left, right in same_values(self.a, self.b, inner if self.pairs else [], self.left_b.values()):
            taken[left.seq] = left
            self.pairs.append(Pair(left, right, ALIKE_VALUES))
        for seq in taken:
            del self.left_a[seq]

    def _same_role(self, left: Entry, right: Entry) -> bool:
        """False for two values of one shape that are known to be different things: other layers, others' partners."""
        if left.key.is_operation or right.key.is_operation:
            return left.key.is_operation and right.key.is_operation
        known = self.modules.get(left.key.path)
        if (known is not None and known[0] != right.key.path) or (known is None and right.key.path in self._partners):
            return False
        roles = _role(left.op), _role(right.op)
        return "" in roles or roles[0] == roles[1]

    def operations_of_other_shape(self) -> None:
        """The same operation of the same module, but with another shape: the place where the shapes part."""
        for left in list(self.left_a.values()):
            partner = self.partner_path(left.key.path)
            if partner is not None and left.key.is_operation:
                call = self._calls.partner(left.key, partner[0])
                right = self.b.get(Key(left.key.step, partner[0], left.key.slot, call)) if call is not None else None
                if right is not None and right.seq in self.left_b and len(left.shape) == len(right.shape):
                    self.take(left, right, "name")

    def result(self, matches: list[WeightMatch]) -> Alignment:
        self.pairs.sort(key=lambda pair: pair.a.seq)
        left = list(self.left_a.values()), list(self.left_b.values())
        return Alignment(self.pairs, *left, self.modules, matches, self._calls)


def _selection(text: str) -> tuple[str, tuple[int | None, int | None] | None]:
    match = _SELECTION.match(text)
    if not match:
        return text, None
    begin, end = (int(group) if group else None for group in match.groups()[1:])
    return match.group(1), (begin, end)


def _parent(path: str) -> str:
    return path.partition("/")[0] if "/" in path else path.rpartition(".")[0]


def _similar_operation(left: Entry, right: Entry) -> bool:
    """Operations with one name but other shapes are counted apart (one side has an extra one before it)."""
    return not left.key.is_operation or left.shape == right.shape


def _signature(entry: Entry) -> tuple[Any, ...]:
    if entry.key.is_operation:
        return (entry.op, entry.shape, entry.is_float)
    return (entry.key.slot.split(".")[0], tuple(sorted(entry.shape)), entry.is_float)


def _arranged(left: Entry, right: Entry) -> bool:
    """True if the values may be the same in another order or batch; the values themselves are looked at later."""
    sizes = sorted((math.prod(left.shape), math.prod(right.shape)))
    return left.is_float and right.is_float and sizes[0] > 0 and sizes[1] % sizes[0] == 0


def _role(op: str) -> str:
    """What a layer is for, from its class; "" for a class that says nothing."""
    return next((role for role in ROLES if role in op.lower()), "")
