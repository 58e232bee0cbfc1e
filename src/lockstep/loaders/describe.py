"""What `lockstep inspect` says about a file or a folder, as plain values; imports no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import files
from ..errors import FileFormatError, LoadError, NotFoundError
from ..files import TensorInfo
from .config_difference import compare_config
from .detect import Detection, detect, known_families
from .folder_files import embedded_json
from .header import ENDINGS, Header, read_header

INDEX = "model_index.json"
SIZES = ("block_out_channels", "layers_per_block", "cross_attention_dim")  # that make another model of a family
CONFIGS = ("config.json", "scheduler_config.json", "tokenizer_config.json", "preprocessor_config.json")


@dataclass
class Branch:
    """A place in the tree of names: all tensors below it together."""

    tensors: int = 0
    bytes: int = 0
    dtypes: dict[str, int] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None  # of a tensor itself
    below: dict[str, Branch] = field(default_factory=dict)

    def add(self, path: list[str], info: TensorInfo) -> None:
        self.tensors += 1
        self.bytes += info.end - info.start
        self.dtypes[info.dtype] = self.dtypes.get(info.dtype, 0) + 1
        if path:
            self.below.setdefault(path[0], Branch()).add(path[1:], info)
        else:
            self.shape = info.shape


def tree(tensors: Mapping[str, TensorInfo]) -> Branch:
    """The names as a tree, with counts, dtypes and sizes."""
    root = Branch()
    for name, info in tensors.items():
        root.add(name.split("."), info)
    return root


def describe(path: Path, family: str | None = None, header: Header | None = None) -> dict[str, Any]:
    """A file or a folder in JSON's values."""
    if path.is_dir():
        return describe_folder(path)
    header = read_header(path) if header is None else header
    return _as_its_folder_says(describe_header(header, detect(header, family)), path)


def _as_its_folder_says(said: dict[str, Any], path: Path) -> dict[str, Any]:
    """What stands beside the file of one model is truer than what is published: its config, and its scheduler's."""
    folder = path.absolute().parent
    config, scheduler = folder / CONFIGS[0], folder.parent / "scheduler" / CONFIGS[1]
    part = said["parts"][0] if len(said["parts"]) == 1 else None
    if part is not None and any(one.partition(":")[0] in SIZES for one in part["differs_from_published"]):
        said["title"] = f"{said['title']}'s architecture in sizes of its own"
    if part is not None and config.is_file():
        part["differs_from_published"] = []
        part["differs_from_declared"] = compare_config(part["implied_config"], files.read_json(config))
    told = files.read_json(scheduler).get("prediction_type") if scheduler.is_file() else None
    if part is not None and part["component"] == "unet" and told is not None:
        said["prediction_type"] = told
        kept = [note for note in said["notes"] if not note.startswith("prediction_type")]
        said["notes"] = [*kept, f"prediction_type {told}: says {scheduler.parent.name}/{scheduler.name} beside it"]
    return said


def describe_header(header: Header, found: Detection) -> dict[str, Any]:
    root = tree(header.tensors)
    return {
        "path": str(header.path),
        "container": header.container,
        "kind": found.kind,
        "title": found.title,
        "sure": found.sure,
        "family": found.best.family if found.best else None,
        "variant": found.best.variant if found.best else None,
        "supported": bool(found.best and found.best.supported),
        "guesses": [
            {"family": g.family, "title": str(g), "score": g.score, "evidence": g.evidence} for g in found.guesses
        ],
        "prediction_type": found.prediction_type,
        "notes": found.notes,
        "missing": found.missing,
        "tensors": root.tensors,
        "bytes": root.bytes,
        "dtypes": root.dtypes,
        "parts": [_part(header, found, part) for part in found.parts],
        "leftovers": found.leftovers,
        "metadata": {key: _short(value) for key, value in header.metadata.items()},
    }


def _part(header: Header, found: Detection, part: Any) -> dict[str, Any]:
    infos = {name: header.tensors[full] for name, full in part.names().items()}
    component = next((name for name, one in found.components.items() if one is part), None)
    declared = embedded_json(header.metadata, f"{component}/config.json") if component else None
    family = known_families().get(found.best.family) if found.best else None
    published = family.get(component, {}) if family and component else {}
    root = tree(infos)
    return {
        "kind": part.kind,
        "component": component,
        "layout": part.layout,
        "prefix": part.prefix,
        "tensors": root.tensors,
        "bytes": root.bytes,
        "dtypes": root.dtypes,
        "implied_config": part.config,
        "differs_from_published": compare_config(part.config, published),
        "differs_from_declared": compare_config(part.config, declared) if declared else [],
        "gaps": part.gaps,
    }


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"


# ---- folders ----


def describe_folder(folder: Path) -> dict[str, Any]:
    """A pipeline's folder, or that of one model."""
    index = files.read_json(folder / INDEX) if (folder / INDEX).is_file() else None
    subfolders = sorted(path for path in folder.iterdir() if path.is_dir()) if index is not None else [folder]
    parts = [one for one in (describe_component(path, index) for path in subfolders) if one]
    if not parts:
        raise NotFoundError(f"{folder} has neither {INDEX} nor a config or weights. There: {files.listing(folder)}.")
    named = {name for name, entry in (index or {}).items() if isinstance(entry, list) and entry[:1] not in ([None], [])}
    return {
        "path": str(folder),
        "container": "folder",
        "kind": "pipeline" if index is not None else "model",
        "title": str((index or {}).get("_class_name") or parts[0]["class"]),
        "tensors": sum(part["tensors"] for part in parts),
        "bytes": sum(part["bytes"] for part in parts),
        "dtypes": _summed(part["dtypes"] for part in parts),
        "missing": sorted(named - {path.name for path in subfolders}) if index is not None else [],
        "parts": parts,
        "notes": [note for part in parts for note in part["notes"]],
    }


def _summed(counts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for key, count in one.items():
            total[key] = total.get(key, 0) + count
    return total


def describe_component(folder: Path, index: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A component by its config and the headers of its weights."""
    config_path = next((folder / name for name in CONFIGS if (folder / name).is_file()), None)
    headers, notes = weight_headers(folder)
    if config_path is None and not headers:
        return None
    config = files.read_json(config_path) if config_path is not None else {}
    tensors = {name: info for header in headers for name, info in header.tensors.items()}
    entry = (index or {}).get(folder.name)
    kind = config.get("_class_name") or (entry[1] if isinstance(entry, list) and len(entry) > 1 else None)
    kind = kind or next(iter(config.get("architectures") or []), None) or "unknown"
    root = tree(tensors)
    if config_path is not None and config_path.name == CONFIGS[0] and not tensors:
        notes.append(f"{folder.name}: it has a config and no weights that can be read")
    return {
        "component": folder.name,
        "class": kind,
        "files": [header.path.name for header in headers],
        "tensors": root.tensors,
        "bytes": root.bytes,
        "dtypes": root.dtypes,
        "implied_config": (implied := _implied(tensors)),
        "differs_from_declared": compare_config(implied, config),
        "notes": notes,
    }


def _implied(tensors: Mapping[str, TensorInfo]) -> dict[str, Any]:
    from .parts import find_parts

    parts = find_parts({name: info.shape for name, info in tensors.items()})
    return parts[0].config if len(parts) == 1 and not parts[0].gaps else {}


def weight_headers(folder: Path) -> tuple[list[Header], list[str]]:
    """The headers of the weights that a loader would take: variants beside them are named, pickles not read."""
    there = [path for path in sorted(folder.iterdir()) if path.suffix in ENDINGS and path.is_file()]
    plain = [path for path in there if path.suffix == ".safetensors" and path.stem.count(".") == 0]
    chosen = plain or [path for path in there if path.suffix == ".safetensors"]
    notes = [f"{folder.name}: {path.name} is not looked at" for path in there if path not in chosen]
    headers = []
    for path in chosen:
        try:
            headers.append(read_header(path))
        except LoadError as problem:
            notes.append(str(problem))
    return headers, notes + _index_problems(folder)


def _index_problems(folder: Path) -> list[str]:
    """An index that names shards that are not there, or outside."""
    notes = []
    for path in folder.glob("*.index.json"):
        try:
            names = files.read_json(path).get("weight_map")
        except FileFormatError as problem:
            notes.append(str(problem))
            continue
        names = set(names.values()) if isinstance(names, dict) else set()
        odd = [name for name in names if not isinstance(name, str) or not re.fullmatch(r"[^/\\]+", name)]
        notes += [f"{path.name} names the file {name!r} outside of its folder" for name in odd]
        gone = sorted(str(name) for name in names if name not in odd and not (folder / name).is_file())
        if gone:
            notes.append(f"{path.name} names {len(gone)} shards that are not there, such as {gone[0]}")
    return notes
