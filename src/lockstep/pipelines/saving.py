"""A pipeline's folder, written beside its place and moved there when all of it is on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .. import files
from ..blocks import index
from ..blocks.compose import SequentialPipelineBlocks
from ..blocks.params import PLACE
from ..errors import InputError
from .published.table import MODULAR


@dataclass(frozen=True)
class StoredPart:
    """A component of another library's class in the folder that a pipeline was loaded from; copied when it is saved."""

    source: str
    name: str
    entry: list[Any]

    def copy(self, folder: Path) -> None:
        found = files.resolve_folder(self.source, subfolder=self.name, patterns=[f"{self.name}/*"])
        shutil.copytree(found, folder / self.name)


def written_beside(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary folder; its parts take their places in `folder`, or nothing does."""
    if folder.is_file():
        raise InputError(f"save_pretrained wants a folder, but {folder} is a file.")
    folder = folder.resolve() if folder.exists() else folder
    beside = files.temporary_beside(folder)
    with files.writing(folder):
        try:
            beside.mkdir(parents=True)
            write(beside)
            if not folder.exists():
                files.settle(beside, folder)
                return
            indexes = [part for part in beside.iterdir() if part.is_file()]
            for part in [*(part for part in beside.iterdir() if part.is_dir()), *indexes]:  # what names the parts last
                files.settle(part, folder / part.name)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


Places = dict[str, dict[str, str | None]]  # component -> what a modular index says of its place


def places_of(pipe: Any, target: str, variant: str | None, written_here: bool) -> Places:
    """The place of each component: where it is written now, or if that shall not count, where it came from."""
    places: Places = {}
    for name in pipe.component_names:
        is_model = isinstance(pipe.all_components.get(name), torch.nn.Module)
        here = target, name, variant if is_model else None, None
        places[name] = dict(zip(PLACE, here, strict=True))
        if not written_here and name in pipe._located:
            places[name] = {key: getattr(pipe._located[name], key) for key in PLACE}
    return places


def write_parts(pipe: Any, folder: Path, modular: bool | None, options: Mapping[str, Any], places: Places) -> None:
    """Every component in a folder of its own, and the index."""
    parts, names = pipe.all_components.items(), pipe.component_names
    held = {name: part for name, part in parts if part is not None and name in names}
    for name, component in held.items():
        of_models = options if isinstance(component, torch.nn.Module) else {}
        getattr(component, "_orig_mod", component).save_pretrained(folder / name, **of_models)
    for stored in pipe._elsewhere.values():
        stored.copy(folder)
    settings = {**pipe._config, **{name: stored.entry[:2] for name, stored in pipe._elsewhere.items()}}
    own = {n: part for n, part in held.items() if pipe.component_specs[n].default_creation_method == "from_config"}
    published = {**dict.fromkeys(pipe._absent), **{name: part for name, part in held.items() if name not in own}}
    index.write_classic(folder, pipe._index_class, published, own, settings)
    blocks = type(pipe.blocks).__name__
    own_blocks = has_own_blocks(type(pipe), type(pipe).__name__, blocks)
    if modular or (modular is None and (own_blocks or pipe._modular_index)):
        known = {ours: theirs for theirs, ours in MODULAR.items()}
        name = pipe._index_class if own_blocks else known.get(pipe._index_class, pipe._index_class)
        index.write_modular(folder, name, blocks, held, settings, places)


def has_own_blocks(kind: Any, class_name: str | None, blocks: str | None) -> bool:
    """Whether a folder of this class is of other blocks than the class stands for: put together by hand, or a family's
    further ones (a long video's). Folders of the wider ecosystem name classes, and blocks, of its own; a plain sequence
    (one workflow's tree) says nothing of its blocks."""
    usual = kind.default_tree()
    unsaid = (None, SequentialPipelineBlocks.__name__)
    return usual is None or (class_name == kind.__name__ and blocks not in (*unsaid, type(usual).__name__))
