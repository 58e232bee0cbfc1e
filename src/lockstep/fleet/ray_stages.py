"""Workers as chains of three actors: texts, denoising and decoding, on whichever nodes have what each of them wants.

A worker is a denoiser, with one of the actors for texts before it and one for decoding behind it, which it may share
with other workers. An actor works off its calls one after the other: while one row is denoised, the words of the next
are encoded, and the picture of the last is decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError, MachineError
from ..notes import say_once
from .local import told_error
from .making import Setup
from .plan import PlannedRow
from .ray import RayWorkers
from .stages import Handed, Stage
from .workers import STAGES

ALIVE = 0.5  # seconds for a sign of life; one that is at work gives none, and is alive


class RayStages(RayWorkers):
    """So many actors of each stage; `places` names a resource of the nodes that a stage is to run on."""

    def __init__(
        self, setup: Setup, counts: Sequence[int], address: str | None = None, places: Mapping[str, str] | None = None
    ) -> None:
        if len(counts) != len(STAGES) or min(counts) < 1:
            raise InputError(f"Stages are {', '.join(STAGES)}: three numbers of actors from 1 on, got {list(counts)}.")
        self.counts, self.places = tuple(counts), dict(places or {})
        self._stages: dict[tuple[int, int], Any] = {}
        super().__init__(setup, counts[1], address)
        wanted, there = sum(counts) * (setup.threads or 1), int(self.ray.cluster_resources().get("CPU", 0))
        if wanted > there:
            said = f"These stages take {wanted} cores at once, and there are {there}."
            if address is None:
                self.close()
                raise MachineError(f"{said} Ask for fewer actors or --threads.")
            say_once(f"{said} They wait until the cluster grows.")

    def _chain(self, worker: int) -> list[Any]:
        """The three actors of a worker; those that are gone, or never were, are made."""
        found = []
        for stage, count in enumerate(self.counts):
            key = stage, worker % count
            if key not in self._stages or not self._is_alive(self._stages[key]):
                threads = self.setup.threads or 1
                where = {self.places[STAGES[stage]]: 0.001} if STAGES[stage] in self.places else {}
                kind = self.ray.remote(
                    num_cpus=threads, max_restarts=0, resources=where,
                    runtime_env={"env_vars": {"OMP_NUM_THREADS": str(threads)}},
                )  # fmt: skip
                self._stages[key] = kind(StageActor).remote(stage)
            found.append(self._stages[key])
        return found

    def _is_alive(self, actor: Any) -> bool:
        try:
            self.ray.get(actor.alive.remote(), timeout=ALIVE)
        except self.ray.exceptions.GetTimeoutError:
            return True
        except self.ray.exceptions.RayError:
            return False
        return True

    def start(self, worker: int) -> None:
        shared: Any = None
        for actor in self._chain(worker):
            shared = actor.load.remote(self.setup, shared)
        self._actors[worker] = self._stages[1, worker]
        self._calls[shared] = worker, None

    def give(self, worker: int, row: PlannedRow) -> None:
        handed: Any = ("handed", Handed(row))
        for stage, count in enumerate(self.counts):
            handed = self._stages[stage, worker % count].run.remote(handed)
        self._calls[handed] = worker, row

    def close(self) -> None:
        self._actors = dict(enumerate(self._stages.values()))
        super().close()


class StageActor:
    """One stage in a process of its own."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.stage: Stage | None = None

    async def alive(self) -> bool:
        return True

    async def load(self, setup: Setup, before: tuple[str, Any] | None) -> tuple[str, Any]:
        """Ready, with what this stage and those before it are made from; loaded once."""
        if before is not None and before[0] != "ready":
            return before
        try:
            if self.stage is None:
                self.stage = Stage(setup, self.place)
                self.stage.check()
            own = self.stage.shared()
        except Exception as problem:
            return "unable", told_error(problem)
        return "ready", own if before is None else joined(before[1], own)

    async def run(self, handed: tuple[str, Any]) -> tuple[str, Any]:
        """This stage of a row; what went wrong before goes through."""
        if handed[0] != "handed" or self.stage is None:
            return handed
        try:
            made, output = self.stage.run(handed[1])
            if not self.stage.is_last:
                return "handed", made
            return "made", await asyncio.wrap_future(self.stage.finish(made.row, output, made.seconds))
        except Exception as problem:
            return "failed", told_error(problem)


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What two stages are made from, as one pipeline with the models of both would say it."""
    dtypes = sorted({*one["dtype"], *other["dtype"]})
    return {**one, "dtype": dtypes, "weights": {**one["weights"], **other["weights"]}}
