"""What a checkpoint file says before any weight is read: names, shapes, dtypes, and a container that is told by its
first bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import FileFormatError, NotFoundError
from ..files import PICKLE_MAGIC, TensorInfo, read_safetensors_header
from .gguf_header import MAGIC as GGUF_MAGIC
from .gguf_header import read_gguf_header

PICKLE_ENDINGS = (".ckpt", ".pt", ".pth", ".bin")
ENDINGS = (".safetensors", ".sft", ".gguf", *PICKLE_ENDINGS)
ORIGINAL_SHAPE = "comfy.gguf.orig_shape."  # for tensors with more axes than the format has
SAMPLE = 512  # bytes in which text is told from data


@dataclass
class Header:
    """The tensors of a checkpoint, none of them read."""

    path: Path
    container: str  # safetensors, gguf, pickle
    tensors: dict[str, TensorInfo]
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: self._shape(name, info) for name, info in self.tensors.items()}

    def _shape(self, name: str, info: TensorInfo) -> tuple[int, ...]:
        said = self.metadata.get(ORIGINAL_SHAPE + name)
        return tuple(said) if isinstance(said, list) else info.shape


def is_checkpoint(name: str | Path) -> bool:
    """Whether a name means a checkpoint file: one that is here, or one whose ending says so."""
    path = Path(name)
    return path.suffix.lower() in ENDINGS and not path.is_dir()


def container_of(path: Path) -> str:
    """The container by its first bytes, whatever the file is called."""
    if not path.is_file():
        raise NotFoundError(f"There is no checkpoint file {path}.")
    with path.open("rb") as file:
        start = file.read(SAMPLE)
    if not start:
        raise FileFormatError(f"{path} is empty: the download or copy did not write anything.")
    if start.startswith(GGUF_MAGIC):
        return "gguf"
    if start.startswith(PICKLE_MAGIC) and start[8:9] != b"{":
        return "pickle"
    if start.startswith(b"version https://git-lfs"):
        raise FileFormatError(f"{path} is a Git LFS pointer, not the weights. Fetch them with `git lfs pull`.")
    if start[8:9] != b"{" and _is_text(start):
        raise FileFormatError(
            f"{path} is text, not weights: it begins with {start[:40].decode('utf-8', 'replace')!r}. "
            "A download that needs a login often saves its error page under the file's name."
        )
    return "safetensors"


def _is_text(start: bytes) -> bool:
    try:
        decoded = start[: SAMPLE - 4].decode("utf-8", errors="strict")
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character.isspace() for character in decoded)


def read_header(path: Path) -> Header:
    """The header of a safetensors or GGUF file; a pickle has none that can be read without unpickling it."""
    container = container_of(path)
    if container == "gguf":
        return Header(path, container, *read_gguf_header(path))
    if container == "pickle":
        raise FileFormatError(
            f"{path} is a pickle{', whatever its name says' if path.suffix not in PICKLE_ENDINGS else ''}. Pickles "
            "can run "
            "code where they are read. Lockstep reads one only if you ask for it (allow_pickle=True, "
            "--allow-pickle), and "
            "then only tensors and plain containers (weights_only): anything else in it is refused, not run."
        )
    return Header(path, container, *read_safetensors_header(path))
