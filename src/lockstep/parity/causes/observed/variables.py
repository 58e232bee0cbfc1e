"""What the candidate's code calls a value: local variables and attributes that hold it while it runs."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ...recording.values import leaves
from ..edits import Call, Site
from ..failures import noted
from ..pipeline_probe import PipelineProbe
from .graph import FrameStep, FrameValue, _is_ours

MOST_HELD = 16  # entries of a list that is looked into
MOST_FRAMES = 8
MOST_LINES = 3


@dataclass(frozen=True)
class VariableName:
    """A name that held a value, and the code in which it did."""

    text: str
    file: str
    function: str

    @property
    def is_attribute(self) -> bool:
        return self.text.startswith("self.")


@dataclass
class Remembering:
    """The names of the wrong value where it is used and when it was made, and those of the right one."""

    used: list[VariableName]
    wrong: list[VariableName]
    right: list[VariableName]
    made: tuple[str, str]  # lines of the wrong and of the right one
    at: str  # line of the use
    remembered: bool = True  # from one step of the loop to the next

    @property
    def kept(self) -> VariableName | None:
        """What it is remembered as: the last of the names that it was given, that of an attribute rather than of what
        is handed on."""
        given = [name.text for name in self.wrong]
        when = {text: given.index(text) if text in given else len(given) for text in (n.text for n in self.used)}
        known = sorted(self.used, key=lambda name: (not name.is_attribute, -when[name.text], "[" not in name.text))
        return known[0] if known else None

    @property
    def line(self) -> str:
        """Where it is remembered, if one line does that; else where it is used."""
        return self._assigned[0] or self.at

    @cached_property
    def _assigned(self) -> tuple[str, str]:
        return assigned_at(self.kept) if self.kept is not None else ("", "")

    @cached_property
    def words(self) -> tuple[str, str]:
        """The wrong value and the right one, by names that only they have, as the code calls them that remembers."""
        kept = self.kept.text if self.kept is not None and self.remembered else ""
        texts = [[n.text for n in names] for names in (self.wrong, self.right)]
        found = []
        for names, others, made in zip((self.wrong, self.right), reversed(texts), self.made, strict=True):
            function = self._assigned[1]
            known = [(n.text in others, n.function != function, n.is_attribute, n) for n in names if n.text != kept]
            known.sort(key=lambda entry: entry[:3])
            found.append(f"`{known[0][3].text}` (made at {made})" if known else f"the value made at {made}")
        return found[0], found[1]

    @property
    def fault(self) -> str:
        wrong, right = self.words
        if self.remembered and self.kept is not None:
            return f"what is remembered as `{self.kept.text}` is {wrong} and not {right} in the candidate"
        return f"{wrong} is taken at {self.at} and not {right} in the candidate"

    @property
    def repair(self) -> str:
        wrong, right = self.words
        line = self.line if self.remembered else self.at
        where = f" as `{self.kept.text}` (used at {self.at})" if self.kept is not None and line != self.at else ""
        return f"in the port at {line}: {right} belongs there{where}, not {wrong}"


def attribute_of(instance: Any, method: str, name: str) -> VariableName:
    """The attribute of an object, as the code of one of its methods gives it a value."""
    functions = [vars(cls).get(method) for cls in type(instance).__mro__]
    codes = [f.__code__ for f in map(inspect.unwrap, filter(callable, functions)) if hasattr(f, "__code__")]
    names = [VariableName(f"self.{name}", code.co_filename, code.co_name) for code in codes]
    return next((one for one in names if assigned_at(one)[0]), names[0])


def names_of(
    search: Any,
    wrong: FrameValue | None,
    right: FrameValue | None,
    kept: VariableName | None = None,
    use: FrameStep | None = None,
    remembered: bool = True,
) -> Remembering:
    """One more run of the candidate, in which its variables are looked at."""
    watch = _NameWatch(wrong, right, use)
    with ExitStack() as stack, warnings.catch_warnings(), torch.no_grad(), noted(search.log, (), "names"):
        warnings.simplefilter("ignore")
        stack.enter_context(PipelineProbe.edited(search.live, search.held, watch.operation))
        watch.install(stack, search.modules)
        search.live.run(search.own)
    search.log.spent += search.whole.cost
    made = _made_at(wrong, right)
    used = [kept] if kept is not None else watch.used
    names = watch.names[id(wrong)], watch.names[id(right)]
    return Remembering(used, *names, made, use.line if use is not None else "", remembered)


def _made_at(*values: FrameValue | None) -> tuple[str, str]:
    """The lines that make the wrong value and the right one; where it is the same line, which of the two is older."""
    steps = [value.step if value is not None else None for value in values]
    lines = [step.line if step is not None else "" for step in steps]
    if steps[0] is not None and steps[1] is not None and lines[0] == lines[1]:
        wrong = steps[0].number < steps[1].number
        lines = [f"{lines[0]}, {'before that' if older else 'later'}" for older in (wrong, not wrong)]
    return lines[0], lines[1]


class _NameWatch:
    """Two values by the visit of the place that makes them, and their names until they are used."""

    def __init__(self, wrong: FrameValue | None, right: FrameValue | None, use: FrameStep | None) -> None:
        values = [v for v in (wrong, right) if v is not None]
        self._wanted = {(v.step.place, v.step.visit): v for v in values if v.step is not None}
        self._wrong, self._use = wrong, (use.place, use.visit) if use is not None else None
        self._visits: dict[Any, int] = defaultdict(int)
        self._tensors: dict[int, torch.Tensor] = {}
        self.names: dict[int, list[VariableName]] = defaultdict(list)
        self.used: list[VariableName] = []
        self._done = False

    def install(self, stack: ExitStack, modules: Mapping[str, torch.nn.Module]) -> None:
        """What modules give is seen, too."""

        def after(path: str) -> Any:
            def given(module: Any, args: Any, result: Any) -> None:
                self._note(path, result)

            return given

        for path in {place for place, _ in self._wanted if isinstance(place, str) and place in modules}:
            stack.callback(modules[path].register_forward_hook(after(path)).remove)

    def _note(self, place: Any, result: Any) -> tuple[Any, int]:
        now = (place, self._visits[place])
        self._visits[place] += 1
        if (value := self._wanted.get(now)) is not None:
            with torch._C.DisableTorchFunction():
                pieces = [piece for _, piece in leaves(result, "out") if isinstance(piece, torch.Tensor)]
                self._tensors[id(value)] = pieces[value.piece]
        return now

    def operation(self, site: Site, call: Call, result: Any) -> None:
        if self._done:
            return
        for name, held in _held() if self._tensors else ():
            for key, tensor in self._tensors.items():
                if "[" not in name.text and name not in self.names[key] and _is(held, tensor):
                    self.names[key].append(name)
        if self._note(site, result) == self._use:
            wrong = self._tensors.get(id(self._wrong))
            self.used = [name for name, held in _held() if _is(held, wrong)]
            self._done = True


def _is(held: torch.Tensor, wanted: torch.Tensor | None) -> bool:
    """The same tensor, or one that nothing was done to but a cast or a copy."""
    if held is wanted or wanted is None or held.shape != wanted.shape:
        return held is wanted
    with torch._C.DisableTorchFunction():
        return held.dtype == wanted.dtype and torch.equal(held, wanted)


def _held() -> Iterator[tuple[VariableName, torch.Tensor]]:
    """Every tensor that a variable of the running code, or an attribute of its object, holds; the inner code first."""
    frame: Any = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    for _ in range(MOST_FRAMES):
        if frame is None or _is_ours(frame):
            return
        code = frame.f_code
        for name, value in list(frame.f_locals.items()):
            yield from _tensors_of(name, value, code)
            if name == "self" and hasattr(value, "__dict__") and not isinstance(value, torch.nn.Module):
                for attribute, kept in list(vars(value).items()):
                    yield from _tensors_of(f"self.{attribute}", kept, code)
        frame = frame.f_back


def _tensors_of(name: str, value: Any, code: Any) -> Iterator[tuple[VariableName, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield VariableName(name, code.co_filename, code.co_name), value
    elif type(value) in (list, tuple, dict) and len(value) <= MOST_HELD:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, torch.Tensor):
                yield VariableName(f"{name}[{key!r}]", code.co_filename, code.co_name), item


def assigned_at(name: VariableName) -> tuple[str, str]:
    """The lines of the file that give this name a value that is no constant, and their function; empty for none, and
    for many."""
    tree = None
    with suppress(SyntaxError, ValueError):
        tree = ast.parse("".join(linecache.getlines(name.file)))
    if tree is None:
        return "", ""
    wanted = name.text.removeprefix("self.").partition("[")[0]
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    inside = [f for f in functions if f.name == name.function]
    nodes = [node for function in inside for node in ast.walk(function)]
    assigning = [n for n in nodes if isinstance(n, ast.Assign) and _assigns(n, wanted, name.is_attribute)]
    lines = sorted({node.lineno for node in assigning})
    if not lines or len(lines) > MOST_LINES:
        return "", ""
    return f"{Path(name.file).name}:{' or '.join(map(str, lines))}", name.function


def _assigns(node: ast.Assign, wanted: str, attribute: bool) -> bool:
    if all(isinstance(v, ast.Constant) for v in _parts(node.value)):
        return False
    return any(_named(target, attribute) == wanted for t in node.targets for target in _parts(t))


def _parts(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _named(target: ast.expr, attribute: bool) -> str:
    while isinstance(target, ast.Subscript):
        target = target.value
    if attribute:
        return target.attr if isinstance(target, ast.Attribute) else ""
    return target.id if isinstance(target, ast.Name) else ""
