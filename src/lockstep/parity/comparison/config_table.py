"""What a setting is: by the code's default, by the checkpoint's file, in the live module, and by the tensors' shapes.

A default that the file overrides is no fault, and neither is a key that nothing reads: only what is in force counts.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InvalidTrace
from ..trace.container import SafetensorsFile, load_json
from ..trace.reader import Trace

Shapes = Mapping[str, tuple[int, ...]]
CONFIG_FILES = ("config.json", "scheduler_config.json")
_IGNORED = re.compile(r"^_|^(architectures|model_type|transformers_version|torch_dtype|dtype)$")

# Extent of one axis of one kind of tensor: (setting, pattern of names, axis).
_EXTENTS: tuple[tuple[str, str, int], ...] = (
    ("cross_attention_dim", r"attn2\.to_k\.weight$", 1),
    ("in_channels", r"^(encoder\.)?conv_in\.weight$", 1),
    ("out_channels", r"^(decoder\.)?conv_out\.weight$", 0),
    ("conv_in_kernel", r"^conv_in\.weight$", 2),
    ("latent_channels", r"^decoder\.conv_in\.weight$", 1),
    ("projection_class_embeddings_input_dim", r"^add_embedding\.linear_1\.weight$", 1),
    ("vocab_size", r"embeddings\.token_embedding\.weight$", 0),
    ("hidden_size", r"embeddings\.token_embedding\.weight$", 1),
    ("max_position_embeddings", r"embeddings\.position_embedding\.weight$", 0),
    ("intermediate_size", r"layers\.\d+\.mlp\.fc1\.weight$", 0),
    ("projection_dim", r"^text_projection\.weight$", 0),
    ("caption_channels", r"^caption_projection\.linear_1\.weight$", 1),
    ("joint_attention_dim", r"^context_embedder\.weight$", 1),
    ("pooled_projection_dim", r"^time_text_embed\.text_embedder\.linear_1\.weight$", 1),
)
# How many different numbers stand at one place of a name: (setting, pattern with the number as its last group).
_COUNTS: tuple[tuple[str, str], ...] = (
    ("num_hidden_layers", r"encoder\.layers\.(\d+)\."),
    ("num_layers", r"^transformer_blocks\.(\d+)\."),
    ("num_single_layers", r"^single_transformer_blocks\.(\d+)\."),
)
# Attributes of live modules that a setting ends up in: (setting, pattern of paths below the part, attribute).
_ATTRIBUTES: tuple[tuple[str, str, str], ...] = (
    ("norm_eps", r"resnets\.\d+\.norm\d$|conv_norm_out$", "eps"),
    ("norm_num_groups", r"resnets\.\d+\.norm\d$|conv_norm_out$", "num_groups"),
    ("layer_norm_eps", r"layer_norm\d$|final_layer_norm$", "eps"),
    ("cross_attention_dim", r"attn2\.to_k$", "in_features"),
    ("in_channels", r"^(encoder\.)?conv_in$", "in_channels"),
    ("out_channels", r"^(decoder\.)?conv_out$", "out_channels"),
    ("flip_sin_to_cos", r"^time_proj$", "flip_sin_to_cos"),
    ("freq_shift", r"^time_proj$", "downscale_freq_shift"),
    ("vocab_size", r"token_embedding$", "num_embeddings"),
    ("hidden_size", r"token_embedding$", "embedding_dim"),
    ("intermediate_size", r"mlp\.fc1$", "out_features"),
)


@dataclass
class Setting:
    """One setting of one part of a model; a missing column is None."""

    part: str
    name: str
    default: Any = None
    file: Any = None
    effective: Any = None
    implied: Any = None

    @property
    def in_force(self) -> Any:
        """What counts: the live value, else the file's, else the default; the shapes where nothing else is known."""
        return next((v for v in (self.effective, self.file, self.default, self.implied) if v is not None), None)

    @property
    def conflict(self) -> str:
        """Why two columns cannot both be true; empty if they can."""
        for name, value in (("effective", self.effective), ("file", self.file)):
            if value is not None and self.implied is not None and not same(value, self.implied):
                return (
                    f"the tensors imply {self.implied}, the {'live module' if name == 'effective' else 'file'} says "
                    f"{value}"
                )
        if self.effective is not None and self.file is not None and not same(self.effective, self.file):
            return f"the file says {self.file}, in force is {self.effective}"
        if (
            self.file is None
            and self.effective is None
            and self.default is not None
            and self.implied is not None
            and not same(self.default, self.implied)
        ):
            return f"the tensors imply {self.implied}, the code's default is {self.default}"
        return ""


def same(a: Any, b: Any) -> bool:
    """Equal as settings: 1280 and [1280, 1280], tuples and lists, 1 and 1.0."""
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        xs, ys = ([*v] if isinstance(v, (list, tuple)) else [v] for v in (a, b))
        if len(xs) == 1 or len(ys) == 1:
            return all(same(x, y) for x in xs for y in ys)
        return len(xs) == len(ys) and all(same(x, y) for x, y in zip(xs, ys, strict=True))
    return bool(a == b)


def implied(shapes: Shapes) -> dict[str, Any]:
    """Settings that the shapes and names of a checkpoint's tensors leave no choice about."""
    found: dict[str, Any] = {}
    for setting, pattern, axis in _EXTENTS:
        values = [shape[axis] for name, shape in shapes.items() if re.search(pattern, name) and len(shape) > axis]
        if values:
            found.setdefault(setting, _one_or_all(values))
    for setting, pattern in _COUNTS:
        numbers = {m.group(1) for name in shapes if (m := re.search(pattern, name))}
        if numbers:
            found[setting] = len(numbers)
    return {**found, **_blocks(shapes)}


def _one_or_all(values: Iterable[int]) -> Any:
    different = list(dict.fromkeys(values))
    return different[0] if len(different) == 1 else different


def _blocks(shapes: Shapes) -> dict[str, Any]:
    """Channels, layers and transformer depth of a U-shaped model."""
    width: dict[int, int] = {}
    layers: dict[int, set[str]] = defaultdict(set)
    depth: dict[int, set[str]] = defaultdict(set)
    linear: set[bool] = set()
    for name, shape in shapes.items():
        if m := re.match(r"(?:encoder\.)?down_blocks\.(\d+)\.resnets\.(\d+)\.conv1\.weight$", name):
            width[int(m.group(1))] = shape[0]
            layers[int(m.group(1))].add(m.group(2))
        if m := re.match(r"down_blocks\.(\d+)\.attentions\.\d+\.transformer_blocks\.(\d+)\.", name):
            depth[int(m.group(1))].add(m.group(2))
        if re.match(r"down_blocks\.\d+\.attentions\.\d+\.proj_in\.weight$", name):
            linear.add(len(shape) == 2)
    found: dict[str, Any] = {}
    if width:
        found["block_out_channels"] = [width[i] for i in sorted(width)]
        found["layers_per_block"] = _one_or_all(len(layers[i]) for i in sorted(layers))
    if depth:
        found["transformer_layers_per_block"] = _one_or_all(len(depth[i]) for i in sorted(depth))
    if len(linear) == 1:
        found["use_linear_projection"] = linear.pop()
    return found


def settings_of(path: str | Path, defaults: Any = None) -> dict[tuple[str, str], Setting]:
    """Settings of a trace, a pipeline's or model's folder, a config file, or a .safetensors file.

    `defaults(class name)` gives the code's own defaults, where the caller knows the class.
    """
    path = Path(path)
    table: dict[tuple[str, str], Setting] = {}
    if (path / "events.jsonl").is_file() or path.suffix == ".trace":
        _read_trace(Trace.open(path), table)
    elif path.is_dir():
        parts = [p for p in sorted(path.iterdir()) if p.is_dir() and any((p / name).is_file() for name in CONFIG_FILES)]
        for folder in parts or [path]:
            _read_folder(folder, folder.name if parts else "", table, defaults)
    elif path.suffix == ".json":
        _put(table, "", "file", _read_json(path))
    elif path.is_file():
        _read_weights([path], "", table)
    if not table:
        raise InvalidTrace(
            f"{path} tells no settings: expected a trace, a model's folder, a config file or a .safetensors file"
        )
    return table


def _put(table: dict[tuple[str, str], Setting], part: str, column: str, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if not _IGNORED.search(name) and value is not None:
            setattr(table.setdefault((part, name), Setting(part, name)), column, value)


def _read_json(path: Path) -> dict[str, Any]:
    data = load_json(path.read_bytes(), path.name)
    if not isinstance(data, dict):
        raise InvalidTrace(f"{path} is no configuration: expected an object, got {type(data).__name__}")
    return data


def _read_folder(folder: Path, part: str, table: dict[tuple[str, str], Setting], defaults: Any) -> None:
    for name in CONFIG_FILES:
        if (folder / name).is_file():
            data = _read_json(folder / name)
            _put(table, part, "file", data)
            kind = data.get("_class_name") or (data.get("architectures") or [""])[0]
            if defaults is not None and kind:
                _put(table, part, "default", defaults(str(kind)))
    _read_weights(sorted(folder.glob("*.safetensors")), part, table)


def _read_weights(files: list[Path], part: str, table: dict[tuple[str, str], Setting]) -> None:
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        opened = SafetensorsFile(file)
        shapes.update({name: piece.shape for name, piece in opened.slices.items()})
        inside = opened.metadata.get("config")
        if isinstance(inside, str) and inside.lstrip().startswith("{"):
            try:
                _put(table, part, "file", json.loads(inside))
            except ValueError as problem:
                raise InvalidTrace(f"{file.name} carries a config that is no JSON: {problem}") from problem
    _put(table, part, "implied", implied(shapes))


def _read_trace(trace: Trace, table: dict[tuple[str, str], Setting]) -> None:
    """A trace holds the live objects' config, their attributes, and the shapes of their weights."""
    for part, values in (trace.meta.get("config") or {}).items():
        if isinstance(values, dict):
            _put(table, part, "file", values)
    modules = {
        path: (m.get("attrs") or {}) for path, m in (trace.meta.get("modules") or {}).items() if isinstance(m, dict)
    }
    for part in {path for path in modules if "." not in path}:
        below = {path.removeprefix(f"{part}."): attrs for path, attrs in modules.items() if path.startswith(f"{part}.")}
        for setting, pattern, attribute in _ATTRIBUTES:
            values = [
                attrs[attribute] for path, attrs in below.items() if re.search(pattern, path) and attribute in attrs
            ]
            if values and ((part, setting) in table or len(set(map(str, values))) == 1):
                _put(table, part, "effective", {setting: _one_or_all(values)})
        shapes = {p.removeprefix(f"{part}."): e.shape for p, e in trace.params.items() if p.startswith(f"{part}.")}
        _put(table, part, "implied", implied(shapes))


def differing(
    a: Mapping[tuple[str, str], Setting], b: Mapping[tuple[str, str], Setting]
) -> list[tuple[Setting, Setting]]:
    """Settings of both sides whose values in force are not equal."""
    found = []
    for key in a:
        if key in b and not same(a[key].in_force, b[key].in_force):
            found.append((a[key], b[key]))
    return found
