"""The native face's files: what jobs made, what they start from, and how two pictures compare."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path as File
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import FileResponse, Response
from PIL import Image
from pydantic import BaseModel, StrictBool

from ...errors import LockstepError
from ...media import kind_named, read_manifest
from .. import pictures
from ..problems import Problem
from ..server import Server
from .forms import Strict
from .native import INPUT_NAME, JobId, Number, server_of
from .openapi import ERRORS, FILE, binary

router = APIRouter(prefix="/api", responses=ERRORS, tags=["native"])


class Star(Strict):
    starred: StrictBool


class InputView(BaseModel):
    file: str
    width: int
    height: int


class PictureComparison(BaseModel):
    identical: bool
    largest: int
    mean: float
    differing: float


@router.get(
    "/jobs/{job}/outputs/{n}",
    response_class=Response,
    responses={200: binary("image/png", "video/mp4", "application/octet-stream")},
)
async def output(request: Request, job: JobId, n: Number) -> Response:
    """A file of a job, with its manifest inside."""
    found, path = await server_of(request).output(job, n)
    headers = {"ETag": f'"{found.sha256}"', "Cache-Control": "private, max-age=31536000, immutable"}
    return FileResponse(path, media_type=found.media, headers=headers)


@router.get("/jobs/{job}/outputs/{n}/manifest")
async def manifest(request: Request, job: JobId, n: Number) -> dict[str, Any]:
    """What a picture was made from."""
    _, path = await server_of(request).output(job, n)
    try:
        return await asyncio.to_thread(read_manifest, path)
    except LockstepError:
        raise Problem(404, "not_found", "This file carries no manifest.") from None


@router.get("/jobs/{job}/outputs/{n}/thumbnail", response_class=Response, responses={200: binary("image/webp")})
async def thumbnail(
    request: Request, job: JobId, n: Number, side: Annotated[int, Query(ge=16, le=512)] = 256
) -> Response:
    found, path = await server_of(request).output(job, n)
    if found.media != "image/png":
        raise Problem(404, "not_found", "There is no small picture of this file.")
    small = await asyncio.to_thread(lambda: pictures.thumbnail(path.read_bytes(), side))
    return Response(small, media_type="image/webp", headers={"Cache-Control": "private, max-age=31536000, immutable"})


@router.put("/jobs/{job}/outputs/{n}/star", status_code=204)
async def star(request: Request, job: JobId, n: Number, asked: Star) -> None:
    server = server_of(request)
    await server.database(server.queue.star, job, n, asked.starred)


@router.get("/jobs/{job}/preview", response_class=Response, responses={200: binary("image/png")})
async def preview(request: Request, job: JobId) -> Response:
    """The running job as it looks now; whoever asks now and again is shown more."""
    server = server_of(request)
    await server.job(job)
    server.hub.look(job)
    if job not in server.hub.previews:
        raise Problem(404, "not_found", "There is no preview of this job now.")
    return Response(server.hub.previews[job][1], media_type="image/png")


@router.post("/inputs", status_code=201, openapi_extra=FILE)
async def upload(request: Request) -> InputView:
    """Keep a picture (PNG, JPEG, WebP: the body of this request) for jobs to start from."""
    return InputView(**await server_of(request).take_picture(await request.body(), "body"))


@router.get("/inputs/{file}", response_class=Response, responses={200: binary("image/png")})
async def uploaded(request: Request, file: Annotated[str, Path(pattern=INPUT_NAME)]) -> Response:
    path = server_of(request).folder.inputs / file
    if not path.exists():
        raise Problem(404, "not_found", "There is no such picture.")
    return FileResponse(path, media_type="image/png", headers={"Cache-Control": "private, max-age=31536000, immutable"})


Place = Annotated[str, Query(pattern="^[a-z2-7]{26}/[0-9]{1,4}$", description="job/n")]


async def apart(server: Server, a: str, b: str) -> list[np.ndarray]:
    """How far each frame of two pictures or videos of one size is apart, in steps of 255."""
    read = []
    for place in (a, b):
        job, _, n = place.partition("/")
        found, path = await server.output(job, int(n))
        if not found.media.startswith(("image/", "video/")):
            raise Problem(422, "invalid_value", "Only pictures and videos can be compared.")
        read.append(await asyncio.to_thread(frames, path))
    one, other = read
    if [frame.shape for frame in one] != [frame.shape for frame in other]:
        raise Problem(422, "invalid_value", "The two have different sizes, or different numbers of frames.")
    return [np.maximum(mine, yours) - np.minimum(mine, yours) for mine, yours in zip(one, other, strict=True)]


def frames(path: File) -> list[np.ndarray]:
    """The bytes of a picture, or of each frame of a video."""
    kind = kind_named("picture" if path.suffix == ".png" else "video")
    return list(kind.frames(kind.load(path)))


@router.get("/compare")
async def compare(request: Request, a: Place, b: Place) -> PictureComparison:
    """How far two pictures or videos are apart, in steps of 255."""
    found = await apart(server_of(request), a, b)
    return PictureComparison(
        identical=not any(frame.any() for frame in found),
        largest=max(int(frame.max()) for frame in found),
        mean=float(np.mean([frame.mean() for frame in found])),
        differing=float(np.mean([(frame > 0).mean() for frame in found])),
    )


@router.get("/compare/picture", response_class=Response, responses={200: binary("image/png")})
async def difference(request: Request, a: Place, b: Place, times: Annotated[int, Query(ge=1, le=255)] = 16) -> Response:
    """The difference of two pictures, made larger; of two videos, at the frame where it is largest."""
    largest = max(await apart(server_of(request), a, b), key=lambda frame: float(frame.mean()))
    data = io.BytesIO()
    Image.fromarray((largest.astype(np.uint16) * times).clip(0, 255).astype(np.uint8)).save(data, format="PNG")
    return Response(data.getvalue(), media_type="image/png")
