"""The native face, `/api`: strict, complete, and all that the studio's page uses."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from PIL import Image
from pydantic import BaseModel, Field, StrictBool, StrictInt, StrictStr

from ... import __version__
from .. import pictures
from ..problems import Problem
from ..queue import Job, Output
from ..server import Server
from ..wishes import Wish
from .forms import Lora, Name, Strict
from .openapi import ERRORS

router = APIRouter(prefix="/api", responses=ERRORS, tags=["native"])
JobId = Annotated[str, Path(pattern="^[a-z2-7]{26}$", description="The id of a job.")]
Number = Annotated[int, Path(ge=0, le=10_000, description="Which of a job's files.")]
State = Literal["queued", "running", "done", "failed", "cancelled"]
INPUT_NAME = "^[0-9a-f]{64}[.]png$"


class Picture(Strict):
    """A picture among the inputs: sent along in base64, one that was uploaded, or one that a job made."""

    data: StrictStr | None = Field(None, description="PNG, JPEG or WebP in base64, or a data URL.")
    file: Annotated[StrictStr, Field(pattern=INPUT_NAME)] | None = None
    job: Annotated[StrictStr, Field(pattern="^[a-z2-7]{26}$")] | None = None
    n: Annotated[StrictInt, Field(ge=0, le=10_000)] = 0


class Component(Strict):
    name: Name = Field(alias="class", description="The name of a class.")
    settings: dict[str, Any] = Field(default_factory=dict, max_length=100)


class ValueEdit(Strict):
    """Values that are changed where a run passes a boundary."""

    at: Annotated[StrictStr, Field(pattern="^[A-Za-z0-9_.]{1,200}$")]
    values: dict[str, dict[str, Any]] = Field(max_length=50, description="Name -> {value | add | multiply | noise: …}")


class JobWish(Strict):
    """What to make; whatever is left out is the model's own."""

    model: Name | None = None
    inputs: dict[str, Any] = Field(default_factory=dict, max_length=100, description="By the model's schema.")
    workflow: Name | None = None
    seed: Annotated[StrictInt, Field(ge=0, le=2**63 - 1)] | None = None
    count: Annotated[StrictInt, Field(ge=1, le=1000)] = 1
    scheduler: Name | Component | None = None
    guider: Name | Component | None = None
    loras: list[Lora] = Field(default_factory=list, max_length=16)
    controlnets: list[Name] = Field(default_factory=list, max_length=8)
    partials: Annotated[StrictInt, Field(ge=0, le=16)] = 0
    deterministic: StrictBool = False
    stop_at: Annotated[StrictStr, Field(pattern="^[A-Za-z0-9_.]{1,200}$")] | None = None
    edits: list[ValueEdit] = Field(default_factory=list, max_length=50)
    trace: StrictBool = Field(False, description="Keep what every block makes, as a trace.")
    priority: Annotated[StrictInt, Field(ge=-100, le=100)] = 0


class Continuation(Strict):
    """Other values at the boundary where a job stopped, and where to stop next."""

    values: dict[str, dict[str, Any]] = Field(default_factory=dict, max_length=50)
    stop_at: Annotated[StrictStr, Field(pattern="^[A-Za-z0-9_.]{1,200}$")] | None = None


class Priority(Strict):
    priority: Annotated[StrictInt, Field(ge=-100, le=100)]


class Session(Strict):
    token: Annotated[StrictStr, Field(max_length=1000)]


class OutputView(BaseModel):
    n: int
    media: str
    sha256: str
    bytes: int
    facts: dict[str, Any]
    starred: bool
    url: str


class JobView(BaseModel):
    id: str
    seq: int
    state: State
    face: str
    model: str
    priority: int
    attempt: int
    created: float
    started: float | None
    ended: float | None
    request: dict[str, Any]
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    progress: dict[str, Any] | None
    outputs: list[OutputView]


class JobList(BaseModel):
    jobs: list[JobView]
    last_event: int


class CatalogueView(BaseModel):
    version: str
    default: str
    models: dict[str, dict[str, Any]]
    schedulers: list[dict[str, Any]]
    guiders: dict[str, Any]
    loras: list[str]
    controlnets: list[str]
    limits: dict[str, Any]
    loaded: dict[str, int]


def server_of(request: Request) -> Server:
    found: Server = request.app.state.server
    return found


def output_view(job: str, output: Output) -> OutputView:
    shown = {name: getattr(output, name) for name in ("n", "media", "sha256", "bytes", "facts", "starred")}
    return OutputView(**shown, url=f"/api/jobs/{job}/outputs/{output.n}")


def view(server: Server, job: Job) -> JobView:
    names = (
        "id",
        "seq",
        "state",
        "face",
        "model",
        "priority",
        "attempt",
        "created",
        "started",
        "ended",
        "request",
        "result",
        "error",
    )
    progress = server.hub.progress.get(job.id)
    outputs = [output_view(job.id, output) for output in job.outputs]
    return JobView(**{name: getattr(job, name) for name in names}, progress=progress, outputs=outputs)


# ---- what there is ----


@router.get("/catalogue")
async def catalogue(request: Request) -> CatalogueView:
    """Models, schedulers, guiders, LoRAs and ControlNets, and the limits of this server."""
    server, limits = server_of(request), server_of(request).settings.limits
    known = await server.catalogue()
    short = ("name", "pipeline", "description", "media", "width", "height", "workflows", "controlnet", "previews",
             "unable")  # fmt: skip
    return CatalogueView(
        version=__version__, default=known.default, guiders=known.guiders, loras=known.loras,
        controlnets=known.controlnets,
        models={name: {key: card[key] for key in short} for name, card in known.models.items()},
        schedulers=known.schedulers["classes"], limits=vars(limits), loaded=server.supervisor.loaded,
    )  # fmt: skip


@router.get("/schema")
async def schema(request: Request, model: Annotated[str | None, Query(max_length=200)] = None) -> dict[str, Any]:
    """One model whole: its inputs with their forms and defaults, its workflows, its blocks and their boundaries."""
    return (await server_of(request).catalogue()).card(model)


# ---- jobs ----


async def resolved(server: Server, name: str, value: Any) -> Any:
    """An input with its pictures kept: what was `{"data": …}` is a file of this server."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        if len(value) > 16:
            raise Problem(400, "invalid_value", f"{name!r} wants 16 pictures at most.", param=name)
        return [await resolved(server, name, one) for one in value]
    if not isinstance(value, dict):
        return value
    picture = Picture.model_validate(value)
    if [picture.data, picture.file, picture.job].count(None) != 2:
        raise Problem(400, "invalid_image", f"{name!r} wants one of data, file and job.", param=name)
    if picture.data is not None:
        return await server.take_picture(pictures.from_text(picture.data, server.settings.limits, name), name)
    if picture.job is not None:
        return await server.take_picture(await server.read_output(picture.job, picture.n), name)
    path = server.folder.inputs / str(picture.file)
    if not path.exists():
        raise Problem(404, "not_found", f"There is no uploaded picture for {name!r}.", param=name)
    with Image.open(path) as opened:
        return {"file": path.name, "width": opened.width, "height": opened.height}


async def wish_of(server: Server, asked: JobWish) -> Wish:
    inputs = {name: await resolved(server, name, value) for name, value in asked.inputs.items()}
    parts = [None if part is None else part if isinstance(part, str) else part.model_dump(by_alias=True)
             for part in (asked.scheduler, asked.guider)]  # fmt: skip
    return Wish(
        asked.model, inputs, asked.workflow, asked.seed, asked.count, parts[0], parts[1],
        [lora.model_dump() for lora in asked.loras], list(asked.controlnets), asked.partials, asked.deterministic,
        asked.stop_at, [edit.model_dump() for edit in asked.edits], asked.trace,
    )  # fmt: skip


@router.post("/jobs", status_code=202)
async def make(
    request: Request,
    asked: JobWish,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> JobView:
    """Ask for something to be made; the answer is the job that waits for its turn."""
    server = server_of(request)
    wish = await wish_of(server, asked)
    who = {"client": request.state.client, "face": "api", "key": idempotency_key, "priority": asked.priority}
    return view(server, await server.submit(wish, **who))


@router.get("/jobs")
async def jobs(
    request: Request,
    state: Annotated[list[State] | None, Query(max_length=5)] = None,
    text: Annotated[str, Query(max_length=200)] = "",
    model: Annotated[str, Query(max_length=200)] = "",
    starred: bool = False,
    made: Annotated[bool, Query(description="Only jobs that made a picture or a video.")] = False,
    before: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> JobList:
    """Jobs and what they made, the newest first; `text` wants every word of it in the prompt."""
    server = server_of(request)
    last = await server.database(server.queue.last_event)
    wanted = {"text": text, "model": model, "starred": starred, "made": made, "before": before, "limit": limit}
    found = await server.database(server.queue.find, states=state or (), **wanted)
    return JobList(jobs=[view(server, job) for job in found], last_event=last)


@router.get("/queue")
async def queue(request: Request) -> JobList:
    """What runs and what waits, in the order in which it comes."""
    server = server_of(request)
    last = await server.database(server.queue.last_event)
    return JobList(jobs=[view(server, job) for job in await server.database(server.queue.waiting)], last_event=last)


@router.get("/jobs/{job}")
async def job(request: Request, job: JobId) -> JobView:
    return view(server_of(request), await server_of(request).job(job))


@router.post("/jobs/{job}/cancel")
async def cancel(request: Request, job: JobId) -> JobView:
    """Let go of a job: at once where it waits, at the next step where it runs."""
    return view(server_of(request), await server_of(request).supervisor.cancel(job))


@router.post("/jobs/{job}/shorten")
async def shorten(request: Request, job: JobId) -> JobView:
    """End the steps of a running job here and decode what there is; one that waits is cancelled."""
    return view(server_of(request), await server_of(request).supervisor.shorten(job))


@router.put("/jobs/{job}/priority")
async def priority(request: Request, job: JobId, asked: Priority) -> JobView:
    """Move a job that waits: a higher priority goes first."""
    server = server_of(request)
    return view(server, await server.database(server.queue.move, job, asked.priority))


@router.post("/jobs/{job}/continue", status_code=202)
async def go_on(request: Request, job: JobId, asked: Continuation) -> JobView:
    """From where a job stopped, with other values there; the same run is made again up to that place."""
    server = server_of(request)
    stopped = await server.job(job)
    where = (stopped.result or {}).get("stopped_at")
    if where is None:
        raise Problem(422, "invalid_value", "That job did not stop at a boundary; make one with stop_at.", param="job")
    edits = [*stopped.request["edits"], *([{"at": where, "values": asked.values}] if asked.values else [])]
    wish = again(stopped, edits=edits, stop_at=asked.stop_at, trace=stopped.request.get("trace", False))
    return view(server, await server.submit(wish, client=request.state.client, face="api"))


@router.post("/jobs/{job}/replay", status_code=202)
async def replay(request: Request, job: JobId, trace: bool = False) -> JobView:
    """The same once more, alone; `/api/compare` says whether it came out the same. With `trace`, block by block."""
    server = server_of(request)
    done = await server.job(job)
    result = done.result or {}
    if result.get("interrupted"):
        steps = f"step {result.get('steps_made')} of {done.request['steps']}"
        told = f"It was finished early ({steps}), which cannot be repeated exactly; make it anew instead."
        raise Problem(422, "invalid_value", told, param="job")
    wish = again(done, deterministic=True, trace=trace)
    return view(server, await server.submit(wish, client=request.state.client, face="api"))


def again(job: Job, **changes: Any) -> Wish:
    """The wish that a job was made from."""
    names = (
        "model",
        "inputs",
        "workflow",
        "seed",
        "count",
        "scheduler",
        "guider",
        "loras",
        "controlnets",
        "stop_at",
        "edits",
    )
    return Wish(**{**{name: job.request[name] for name in names}, **changes})


@router.delete("/jobs/{job}", status_code=204)
async def delete(request: Request, job: JobId) -> None:
    """Forget a job that has ended, and its files."""
    server = server_of(request)
    names = await server.database(server.queue.delete, job)
    await asyncio.to_thread(server.folder.delete, names)


# ---- live ----


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    request: Request,
    job: Annotated[str | None, Query(pattern="^[a-z2-7]{26}$")] = None,
    previews: bool = False,
    last_event_id: Annotated[int | None, Header(ge=0, le=2**62)] = None,
    after: Annotated[int | None, Query(ge=0, le=2**62, description="As the header Last-Event-ID.")] = None,
) -> StreamingResponse:
    """Server-sent events of one job until it ends, or of all; `Last-Event-ID` brings what was missed."""
    server = server_of(request)
    server.require_stream()
    since = last_event_id if last_event_id is not None else after
    if job is not None:
        await server.job(job)
        since = 0 if since is None else since
    return StreamingResponse(server.events(job, since, previews), media_type="text/event-stream")


@router.post("/session", status_code=204)
async def sign_in(request: Request, asked: Session, response: Response) -> None:
    """A cookie in place of the token, for pages: pictures and streams carry no other."""
    safety = request.app.state.safety
    response.set_cookie(
        safety.cookie,
        safety.new_session(asked.token),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
