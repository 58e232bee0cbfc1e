"""The manifest: what a result was made from, so that it can be made again or the difference be named."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin
from weakref import WeakKeyDictionary

import numpy as np
import torch

from .. import __version__, files, media
from ..configuration import describe_type, fits
from ..errors import FileFormatError
from .params import describe_value

FIELDS: dict[str, Any] = {
    "inputs": dict[str, Any], "components": dict[str, dict[str, Any]], "model": str | None,
    "model_options": dict[str, Any], "seed": list[int] | None, "workflow": str | None, "changed_by": list[str],
    "given": dict[str, list[dict[str, Any]]], "adapters": list[dict[str, Any]], "embeddings": list[dict[str, Any]],
    "weights": dict[str, str], "image": int, "video": int, "threads": int, "pixels": str, "fps": float,
    "freeu": dict[str, float], "ip_adapters": list[dict[str, Any]],
    "ip_adapter_scale": float | list[Any] | dict[str, Any], "accelerated": dict[str, str], "foretold_steps": list[int],
    "parallel": dict[str, int], "kernels": str,
}  # fmt: skip
SAMPLED = 8  # numbers of a tensor that are looked at before its hash is believed
_HASHED: WeakKeyDictionary[torch.nn.Module, tuple[list[tuple[Any, ...]], str]] = WeakKeyDictionary()
NEEDED = ("inputs", "components", "model", "seed", "workflow")
ENTRIES: dict[str, dict[str, Any]] = {
    "adapters": {"file": str, "sha256": str, "strength": float, "name": str},
    "embeddings": {"file": str, "sha256": str, "tokens": list[str]},
    "ip_adapters": {"file": str | None, "sha256": str | None},
    "given": {"class": str, "folder": str | None},
    "components": {"class": str},
}


class Manifest:
    """A record of a run; the weights' hashes are computed when they are first asked for.

    Files and folders are kept as paths and named relative to where the manifest goes, never by a machine's.
    """

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

    def know_weights(self, hashes: Mapping[str, str]) -> None:
        """Take over the hashes of the models of this run, which were computed before, or where those models are."""
        self._hashes = dict(hashes)

    def to_dict(self, *, weights: bool = True, folder: Path | None = None) -> dict[str, Any]:
        """Everything as JSON values; files are named relative to the folder, or to the working directory."""
        record = {**self.record, "weights": self.weights} if weights else self.record
        return _relative(record, (folder or Path()).resolve())

    def to_json(self, *, weights: bool = True) -> str:
        return json.dumps(self.to_dict(weights=weights), indent=2, sort_keys=True)

    def __getitem__(self, name: str) -> Any:
        return self.weights if name == "weights" else _relative(self.record[name], Path().resolve())

    def __iter__(self) -> Iterator[str]:
        return iter([*self.record, "weights"])

    def keys(self) -> list[str]:
        """The names of what is recorded."""
        return list(self)

    def __repr__(self) -> str:
        return f"Manifest({self.record['pipeline']}, seed={self.record['seed']})"


def describe_run(run: Any) -> dict[str, Any]:
    """What is known before the first block runs."""
    pipe = run.pipe
    used = {name: pipe.all_components.get(name) for name in run.plan.components}
    return {
        "lockstep": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "device": str(pipe.device),
        "pipeline": type(pipe).__name__,
        "blocks": type(pipe.blocks).__name__,
        "model": _place(pipe.name_or_path),
        "variant": pipe.variant,
        "model_options": {name: _place(said) if name == "config" else said for name, said in file_options(pipe)},
        "adapters": [{**adapter, "file": _place(adapter["file"])} for adapter in pipe.describe_adapters()],
        "embeddings": [{**words, "file": _place(words["file"])} for words in pipe.describe_words()],
        **_placed(pipe.describe_switches()),
        **({"accelerated": pipe.accelerated()} if pipe.accelerated() else {}),
        **({"kernels": kernels} if (kernels := pipe.kernels_used()) else {}),
        **({"parallel": degrees} if (degrees := pipe.parallel_degrees()) else {}),
        "workflow": run.workflow,
        "inputs": {
            name: encode(value) for name, value in run.state.values.items() if name != "generator" or not run.seeds
        },
        "seed": run.seeds,
        "changed_by": run.changes(),
        "components": {name: _describe(component) for name, component in used.items() if component is not None},
        "given": {name: _whence(model) for name, model in pipe.given_models().items() if name in used},
    }


def _placed(switches: Mapping[str, Any]) -> dict[str, Any]:
    """What is switched on in the models, its files as places."""
    adapters = [{**one, "file": _place(one["file"])} for one in switches.get("ip_adapters", [])]
    return {**switches, **({"ip_adapters": adapters} if adapters else {})}


def file_options(pipe: Any) -> list[tuple[str, Any]]:
    """What was said about a single file; that a pickle may be read is for each person to say."""
    return [(name, said) for name, said in pipe.file_options.items() if name != "allow_pickle"]


def describe_grid(run: Any) -> dict[str, Any]:
    """The grid that the run used and the steps that were not computed, known when it ends."""
    sigmas = next((s for c in run.components.own.values() if (s := getattr(c, "sigmas", None)) is not None), None)
    timesteps = run.state.get("timesteps")
    grid = {
        name: [float(v) for v in values]
        for name, values in (("timesteps", timesteps), ("sigmas", sigmas))
        if values is not None
    }
    foretold = run.state.get("foretold_steps")
    return {**grid, "foretold_steps": foretold} if foretold else grid


def _describe(component: Any) -> dict[str, Any]:
    config = getattr(component, "config", None)
    described: dict[str, Any] = {"class": type(component).__name__}
    if isinstance(config, Mapping):
        described["config"] = hashlib.sha256(
            json.dumps(encode(config), sort_keys=True, default=str).encode()
        ).hexdigest()[:16]
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
        {"class": type(part).__name__, "folder": None if folder is None else Path(folder).absolute()}
        for part, folder in zip(parts, folders, strict=True)
    ]


def _place(name: str | Path | None) -> str | Path | None:
    """A path where there is something at it; the name of a hub's or an embedded model as it is."""
    return name if name is None or not Path(name).exists() or str(name) in files.EMBEDDED else Path(name).absolute()


def _relative(value: Any, folder: Path) -> Any:
    """The same record with every path as it is seen from the folder; `./` and `../` tell it from a hub's name."""
    if isinstance(value, Mapping):
        return {key: _relative(one, folder) for key, one in value.items()}
    if isinstance(value, list):
        return [_relative(one, folder) for one in value]
    if not isinstance(value, Path):
        return value
    path = value.absolute()
    path = path.parent.resolve() / path.name  # the links on the way followed, so that `..` leads where it seems to
    try:
        seen = Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return value.name
    return seen if seen.startswith("..") else f"./{seen}"


def encode(value: Any) -> Any:
    """A value as JSON (and paths); what is large is named by its hash."""
    if value is None or isinstance(value, (bool, int, float, str, Path)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    if isinstance(value, Mapping):
        return {str(key): encode(one) for key, one in value.items()}
    for kind in media.KINDS:
        if (described := kind.describe_input(value)) is not None:
            return described
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
    return str(value)


def _hash_array(value: torch.Tensor | np.ndarray) -> str:
    return hashlib.sha256(_bytes(torch.as_tensor(value))).hexdigest()


def _bytes(tensor: torch.Tensor) -> Any:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def hash_weights(model: torch.nn.Module) -> str:
    """SHA-256 over the names, dtypes, shapes and values of all tensors, computed again only where one was changed; of a
    model whose weights ranks have shared out, as they were before."""
    if (before := model.__dict__.get("_weights_sha256")) is not None:
        return str(before)
    tensors = sorted(model.state_dict().items())
    marks = [_mark(name, tensor) for name, tensor in tensors]
    known = _HASHED.get(model)
    if known is None or known[0] != marks:
        digest = hashlib.sha256()
        for name, tensor in tensors:
            digest.update(f"{name}|{tensor.dtype}|{list(tensor.shape)}|".encode())
            digest.update(_bytes(tensor))
        known = _HASHED[model] = (marks, digest.hexdigest())
    return known[1]


def _mark(name: str, tensor: torch.Tensor) -> tuple[Any, ...]:
    """What tells a tensor that was changed: its place, torch's count of writes, and some of its numbers, for writes
    that torch does not count (`.data`, arrays that share the memory)."""
    if tensor.is_inference():
        return (name, object())  # whose writes nobody counts: hashed every time
    numbers = tensor.detach().reshape(-1)
    some = numbers[:: max(1, numbers.numel() // SAMPLED)].contiguous().view(torch.uint8).cpu().numpy().tobytes()
    return name, tensor.data_ptr(), tensor._version, tensor.dtype, tensor.shape, some


def read_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest inside a picture or video, with everything that a run is made of, of the right types."""
    record = media.read_manifest(Path(path))
    missing = [name for name in NEEDED if name not in record]
    if missing:
        raise FileFormatError(f"The manifest in {path} lacks what a run is made of: {', '.join(missing)}.")
    for name, hint in FIELDS.items():
        if name in record:
            _check(record[name], hint, name, path)
    for name, fields in ENTRIES.items():
        for entry in _entries(record.get(name, [])):
            for field, hint in fields.items():
                _check(entry.get(field), hint, f"{name}.{field}", path)
    return record


def _entries(value: Any) -> list[dict[str, Any]]:
    """The innermost objects of a list or mapping of them."""
    rows = list(value.values()) if isinstance(value, dict) else value
    return [one for row in rows for one in (row if isinstance(row, list) else [row])]


def _check(value: Any, hint: Any, name: str, path: str | Path) -> None:
    inner = get_args(hint)[1] if get_origin(hint) is dict else Any
    if not fits(value, hint) or not all(
        fits(one, inner) for one in (value.values() if isinstance(value, dict) else ())
    ):
        raise FileFormatError(
            f"The manifest in {path} is damaged: {name!r} wants {describe_type(hint)}, got {describe_value(value)}."
        )
