"""The engine: runs a plan, block by block, and owns every loop.

A `Run` is a generator of events at heart: each boundary between two blocks is a `yield`, and at each of them the run
can be watched, interrupted, saved, stopped or given other values. What changes during a run lives in the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any

import torch

from ..errors import InputError, InterruptedRun, UnknownNameError, WiringError
from . import guard
from .checkpoints import Checkpoint, Checkpoints, Stopped, snapshot
from .components import RunComponents
from .events import Event
from .manifest import Manifest, describe_grid, describe_run
from .output import PipelineOutput
from .params import describe_value
from .plan import Plan
from .state import BlockView, PipelineState
from .wiring import NUMBER, join

Position = dict[str, Any]  # i, t, k as the loops around set them; `index` of the innermost one


@dataclass
class RunOptions:
    """What a caller can ask for besides the blocks' inputs."""

    seed: int | list[int] | None = None
    return_dict: bool = True
    output: str | list[str] | None = None
    workflow: str | None = None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None = None
    callback_on_step_end_tensor_inputs: list[str] = field(default_factory=lambda: ["latents"])
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    preview: Callable[[torch.Tensor], Any] | bool = False


class Run:
    """One call of a pipeline, checked and ready; `result()` runs it, iterating over it runs it event by event."""

    def __init__(
        self,
        pipe: Any,
        plan: Plan,
        values: dict[str, Any],
        options: RunOptions,
        components: RunComponents,
        seeds: list[int] | None,
        workflow: str | None,
        only: Collection[str] | None = None,
    ) -> None:
        self.only = only  # the blocks of the tree that this run is of; the others run elsewhere
        self.pipe, self.plan, self.options, self.components = pipe, plan, options, components
        self.seeds, self.workflow = seeds, workflow
        self.state = PipelineState(values)
        self.checkpoints = Checkpoints(options.checkpoints, plan)
        self.observers: list[Callable[[Event], None]] = []
        self.stopped_at: str | None = None
        self.output: PipelineOutput | None = None
        self._result = [param.name for param in pipe.result_params()]
        self.record = describe_run(self)
        self._interrupted = threading.Event()
        self.leaves_loops = False  # what is left of the loops is skipped; the blocks after them run
        self._started = False
        self._main_steps = 0
        self._pending: list[Event] = []  # events of loops that iterate by themselves

    def changes(self) -> list[str]:
        """What besides the inputs can have changed the result."""
        loads = [f"checkpoint {name}" for name, checkpoint in self.options.checkpoints.items() if checkpoint.load]
        return loads + (["callback_on_step_end"] if self.options.callback_on_step_end else [])

    def interrupt(self) -> None:
        """Stop at the next boundary; may be called from another thread."""
        self._interrupted.set()

    def result(self) -> Any:
        """Run to the end; what the caller asked for."""
        for _ in self:
            pass
        assert self.output is not None
        return self.output.as_asked(self.options)

    def __iter__(self) -> Iterator[Event]:
        if self._started:
            raise InputError("This run was started before; a run runs once. Make another one with pipe.run(…).")
        self._started = True
        return self._events()

    def _events(self) -> Iterator[Event]:
        self.pipe.run_begins(self)
        try:
            yield from self._parts(self.plan.root, "", "", {})
            self.checkpoints.run_ends()
        except Stopped as stop:
            self.stopped_at = str(stop)
        finally:
            self.pipe.run_ends(self)
        self.pipe.ranks_agree_after(self)
        self.output = self._collect()
        yield self._tell(Event("output", value=self.output))

    def _collect(self) -> PipelineOutput:
        models = {name: self.pipe.all_components.get(name) for name in self.plan.components}
        modules = {name: model for name, model in models.items() if isinstance(model, torch.nn.Module)}
        manifest = Manifest({**self.record, **describe_grid(self)}, modules)
        return PipelineOutput(
            {name: self.state.get(name) for name in self._result}, manifest, self.state, self.stopped_at
        )

    def _tell(self, event: Event) -> Event:
        for observer in self.observers:
            observer(event)
        return event

    def _boundary(self, path: str) -> None:
        if self._interrupted.is_set():
            problem = InterruptedRun(f"The run was interrupted before {path!r}. The pipeline can be called again.")
            problem.state = self.state  # type: ignore[attr-defined]
            raise problem

    # ---- blocks ----

    def _block(self, block: Any, path: str, tree: str, position: Position) -> Iterator[Event]:
        if block.kind == "choice":
            branch = self._branch(block, tree, position)
            if branch is not None:
                inside = join(path, branch) if block.loop_triggers else path
                yield from self._block(block.sub_blocks[branch], inside, join(tree, branch), position)
            if block.loop_triggers:
                self.checkpoints.reach(f"after:{path}", self)
            return
        self._boundary(path)
        self.checkpoints.reach(f"before:{path}", self)
        started = time.perf_counter()
        yield self._tell(Event("block_start", path, type(block).__name__))
        if block.kind == "sequence":
            yield from self._parts(block, path, tree, position)
        elif block.kind == "loop" and not block.iterates_itself:
            yield from self._loop(block, path, tree, position)
        else:
            yield from self._leaf(block, path, position)
            yield from self._take_pending()
        self.checkpoints.reach(f"after:{path}", self)
        yield self._tell(Event("block_end", path, type(block).__name__, seconds=time.perf_counter() - started))

    def _parts(self, block: Any, path: str, tree: str, position: Position) -> Iterator[Event]:
        for name, part in block.sub_blocks.items():
            if not path and self.only is not None and name not in self.only:
                continue
            yield from self._block(part, join(path, name), join(tree, name), position)

    def _branch(self, choice: Any, tree: str, position: Position) -> str | None:
        """The planned branch; decided again where a trigger is a value that a block or the loop has made meanwhile."""
        if choice.loop_triggers:
            here = {name: _position(name, position, tree) for name in choice.loop_triggers}
            return choice.choose({**self.state.values, **here})
        if tree in self.plan.flow.choices and not any(name in self.state.writers for name in choice.trigger_names):
            return self.plan.flow.choices[tree]
        return choice.choose(self.state.values)

    def _loop(self, loop: Any, path: str, tree: str, position: Position) -> Iterator[Event]:
        view = BlockView(self.state, path, loop, self.plan.flow.groups, inputs=loop.loop_params, outputs=[])
        items = loop.loop_items(self.components.seen_by(loop, path, self), view)
        total = len(items) if hasattr(items, "__len__") else None
        plain = NUMBER.sub("", path)
        self.checkpoints.loop_begins(plain, path, total)
        counts = isinstance(items, range)
        for index, item in enumerate(items):
            here = {**position, "index": index, **({"k": item} if counts else {"i": index, "t": item})}
            inside = f"{path}.{index:03d}"
            self._boundary(inside)
            yield from self._parts(loop, inside, tree, here)
            if not _has_loop_inside(loop):
                self._step_ends(path, index, item, self.state)
            if plain == self.checkpoints.main_loop:
                self.checkpoints.reach(f"step:{self._main_steps}", self)
                self._main_steps += 1
            self.checkpoints.reach(f"after:{inside}", self)
            yield self._tell(Event("step", path, type(loop).__name__, index=index, total=total, item=item))
            yield from self._take_pending()
            if self.leaves_loops:
                break

    def _leaf(self, block: Any, path: str, position: Position) -> Iterator[Event]:
        before = _Before(self.state, block) if block.upcast_on_nonfinite else None
        view = yield from self._call(block, path, position)
        finding = self._finding(view._written, block)
        if finding and before and self.components.upcast(block.names_of(block.upcast_on_nonfinite)):
            note = Event("retry", path, type(block).__name__, value=f"{finding}: again in float32")
            self._pending.append(self._tell(note))
            before.restore(self.state)
            view = yield from self._call(block, path, position)
            finding = self._finding(view._written, block)
        self._refuse(finding, block, path, position)
        for name in set(block.output_names) - set(block.input_names) - set(view._written):
            raise WiringError(
                f"Block {path!r} ({type(block).__name__}) declares the output {name!r} but did not write it."
            )

    def _finding(self, made: Mapping[str, Any], block: Any) -> guard.Finding | None:
        return guard.find_nonfinite(made, block.outputs) if self.pipe.check_finite else None

    def _refuse(self, finding: guard.Finding | None, block: Any, path: str, position: Position) -> None:
        if finding:
            models = {name: self.components.get(name) for name in block.loaded_names}
            raise guard.refuse(finding, path, type(block).__name__, position, models)

    def _call(self, block: Any, path: str, position: Position) -> Generator[Event, None, BlockView]:
        """Run a leaf; one that is a generator hands over what it yields (frames) as it is ready."""
        view = BlockView(self.state, path, block, self.plan.flow.groups)
        components = self.components.seen_by(block, path, self)
        arguments = {name: _position(name, position, path) for name in block.loop_arguments}

        def computed(work: Callable[[], Any]) -> Any:
            try:
                with torch.no_grad(), self.pipe.placed(block.loaded_names, near=lambda: self.plan.used_near(path)):
                    return work()
            except Exception as problem:
                problem.add_note(f"In block {path!r} ({type(block).__name__}).")
                raise

        made = computed(lambda: block(components, view, **arguments))
        if isinstance(made, GeneratorType):
            try:
                while (ready := computed(lambda: next(made, None))) is not None:
                    self._refuse(self._finding({"frames": ready}, block), block, path, position)
                    yield self._tell(Event("frames", path, type(block).__name__, value=ready))
                    self._boundary(path)
            finally:
                made.close()  # what is finished is kept by the block
        return view

    # ---- steps ----

    def _step_ends(self, path: str, index: int, item: Any, values: Any) -> None:
        """The caller's callback, and a preview, after one step of an innermost loop."""
        callback, names = self.options.callback_on_step_end, self.options.callback_on_step_end_tensor_inputs
        if callback is not None:
            changed = callback(self.pipe, index, item, self.pipe.shown_to_callback(self, names, values)) or {}
            if not isinstance(changed, Mapping):
                raise InputError(
                    f"callback_on_step_end returns {{name: value}} or None, got {describe_value(changed)}."
                )
            for name in changed:
                if name not in names:
                    raise UnknownNameError("value returned by callback_on_step_end", name, names)
            for name, value in self.pipe.taken_from_callback(self, changed, values).items():
                if isinstance(values, PipelineState):
                    values.set(name, value, f"{path}.callback")
                else:
                    setattr(values, name, value)
        latents = getattr(values, "latents", None)
        if self.options.preview and latents is not None:
            show = self.pipe.preview if self.options.preview is True else self.options.preview
            with torch.no_grad():
                self._pending.append(self._tell(Event("preview", path, index=index, value=show(latents))))

    def _take_pending(self) -> Iterator[Event]:
        while self._pending:
            yield self._pending.pop(0)

    def own_loop_step(self, loop: Any, components: Any, block_state: Any, position: Position) -> tuple[Any, Any]:
        """One iteration of a loop that iterates by itself: its events come when the loop has ended."""
        path = components._path
        index = next(iter(position.values()), 0)
        self._boundary(f"{path}.{index:03d}")
        self._own_parts(loop, components, block_state, position, path)
        self._step_ends(path, index, position.get("t", index), block_state)
        self._pending.append(self._tell(Event("step", path, type(loop).__name__, index=index, item=position.get("t"))))
        return components, block_state

    def _own_parts(self, block: Any, components: Any, block_state: Any, position: Position, path: str) -> None:
        for part in block.sub_blocks.values():
            if part.kind == "choice":
                branch = part.choose({**vars(block_state), **position})
                part = part.sub_blocks[branch] if branch else None
            if part is None:
                continue
            if part.kind == "sequence":
                self._own_parts(part, components, block_state, position, path)
                continue
            wanted = {name: position[name] for name in part.loop_arguments if name in position}
            part(self.components.seen_by(part, path, self), block_state, **wanted)


class _Before:
    """What a block may overwrite or use up, kept for a second try."""

    def __init__(self, state: PipelineState, block: Any) -> None:
        self.values = {name: state.values[name] for name in block.output_names if name in state}
        self.generator = snapshot(state.get("generator"))

    def restore(self, state: PipelineState) -> None:
        state.values |= self.values
        if self.generator is not None:
            state.values["generator"] = self.generator


def _position(name: str, position: Position, path: str) -> Any:
    """i, t or k for a block: of the loop that sets it, else i and k are the innermost loop's index."""
    if name in position:
        return position[name]
    if name == "t":
        raise WiringError(f"Block {path!r} asks for t (an item), but the loops around it only count. Ask for k.")
    return position["index"]


def _has_loop_inside(block: Any) -> bool:
    parts = getattr(block, "sub_blocks", {}).values()
    return any(part.kind == "loop" or _has_loop_inside(part) for part in parts)
