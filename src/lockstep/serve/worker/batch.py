"""One batch in the worker: jobs of one shape as the rows of one run, each with its own events, files and manifest."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.torch import save_file

from ...blocks.checkpoints import Checkpoint
from ...blocks.output import Part
from ...errors import InterruptedRun, LockstepError
from ...images import load_image
from ...media import kind_named, plain
from ..problems import Problem, as_row, of_error
from . import edits
from .boundaries import Boundaries
from .models import Models

PER_ROW = ("prompt", "negative_prompt", "image", "mask_image")
SHARE_OF_PREVIEWS = 0.2  # of the time of a run, for those who watch it
BETWEEN_PREVIEWS = 0.08  # seconds at least
TYPES = {".png": "image/png", ".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"}
Tell = Callable[[dict[str, Any]], None]


@dataclass
class Task:
    """A job as the worker gets it: what is wanted, and where the files go."""

    id: str
    attempt: int
    request: dict[str, Any]
    place: Path
    made: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return int(self.request["count"])

    @property
    def seeds(self) -> list[int]:
        return [self.request["seed"] + k for k in range(self.count)]


class Batch:
    """Runs tasks together, and one by one where together they fail."""

    def __init__(self, tasks: Sequence[Task], models: Models, inputs: Path, tell: Tell, most_rows: int) -> None:
        self.tasks, self.models, self.inputs, self.tell, self.most_rows = list(tasks), models, inputs, tell, most_rows
        self.cancelled: set[str] = set()
        self.shortened: set[str] = set()
        self.watched: set[str] = set()
        self.current: list[Task] = []
        self._run: Any = None
        self._lock = threading.Lock()

    def cancel(self, job: str) -> None:
        """Let go of a job: at the next boundary if the run is its alone, else its result is dropped."""
        with self._lock:
            self.cancelled.add(job)
            self._stop_if_unwanted()

    def shorten(self, job: str) -> None:
        """End the loops of a job now and decode what there is, if the run is its alone; else let go of it."""
        with self._lock:
            alone = [task.id for task in self.tasks] == [job]
            (self.shortened if alone else self.cancelled).add(job)
            if alone and self._run is not None:
                self._run.leaves_loops = True
            self._stop_if_unwanted()

    def _stop_if_unwanted(self) -> None:
        if self._run is not None and all(task.id in self.cancelled for task in self.current):
            self._run.interrupt()

    def run(self) -> None:
        """Every task ends here: done, failed or cancelled."""
        for group in self._groups():
            self._run_group(group)

    def _groups(self) -> list[list[Task]]:
        """Tasks whose texts have as many pieces: a row that is said again to be as long as another is rounded otherwise
        than alone."""
        if len(self.tasks) == 1:
            return [self.tasks]
        try:
            parts = self.models.pipeline(self.tasks[0].request["model"]).components
        except LockstepError:
            return [self.tasks]  # which fails, and says why
        tokenizers = [part for name, part in parts.items() if name.startswith("tokenizer") and part is not None]
        groups: dict[int, list[Task]] = {}
        for task in self.tasks:
            texts = [task.request["inputs"].get(name) or "" for name in ("prompt", "negative_prompt")]
            groups.setdefault(max((pieces(t, text) for t in tokenizers for text in texts), default=1), []).append(task)
        return list(groups.values())

    def _run_group(self, tasks: list[Task]) -> None:
        try:
            self._together(tasks)
        except Exception as problem:
            if len(tasks) == 1 or isinstance(problem, InterruptedRun):
                self._failed(tasks, problem)
                return
            for task in tasks:  # one of them spoils the rest: each for itself
                try:
                    self._together([task])
                except Exception as own:
                    self._failed([task], own)

    def _failed(self, tasks: Sequence[Task], problem: Exception) -> None:
        for task in tasks:
            if task.id in self.cancelled:
                self.tell({"tell": "cancelled", "job": task.id, "attempt": task.attempt})
            else:
                self.tell({"tell": "failed", "job": task.id, "attempt": task.attempt, "error": told_error(problem)})

    def _together(self, tasks: Sequence[Task]) -> None:
        with self._lock:
            self.current = list(tasks)
        for task in tasks:
            task.made.clear()  # of a try together with others
        lead = tasks[0].request
        with self.models.dressed(lead) as pipe:
            chunks = [tasks] if len(tasks) > 1 else list(_pieces(tasks[0], self.most_rows))
            for number, chunk in enumerate(chunks):
                self._chunk(pipe, chunk, number, len(chunks))
                if any(task.id in self.shortened for task in tasks):
                    break
        for task in tasks:
            if task.id in self.cancelled:
                self.tell({"tell": "cancelled", "job": task.id, "attempt": task.attempt})
            else:
                result = {"batch": len(tasks), "interrupted": task.id in self.shortened, **task.result}
                done = {"tell": "done", "job": task.id, "attempt": task.attempt, "outputs": task.made}
                self.tell({**done, "result": result})

    def _chunk(self, pipe: Any, tasks: Sequence[Task], number: int, total: int) -> None:
        """One run of the pipeline; what it remarks on its words is for those who wrote them, and for no log."""
        started = time.perf_counter()
        stops = edits.Stops(tasks[0].request)
        watch = Watch(self, pipe, tasks, number, total)
        with warnings.catch_warnings(record=True) as remarks:
            warnings.simplefilter("always")
            run = self._run_through(pipe, tasks, stops, watch)
        if remarks and len(tasks) == 1:
            tasks[0].result["notes"] = list(dict.fromkeys(str(remark.message) for remark in remarks))
        changed = stops.changes() + (["interrupted"] if run.leaves_loops else [])
        if run.output.stopped_at is not None:
            self._write_values(pipe, tasks[0], run.output.stopped_at, stops.stop)
        else:
            self._write_parts(tasks, run.output, changed, started, watch.made if run.leaves_loops else None)
        if watch.boundaries is not None and watch.boundaries.keeps:
            self._write_trace(tasks[0], watch.boundaries)

    def _write_parts(
        self, tasks: Sequence[Task], output: Any, changed: list[str], started: float, steps_made: int | None
    ) -> None:
        """Each row of a run into the files of its job; `steps_made` where it was to end before it had made all."""
        parts, row = output.parts(), 0
        self.models.hashes(tasks[0].request, output.manifest)
        for task in tasks:
            for index in range(task.count):
                if task.id not in self.cancelled:
                    where = {"size": len(parts), "row": row} if len(tasks) > 1 else None
                    place = parts[row].kind.place
                    record = Record(self.models, output.manifest, task, index, where, changed, place, steps_made)
                    self._write(parts[row], task, record, time.perf_counter() - started)
                    if steps_made is not None:
                        task.made[-1]["facts"]["steps"] = task.result["steps_made"] = steps_made
                row += 1

    def _run_through(self, pipe: Any, tasks: Sequence[Task], stops: edits.Stops, watch: Watch) -> Any:
        """A run that is over: told as it goes, and stopped where nobody wants it any more."""
        workflow = tasks[0].request.get("workflow")
        options = {"checkpoints": stops.checkpoints, "workflow": workflow, "preview": watch.preview}
        run = pipe.run(**self._inputs(pipe, tasks), **{name: value for name, value in options.items() if value})
        with self._lock:
            self._run = run
            run.leaves_loops = any(task.id in self.shortened for task in tasks)
            self._stop_if_unwanted()
        if len(tasks) == 1:  # the values of several jobs are one tensor, which is nobody's to see
            watch.boundaries = Boundaries(run, keeps=bool(tasks[0].request.get("trace")))
        try:
            for event in run:
                stops.pass_event(run)
                watch.event(event)
        finally:
            with self._lock:
                self._run = None
        return run

    def _inputs(self, pipe: Any, tasks: Sequence[Task]) -> dict[str, Any]:
        """What the pipeline is called with: one set of values for one task, lists for several."""
        seeds = [seed for task in tasks for seed in task.seeds]
        each = [self._opened(task.request["inputs"]) for task in tasks]
        if len(tasks) == 1:
            card_count = tasks[0].request["count_input"]
            count = {card_count: tasks[0].count} if tasks[0].count > 1 else {}
            return {**each[0], **count, "seed": seeds if len(seeds) > 1 else seeds[0]}
        shared = {name: value for name, value in each[0].items() if name not in PER_ROW}
        rows: dict[str, list[Any]] = {}
        for name in PER_ROW:
            if any(inputs.get(name) is not None for inputs in each):
                texts = name in ("prompt", "negative_prompt")
                rows[name] = [
                    ("" if texts and inputs.get(name) is None else inputs.get(name))
                    for task, inputs in zip(tasks, each, strict=True)
                    for _ in range(task.count)
                ]
        return {**shared, **rows, "seed": seeds}

    def _opened(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._open(value) for name, value in inputs.items() if value is not None}

    def _open(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._open(one) for one in value]
        if isinstance(value, dict) and "file" in value:
            path = self.inputs / Path(value["file"]).name
            return load_image(path) if path.suffix == ".png" else kind_named("video").load(path)
        return value

    def _write(self, part: Part, task: Task, record: Record, seconds: float) -> None:
        number = len(task.made)
        path = task.place / f"{number}{part.kind.formats[0].suffixes[0]}"
        item = plain(part.item)
        Part(part.kind, item, record, part.options).write(path)
        height, width, *_ = next(iter(part.kind.frames(part.item))).shape
        rate = {"fps": part.options["fps"]} if part.options.get("fps") else {}
        facts = {"kind": part.kind.name, "seed": record.seed, "width": width, "height": height, **rate,
                 "seconds": round(seconds, 3), "batch": record.batch}  # fmt: skip
        task.made.append({"n": number, **file_facts(path), "facts": facts})

    def _write_trace(self, task: Task, boundaries: Boundaries) -> None:
        path = task.place / f"{len(task.made)}.safetensors"
        boundaries.write(path)
        task.made.append({"n": len(task.made), **file_facts(path), "facts": {"kind": "trace"}})
        if boundaries.left_out:
            said = f"The trace is full: {boundaries.left_out} later values are left out."
            task.result["notes"] = [*task.result.get("notes", []), said]

    def _write_values(self, pipe: Any, task: Task, where: str, stop: Checkpoint) -> None:
        """What a run holds at the boundary at which it stopped: every number as a file, and a look at each."""
        task.place.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.contiguous() for name, value in stop.data.items() if isinstance(value, torch.Tensor)}
        path = task.place / f"{len(task.made)}.safetensors"
        save_file(tensors or {"nothing": torch.zeros(0)}, path)
        task.made.append({"n": len(task.made), **file_facts(path), "facts": {"kind": "values"}})
        latents = stop.data.get("latents")
        if isinstance(latents, torch.Tensor) and hasattr(pipe, "preview"):
            with torch.no_grad():
                shown = pipe.preview(latents)[0]
            path = task.place / f"{len(task.made)}.png"
            path.write_bytes(as_png(shown))
            facts = {"kind": "preview", "width": shown.width, "height": shown.height}
            task.made.append({"n": len(task.made), **file_facts(path), "facts": facts})
        task.result |= {"stopped_at": where, "values": edits.summary(stop.data)}


def pieces(tokenizer: Any, text: str) -> int:
    """How many lengths of the text encoder a text takes."""
    room = max(int(tokenizer.model_max_length) - 2, 1)
    return max(1, math.ceil(len(tokenizer(text, add_special_tokens=False).input_ids) / room))


class Piece(Task):
    """Some of the rows of a task that has more of them than fit into one run; its files are the task's."""

    def __init__(self, task: Task, seeds: list[int]) -> None:
        super().__init__(task.id, task.attempt, task.request, task.place, task.made, task.result)
        self._seeds = seeds

    @property
    def count(self) -> int:
        return len(self._seeds)

    @property
    def seeds(self) -> list[int]:
        return self._seeds


def _pieces(task: Task, most: int) -> list[list[Piece]]:
    return [[Piece(task, task.seeds[k : k + most])] for k in range(0, task.count, most)]


class Watch:
    """Tells how far a run is, and shows it where somebody looks."""

    def __init__(self, batch: Batch, pipe: Any, tasks: Sequence[Task], number: int, total: int) -> None:
        self.batch, self.pipe, self.tasks, self.number, self.total = batch, pipe, tasks, number, total
        self._due, self._step, self._steps = 0.0, 0, 0
        self.made = 0  # steps
        self.boundaries: Boundaries | None = None  # of a run that is one job's alone
        can_show = hasattr(pipe, "preview")
        self.preview: Callable[[torch.Tensor], Any] | None = self._preview if can_show else None

    def event(self, event: Any) -> None:
        if event.kind == "step":
            self._steps, self.made = event.total or 0, event.index + 1
            told = {"step": self.number * self._steps + event.index + 1, "steps": self.total * self._steps}
            for task in self.tasks:
                self.batch.tell({"tell": "step", "job": task.id, "path": event.path, **told})
        elif event.kind in ("block_start", "block_end", "retry"):
            ended = event.kind == "block_end" and self.boundaries is not None
            if ended and self.boundaries is not None:
                self.boundaries.note(event.path)
            for task in self.tasks:
                if task.id in self.batch.watched:
                    values = self.boundaries.looks(event.path) if ended and self.boundaries is not None else {}
                    told = {"values": values} if values else {}
                    self.batch.tell({"tell": "block", "job": task.id, **event.to_dict(), **told})

    def _preview(self, latents: torch.Tensor) -> None:
        """Small pictures for those who asked for this step, and as many as cost little for those who watch."""
        self._step += 1
        due = time.monotonic() >= self._due
        wanted = [
            task for task in self.tasks
            if self._step in partial_steps(task.request) or (due and task.id in self.batch.watched)
        ]  # fmt: skip
        if not wanted:
            return
        began = time.monotonic()
        first = {task.id: sum(before.count for before in self.tasks[:k]) for k, task in enumerate(self.tasks)}
        rows = [first[task.id] for task in wanted]
        for task, shown in zip(wanted, self.pipe.preview(latents[rows]), strict=True):
            told = {
                "tell": "preview",
                "job": task.id,
                "step": self._step,
                "png": base64.b64encode(as_png(shown)).decode(),
            }
            self.batch.tell({**told, "partial": self._step in partial_steps(task.request)})
        ended = time.monotonic()
        self._due = ended + max(BETWEEN_PREVIEWS, (ended - began) * (1 / SHARE_OF_PREVIEWS - 1))


def partial_steps(request: Mapping[str, Any]) -> set[int]:
    """The steps after which a request wants to see how far it is."""
    many, steps = int(request.get("partials") or 0), int(request["steps"])
    return {max(1, round(steps * k / (many + 1))) for k in range(1, many + 1)}


class Record:
    """The manifest of one picture: that of its run, with this job's part of it alone, and names in place of paths."""

    def __init__(
        self, models: Models, manifest: Any, task: Task, index: int, batch: dict[str, int] | None, changed: list[str],
        place: str, steps_made: int | None,
    ) -> None:  # fmt: skip
        self.models, self.manifest, self.task, self.index = models, manifest, task, index
        self.batch, self.changed, self.place, self.steps_made = batch, changed, place, steps_made
        self.seed = task.seeds[index]

    def __call__(self, folder: Path) -> dict[str, Any]:
        request, record = self.task.request, self.manifest.to_dict(weights=False, folder=folder)
        inputs = dict(record["inputs"])
        if self.batch is not None:  # the neighbours' words are their own
            first = self.batch["row"] - self.index
            inputs |= {
                name: value[first] for name, value in inputs.items() if name in PER_ROW and isinstance(value, list)
            }
            inputs[request["count_input"]] = self.task.count
            inputs |= {name: None for name in PER_ROW if request["inputs"].get(name) is None and name in inputs}
        record |= {
            "model": self.models.public_name(request["model"]), "inputs": _names(inputs), "seed": self.task.seeds,
            "adapters": [{**one, "file": Path(str(one["file"])).name} for one in record["adapters"]],
            "given": {name: [{**part, "folder": part["folder"] and Path(part["folder"]).name} for part in parts]
                      for name, parts in record["given"].items()},
            "weights": self.models.hashes(request, self.manifest), self.place: self.index,
            "changed_by": [*record["changed_by"], *self.changed],
        }  # fmt: skip
        more = {"batch": self.batch, "steps_made": self.steps_made}
        return record | {name: value for name, value in more.items() if value is not None}


def _names(value: Any) -> Any:
    """Pictures that went in are named by their files' names, which are hashes."""
    if isinstance(value, list):
        return [_names(one) for one in value]
    if isinstance(value, dict):
        return {
            key: Path(one).name if key == "file" and isinstance(one, str) else _names(one) for key, one in value.items()
        }
    return value


def as_png(picture: Image.Image) -> bytes:
    data = io.BytesIO()
    picture.save(data, format="PNG", compress_level=1)
    return data.getvalue()


def file_facts(path: Path) -> dict[str, Any]:
    media = TYPES.get(path.suffix, "application/octet-stream")
    return {"file": path.name, "media": media, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def told_error(problem: Exception) -> dict[str, Any]:
    """A failure as the row of its job keeps it; what nobody foresaw is printed here and not told to clients."""
    if isinstance(problem, LockstepError | MemoryError):
        return as_row(of_error(problem))
    if isinstance(problem, torch.OutOfMemoryError) or "can't allocate memory" in str(problem):
        return as_row(of_error(MemoryError("the models and this request do not fit")))
    traceback.print_exception(problem)
    return as_row(Problem(500, "internal", "The job met an error of the server's own; its log has it."))
