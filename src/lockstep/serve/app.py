"""The application: three faces, health, metrics and the page, behind the checks that every request passes first."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel
from pydantic import ValidationError as ModelError
from starlette.exceptions import HTTPException

from .. import __version__
from .faces import a1111, a1111_lists, boundaries, handle, native, native_files, openai, proofs
from .faces.openapi import ERRORS
from .metrics import Metrics, Sample
from .problems import Problem, of_storage
from .safety import Safety
from .server import Server
from .settings import Settings
from .workers import WorkerProcess

KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


Condition = Literal["ok", "no_worker", "no_room"]


class Health(BaseModel):
    status: Condition
    ready: bool
    queued: int
    running: int


def create_app(settings: Settings) -> FastAPI:
    """A server for these settings; it begins to work when it is started."""
    metrics = Metrics()
    server = Server(settings, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await server.start()
        yield
        await server.stop()

    app = FastAPI(
        title="Lockstep", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        openapi_url="/openapi.json", description="Pictures and videos from diffusion models: native, OpenAI and A1111.",
    )  # fmt: skip
    app.state.server, app.state.proofs = server, proofs.Proofs()
    app.state.safety = Safety(app, settings, metrics)  # what checks tokens also hands out sessions
    for kind in (Problem, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, handle)
    app.add_exception_handler(ModelError, refuse_model)
    for kind in (sqlite3.Error, OSError):
        app.add_exception_handler(kind, refuse_storing)
    for face in (native, native_files, boundaries, proofs, openai, a1111, a1111_lists):
        app.include_router(face.router)
    _add_own_routes(app, server)
    _add_page(app)
    return app


async def refuse_model(request: Request, error: Exception) -> Any:
    """A part of a body that was checked by hand."""
    assert isinstance(error, ModelError)
    return await handle(request, RequestValidationError(error.errors()))


async def refuse_storing(request: Request, error: Exception) -> Any:
    """What the disk does not take; any other error of a file is one of the server's own."""
    problem = of_storage(error)
    if problem is None:
        raise error
    request.app.state.server.database.note_full(error)
    return await handle(request, problem)


def _add_own_routes(app: FastAPI, server: Server) -> None:
    @app.get("/health", responses=ERRORS, tags=["watch"])
    async def health() -> Health:
        """Whether the server lives; `ready` when a worker does and the disk can be written to."""
        states = list(server.hub.open.values())
        sound: Condition = "ok" if server.supervisor.is_ready else "no_worker"
        return Health(
            status=sound if server.database.room.is_set() else "no_room",
            ready=server.supervisor.is_ready,
            queued=states.count("queued"),
            running=states.count("running"),
        )

    @app.get("/metrics", response_class=PlainTextResponse, responses=ERRORS, tags=["watch"])
    async def metrics() -> PlainTextResponse:
        """Counters and gauges for Prometheus."""
        counts = await server.database(server.queue.counts)
        return PlainTextResponse(server.metrics.text(gauges(server, counts)), media_type="text/plain; version=0.0.4")


def _add_page(app: FastAPI) -> None:
    """The page's files, each by its own route: no path of a request is ever joined to a folder."""
    for file in (resources.files(__package__) / "studio").iterdir():
        kind = KINDS.get(Path(file.name).suffix)
        if kind is not None:
            address = "/" if file.name == "index.html" else f"/studio/{file.name}"
            answer = partial(_answer, file.read_bytes(), f"{kind}; charset=utf-8")
            app.add_route(address, answer, include_in_schema=False)


def _answer(data: bytes, media: str, request: Request) -> Response:
    return Response(data, media_type=media, headers={"Cache-Control": "no-cache"})


def gauges(server: Server, counts: dict[str, int]) -> list[tuple[str, str, str, list[Sample]]]:
    """What can be read off a server now."""
    workers = list(enumerate(server.supervisor.workers))
    loaded = [({"worker": str(k), "model": n}, size) for k, worker in workers for n, size in worker.loaded.items()]

    def of_each(number: Callable[[WorkerProcess], float]) -> list[Sample]:
        return [("", {"worker": str(k)}, float(number(worker))) for k, worker in workers]

    return [
        ("lockstep_jobs", "gauge", "Jobs by state.", [("", {"state": s}, float(n)) for s, n in counts.items()]),
        ("lockstep_model_bytes", "gauge", "Weights in memory.", [("", names, float(size)) for names, size in loaded]),
        ("lockstep_worker_up", "gauge", "1 while a worker is ready.", of_each(lambda worker: worker.is_ready)),
        ("lockstep_worker_restarts_total", "counter", "Workers that were replaced.", of_each(lambda w: w.restarts)),
        ("lockstep_batches_total", "counter", "Runs of a pipeline.", of_each(lambda worker: worker.batches)),
        ("lockstep_batched_rows_total", "counter", "Pictures in these runs.", of_each(lambda worker: worker.rows)),
        ("lockstep_streams", "gauge", "Event streams that are open.", [("", {}, float(server.streams))]),
        ("lockstep_uptime_seconds", "gauge", "Seconds since the start.", [("", {}, time.time() - server.began)]),
    ]
