"""Workers on a Ray cluster: the web process is as ever, with a stream from a replica where a pipe was.

A lane takes a batch from the queue, sends it to whichever replica Serve chooses, and hears of it until it ends. Serve
tries nothing again: a replica that dies ends the stream, and its jobs go back to the queue as those of any worker.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from typing import Any

from ..fleet.ray import connect
from .settings import Settings
from .workers import Shop, WorkerProcess

log = logging.getLogger("lockstep.serve")
MODELS_A_REPLICA = 16  # that Serve remembers of one; how many fit is decided by their weights


class Service:
    """The deployment on the cluster, made once for all lanes."""

    def __init__(self, settings: Settings, place: dict[str, Any]) -> None:
        self.settings, self.place = settings, place
        self.name = f"lockstep-{hashlib.sha256(str(settings.data.resolve()).encode()).hexdigest()[:8]}"
        self.handle: Any = None
        self.board: Any = None
        self._lock = asyncio.Lock()
        self._own = False

    async def start(self) -> None:
        async with self._lock:
            if self.handle is None:
                self.handle = await asyncio.to_thread(self._deploy)

    def _deploy(self) -> Any:
        os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")  # which would abort at a SIGTERM
        import ray
        from ray import serve

        from .worker.replica import Board, Replica

        if not ray.is_initialized():
            connect(ray, self.settings.address)
            self._own = True
        serve.start(proxy_location="Disabled")
        self.board = ray.remote(num_cpus=0, max_restarts=-1)(Board).remote()
        fewest, most = self.settings.replicas
        gpu = 1 if str((self.settings.devices or ("",))[0]).startswith("cuda") else 0
        deployment: Any = serve.deployment(
            type("Replica", (Replica,), {
                "__module__": Replica.__module__,
                "load": serve.multiplexed(max_num_models_per_replica=MODELS_A_REPLICA)(Replica.load),
            }),
            name="worker", max_ongoing_requests=1, ray_actor_options={"num_cpus": 1, "num_gpus": gpu},
            autoscaling_config={
                "min_replicas": fewest, "max_replicas": most, "initial_replicas": fewest, "target_ongoing_requests": 1,
                "upscale_delay_s": self.settings.upscale, "downscale_delay_s": self.settings.downscale,
            },
            health_check_period_s=2, graceful_shutdown_timeout_s=1,
        )  # fmt: skip
        return serve.run(deployment.bind(self.place, self.board), name=self.name, route_prefix=None)

    async def stop(self) -> None:
        """The deployment goes; a cluster that was there before stays."""
        if self.handle is not None:
            self.handle = None
            await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        import ray
        from ray import serve

        serve.delete(self.name)
        ray.kill(self.board)
        if self._own:
            serve.shutdown() if self.settings.address is None else None
            ray.shutdown()


class RayWorker(WorkerProcess):
    """A lane: one batch at a time on some replica of the service."""

    def __init__(self, shop: Shop, service: Service) -> None:
        super().__init__(shop, None)
        self.service = service
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._reading: asyncio.Task[None] | None = None
        self._key, self._replica = "", ""
        self._begun = False

    async def _spawn(self) -> None:
        self._messages = asyncio.Queue()
        try:
            await self.service.start()
            self._messages.put_nowait(await self.service.handle.describe.remote())
        except Exception as problem:  # of the cluster, or of the models: told to whoever asks, and tried again
            self._messages.put_nowait({"tell": "unable", "message": str(problem)})

    async def _hear(self) -> dict[str, Any] | None:
        message = await self._messages.get()
        self._heard = time.monotonic()
        if message is not None and message["tell"] == "begun":
            self._begun, self._replica = True, message["replica"]
        return message

    def _send(self, message: dict[str, Any]) -> None:
        if message["do"] == "run":
            first = message["batch"][0]
            self._key, self._begun, self._replica = f"{first['job']}.{first['attempt']}", False, ""
            self._reading = asyncio.create_task(self._read(self._key, message["batch"]))
        elif self._key and self.service.board is not None:
            self.service.board.leave.remote(self._key, message)

    async def _read(self, key: str, batch: list[dict[str, Any]]) -> None:
        """The stream of one batch; where it breaks off, this life of the lane ends."""
        model = batch[0]["request"]["model"]
        try:
            stream = self.service.handle.options(stream=True, multiplexed_model_id=model).run.remote(key, batch)
            async for message in stream:
                self._messages.put_nowait(message)
        except Exception as problem:  # whatever ends a stream, the jobs go back
            log.error("replica %s: %s", self._replica or "(none yet)", type(problem).__name__)
            self._messages.put_nowait(None)

    def _kill(self) -> None:
        """A replica that hangs is ended by its name; Serve brings up another one."""
        import ray

        try:
            ray.kill(ray.get_actor(self._replica, namespace="serve"))
        except ValueError:  # it is gone, or never was
            self._messages.put_nowait(None)

    async def end(self) -> None:
        self.is_ready = False
        self._idle.clear()
        self._key = ""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _fault(self) -> dict[str, Any] | None:
        """A batch that no replica has begun is no fault of its jobs."""
        return super()._fault() if self._begun else None
