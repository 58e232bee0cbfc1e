"""Traces that are sent in, compared by `lockstep parity diff` in a process of its own, and the reports of that."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path as File
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, Field, StrictStr

from ...errors import LockstepError
from ...files import read_json, read_safetensors_header, write_text
from ..problems import Problem
from ..queue import new_id
from ..server import Server
from .forms import Strict
from .openapi import ERRORS, FILE, binary

router = APIRouter(prefix="/api", responses=ERRORS, tags=["proofs"])
TRACE = "^[0-9a-f]{64}[.]safetensors$"
SECONDS, WAITING = 600, 4  # that a comparison may take, and that may wait for their turn
ANSWERS = 10  # from this exit code on, the number is an answer and no failure
# a report is a page with scripts of its own: it gets no origin, so it can reach nothing of this server's
SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)
Trace = Annotated[StrictStr, Field(pattern=TRACE)]


class TraceView(BaseModel):
    trace: str
    tensors: int


class TracePair(Strict):
    """What is right, and what is to be proven equal to it."""

    reference: Trace
    candidate: Trace


class ProofReport(BaseModel):
    id: str
    exit_code: int
    answer: dict[str, Any]
    url: str


class Reports(BaseModel):
    reports: list[ProofReport]


class Proofs:
    """One comparison at a time."""

    def __init__(self) -> None:
        self.turn, self.waiting = asyncio.Lock(), 0

    async def compare(self, server: Server, pair: TracePair) -> ProofReport:
        if self.waiting >= WAITING:
            raise Problem(429, "queue_full", f"{self.waiting} comparisons are waiting already.", retry_after=30)
        self.waiting += 1
        try:
            async with self.turn:
                return await self._compare(server, pair)
        finally:
            self.waiting -= 1

    async def _compare(self, server: Server, pair: TracePair) -> ProofReport:
        made = new_id()
        page = server.folder.reports / f"{made}.html"
        places = [trace_file(server, name) for name in (pair.reference, pair.candidate)]
        words = [sys.executable, "-m", "lockstep", "parity", "diff", *map(str, places), "--json", "--html", str(page)]
        running = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            told, _ = await asyncio.wait_for(running.communicate(), SECONDS)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                running.kill()
            await running.wait()
            raise
        code = running.returncode or 0
        answer = json.loads(told.decode().replace(f"{server.folder.traces}/", "") or "{}")
        if 0 < code < ANSWERS or not page.exists():
            raise Problem(422, "invalid_value", f"The traces cannot be compared: {answer.get('message', 'no answer')}")
        report = ProofReport(id=made, exit_code=code, answer=answer, url=f"/api/reports/{made}")
        write_text(page, page.read_text(encoding="utf-8").replace(f"{server.folder.traces}/", ""))
        write_text(page.with_suffix(".json"), report.model_dump_json())
        return report


def trace_file(server: Server, name: str) -> File:
    path = server.folder.traces / name
    if not path.exists():
        raise Problem(404, "not_found", "There is no such trace.")
    return path


@router.post("/traces", status_code=201, openapi_extra=FILE)
async def keep(request: Request) -> TraceView:
    """Keep a trace (a safetensors file: the body of this request)."""
    server: Server = request.app.state.server
    data = await request.body()
    name = await asyncio.to_thread(server.folder.keep, data, server.folder.traces, ".safetensors")
    try:
        tensors, _ = await asyncio.to_thread(read_safetensors_header, server.folder.traces / name)
    except (LockstepError, FileNotFoundError):  # gone, where the same came twice at once
        (server.folder.traces / name).unlink(missing_ok=True)
        raise Problem(400, "invalid_value", "That is no whole safetensors file.") from None
    return TraceView(trace=name, tensors=len(tensors))


@router.post("/reports")
async def compare(request: Request, pair: TracePair) -> ProofReport:
    """Compare two traces: the verdict, and where its report is."""
    proofs: Proofs = request.app.state.proofs
    return await proofs.compare(request.app.state.server, pair)


@router.get("/reports")
async def reports(request: Request) -> Reports:
    """What was compared, the newest first."""
    folder = request.app.state.server.folder.reports
    files = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)[:200]
    return Reports(reports=[ProofReport(**await asyncio.to_thread(read_json, path)) for path in files])


@router.get("/reports/{report}", response_class=Response, responses={200: binary("text/html")})
async def report(request: Request, report: Annotated[str, Path(pattern="^[a-z2-7]{26}$")]) -> Response:
    """The report as a page, which can reach nothing."""
    path = request.app.state.server.folder.reports / f"{report}.html"
    if not path.exists():
        raise Problem(404, "not_found", "There is no such report.")
    return FileResponse(path, media_type="text/html", headers={"Content-Security-Policy": SANDBOX})
