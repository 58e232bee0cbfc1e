"""Checkpoints: every boundary between two blocks can save what follows needs, stop, or take values from elsewhere.

A name is a block's path (the moment after it: `denoise.007.step`, `denoise.007` for a whole iteration) or an alias:
`text_encoding`, `preloop`, `after_step_{i}`, `post_loop`, `decode`, or a block's own `checkpoint_name`.
"""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from ..configuration import describe_type, fits
from ..errors import InjectionError, InputError, UnknownNameError
from .params import describe_value
from .plan import Plan
from .randomness import copy_generator
from .vocabulary import MEDIA
from .wiring import NUMBER, Place, Visit


@dataclass
class Checkpoint:
    """What to do at a boundary. `save` fills `data` and `components`; `load` injects them; `expect` is compared."""

    save: bool = False
    stop: bool = False
    load: bool = False
    data: dict[str, Any] = field(default_factory=dict)
    components: dict[str, Any] = field(default_factory=dict)
    expect: dict[str, Any] = field(default_factory=dict)


class Stopped(Exception):
    """Ends a run at a checkpoint that says `stop`; never leaves the engine."""


@dataclass(frozen=True)
class Boundary:
    """A place between two visits of a plan: `start` is the first visit after it."""

    key: str
    start: int
    loops: tuple[str, ...]
    made: tuple[str, ...] = ()  # what the block just before it makes
    after: Place | None = None  # that block, where there is one


class Checkpoints:
    """The checkpoints of one run, found in its plan and checked before any model runs."""

    def __init__(self, requested: Mapping[str, Checkpoint], plan: Plan) -> None:
        self.plan, self.visits = plan, plan.flow.visits
        self.main_loop = next(
            (v.place.path for v in self.visits if v.place.block.kind == "loop" and "timesteps" in v.reads), None
        )
        if self.main_loop is None:
            self.main_loop = next((v.place.path for v in self.visits if v.place.block.kind == "loop"), None)
        self.aliases = self._find_aliases()
        self.waiting: dict[str, tuple[str, Checkpoint, Boundary]] = {}
        for name, checkpoint in requested.items():
            if not isinstance(checkpoint, Checkpoint):
                raise InputError(f"checkpoints[{name!r}] wants a Checkpoint, got {describe_value(checkpoint)}.")
            boundary = self._find(name)
            if checkpoint.load:
                self._check_closure(name, checkpoint, boundary)
            self.waiting[boundary.key] = (name, checkpoint, boundary)

    # ---- names ----

    def _find_aliases(self) -> dict[str, str]:
        """Alias -> the key of a boundary."""
        aliases = {
            v.place.block.checkpoint_name: f"after:{v.place.path}" for v in self.visits if v.place.block.checkpoint_name
        }
        before_loop, outer = self.visits, None
        if self.main_loop is not None:
            head = self._head(self.main_loop)
            outer = (*self.visits[head].place.loops, self.main_loop)[0]
            before_loop = self.visits[: self._head(outer)]
            aliases |= {"preloop": f"before:{outer}", "post_loop": f"after:{outer}"}
        encoders = [v.place.path for v in before_loop if "prompt_embeds" in v.makes]
        results = {param.name for param in self.plan.root.result or []} or set(MEDIA)
        decoders = [v.place.path for v in self.visits if results & set(v.makes)]
        aliases |= {"text_encoding": f"after:{encoders[-1]}"} if encoders else {}
        aliases |= {"decode": f"after:{decoders[-1]}"} if decoders else {}
        return {str(alias): key for alias, key in aliases.items()}

    @property
    def names(self) -> list[str]:
        """What a checkpoint can be called in this plan; `000` stands for any step."""
        steps = ["after_step_0"] if self.main_loop is not None else []
        paths = (self._numbered(v.place.path, v.place.loops) for v in self.visits if v.place.block.kind == "leaf")
        return list(dict.fromkeys([*self.aliases, *steps, *paths]))

    @staticmethod
    def _numbered(path: str, loops: Iterable[str]) -> str:
        for loop in sorted(loops, key=len, reverse=True):
            path = f"{loop}.000{path[len(loop) :]}"
        return path

    def _find(self, name: str) -> Boundary:
        step = re.fullmatch(r"after_step_(\d+)", name)
        if step and self.main_loop is not None:
            return self._iteration(f"step:{int(step[1])}", self.main_loop)
        key = self.aliases.get(name, f"after:{name}")
        if key.startswith("before:"):
            head = self._head(key.removeprefix("before:"))
            return Boundary(key, head, self.visits[head].place.loops)
        return self._after(name, key.removeprefix("after:"))

    def _after(self, name: str, path: str) -> Boundary:
        """The boundary after a block, or after one iteration of a loop."""
        plain = NUMBER.sub("", path)
        padded = NUMBER.sub(lambda found: f".{int(found[1]):03d}", path)
        inside = [k for k, visit in enumerate(self.visits) if f"{visit.place.path}.".startswith(f"{plain}.")]
        if all(self.visits[k].place.block.kind == "choice" for k in inside):
            inside = []  # a choice that is skipped has no end
        loops = self.visits[inside[0]].place.loops if inside else ()
        if re.search(r"\.\d+$", path) and inside and self.visits[inside[0]].place.block.kind == "loop":
            loops = (*loops, plain)
            if self._numbered(plain, loops[:-1]) + ".000" == NUMBER.sub(".000", padded):
                return self._iteration(f"after:{padded}", plain)
        elif inside and self._numbered(plain, loops) == NUMBER.sub(".000", padded):
            made = tuple(dict.fromkeys(made for k in inside for made in self.visits[k].makes))
            return Boundary(f"after:{padded}", inside[-1] + 1, loops, made, self.visits[inside[0]].place)
        advice = "In a path, a loop's name is followed by the number of the step."
        raise UnknownNameError("checkpoint", name, [_at_steps_of(name, known) for known in self.names], advice)

    def _iteration(self, key: str, loop: str) -> Boundary:
        head, body = self._head(loop), self._body(loop)
        made = tuple(dict.fromkeys(name for visit in self.visits[body] for name in visit.makes))
        return Boundary(key, body.stop, (*self.visits[head].place.loops, loop), made)

    def _head(self, loop: str) -> int:
        return next(k for k, v in enumerate(self.visits) if v.place.path == loop and v.place.block.kind == "loop")

    def _body(self, loop: str) -> slice:
        inside = [k for k, visit in enumerate(self.visits) if loop in visit.place.loops]
        return slice(inside[0], inside[-1] + 1)

    # ---- what the rest of the plan consumes ----

    def _ahead(self, boundary: Boundary) -> list[Visit]:
        """The visits after a boundary; inside a loop, its body comes round again."""
        ahead, cursor = [], boundary.start
        for loop in reversed(boundary.loops):
            body = self._body(loop)
            ahead += [*self._rest(boundary, slice(cursor, body.stop)), *self.visits[body]]
            cursor = body.stop
        return ahead + self.visits[cursor:]

    def _rest(self, boundary: Boundary, part: slice) -> list[Visit]:
        """The visits of this step after a boundary; inside a branch that was taken, the other ones are not to come."""
        if boundary.after is None or not boundary.after.branches:
            return self.visits[part]
        left = {choice for choice, _ in boundary.after.branches}  # at their ends, what this branch makes is what counts
        rest = [v for v in self.visits[part] if not boundary.after.excludes(v.place) and v.place.tree not in left]
        return [replace(v, possible=False) if boundary.after.implies(v.place) else v for v in rest]

    def consumed_after(self, boundary: Boundary) -> list[str]:
        """The values that are read after a boundary before they are made anew."""
        read: dict[str, None] = {}
        made: set[str] = set()
        for visit in self._ahead(boundary):
            read |= dict.fromkeys(name for name in visit.reads if name not in made)
            made |= set() if visit.possible else set(visit.makes)
        return list(read)

    def _made_before(self, boundary: Boundary) -> set[str]:
        around = [self.visits[self._body(loop)] for loop in boundary.loops]
        before = [*self.visits[: boundary.start], *(visit for body in around for visit in body)]
        return {name for visit in before for name in visit.makes}

    def _check_closure(self, name: str, checkpoint: Checkpoint, boundary: Boundary) -> None:
        known = set(checkpoint.data) | set(checkpoint.expect)
        for value in sorted(known - self.plan.names):
            raise UnknownNameError(f"value in checkpoint {name!r}", value, self.plan.names)
        self._check_types(name, checkpoint)
        computed = self._made_before(boundary)
        missing = [value for value in self.consumed_after(boundary) if value in computed and value not in known]
        if missing:
            readers = {
                value: next(str(v.place) for v in self._ahead(boundary) if value in v.reads) for value in missing
            }
            listing = ", ".join(f"{value!r} (read by {reader})" for value, reader in readers.items())
            raise InjectionError(
                f"Checkpoint {name!r} injects {', '.join(sorted(checkpoint.data)) or 'nothing'}, but what follows also "
                f"consumes {listing}: computed here, neither injected nor proven equal. Put them into `data`, or into "
                "`expect` to have them compared."
            )

    def _check_types(self, name: str, checkpoint: Checkpoint) -> None:
        """Refuse an injected value of a type that its readers do not take; arrays stand for tensors."""
        params = [p for v in self.visits if v.place.block.kind == "leaf" for p in v.place.block.inputs]
        hints = {p.name: p.type_hint for p in params if p.name in checkpoint.data and p.type_hint is not None}
        for value, hint in hints.items():
            given = checkpoint.data[value]
            if given is not None and not isinstance(given, np.ndarray) and not fits(given, hint):
                raise InputError(
                    f"Checkpoint {name!r} injects {describe_value(given)} as {value!r}, which wants "
                    f"{describe_type(hint)}."
                )

    # ---- at run time ----

    def loop_begins(self, loop: str, path: str, total: int | None) -> None:
        """Refuse a checkpoint at a step that this loop will not have."""
        for key, (name, _, _) in self.waiting.items():
            after_step = int(key.removeprefix("step:")) if key.startswith("step:") and loop == self.main_loop else -1
            inside = re.match(rf"after:{re.escape(path)}\.(\d+)(\.|$)", key)
            wanted = int(inside[1]) if inside else after_step
            counted_here = inside or not self.visits[self._head(loop)].place.loops  # steps of a loop in a loop add up
            if total is not None and wanted >= total and counted_here:
                raise InputError(
                    f"Checkpoint {name!r} waits for step {wanted}, but {path!r} has {total} steps (0 to {total - 1})."
                )

    def run_ends(self) -> None:
        """Refuse to ignore a checkpoint that no step came by."""
        for name, _, _ in self.waiting.values():
            raise InputError(
                f"Checkpoint {name!r} was never reached. Checkpoints of this run: {', '.join(self.names)}."
            )

    def reach(self, key: str, run: Any) -> None:
        """Do what the checkpoint at this boundary asks for, if there is one: load, then save, then stop."""
        if key not in self.waiting:
            return
        name, checkpoint, boundary = self.waiting.pop(key)
        if checkpoint.load:
            self._inject(name, checkpoint, boundary, run)
        if checkpoint.save:
            wanted = [*self.consumed_after(boundary), *boundary.made]
            checkpoint.data = {value: snapshot(run.state.values[value]) for value in wanted if value in run.state}
            checkpoint.components = {c: copy.deepcopy(run.components.own[c]) for c in run.components.stateful}
        if checkpoint.stop:
            raise Stopped(name)

    def _inject(self, name: str, checkpoint: Checkpoint, boundary: Boundary, run: Any) -> None:
        for value, wanted in checkpoint.expect.items():
            if not same_value(run.state.get(value), wanted):
                got = describe_value(run.state.get(value))
                raise InjectionError(
                    f"Checkpoint {name!r} expects {value!r} to equal its reference, but it differs: {got}, "
                    f"wanted {describe_value(wanted)}."
                )
        for component in checkpoint.components:
            if component not in run.components.own:
                raise UnknownNameError(f"component in checkpoint {name!r}", component, run.components.own)
        run.components.own |= {c: copy.deepcopy(held) for c, held in checkpoint.components.items()}
        for component in set(run.components.stateful) - set(checkpoint.components):
            self._check_component(name, checkpoint, boundary, component, run.components.own[component])
        for value, injected in checkpoint.data.items():
            run.state.set(value, _placed(snapshot(injected), run.state.get(value)), f"checkpoint {name}")

    @staticmethod
    def _check_component(name: str, checkpoint: Checkpoint, boundary: Boundary, component: str, held: Any) -> None:
        """A scheduler that is not injected has to stand where the injected values were taken."""
        advice = f"Inject it too: Checkpoint(components={{{component!r}: …}}), as `save` fills it."
        grid, injected = getattr(held, "timesteps", None), checkpoint.data.get("timesteps")
        if grid is not None and injected is not None:
            begin = getattr(held, "begin_index", None) or 0
            if _numbers(injected) != _numbers(grid)[begin : begin + len(injected)]:
                raise InjectionError(
                    f"Checkpoint {name!r} injects timesteps that {component!r} of this run does not have. {advice}"
                )
        history = histories(held) if boundary.loops else []
        if history:
            raise InjectionError(
                f"{component!r} keeps a history of earlier steps ({', '.join(history)}) that checkpoint {name!r} does "
                f"not inject. {advice}"
            )


def histories(component: Any) -> list[str]:
    """The attributes in which a component keeps samples of earlier steps: tensors with a batch axis and more."""
    return [name for name, value in vars(component).items() if _keeps_samples(value)]


def _keeps_samples(value: Any, depth: int = 3) -> bool:
    if isinstance(value, torch.Tensor):
        return value.ndim >= 2
    if isinstance(value, (list, tuple, deque)):
        parts = list(value)
    else:
        parts = list(value.values() if isinstance(value, dict) else getattr(value, "__dict__", {}).values())
    return depth > 0 and any(_keeps_samples(part, depth - 1) for part in parts)


def _at_steps_of(name: str, known: str) -> str:
    """A known name with the numbers of steps that another name has."""
    asked = iter(re.findall(r"\d+", name))
    return re.sub(
        r"(?<=after_step_)\d+|(?<=\.)\d{3}(?=\.|$)", lambda found: next(asked, found[0]).zfill(len(found[0])), known
    )


def snapshot(value: Any) -> Any:
    """A copy that later steps cannot change."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, torch.Generator):
        return copy_generator(value)
    if isinstance(value, dict):
        return {key: snapshot(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(snapshot(one) for one in value)
    return value


def same_value(one: Any, other: Any) -> bool:
    """Bitwise equality of values, tensors included."""
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        one, other = (
            torch.as_tensor(v) if isinstance(v, (torch.Tensor, np.ndarray, list)) else v for v in (one, other)
        )
        tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
        return tensors and one.shape == other.shape and torch.equal(one.cpu(), other.cpu().to(one.dtype))
    if isinstance(one, torch.Generator) and isinstance(other, torch.Generator):
        return torch.equal(one.get_state(), other.get_state())
    if type(one) in (list, tuple) and type(other) is type(one):
        return len(one) == len(other) and all(same_value(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def _placed(injected: Any, here: Any) -> Any:
    """An injected array as a tensor on the device where this run has the value."""
    if isinstance(here, torch.Tensor) and isinstance(injected, (np.ndarray, torch.Tensor)):
        return torch.as_tensor(injected).to(here.device)
    return injected


def _numbers(values: Any) -> list[float]:
    return [round(float(value), 6) for value in values]
