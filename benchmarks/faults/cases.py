"""One case of the benchmark: the reference once, a candidate with its fault, the comparison, the causes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from lockstep import parity as px
from lockstep.parity.causes.diagnosis import Live, diagnose
from lockstep.parity.comparison.results import Standing
from lockstep.parity.trace.reader import Trace

from . import flow, held_out_models, models, outside_models
from .baselines import flagged, layer_outputs
from .pipeline import STEPS, pipeline
from .planting import Fault, instances
from .stages import stages

RUNS = ("fp64", "ulp", "ulp", "sdpa:math", "batch")
PIPELINE_RUNS = ("fp64", "ulp", "ulp", "sdpa:math")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
MODELS: dict[str, Callable[[], nn.Module]] = {
    "unet": models.UNet, "dit": models.DiT, "vae": models.VAE, "clip": models.CLIP,
    "mmdit": held_out_models.MMDiT, "t5": held_out_models.T5,
    "sd_unet": outside_models.unet, "kl": outside_models.autoencoder, "clip_text": outside_models.text_encoder,
    "rotary": outside_models.RotaryTransformer, "flux": flow.model,
}  # fmt: skip
PIPELINES: dict[str, Callable[[int], Any]] = {
    "pipeline": pipeline,
    "stages": stages,
    "edm": held_out_models.image_to_image,
    "euler": outside_models.euler_loop,
}


@dataclass
class Reference:
    """A model with its inputs, trace and floor."""

    name: str
    dtype: str
    seed: int
    target: Any
    call: Callable[[Any], Any]
    trace: Path
    floor: px.Floor = field(init=False)
    opened: Trace = field(init=False)
    outputs: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    bytes: int = 0
    forwards: int = 0


@dataclass
class Outcome:
    """What was said about one case."""

    fault: Fault
    dtype: str
    seed: int
    verdict: str
    first: str
    node_rank: int | None  # 1 if the first node is right, 2 or 3 if it is among the first three, None else
    cause_rank: int | None
    told: bool  # the first name is told as the cause, not as one that fits or as not found
    causes: list[str]
    why: str
    forwards: int
    seconds: float
    bytes: int
    baselines: dict[str, tuple[bool, bool]]  # name -> (says different, at the right layer)


def inputs(name: str, seed: int, dtype: torch.dtype) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(1000 + seed)
    if name == "flux":
        return flow.inputs(generator, dtype)
    if name in ("clip", "t5", "clip_text"):
        ids = torch.randint(0, 98, (2, 12), generator=generator)
        ids[0, 7:], ids[1, 10:] = 99, 99
        return (ids,)
    if name in ("vae", "kl"):
        return (torch.rand(2, 3, 16, 16, generator=generator).to(dtype),)
    sample, context = torch.randn(2, 4, 8, 8, generator=generator), torch.randn(2, 6, 24, generator=generator)
    return sample.to(dtype), torch.tensor([937.4]), context.to(dtype)


def make(name: str, seed: int, dtype: torch.dtype) -> Any:
    if name in PIPELINES:
        made = PIPELINES[name](seed)
        for part in (made.text_encoder, made.unet, made.vae):
            part.to(dtype)
        return made
    return models.randomized(MODELS[name](), seed).to(dtype)


def reference(name: str, dtype: str, seed: int, folder: Path, steps: int = STEPS) -> Reference:
    """Record the reference with operations, and measure its floor."""
    target = make(name, seed, DTYPES[dtype])
    given = inputs(name, seed, DTYPES[dtype]) if name in MODELS else ()

    def call(model: Any) -> Any:
        with torch.no_grad():
            if name in PIPELINES:
                return model(num_inference_steps=steps, generator=torch.Generator().manual_seed(seed))
            return model(*given)

    ref = Reference(name, dtype, seed, target, call, folder / f"{name}-{dtype}-{seed}.trace")
    shutil.rmtree(ref.trace, ignore_errors=True)
    with px.record(target, ref.trace, level="module+ops"):
        call(target)
    runs = PIPELINE_RUNS if name in PIPELINES else RUNS
    ref.floor = px.floor(target, ref.trace, runs=runs, call=lambda: call(target))
    ref.opened = Trace.open(ref.trace)
    ref.forwards = 1 + len(runs)
    ref.outputs = layer_outputs(target, lambda: call(target))
    ref.bytes = sum(file.stat().st_size for file in ref.trace.iterdir())
    return ref


def run_case(ref: Reference, fault: Fault, folder: Path) -> Outcome:
    candidate = make(ref.name, ref.seed, DTYPES[ref.dtype])  # anew: the reference's parts have run before
    paths = fault.plant(candidate)
    trace = folder / "candidate.trace"
    shutil.rmtree(trace, ignore_errors=True)
    began = time.perf_counter()
    candidate = _record(ref, fault, candidate, trace)
    traces = (ref.opened, Trace.open(trace))
    result = px.compare(*traces, floor=ref.floor)
    causes = diagnose(
        result, reference=Live(ref.target, lambda: ref.call(ref.target)),
        candidate=Live(candidate, lambda: ref.call(candidate)), floor=ref.floor, traces=traces,
    )  # fmt: skip
    took = time.perf_counter() - began
    right = _is_right(ref, fault, paths)
    ordered = [*([result.first] if result.first else []), *result.origins, *[n for n in result.nodes if n.bad]]
    nodes = list(dict.fromkeys(f"{n.key.path}|{n.key.slot}" for n in ordered))
    names = [c.name for c in causes]
    runs = max((c.evidence.get("runs") or 0 for c in causes), default=0)
    found = {}
    if not fault.run:
        outputs: dict[str, list[torch.Tensor]] = {}
        with suppress(AttributeError):
            outputs = layer_outputs(candidate, lambda: ref.call(candidate))
        found = {
            rule: (at is not None, at is not None and right(f"{at}|out"))
            for rule, at in flagged(ref.outputs, outputs).items()
        }
    return Outcome(
        fault,
        ref.dtype,
        ref.seed,
        result.verdict.value,
        nodes[0] if nodes else "",
        next((i for i, node in enumerate(nodes[:3], 1) if right(node)), None),
        next((i for i, name in enumerate(names[:3], 1) if name in fault.causes), None),
        bool(causes) and causes[0].standing is Standing.PROVEN,
        names[:3],
        causes[0].why if causes else result.sentence(),
        1 + runs,
        took,
        sum(file.stat().st_size for file in trace.iterdir()),
        found,
    )


def _is_right(ref: Reference, fault: Fault, paths: set[str]) -> Callable[[str], bool]:
    """The first instance that was changed: its own code, its result, or what it hands to a part of it."""
    trace = ref.opened
    order = {path: i for i, path in reversed(list(enumerate(e.key.path for e in trace.entries)))}
    began = {
        p: min((i for path, i in order.items() if path == p or path.startswith(f"{p}.")), default=-1) for p in paths
    }
    modules = sorted((p for p in paths if began[p] >= 0), key=lambda p: began[p])

    def right(node: str) -> bool:
        if any(fnmatchcase(node, pattern) for pattern in fault.where):
            return True
        path, _, slot = node.partition("|")
        owner = path.partition("/")[0]
        if not slot.startswith("in"):
            owner = owner.removesuffix(".decode").removesuffix(".encode")
        # several instances may begin at once (a block and its parent's call); the first to compute counts
        for first in modules[:1] if not fault.where else modules:
            if owner == first and not slot.startswith("in"):
                return True
            if slot.startswith("in") and _parent(owner) == first:
                return True
        return False

    return right


def _parent(path: str) -> str:
    parent = path.rpartition(".")[0]
    last = parent.rpartition(".")[2]
    return parent.rpartition(".")[0] if last in ("blocks", "layers") else parent


def _record(ref: Reference, fault: Fault, candidate: Any, trace: Path) -> Any:
    """Run the candidate as the control says; a fault runs as the reference did."""
    with ExitStack() as stack:
        call: Callable[[], Any] = partial(ref.call, candidate)
        adjust = None
        if fault.run == "threads":
            before = torch.get_num_threads()
            torch.set_num_threads(2 if before == 1 else 1)
            stack.callback(torch.set_num_threads, before)
        elif fault.run == "math kernel":
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        elif fault.run == "no oneDNN":
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        elif fault.run == "strided weights":
            _stride(candidate)
        elif fault.run == "channels last":
            candidate = candidate.to(memory_format=torch.channels_last)
        elif fault.run == "fp64":
            candidate = candidate.double()
            given = [
                t.double() if t.is_floating_point() and t.ndim > 1 else t
                for t in inputs(ref.name, ref.seed, DTYPES[ref.dtype])
            ]
            call = partial(candidate, *given)
        elif fault.run in ("batch copy", "half batch"):
            call, adjust = _other_batch(ref, fault.run, candidate)
        stack.enter_context(torch.no_grad())
        if not fault.harmless:
            stack.enter_context(
                suppress(AttributeError)
            )  # a run that dies is a fault like others, and the trace says so
        stack.enter_context(px.record(candidate, trace, level="module+ops", adjust=adjust))
        call()
    return candidate


def _stride(candidate: Any) -> None:
    """The weights of linear layers column by column in memory: other kernels, the same numbers."""
    for _, part in instances(candidate):
        if isinstance(part, nn.Linear):
            part.weight = nn.Parameter(part.weight.detach().t().contiguous().t())


def _other_batch(ref: Reference, run: str, candidate: nn.Module) -> tuple[Callable[[], Any], Any]:
    """The batch with a copy of itself behind it, or with other rows behind it; the rows of the reference are kept."""
    given = inputs(ref.name, ref.seed, DTYPES[ref.dtype])

    def double(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.ndim < 2:
            return tensor
        return torch.cat([tensor, tensor if run == "batch copy" else tensor.flip(0)])

    shapes = {entry.key: entry.shape for entry in ref.opened.entries}

    def adjust(key: Any, tensor: torch.Tensor) -> torch.Tensor:
        shape = shapes.get(key)
        if (
            shape
            and tensor.ndim == len(shape)
            and tensor.shape[0] == 2 * shape[0]
            and tuple(tensor.shape[1:]) == shape[1:]
        ):
            return tensor[: shape[0]]
        return tensor

    return (lambda: candidate(*[double(t) for t in given])), adjust
