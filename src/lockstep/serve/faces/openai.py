"""The face of OpenAI's images API, `/v1`: its official clients run unchanged."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from .. import pictures
from ..problems import Problem, of_job
from ..queue import Job
from ..server import KEEP_ALIVE, Server
from ..wishes import Wish, keeping_the_rest
from . import body_of, finished
from .forms import Lora, Name, Real, Strict
from .openapi import ERRORS

router = APIRouter(prefix="/v1", responses=ERRORS, tags=["openai"])
STAND_INS = ("gpt-image-", "chatgpt-image-", "dall-e-")  # names that clients have built in: the default model
QUALITY = {"low": 0.5, "medium": 1.0, "standard": 1.0, "auto": 1.0, "high": 1.5, "hd": 1.5, "xhigh": 2.0, "max": 2.0}
NOT_HERE = ("complexity", "svg", "frame_count", "frame_duration_ms", "markup")
VARIATION = 0.7  # how much of a picture a variation replaces
WHOLE, REAL, YES_NO = (
    ("n", "output_compression", "partial_images", "seed", "steps"),
    ("guidance_scale", "strength"),
    ("stream",),
)


class Common(Strict):
    """What generations and edits share. Upstream's fields first, then this server's own (`extra_body`)."""

    prompt: Annotated[StrictStr, Field(min_length=1, max_length=32000)]
    model: Name | None = None
    n: Annotated[StrictInt, Field(ge=1, le=10)] | None = None
    size: Annotated[StrictStr, Field(pattern="^(auto|[1-9][0-9]{0,4}x[1-9][0-9]{0,4})$")] | None = None
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto", "standard", "hd"] | None = None
    output_format: Literal["png", "jpeg", "webp"] | None = None
    output_compression: Annotated[StrictInt, Field(ge=0, le=100)] | None = None
    background: Literal["opaque", "auto"] | None = None
    stream: StrictBool | None = None
    partial_images: Annotated[StrictInt, Field(ge=0, le=3)] | None = None
    response_format: Literal["url", "b64_json"] | None = None
    user: Annotated[StrictStr, Field(max_length=1000)] | None = None
    safety_identifier: Annotated[StrictStr, Field(max_length=1000)] | None = None
    moderation: Literal["low", "auto"] | None = None
    style: Annotated[StrictStr, Field(max_length=100)] | None = Field(None, description="Changes nothing.")
    input_fidelity: Literal["high", "low"] | None = Field(None, description="Changes nothing.")
    seed: Annotated[StrictInt, Field(ge=0, le=2**62)] | None = None
    negative_prompt: Annotated[StrictStr, Field(max_length=32000)] | None = None
    steps: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = None
    guidance_scale: Annotated[Real, Field(ge=0, le=1000)] | None = None
    scheduler: Name | None = None
    loras: Annotated[list[Lora], Field(max_length=16)] | None = None


class Generation(Common):
    """`images.generate`. Fields that nothing here can serve pass as null and are refused with any value."""

    complexity: None = None
    svg: None = None
    frame_count: None = None
    frame_duration_ms: None = None


class Edition(Common):
    """`images.edit` besides its pictures: all of it arrives as text."""

    strength: Annotated[Real, Field(ge=0, le=1)] | None = None


class Image(BaseModel):
    b64_json: str | None = None
    url: str | None = None
    revised_prompt: str | None = None
    seed: int
    manifest: str


class Usage(BaseModel):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: dict[str, int]


class Images(BaseModel):
    model_config = ConfigDict(extra="allow")

    created: int
    data: list[Image]
    size: str
    quality: str
    output_format: str
    background: str
    usage: Usage
    lockstep: dict[str, Any]


class Model(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "lockstep"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


IMAGES: dict[int | str, dict[str, Any]] = {
    200: {"model": Images, "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


def form(*files: str, required: list[str]) -> dict[str, Any]:
    """The multipart body of a route that reads its form itself."""
    fields = {name: {"type": "string"} for name in Edition.model_fields}
    parts = {name: {"type": "string", "format": "binary"} for name in files}
    schema = {"type": "object", "properties": {**fields, **parts}, "required": required}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


@router.get("/models")
async def models(request: Request) -> ModelList:
    server: Server = request.app.state.server
    known = await server.catalogue()
    return ModelList(data=[Model(id=name, created=int(server.began)) for name in known.models])


@router.get("/models/{model:path}")
async def one_model(request: Request, model: str) -> Model:
    server: Server = request.app.state.server
    return Model(id=(await server.catalogue()).card(model)["name"], created=int(server.began))


Key = Annotated[str | None, Header(max_length=200)]


@router.post("/images/generations", response_model=Images, responses=IMAGES)
async def generate(request: Request, asked: Generation, idempotency_key: Key = None) -> Response | Images:
    """Words to pictures."""
    return await answered(request, asked, {}, "image_generation", idempotency_key)


@router.post(
    "/images/edits",
    response_model=Images,
    responses=IMAGES,
    openapi_extra=form("image", "mask", required=["image", "prompt"]),
)
async def edit(request: Request, idempotency_key: Key = None) -> Response | Images:
    """A picture and words to pictures; with a mask, only where it is transparent."""
    server: Server = request.app.state.server
    async with request.form(max_files=17, max_fields=64) as sent:
        asked = Edition.model_validate(texts(sent))
        inputs = {"image": await server.take_picture(await one_file(sent, "image", server), "image")}
        if "mask" in sent:
            mask = await server.take_picture(await one_file(sent, "mask", server), "mask", mask=True)
            if (mask["width"], mask["height"]) != (inputs["image"]["width"], inputs["image"]["height"]):
                raise Problem(400, "invalid_image", "mask and image have different sizes.", param="mask")
            inputs["mask_image"] = mask
    given = {} if asked.strength is None else {"strength": float(asked.strength)}
    return await answered(request, asked, {**inputs, **given}, "image_edit", idempotency_key)


@router.post(
    "/images/variations", response_model=Images, responses=IMAGES, openapi_extra=form("image", required=["image"])
)
async def vary(request: Request, idempotency_key: Key = None) -> Response | Images:
    """A picture to pictures like it."""
    server: Server = request.app.state.server
    async with request.form(max_files=2, max_fields=64) as sent:
        given = texts(sent)
        asked = Edition.model_validate({"prompt": " ", **given})
        inputs = {
            "image": await server.take_picture(await one_file(sent, "image", server), "image"),
            "strength": VARIATION,
        }
    return await answered(request, asked, inputs, "image_edit", idempotency_key)


# ---- from the request to the wish ----


def texts(sent: FormData) -> dict[str, Any]:
    """The fields of a form, each as what it stands for."""
    found: dict[str, Any] = {}
    for name, value in sent.multi_items():
        if isinstance(value, UploadFile) or name in ("image", "image[]", "mask"):
            continue
        if name in NOT_HERE:
            raise Problem(400, "unsupported_parameter", f"{name!r} cannot be had here.", param=name)
        found[name] = read_text(name, value)
    return found


def read_text(name: str, value: str) -> Any:
    try:
        if name in WHOLE:
            return int(value)
        if name in REAL:
            return float(value)
        if name in YES_NO and value in ("true", "false"):
            return value == "true"
        return json.loads(value) if name == "loras" else value
    except (ValueError, RecursionError):
        return value  # which the check of its type refuses


async def one_file(sent: FormData, name: str, server: Server) -> bytes:
    """The one picture of this name; whatever type it claims to be is not believed."""
    found = [one for key in (name, f"{name}[]") for one in sent.getlist(key)]
    if len(found) != 1:
        raise Problem(400, "invalid_image", f"{name!r} wants one picture, got {len(found)}.", param=name)
    if not isinstance(found[0], UploadFile):
        raise Problem(400, "invalid_image", f"{name!r} wants a file, got text.", param=name)
    return await found[0].read(server.settings.limits.picture_bytes + 1)


async def wish_of(server: Server, asked: Common, inputs: dict[str, Any]) -> Wish:
    known = await server.catalogue()
    card = known.picture_card(None if asked.model is None or asked.model.startswith(STAND_INS) else asked.model)
    steps = asked.steps
    if steps is None and asked.quality is not None:
        own = card["inputs"].get("num_inference_steps", {}).get("default") or 1
        steps = max(1, round(own * QUALITY[asked.quality]))
    sides = [None, None] if asked.size in (None, "auto") else [int(side) for side in str(asked.size).split("x")]
    width, height = server.fitted(sides[0], sides[1], card)
    given = {
        "prompt": asked.prompt.strip(), "negative_prompt": asked.negative_prompt, "num_inference_steps": steps,
        "guidance_scale": asked.guidance_scale, "width": width, "height": height, **inputs,
        **keeping_the_rest(inputs, card),
    }  # fmt: skip
    return Wish(
        card["name"], {name: value for name, value in given.items() if value is not None}, seed=asked.seed,
        count=asked.n or 1,
        scheduler=asked.scheduler, loras=[lora.model_dump() for lora in asked.loras or ()],
        partials=(asked.partial_images or 0) if asked.stream else 0,
    )  # fmt: skip


async def answered(
    request: Request, asked: Common, inputs: dict[str, Any], kind: str, key: str | None
) -> Response | Images:
    server: Server = request.app.state.server
    check_format(asked)
    wish = await wish_of(server, asked, inputs)
    if asked.stream:
        server.require_stream()
    job = await server.submit(wish, client=request.state.client, face="openai", key=key, waits=True)
    if asked.stream:
        return StreamingResponse(streamed(request, job, asked, kind, key is not None), media_type="text/event-stream")
    return await images(request, await finished(request, job, key is not None), asked)


def check_format(asked: Common) -> None:
    form = asked.output_format or "png"
    if form != "png" and asked.response_format == "url":
        raise Problem(
            400,
            "unsupported_parameter",
            "A link leads to the PNG that is kept; ask for b64_json.",
            param="response_format",
        )
    if asked.stream and asked.response_format == "url":
        raise Problem(400, "unsupported_parameter", "A stream carries pictures as b64_json.", param="response_format")


# ---- from the job to the answer ----


def facts(job: Job, asked: Common) -> dict[str, str]:
    size = f"{job.request['width']}x{job.request['height']}"
    if job.outputs:
        size = f"{job.outputs[0].facts['width']}x{job.outputs[0].facts['height']}"
    quality = asked.quality or "auto"
    return {"size": size, "quality": quality, "output_format": asked.output_format or "png", "background": "opaque"}


def usage(job: Job) -> Usage:
    """The types want it: words that went in, and pictures."""
    words, shown = len(job.text.split()), len(job.outputs)
    pictures_in = int("image" in job.request["inputs"])
    details = {"image_tokens": pictures_in, "text_tokens": words}
    return Usage(
        input_tokens=words + pictures_in,
        output_tokens=shown,
        total_tokens=words + pictures_in + shown,
        input_tokens_details=details,
    )


def told(job: Job) -> dict[str, Any]:
    return {"job": job.id, "model": job.model, "steps": job.request["steps"]}


async def encoded(server: Server, job: str, n: int, asked: Common) -> str:
    data = await server.read_output(job, n)
    if asked.output_format in ("jpeg", "webp"):
        quality = 100 if asked.output_compression is None else asked.output_compression
        data = await asyncio.to_thread(pictures.encoded, data, asked.output_format, quality)
    return base64.b64encode(data).decode()


async def images(request: Request, job: Job, asked: Common) -> Images:
    if job.state == "cancelled":
        raise Problem(422, "cancelled", "The job was cancelled.")
    server: Server = request.app.state.server
    data = []
    for output in job.outputs:
        place = f"{str(request.base_url).rstrip('/')}/api/jobs/{job.id}/outputs/{output.n}"
        link = asked.response_format == "url"
        content = {"url": place} if link else {"b64_json": await encoded(server, job.id, output.n, asked)}
        data.append(Image(**content, seed=output.facts["seed"], manifest=f"{place}/manifest"))
    return Images(created=int(time.time()), data=data, usage=usage(job), lockstep=told(job), **facts(job, asked))


def event(content: dict[str, Any]) -> bytes:
    return f"event: {content.get('type', 'error')}\ndata: {json.dumps(content)}\n\n".encode()


async def streamed(request: Request, job: Job, asked: Common, kind: str, keep: bool) -> AsyncIterator[bytes]:
    """Partial pictures as they come, then the whole ones; a failure is told in the stream. Who leaves without a key,
    cancels."""
    server: Server = request.app.state.server
    index, ended = 0, False
    try:
        async with server.hub.listening(job.id, watch=False) as listener:
            ended = not (await server.job(job.id)).is_open
            while not ended:
                try:
                    message = await asyncio.wait_for(listener.messages.get(), KEEP_ALIVE)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                ended = message["kind"] in ("done", "failed", "cancelled")
                if message["kind"] == "preview" and message["partial"]:
                    shown = {"b64_json": message["png"], "partial_image_index": index, "created_at": int(time.time())}
                    yield event({"type": f"{kind}.partial_image", **shown, **facts(job, asked), "output_format": "png"})
                    index += 1
        found = await server.job(job.id)
        if found.state != "done":
            problem = of_job(found.error or {"status": 422, "code": "cancelled", "message": "The job was cancelled."})
            yield event(body_of("/v1/", problem))
            return
        for output in found.outputs:
            whole = {"b64_json": await encoded(server, job.id, output.n, asked), "created_at": int(time.time())}
            more = {"usage": usage(found).model_dump(), "seed": output.facts["seed"], "lockstep": told(found)}
            yield event({"type": f"{kind}.completed", **whole, **facts(found, asked), **more})
    finally:
        if not ended and not keep:
            await asyncio.shield(server.supervisor.cancel(job.id))
