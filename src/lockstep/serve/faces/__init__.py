"""What every face shares: which one a path belongs to, how it writes a refusal, and how a call waits for its job."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..problems import Problem, of_job
from ..queue import Job

POLL = 0.25  # seconds between two looks whether the caller is still there
CODES = {
    400: "invalid_value",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
}
SAID = {"unknown_parameter": "unknown_parameter", "none_required": "unsupported_parameter"}
KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def face_of(path: str) -> str:
    """The face that a path belongs to."""
    if path.startswith("/v1/"):
        return "openai"
    if path.startswith(("/sdapi/", "/controlnet/")):
        return "a1111"
    return "api" if path.startswith("/api/") else "page"


def body_of(path: str, problem: Problem) -> dict[str, Any]:
    """A refusal in the form of a face."""
    if face_of(path) == "a1111":
        return {"error": problem.code, "detail": problem.message, "body": "", "errors": problem.message}
    kind = KINDS.get(problem.status, "server_error" if problem.status >= 500 else "invalid_request_error")
    return {"error": {"message": problem.message, "type": kind, "param": problem.param, "code": problem.code}}


def answer(path: str, problem: Problem) -> Response:
    status = 422 if face_of(path) == "a1111" and problem.status == 400 else problem.status
    headers = problem.headers | ({"WWW-Authenticate": 'Bearer realm="lockstep"'} if status == 401 else {})
    return JSONResponse(body_of(path, problem), status, headers)


def as_problem(error: Exception) -> Problem:
    """What the framework raises, as a refusal of ours."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        first: dict[str, Any]
        first = error.errors()[0] if error.errors() else {"loc": (), "msg": "invalid", "type": ""}
        where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path", "header"))
        code = SAID.get(first["type"], "invalid_value")
        said = f"{where or 'The request'}: {str(first['msg']).rstrip('.')}.".replace("?.", "?")
        return Problem(400, code, said, param=where or None)
    if isinstance(error, HTTPException):
        if isinstance(error.__cause__, Problem):  # refused while the framework was reading the body
            return error.__cause__
        return Problem(error.status_code, CODES.get(error.status_code, "failed"), str(error.detail))
    return Problem(500, "internal", "The server met an error of its own; its log has it.", again=False)


async def handle(request: Request, error: Exception) -> Response:
    response = answer(request.url.path, as_problem(error))
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


async def finished(request: Request, job: Job, keep: bool = False) -> Job:
    """The job when it has ended; a caller who goes away cancels it, unless a key says that it will come again."""
    server = request.app.state.server
    ending = asyncio.ensure_future(server.ended(job.id))
    try:
        while not ending.done():
            await asyncio.wait([ending], timeout=POLL)
            if not ending.done() and await request.is_disconnected():
                if not keep:
                    await server.supervisor.cancel(job.id)
                raise Problem(499, "gone", "The caller went away.")
    finally:
        ending.cancel()
    found: Job = await server.job(job.id)
    if found.state == "failed":
        raise of_job(found.error or {})
    return found
