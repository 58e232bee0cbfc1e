"""The values between the blocks of a recorded job: a look at each, how far two jobs are apart, and a trace to prove."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from safetensors.numpy import load_file

from ..problems import Problem
from ..server import Server
from .native import JobId, server_of
from .openapi import ERRORS
from .proofs import TraceView

router = APIRouter(prefix="/api", responses=ERRORS, tags=["native"])
Recorded = Annotated[str, Query(pattern="^[a-z2-7]{26}$", description="A job that was made with `trace`.")]


class BoundaryValue(BaseModel):
    """One value that a block has made."""

    step: str
    path: str
    name: str
    dtype: str
    shape: list[int]
    mean: float
    std: float
    min: float
    max: float


class BoundaryValues(BaseModel):
    values: list[BoundaryValue]


class BoundaryDifference(BaseModel):
    """How far a value of one job is from the same one of another: |a - b| / |a|; none where the shapes differ."""

    step: str
    path: str
    name: str
    relative: float | None


class BoundaryDifferences(BaseModel):
    differences: list[BoundaryDifference]
    only_a: int
    only_b: int


async def trace_of(server: Server, job: str) -> Path:
    """The file of a job's trace."""
    found = next((one for one in (await server.job(job)).outputs if one.facts.get("kind") == "trace"), None)
    if found is None:
        raise Problem(404, "not_found", "That job was not recorded; make it again with `trace`.")
    return (await server.output(job, found.n))[1]


def read_values(path: Path) -> dict[tuple[str, str, str], np.ndarray]:
    """(step, path, name) -> numbers, in the order in which they were made."""
    found = {}
    for key, value in sorted(load_file(path).items()):
        _, step, where, slot = key.split("|")
        found[step, where, slot.removeprefix("out.")] = value
    return found


def described(key: tuple[str, str, str], value: np.ndarray) -> dict[str, Any]:
    exact = value.astype(np.float64)
    numbers = {"mean": exact.mean(), "std": exact.std(), "min": exact.min(), "max": exact.max()}
    told = {"dtype": str(value.dtype), "shape": list(value.shape)}
    return {
        **dict(zip(("step", "path", "name"), key, strict=True)),
        **told,
        **{n: float(x) for n, x in numbers.items()},
    }


def relative(one: np.ndarray, other: np.ndarray) -> float | None:
    if one.shape != other.shape:
        return None
    right = one.astype(np.float64)
    length, apart = float(np.linalg.norm(right)), float(np.linalg.norm(right - other))
    return apart / length if length else apart


@router.get("/jobs/{job}/boundaries")
async def boundaries(request: Request, job: JobId) -> BoundaryValues:
    """A look at every value that a recorded job made on its way."""
    path = await trace_of(server_of(request), job)
    values = await asyncio.to_thread(lambda: [described(*entry) for entry in read_values(path).items()])
    return BoundaryValues(values=[BoundaryValue(**value) for value in values])


@router.get("/compare/steps")
async def compare_steps(request: Request, a: Recorded, b: Recorded) -> BoundaryDifferences:
    """How far two recorded jobs are apart after each block of each step."""
    one, other = [await asyncio.to_thread(read_values, await trace_of(server_of(request), job)) for job in (a, b)]
    shared = [key for key in one if key in other]
    apart = await asyncio.to_thread(lambda: [relative(one[key], other[key]) for key in shared])
    rows = [
        BoundaryDifference(step=step, path=path, name=name, relative=far)
        for (step, path, name), far in zip(shared, apart, strict=True)
    ]
    return BoundaryDifferences(differences=rows, only_a=len(one) - len(shared), only_b=len(other) - len(shared))


@router.post("/jobs/{job}/trace", status_code=201)
async def keep_trace(request: Request, job: JobId) -> TraceView:
    """The trace of a recorded job, kept for `/api/reports`."""
    server = server_of(request)
    data = await asyncio.to_thread((await trace_of(server, job)).read_bytes)
    name = await asyncio.to_thread(server.folder.keep, data, server.folder.traces, ".safetensors")
    return TraceView(trace=name, tensors=len(await asyncio.to_thread(read_values, await trace_of(server, job))))
