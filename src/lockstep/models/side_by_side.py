"""Several models that act as one, and that stand side by side on disk: `name`, `name_1`, `name_2` …"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import nn

from .. import files
from ..errors import InputError
from .modeling import CalledAsForward, ModelMixin


class SideBySide(CalledAsForward):
    """What is loaded, saved and asked of each; a subclass says what they are and how they act together."""

    gathers_several: ClassVar[bool] = True  # a list of models given to a pipeline becomes one of these
    part_class: ClassVar[type[ModelMixin]]
    first_folder: ClassVar[str]

    def __init__(self, parts: Iterable[ModelMixin]) -> None:
        super().__init__()
        nets = list(parts)
        if not nets or not all(isinstance(getattr(net, "_orig_mod", net), self.part_class) for net in nets):
            got = ", ".join(type(net).__name__ for net in nets) or "nothing"
            raise InputError(f"{type(self).__name__} wants {self.part_class.__name__}s, got {got}.")
        self.nets = nn.ModuleList(nets)

    @property
    def dtype(self) -> torch.dtype:
        return self.nets[0].dtype  # type: ignore[return-value]

    @property
    def device(self) -> torch.device:
        return self.nets[0].device  # type: ignore[return-value]

    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, subfolder: str | None = None, **options: Any) -> Self:
        """The models of a pipeline's folder; options are those of each one's own `from_pretrained`."""
        hub = {key: options[key] for key in options.keys() & files.HUB_ARGUMENTS}
        first = subfolder or cls.first_folder
        root = files.resolve_folder(name_or_path, patterns=[f"{first}*/*"], **hub)
        folders = [first]
        while (root / f"{first}_{len(folders)}").is_dir():
            folders.append(f"{first}_{len(folders)}")
        return cls(cls.part_class.from_pretrained(root, subfolder=name, **options) for name in folders)

    def save_pretrained(self, folder: str | Path, **options: Any) -> None:
        """The first model into this folder, the others into its numbered neighbours."""
        folder = Path(folder)
        for index, net in enumerate(self.nets):
            plain: Any = getattr(net, "_orig_mod", net)  # torch.compile wraps
            plain.save_pretrained(folder.with_name(f"{folder.name}_{index}") if index else folder, **options)
