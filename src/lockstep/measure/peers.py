"""Other libraries' ways to compute the same model on the same weights, where they are installed."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from ..errors import LockstepError
from ..files import read_json
from ..models.accelerated import EXACT, HIGH
from ..models.engines import ENGINES, weights_digest
from ..models.graphs import recording
from .runs import Absent, Run, Way
from .subjects import Subject


def peer_sides(subject: Subject, compiled: bool) -> list[Way]:
    """diffusers eager first: it is what ratios are against."""
    sides = [
        Way("diffusers", lambda: subject.call(theirs(subject))),
        Way("diffusers, bf16 weights", lambda: subject.call(theirs(subject).to(torch.bfloat16))),
        Way("openvino", lambda: by_engine(subject, "openvino", EXACT)),
        Way("openvino, bf16", lambda: by_engine(subject, "openvino", HIGH)),
        Way("onnxruntime", lambda: by_engine(subject, "onnxruntime", EXACT)),
    ]
    if compiled:
        sides.insert(1, Way("diffusers, compiled", lambda: subject.call(torch.compile(theirs(subject)))))
    return sides


def theirs(subject: Subject) -> Any:
    """diffusers' model of the same class, on our weights."""
    library = "diffusers"
    if importlib.util.find_spec(library) is None:
        raise Absent(f"{library} is not installed")
    kind = getattr(importlib.import_module(library), type(subject.model).__name__, None)
    if kind is None:
        raise Absent(f"{library} has no {type(subject.model).__name__}")
    try:
        return subject.again(kind)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise Absent(f"{library} does not take this config or these weights: {first_line(problem)}") from problem


def their_picture(folder: Path, call: dict[str, Any]) -> Run:
    """A whole run of diffusers' own pipeline on the same folder, in fp32; its noise and its guidance are its own."""
    library = "diffusers"
    if importlib.util.find_spec(library) is None:
        raise Absent(f"{library} is not installed")
    try:
        pipe = importlib.import_module(library).DiffusionPipeline.from_pretrained(
            str(folder), torch_dtype=torch.float32
        )
    except Exception as problem:  # whatever another library's loader raises
        raise Absent(f"{library} cannot load it: {first_line(problem)}") from problem
    pipe.set_progress_bar_config(disable=True)
    seed, words = call["seed"], {name: value for name, value in call.items() if name != "seed"}

    def run() -> torch.Tensor:
        return torch.as_tensor(pipe(**words, generator=torch.Generator().manual_seed(seed), output_type="pt").images)

    return run


SD_CPP = "stable_diffusion_cpp"
SD_CPP_TRIAL = f"""
import sys, {SD_CPP}
model = {SD_CPP}.StableDiffusion(model_path=sys.argv[1], n_threads=int(sys.argv[2]), verbose=False)
model.generate_image(prompt="a", width=64, height=64, sample_steps=1)
"""


def sd_cpp_picture(folder: Path, call: dict[str, Any]) -> Run:
    """A whole run of stable-diffusion.cpp on the same folder; noise and guidance are its own.

    A model that it does not know ends its process, so it is tried in one of its own first.
    """
    if importlib.util.find_spec(SD_CPP) is None:
        raise Absent(f"{SD_CPP} is not installed (pip install stable-diffusion-cpp-python, which compiles it)")
    threads, size = torch.get_num_threads(), picture_size(folder)
    words = [sys.executable, "-c", SD_CPP_TRIAL, str(folder), str(threads)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        raise Absent("stable-diffusion.cpp cannot load it, or compute a step")
    library = importlib.import_module(SD_CPP)
    model = library.StableDiffusion(model_path=str(folder), n_threads=threads, vae_decode_only=True, verbose=False)
    given = {"prompt": call["prompt"], "seed": call["seed"], "sample_steps": call["num_inference_steps"]}

    def run() -> torch.Tensor:
        made = model.generate_image(**given, width=size, height=size)[0]
        pixels = torch.frombuffer(bytearray(made.convert("RGB").tobytes()), dtype=torch.uint8)
        return pixels.view(1, made.height, made.width, 3).permute(0, 3, 1, 2) / 255

    return run


def picture_size(folder: Path) -> int:
    """Rows and columns that a latent diffusion model of this folder makes unless one says otherwise."""
    try:
        unet, vae = (read_json(folder / part / "config.json") for part in ("unet", "vae"))
        return int(unet["sample_size"]) * 2 ** (len(vae["block_out_channels"]) - 1)
    except (LockstepError, KeyError, TypeError, ValueError) as problem:
        raise Absent("stable-diffusion.cpp is measured with folders of Stable Diffusion alone") from problem


def by_engine(subject: Subject, name: str, level: str) -> Run:
    """The graph of the call, by an engine; what it makes on disk stays, for the next time and the other level."""
    engine, model = ENGINES[name], subject.again()
    missing = engine.missing()
    if missing is not None:
        raise Absent(missing)
    with torch.no_grad(), recording(model) as calls:
        subject.call(model)()
    call = calls[0][0]
    try:
        runner = engine.run(model, call, level, weights_digest(model))
    except Exception as problem:  # whatever another library's converter raises
        raise Absent(f"{name} cannot have it: {first_line(problem)}") from problem
    return lambda: runner(call.tensors)


def first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]
