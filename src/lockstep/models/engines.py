"""Engines of others that can compute a model's graph, and where what they have made is kept on disk."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import __version__
from ..errors import BackendError, UnsupportedError
from ..files import atomic_folder
from .accelerated import EXACT, HIGH
from .graphs import CallGraph, GivenCall

Tensor = torch.Tensor
Runner = Callable[[tuple[Tensor, ...]], Tensor]
CACHE = "LOCKSTEP_ENGINES"  # a folder of one's own for what engines have made


@dataclass(frozen=True)
class Engine:
    """A way to compute a graph; `build(graph, call, level, folder)` keeps in `folder` what takes long to make."""

    name: str
    package: str
    levels: tuple[str, ...]
    build: Callable[[CallGraph, GivenCall, str, Path], Runner]
    devices: tuple[str, ...] = ("cpu",)

    def missing(self) -> str | None:
        """Why it cannot be used here, or None."""
        if importlib.util.find_spec(self.package) is None:
            return f"the package {self.package!r} is not installed (pip install 'lockstep-diffusion[engines]')"
        return None

    def check(self, level: str) -> None:
        """Refuse what it cannot do."""
        reason = self.missing()
        if reason is not None:
            raise BackendError(f"Engine {self.name!r} cannot be used: {reason}.")
        if level not in self.levels:
            raise UnsupportedError(f"Engine {self.name!r} has the levels {', '.join(self.levels)}, not {level!r}.")

    def run(self, model: nn.Module, call: GivenCall, level: str, weights: str) -> Runner:
        """The graph of a call, compiled."""
        return self.build(CallGraph(model, call), call, level, cache_folder() / self._key(model, call, weights))

    def _key(self, model: nn.Module, call: GivenCall, weights: str) -> str:
        """One name for all that a graph on disk depends on; the levels share it."""
        versions = [importlib.metadata.version(self.package), torch.__version__, __version__]
        facts = [self.name, *versions, torch.backends.cpu.get_cpu_capability(), weights]
        config = {key: repr(value) for key, value in dict(getattr(model, "config", {})).items()}
        text = json.dumps([*facts, type(model).__name__, config, repr(call.shape)], sort_keys=True)
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def cache_folder() -> Path:
    """Where compiled graphs are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(CACHE) or Path(home) / "lockstep" / "engines")


def make_cache_folder() -> None:
    """Make it, or say why it cannot be."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        reason = f"{folder} cannot be made ({problem.strerror})"
        raise BackendError(f"What engines make is kept on disk, but {reason}. Set {CACHE} to another folder.") from None


def weights_digest(model: nn.Module) -> str:
    """One name for a model's weights."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _made(engine: str, folder: Path, name: str, make: Callable[[Path], None], trial: str, *words: str) -> Path:
    """A file that is made once, and tried in a process of its own: an engine that crashes takes only that one along.

    A run that is interrupted, or a first trial that fails, leaves nothing behind. Each way to run it is tried once.
    """
    tried = f"tried-{'-'.join(words) or 'it'}"
    if not (folder / name).exists():
        make_cache_folder()
        with atomic_folder(folder) as temporary, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a tracer warns of every check of an input
            make(temporary / name)
            _survive(engine, trial, str(temporary / name), *words)
            (temporary / tried).touch()
    if not (folder / tried).exists():
        _survive(engine, trial, str(folder / name), *words)
        (folder / tried).touch()
    return folder / name


def _survive(engine: str, trial: str, *words: str) -> None:
    ended = subprocess.run([sys.executable, "-c", trial, *words], capture_output=True, check=False)
    if ended.returncode < 0:
        raise BackendError(
            f"The engine {engine!r} crashed while it compiled this model (signal {-ended.returncode}). Take another "
            f"version of it (pip install --upgrade {engine}), another engine, or our own kernels (engine='own')."
        )


OPENVINO_TRIAL = """
import sys, openvino
path, hint, threads = sys.argv[1:]
options = {"INFERENCE_PRECISION_HINT": hint, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": int(threads)}
core = openvino.Core()
core.compile_model(core.read_model(path), "CPU", options)
"""
ONNXRUNTIME_TRIAL = """
import sys, onnxruntime
onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
"""


def _openvino(graph: CallGraph, call: GivenCall, level: str, folder: Path) -> Runner:
    """OpenVINO, by a trace; "high" lets it compute in bf16."""
    import openvino

    def make(path: Path) -> None:
        shapes = [list(one.shape) for one in call.tensors]
        converted = openvino.convert_model(graph, example_input=call.tensors, input=shapes)
        openvino.save_model(converted, path, compress_to_fp16=False)

    core = openvino.Core()
    hint = "f32" if level == EXACT else "bf16"
    options: dict[str, Any] = {"INFERENCE_PRECISION_HINT": hint, "PERFORMANCE_HINT": "LATENCY"}
    threads = torch.get_num_threads()
    options["INFERENCE_NUM_THREADS"] = threads
    path = _made("openvino", folder, "model.xml", make, OPENVINO_TRIAL, hint, str(threads))
    compiled = core.compile_model(core.read_model(path), "CPU", options)

    def run(tensors: tuple[Tensor, ...]) -> Tensor:
        request = compiled.create_infer_request()  # one for each call: threads do not share it
        return torch.from_numpy(next(iter(request.infer([one.numpy() for one in tensors]).values())).copy())

    return run


def _onnxruntime(graph: CallGraph, call: GivenCall, level: str, folder: Path) -> Runner:
    """onnxruntime, by an ONNX file."""
    import onnxruntime

    def make(path: Path) -> None:
        by_trace = importlib.util.find_spec("onnxscript") is None
        torch.onnx.export(graph, call.tensors, str(path), dynamo=not by_trace)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    path = str(_made("onnxruntime", folder, "model.onnx", make, ONNXRUNTIME_TRIAL))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def run(tensors: tuple[Tensor, ...]) -> Tensor:
        feed = {name: one.numpy() for name, one in zip(names, tensors, strict=True)}
        return torch.from_numpy(session.run(None, feed)[0])

    return run


def _inductor(graph: CallGraph, call: GivenCall, level: str, folder: Path) -> Runner:
    """torch.compile, which keeps what it has made in a cache of its own; on CUDA its kernels are one CUDA graph."""
    on_cuda = any(one.device.type == "cuda" for one in call.tensors)
    compiled = torch.compile(graph, dynamic=False, mode="reduce-overhead" if on_cuda else None)

    def run(tensors: tuple[Tensor, ...]) -> Tensor:
        with torch.no_grad(), torch._C.DisableTorchFunction():  # who watches would have it compiled once more
            if not on_cuda:
                return compiled(*tensors)
            torch.compiler.cudagraph_mark_step_begin()
            return compiled(*tensors).clone()  # the graph writes its next result to the same place

    return run


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("openvino", "openvino", (EXACT, HIGH), _openvino),
        Engine("onnxruntime", "onnxruntime", (EXACT,), _onnxruntime),
        Engine("inductor", "torch", (EXACT,), _inductor, ("cpu", "cuda", "xpu")),
    )
}
