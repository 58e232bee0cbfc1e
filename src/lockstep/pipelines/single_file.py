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
from ..tokenizers import Tokenizer
from .published.table import PUBLISHED

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
        if issubclass(self.type_hint, Tokenizer):
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


def take_file_options(name_or_path: str | Path, options: dict[str, Any]) -> dict[str, Any]:
    """Take out what is said about a single file; a folder takes none of it (but for pickles, which it knows too)."""
    if _is_file(name_or_path):
        return {key: options.pop(key) for key in FILE_OPTIONS if key in options}
    misplaced = [key for key in FILE_OPTIONS if key in options and key != "allow_pickle"]
    if misplaced:
        raise InputError(
            f"{', '.join(misplaced)} belong to single files (.safetensors, .gguf …); {str(name_or_path)!r} is none."
        )
    return {}


def open_index(
    name_or_path: str | Path, options: Mapping[str, Any], hub: Mapping[str, Any], owner: type | None = None
) -> index_files.Index:
    """The index of a folder, a hub id or a single file, which `owner` is to load where one is named."""
    if not _is_file(name_or_path):
        return index_files.read_index(name_or_path, **hub)
    from ..loaders.single_file import SingleFile

    file = SingleFile(name_or_path, **options)
    parsed = index_files.parse_index(str(name_or_path), file.path, file.index())
    name = parsed.class_name or ""
    wanted = PUBLISHED[name].pipeline if name in PUBLISHED else name
    kinds = [] if owner is None else [base.__name__ for base in owner.__mro__]
    if kinds and kinds[0] != "DiffusionPipeline" and wanted not in kinds:
        raise LoadError(
            f"{name_or_path} is {file.guess}, which {wanted} loads, not {kinds[0]}. "
            "DiffusionPipeline.from_single_file chooses by itself."
        )
    return FileIndex(parsed.source, parsed.class_name, parsed.blocks_name, parsed.entries, parsed.configs, file)


def _is_file(name_or_path: Any) -> bool:
    return isinstance(name_or_path, (str, Path)) and is_checkpoint(name_or_path)
