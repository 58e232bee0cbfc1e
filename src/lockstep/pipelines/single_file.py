"""A single file in the place of a folder: its index, and components that come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from ..blocks import index as index_files
from ..blocks.params import ComponentSpec
from ..errors import InputError, LoadError
from ..loaders.header import is_checkpoint
from ..tokenizers import CLIPTokenizer
from .index_names import own_name

FILE_OPTIONS = ("config", "family", "prediction_type", "allow_pickle")


@dataclass(frozen=True)
class FileComponent(ComponentSpec):
    """A component that a single file gives."""

    file: Any = None

    def load(self, **options: Any) -> Any:
        if self.variant:
            raise InputError(f"variant={self.variant!r} names files of a folder; {self.file.path} is one file.")
        if issubclass(self.type_hint, torch.nn.Module):
            placed = {key: options.get(key) for key in ("dtype", "device")}
            return self.file.model(self.name, self.type_hint, **placed)
        if issubclass(self.type_hint, CLIPTokenizer):
            return self.file.tokenizer(self.name)
        return self.type_hint.from_config(self.file.scheduler_config())

    def load_outline(self, **options: Any) -> Any:
        is_model = issubclass(self.type_hint, torch.nn.Module)
        return self.type_hint.outline(self.file.config(self.name)) if is_model else self.load(**options)


@dataclass
class FileIndex(index_files.Index):
    """The index that the file's folder would have."""

    file: Any = field(default=None)

    def locate(self, spec: ComponentSpec) -> ComponentSpec | None:
        if spec.default_creation_method == "from_config":
            return None  # guiders are made, not stored
        located = super().locate(spec)
        if located is None:
            return None
        return FileComponent(**{one.name: getattr(located, one.name) for one in fields(ComponentSpec)}, file=self.file)


def open_index(
    owner: type, name_or_path: str | Path, options: Mapping[str, Any], hub: Mapping[str, Any]
) -> index_files.Index:
    """The index of a folder, a hub id or a single file."""
    if not isinstance(name_or_path, (str, Path)) or not is_checkpoint(name_or_path):
        if options:
            raise InputError(
                f"{', '.join(options)} belong to single files (.safetensors, .gguf …); {str(name_or_path)!r} is none."
            )
        return index_files.read_index(name_or_path, **hub)
    from ..loaders.single_file import SingleFile

    file = SingleFile(name_or_path, **options)
    content = file.index()
    parsed = index_files.parse_index(str(name_or_path), file.path, content)
    wanted = own_name(parsed.class_name or "")
    if owner.__name__ not in ("DiffusionPipeline", "ModularPipeline", wanted):
        raise LoadError(
            f"{name_or_path} is {file.guess}, which {wanted} loads, not {owner.__name__}. "
            "DiffusionPipeline.from_single_file chooses by itself."
        )
    return FileIndex(parsed.source, parsed.class_name, parsed.blocks_name, parsed.entries, parsed.configs, file)
