"""The code of a pipeline between its models, run again with one thing changed until the bad value comes by."""

from __future__ import annotations

import copy
import functools
import inspect
import shutil
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..comparison.results import Comparison, SearchLog
from ..recording.patching import watch_attribute, watch_methods
from ..recording.recorder import record
from ..recording.targets import Target, takes_time
from ..trace.names import Key, literal
from ..trace.reader import Trace
from .edits import Call, Edit, Edited, EditFrames, ModuleChange, NotApplicable, Site
from .examples import example_of
from .flow import DataFlow
from .goals import Goal
from .hypotheses.code_numbers import NumberChange, set_number
from .hypotheses.kept_state import SCHEDULE, Begun, FreshState
from .hypotheses.method_calls import MethodChange
from .hypotheses.own_code import OwnNumberChange
from .hypotheses.schedule_change import TableChange, put_tables
from .hypotheses.state import StateChange, states_in_force
from .hypotheses.step_changes import StateHanded, hand_states
from .hypotheses.written_tables import TableWritten, tables_written
from .limits import TooLong, limited
from .probe import Probe, Reached, Survey, cost_of
from .remembered import Refuted, Remembered

PIPELINE = "@pipeline"
METHODS = ("encode", "decode")
SLOWER, LEAST_SECONDS = 20.0, 5.0  # what a run with another number may take beside one without
_PACKAGE = __name__.rpartition(".")[0].rpartition(".")[0]
_SCHEDULER_METHODS = ("step", "set_timesteps", "scale_model_input", "add_noise")


@dataclass(frozen=True)
class SchedulerChange:
    """One setting of a scheduler; what was computed from the settings is computed again."""

    name: str
    key: str
    value: Any


class PipelineFrames(EditFrames):
    """Operations of the pipeline and its schedulers are told apart by where they stand in the code, so every step
    has the same ones."""

    def __init__(self, places: dict[tuple[Any, ...], int], pipeline: Any) -> None:
        super().__init__()
        self.places = places
        self._outermost = getattr(inspect.unwrap(type(pipeline).__call__), "__code__", None) if pipeline else None

    def site(self, op: str) -> Site | None:
        if self.stack and not self.stack[-1][0].startswith("@"):
            return super().site(op)
        frame = sys._getframe(2)
        while frame.f_back is not None and _is_foreign(frame.f_globals.get("__name__", "")):
            frame = frame.f_back
        place = (op, *_line_of_calls(frame, self._outermost))
        path = self.stack[-1][0] if self.stack else PIPELINE
        return Site(path, op, self.places.setdefault(place, len(self.places)))


def _line_of_calls(frame: Any, outermost: Any) -> Iterator[tuple[int, int]]:
    """Where the code stands, and where it was called from inside of the pipeline: a helper that is called twice has its
    operations twice."""
    while frame is not None and not _is_foreign(frame.f_globals.get("__name__", "")):
        yield id(frame.f_code), frame.f_lasti
        frame = frame.f_back if frame.f_code is not outermost else None


def _is_foreign(module: str) -> bool:
    return module == _PACKAGE or module.startswith(("torch", "contextlib", f"{_PACKAGE}."))


class _RootsAlone(Target):
    """What is inside of the models is not watched: hooks on a thousand modules take longer than the run."""

    also = ""  # one module that is

    def named_modules(self) -> dict[str, nn.Module]:
        inside = super().named_modules() if self.also else {}
        return {**self.modules, **{path: inside[path] for path in inside if path == self.also}}


class PipelineProbe(Probe):
    """Like `Probe`, for what no module contains; the value is read by recording until it comes by."""

    def __init__(
        self, live: Any, own: Trace, key: Key, goal: Goal, held: Iterable[Edit], log: SearchLog | None = None,
        inside: tuple[str, int] | None = None, right: frozenset[tuple[str, int]] = frozenset(),
    ) -> None:  # fmt: skip
        self.live, self.own, self.key, self.goal = live, own, key, goal
        self.path, self.modules = PIPELINE, live.parts.named_modules()
        self.everything, self.owner, self.method, self.checks = self.modules, PIPELINE, "", []
        self.makers = frozenset()
        self.held, self.trials, self.runs = tuple(held), [], 0
        self.log = log if log is not None else SearchLog()
        self._here = None
        self._inside = inside  # the model, and which of its calls, that the value comes to be in
        self._plain: torch.Tensor | None = None  # the value without any change
        self._seconds = 0.0  # until it came by
        self._remembered = Remembered(live.parts.modules, inside, right)
        self._folder = tempfile.mkdtemp(prefix="parity-cause-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self.cost = run_cost(live, own)

    @staticmethod
    @contextmanager
    def edited(
        live: Any, edits: Iterable[Edit], observe: Any = None, modules: dict[str, nn.Module] | None = None
    ) -> Iterator[None]:
        """Edits in force on the models (on some of their `modules`), the schedulers and the code between them."""
        edits = list(edits)
        changes = [c for e in edits for c in e.changes if isinstance(c, SchedulerChange)]
        with ExitStack() as stack:
            for change in changes:
                _set_scheduler(stack, live.parts.schedulers[change.name], change)
            for number in (c for e in edits for c in e.changes if isinstance(c, NumberChange)):
                set_number(stack, live.parts.schedulers[number.part], number)
            for own in (c for e in edits for c in e.changes if isinstance(c, OwnNumberChange)):
                own.place.put(stack, own.value)
            stack.enter_context(
                states_in_force(live, [c for e in edits for c in e.changes if isinstance(c, StateChange)])
            )
            handed = [c for e in edits for c in e.changes if isinstance(c, StateHanded)]
            hand_states(stack, live.parts.schedulers, handed)
            stack.enter_context(tables_written([c for e in edits for c in e.changes if isinstance(c, TableWritten)]))
            inside = Edited(modules or live.parts.named_modules(), edits, observe)
            inside.frames = PipelineFrames(_places(live), live.parts.pipeline)
            for name, scheduler in live.parts.schedulers.items():
                arounds = {
                    method: _framed(
                        inside.frames,
                        f"@{name}.{method}",
                        *_method_changes(edits, name, method),
                        Begun(live.begun.get(name)),
                        [c for e in edits for c in e.changes if isinstance(c, TableChange) and c.part == name]
                        if method == SCHEDULE
                        else (),
                    )
                    for method in _SCHEDULER_METHODS
                }
                watch_methods(stack, scheduler, arounds)
            for root, module in live.parts.modules.items():
                for method in METHODS:
                    if callable(getattr(module, method, None)):
                        path = f"{root}.{method}"
                        changed = _ModuleMethod(path, edits, inside.values)
                        watch_attribute(stack, module, method, _framed(inside.frames, path, changed))
            stack.enter_context(inside)
            yield

    def value(self, edits: Iterable[Edit] = (), observe: Any = None) -> torch.Tensor | None:
        self.runs += 1
        edits = list(edits)
        self.log.spent += 1.0 if observe is None and self._between_modules(edits) else self.cost
        seen: list[torch.Tensor] = []

        def adjust(key: Key, tensor: torch.Tensor) -> torch.Tensor:
            if key == self.key:
                seen.append(tensor.detach().clone())
                if observe is None:
                    raise Reached(seen[0])
            return tensor

        def observed(site: Site, call: Call, result: Any) -> None:
            observe(site, call, result)
            if seen:  # the operation that gave the value is observed, too, before the run ends
                raise Reached(seen[0])

        keep = {"*": "none", literal(self.key.path): "sketch"}
        level = "module+ops" if self.key.is_operation else "module"
        with warnings.catch_warnings(), torch.no_grad(), ExitStack() as stack:
            warnings.simplefilter("ignore")
            recorder = record(
                self.live.target,
                Path(self._folder, "t.trace"),
                keep=keep,
                level=level,
                weights=False,
                name=self.live.name,
                adjust=adjust,
            )
            modules = self.modules
            if self._between_modules(edits):
                self._remembered.in_force(stack, observe is not None, self._unchanged)
                if observe is None:
                    recorder._target.__class__ = _RootsAlone
                    recorder._target.also = self.key.path if self._inside else ""  # type: ignore[attr-defined]
                    modules = dict(self.live.parts.modules) if self._between_modules(self.held) else modules
            began = time.perf_counter()
            if any(isinstance(c, OwnNumberChange) for e in edits for c in e.changes):  # of a loop's end, too
                stack.enter_context(limited(max(LEAST_SECONDS, SLOWER * self._seconds)))
            try:
                with recorder, self.edited(self.live, [*self.held, *edits], observed if observe else None, modules):
                    recorder.result(self.live.run(self.own))
            except Reached as reached:
                if observe is not None and not edits:
                    self._plain, self._seconds = reached.value, time.perf_counter() - began
                return reached.value
            except (Refuted, TooLong):
                return None
        return None

    def _unchanged(self) -> None:
        """The model is given what it was given before: so the value in it is what it was."""
        if self._plain is not None:
            raise Reached(self._plain)

    def _between_modules(self, edits: Iterable[Edit]) -> bool:
        """True if neither the edits nor the watched value are inside of a model."""
        path = self.key.path
        outside = path.startswith("@") or path in self.live.parts.modules or is_method(self.live.parts.modules, path)
        if not outside and (self._inside is None or self.key.is_operation):
            return False
        return all(self._is_between(change) for edit in edits for change in edit.changes)

    def _is_between(self, change: Any) -> bool:
        if isinstance(change, (SchedulerChange, MethodChange, NumberChange, OwnNumberChange)):
            return True
        if isinstance(change, ModuleChange):
            return change.path in self.live.parts.modules or is_method(self.live.parts.modules, change.path)
        sites = getattr(change, "sites", ())
        return bool(sites) and all(site.path.startswith("@") for site in sites)

    def survey(self) -> Survey:
        """Operations of the pipeline and its schedulers; `everywhere` also those inside the models."""
        survey, self.everywhere = Survey(flow=DataFlow(PIPELINE, self.live.parts.modules)), Survey()
        makers: dict[int, str] = {}
        counter = iter(range(1 << 30))

        def observe(site: Site, call: Call, result: Any) -> None:
            self.everywhere.sites.setdefault(site, example_of(call, result, makers))
            survey.follow(site, call, result)
            if site.path.startswith("@"):
                survey.sites.setdefault(site, example_of(call, result, makers))
                survey.note(site, result, next(counter))

        self.value(observe=observe)
        return survey


def is_method(modules: Any, path: str) -> bool:
    """True for `vae.decode`: what goes in there and comes out is between the models."""
    root, _, method = path.rpartition(".")
    return root in modules and method in METHODS


def run_cost(live: Any, own: Trace) -> float:
    """Evaluations that one run counts as: as many as models are called in it, each by its size."""
    calls = {(e.key.step, e.key.path, e.key.call) for e in own.entries if not e.key.is_operation}
    roots = live.parts.modules
    called = [path.partition(".")[0] for _, path, _ in calls if path in roots or is_method(roots, path)]
    return max(cost_of(roots.values()), sum(cost_of([roots[root]]) for root in called))


def _places(live: Any) -> dict[tuple[Any, ...], int]:
    return live.__dict__.setdefault("_places", {})


def _method_changes(edits: Iterable[Edit], part: str, method: str) -> tuple[MethodChange | None, tuple[str, ...]]:
    """How a scheduler's method is called otherwise, and which attributes are put back before it."""
    changes = [c for e in edits for c in e.changes]
    called = (c for c in changes if isinstance(c, MethodChange) and (c.part, c.method) == (part, method))
    fresh = [c for c in changes if isinstance(c, FreshState) and c.part == part and method == SCHEDULE]
    return next(called, None), tuple(name for change in fresh for name in change.names)


class _ModuleMethod:
    """`vae.decode`, with what goes into it or comes out changed as a module's."""

    def __init__(self, path: str, edits: Iterable[Edit], values: dict[str, Any]) -> None:
        self.changes = [c for e in edits for c in e.changes if isinstance(c, ModuleChange) and c.path == path]
        self.values = values

    def apply(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for change in (c for c in self.changes if c.before):
            args, kwargs = change.apply(self.values, args, kwargs, None)
        result = original(*args, **kwargs)
        for change in (c for c in self.changes if not c.before):
            result = change.apply(self.values, args, kwargs, result)
        return result


def _framed(
    frames: EditFrames,
    path: str,
    change: MethodChange | _ModuleMethod | None = None,
    fresh: tuple[str, ...] = (),
    begun: Begun | None = None,
    tables: Sequence[TableChange] = (),
) -> Any:
    def around(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        frames.push(path)
        if fresh and begun is not None:
            begun.put_back(instance, fresh)
        try:
            result = original(*args, **kwargs) if change is None else change.apply(original, args, kwargs)
            put_tables(instance, tables)
            return result
        finally:
            frames.pop(path)

    return around


def _set_scheduler(stack: ExitStack, scheduler: Any, change: SchedulerChange) -> None:
    before = dict(vars(scheduler))

    def restore() -> None:
        vars(scheduler).clear()
        vars(scheduler).update(before)

    stack.callback(restore)
    config = getattr(scheduler, "config", None)
    if config is not None and change.key in config and hasattr(type(scheduler), "from_config"):
        # without the note of what was left at its default: that would be put back to it
        settings = {key: value for key, value in dict(config).items() if not key.startswith("_")}
        made = type(scheduler).from_config({**settings, change.key: change.value})
        vars(scheduler).clear()
        vars(scheduler).update(vars(made))
    elif change.key in before:
        setattr(scheduler, change.key, change.value)
    else:
        raise NotApplicable(f"`{change.name}` has no setting {change.key!r}")


_ALTERNATIVES: dict[str, tuple[Any, ...]] = {
    "prediction_type": ("epsilon", "v_prediction", "sample"),
    "timestep_spacing": ("leading", "trailing", "linspace"),
    "steps_offset": (0, 1),
    "set_alpha_to_one": (True, False),
    "clip_sample": (True, False),
    "rescale_betas_zero_snr": (True, False),
    "beta_schedule": ("linear", "scaled_linear", "squaredcos_cap_v2"),
    "use_karras_sigmas": (True, False),
    "final_sigmas_type": ("zero", "sigma_min"),
    "thresholding": (True, False),
    "skip_prk_steps": (True, False),
    "shift": (1.0, 3.0),
    "use_dynamic_shifting": (True, False),
    "solver_order": (1, 2, 3),
    "lower_order_final": (True, False),
    "euler_at_final": (True, False),
    "solver_type": ("midpoint", "heun", "bh1", "bh2"),
    "algorithm_type": ("dpmsolver++", "dpmsolver", "sde-dpmsolver++"),
    "num_train_timesteps": (1000, 999),
}


def scheduler_edits(probe: PipelineProbe, comparison: Comparison, turned: bool) -> Iterator[Edit]:
    """Settings that differ between the schedulers, then the ones that ports get wrong."""
    sides = (comparison.candidate, comparison.reference) if turned else (comparison.reference, comparison.candidate)
    done: set[tuple[str, str]] = set()
    for name, described in (sides[0].get("schedulers") or {}).items():
        other = (sides[1].get("schedulers") or {}).get(name) or {}
        for table in ("config", "state"):
            mine, theirs = described.get(table) or {}, other.get(table) or {}
            for key in sorted(mine.keys() & theirs.keys()):
                if mine[key] != theirs[key] and not key.startswith("_use_default"):
                    done.add((name, key))
                    yield _scheduler_edit(name, key, mine[key], theirs[key], rank=0)
    for name, scheduler in probe.live.parts.schedulers.items():
        settings = {**vars(scheduler), **dict(getattr(scheduler, "config", None) or {})}
        known = [(key, settings[key]) for key in _ALTERNATIVES if key in settings]
        for key, before in [*known, *_plain_settings(scheduler)]:
            for value in _ALTERNATIVES.get(key) or _others(before):
                if value != before and (name, key) not in done:
                    yield _scheduler_edit(name, key, before, value, rank=2)


def _plain_settings(scheduler: Any) -> Iterator[tuple[str, Any]]:
    """Settings that nobody has thought of: whatever the class has a word for may have been ported otherwise."""
    for key, value in dict(getattr(scheduler, "config", None) or {}).items():
        if key not in _ALTERNATIVES and not key.startswith("_") and isinstance(value, (bool, int)):
            yield key, value


def _others(value: bool | int) -> tuple[Any, ...]:
    return (not value,) if isinstance(value, bool) else (value + 1, value - 1)


def _scheduler_edit(name: str, key: str, before: Any, value: Any, rank: int) -> Edit:
    words = f"`{name}.{key}` is {value!r} instead of {before!r}"
    change: tuple[Any, ...] = (SchedulerChange(name, key, value),)
    if isinstance(before, float) and isinstance(value, float):
        again = functools.partial(_scheduler_edit, name, key, before, rank=rank)
        return Edit(key, words, change, rank, parameter=value, refit=lambda v: again(v))
    return Edit(key, words, change, rank)


def root_edits(probe: PipelineProbe) -> Iterator[Edit]:
    """What comes out of a whole model, changed before the pipeline sees it."""
    changes: dict[tuple[str, str], Callable[[torch.Tensor], torch.Tensor]] = {
        ("precision", "rounded to bfloat16"): lambda x: x.bfloat16().to(x.dtype),
        ("precision", "rounded to float16"): lambda x: x.half().to(x.dtype),
        ("sign", "negated"): lambda x: -x,
        ("half_swap", "with the halves of the batch exchanged"): lambda x: x.roll(x.shape[0] // 2, 0),
        ("channel_order", "with the channels reversed"): lambda x: x.flip(1),
    }
    for root in probe.live.parts.modules:
        for (name, words), change in changes.items():
            detail = f"the result of `{root}` {words}"
            yield Edit(name, detail, (ModuleChange(root, _on_tensors(change)),), rank=3)


def _on_tensors(change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    def apply(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        if isinstance(result, torch.Tensor):
            return change(result)
        if isinstance(result, (list, tuple)) and type(result) in (list, tuple):
            return type(result)(change(v) if isinstance(v, torch.Tensor) else v for v in result)
        made = copy.copy(result)
        for name, value in vars(made).items():
            if isinstance(value, torch.Tensor):
                setattr(made, name, change(value))
        return made

    return apply


def is_about_time(probe: Any) -> bool:
    """True where timesteps go in: only these are cut to integers."""
    if isinstance(probe, PipelineProbe):
        return "timestep" in f"{probe.key.path}|{probe.key.slot}"
    return takes_time(probe.module) or "time" in type(probe.module).__name__.lower()
