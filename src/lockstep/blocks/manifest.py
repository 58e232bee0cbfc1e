"""The manifest: what a result was made from, so that it can be made again or the difference be named."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngInfo

from .. import __version__, files
from ..errors import FileFormatError, InputError

PNG_KEY = "lockstep"


class Manifest:
    """A JSON-able record; the weights' hashes are computed when they are first asked for."""

    def __init__(self, record: Mapping[str, Any], models: Mapping[str, torch.nn.Module]) -> None:
        self.record = dict(record)
        self._models = dict(models)
        self._hashes: dict[str, str] | None = None

    @property
    def weights(self) -> dict[str, str]:
        """Model -> hash of its tensors (names, dtypes, shapes, values)."""
        if self._hashes is None:
            self._hashes = {name: hash_weights(model) for name, model in self._models.items()}
        return self._hashes

    def to_dict(self, *, weights: bool = True, image: int | None = None) -> dict[str, Any]:
        """Everything; `image` says which of the batch it goes with."""
        record = {**self.record, "weights": self.weights} if weights else dict(self.record)
        return record if image is None else {**record, "image": image}

    def to_json(self, *, weights: bool = True, image: int | None = None) -> str:
        return json.dumps(self.to_dict(weights=weights, image=image), indent=2, sort_keys=True)

    def __getitem__(self, name: str) -> Any:
        return self.weights if name == "weights" else self.record[name]

    def __repr__(self) -> str:
        return f"Manifest({self.record['pipeline']}, seed={self.record['seed']})"


def describe_run(run: Any) -> dict[str, Any]:
    """What is known before the first block runs."""
    pipe = run.pipe
    used = {name: pipe.components.get(name) for name in run.plan.components}
    return {
        "lockstep": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "device": str(pipe.device),
        "pipeline": type(pipe).__name__,
        "blocks": type(pipe.blocks).__name__,
        "model": pipe.name_or_path,
        "variant": pipe.variant,
        "adapters": pipe.describe_adapters(),
        "workflow": run.workflow,
        "inputs": {
            name: encode(value) for name, value in run.state.values.items() if name != "generator" or not run.seeds
        },
        "seed": run.seeds,
        "changed_by": run.changes(),
        "components": {name: _describe(component) for name, component in used.items() if component is not None},
        "given": {name: _whence(model) for name, model in pipe.given_models().items() if name in used},
    }


def describe_grid(run: Any) -> dict[str, Any]:
    """The grid that the run used, known when it ends."""
    sigmas = next((s for c in run.components.own.values() if (s := getattr(c, "sigmas", None)) is not None), None)
    timesteps = run.state.get("timesteps")
    return {
        name: [float(v) for v in values]
        for name, values in (("timesteps", timesteps), ("sigmas", sigmas))
        if values is not None
    }


def _describe(component: Any) -> dict[str, Any]:
    config = getattr(component, "config", None)
    described: dict[str, Any] = {"class": type(component).__name__}
    if isinstance(config, Mapping):
        described["config"] = hashlib.sha256(json.dumps(encode(config), sort_keys=True).encode()).hexdigest()[:16]
        if hasattr(component, "fresh"):  # a scheduler or guider is small enough to keep whole: a replay builds it again
            described["values"] = encode(config)
    if isinstance(component, torch.nn.Module):
        dtypes = sorted(str(dtype).removeprefix("torch.") for dtype in {p.dtype for p in component.parameters()})
        described["dtype"] = dtypes[0] if len(dtypes) == 1 else dtypes
    return described


def _whence(model: torch.nn.Module) -> list[dict[str, Any]]:
    """Class and folder of a model that did not come with the pipeline (of each, where several act as one)."""
    parts = [getattr(part, "_orig_mod", part) for part in getattr(model, "nets", [model])]
    folders = [getattr(part, "loaded_from", None) for part in parts]
    return [
        {"class": type(part).__name__, "folder": None if folder is None else str(Path(folder).absolute())}
        for part, folder in zip(parts, folders, strict=True)
    ]


def encode(value: Any) -> Any:
    """A value as JSON; what is large is named by its hash."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): encode(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(one) for one in value]
    if isinstance(value, torch.Generator):
        fresh = torch.equal(
            value.get_state(), torch.Generator(value.device).manual_seed(value.initial_seed()).get_state()
        )
        return {"generator": str(value.device), "seed": value.initial_seed(), "unused": fresh}
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return {
            "tensor": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "sha256": _hash_array(value),
        }
    if isinstance(value, Image.Image):
        name = getattr(value, "filename", None)  # known where the picture was read from a file
        file = {"file": str(name)} if name else {}
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        return {"picture": value.mode, "size": list(value.size), "sha256": digest, **file}
    return str(value)


def _hash_array(value: torch.Tensor | np.ndarray) -> str:
    return hashlib.sha256(_bytes(torch.as_tensor(value))).hexdigest()


def _bytes(tensor: torch.Tensor) -> Any:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def hash_weights(model: torch.nn.Module) -> str:
    """SHA-256 over the names, dtypes, shapes and values of all tensors."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name}|{tensor.dtype}|{list(tensor.shape)}|".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def save_png(image: Image.Image, path: str | Path, manifest: Manifest, index: int = 0) -> Path:
    """Write a picture with its manifest inside."""
    path = Path(path)
    if path.suffix.lower() != ".png":
        raise InputError(
            f"Pictures are written as PNG, which carries the manifest; got {path.name!r}. Use a name that ends in .png."
        )
    info = PngInfo()
    info.add_itxt(PNG_KEY, manifest.to_json(image=index), zip=True)
    with files.atomic(path) as temporary:
        image.save(temporary, format="PNG", pnginfo=info)
    return path


def read_png(path: str | Path) -> dict[str, Any]:
    """The manifest inside a picture."""
    try:
        with Image.open(path) as image:
            image.load()
            text = image.info.get(PNG_KEY)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as problem:
        raise FileFormatError(f"{path} is not a picture that can be read: {problem}.") from None
    if text is None:
        raise FileFormatError(
            f"{path} carries no Lockstep manifest. Pictures saved by `lockstep generate` or `output.save` do."
        )
    try:
        manifest = json.loads(text)
    except ValueError as problem:
        raise FileFormatError(f"The manifest in {path} is damaged: {problem}.") from None
    if not isinstance(manifest, dict) or not {"inputs", "components", "model", "seed", "workflow"} <= manifest.keys():
        raise FileFormatError(f"The manifest in {path} lacks what a run is made of: inputs, components, model, seed.")
    return manifest
