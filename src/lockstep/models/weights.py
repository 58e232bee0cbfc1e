"""Weights on disk: which files hold them, tensors out of them without a needless copy, and tensors into them.

A tensor that keeps its dtype is a view of the memory-mapped file, with a storage of its own; one that is cast is read
in pieces straight into its final place, so that the peak is the result and one buffer.
"""

from __future__ import annotations

import json
import mmap
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from .. import files
from ..errors import FileFormatError, InputError, NotFoundError, VariantError, WeightsError
from ..files import TensorInfo

T = TypeVar("T")
Row = tuple[Any, ...]  # of a weight map: (theirs, ours) or (theirs, ours, operations); each side a name or several
DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32, "I64": torch.int64,
    "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "C64": torch.complex64,
}  # fmt: skip
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
FEW = 10**6  # bytes below which a number with a point is hardly one of bytes
CAST_BUFFER = 16 * 2**20  # bytes read at a time when a tensor is cast


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a safetensors file, not read yet."""

    path: Path
    info: TensorInfo


@dataclass(frozen=True)
class MadeTensor(StoredTensor):
    """A tensor that is made from what a file holds when it is asked for: split, dequantised, unpickled …"""

    make: Callable[[], torch.Tensor]

    @classmethod
    def of(cls, path: Path, like: torch.Tensor, make: Callable[[], torch.Tensor]) -> MadeTensor:
        """One with the dtype and shape of a tensor, which may be on `meta`."""
        return cls(path, TensorInfo(DTYPE_NAMES[like.dtype], tuple(like.shape), 0, 0), make)


def renamed_parts(theirs: str, ours: str, names: Mapping[str, str], *operations: str) -> Iterator[Row]:
    """The rows of a module whose parts have other names: {their part: ours}."""
    for their_part, our_part in names.items():
        yield f"{theirs}.{their_part}.{{}}", f"{ours}.{our_part}.{{}}", *operations


def in_memory(tensors: Mapping[str, torch.Tensor], path: Path) -> dict[str, StoredTensor]:
    """Tensors that are read already, in the form of those that are not; `path` says where they came from."""
    return {name: MadeTensor.of(path, tensor, lambda tensor=tensor: tensor) for name, tensor in tensors.items()}  # type: ignore[misc]


def with_variant(file_name: str, variant: str | None) -> str:
    """`model.safetensors` -> `model.fp16.safetensors`."""
    if variant is not None and (not isinstance(variant, str) or not re.fullmatch(r"[\w-]+", variant)):
        raise InputError(f"A variant is a word in a file's name, such as 'fp16', got {variant!r}.")
    stem, _, ending = file_name.rpartition(".")
    return f"{stem}.{variant}.{ending}" if variant else file_name


def pickle_name(weights_name: str) -> str:
    """The name that a model's weights have as a pickle."""
    stem = weights_name.removesuffix(".safetensors")
    return "pytorch_model.bin" if stem == "model" else f"{stem}.bin"


def open_folder(
    folder: Path, weights_name: str, variant: str | None, *, safetensors: bool = True, pickles: bool = False
) -> dict[str, StoredTensor]:
    """Every tensor of a model's folder: of the one file, or of the shards that the index names.

    Pickles are read only where that is asked for, and only tensors out of them (`weights_only`): nothing in them runs.
    """
    readers = [(weights_name, open_weights)] if safetensors else []
    readers += [(pickle_name(weights_name), open_pickles)] if pickles else []
    for name, read in readers:
        single = folder / with_variant(name, variant)
        if single.is_file():
            return read([single])
        index = folder / with_variant(f"{name}.index.json", variant)
        if index.is_file():
            return open_shards(index, read)
    names = [name for name, _ in readers] or [pickle_name(weights_name)]
    raise not_found(folder, names, variant, pickles)


def not_found(folder: Path, names: list[str], variant: str | None, pickles: bool) -> NotFoundError:
    """What to say about weights that are not there; the words up to the folder are those that scripts look for."""
    wanted = [with_variant(name, variant) for name in names]
    others = f" (nor {', '.join(wanted[:-1])})" if wanted[1:] else ""
    there = [p.name for p in folder.iterdir()]
    advice = _other_variants(there, names[0])
    if not pickles and any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in there):
        advice = (
            "Only safetensors are read unless you say otherwise: allow_pickle=True (or LOCKSTEP_ALLOW_PICKLE=1) "
            "reads the tensors of a .bin and runs nothing that is in it."
        )
    told = f"Error no file named {wanted[-1]} found in directory {folder}{others}. There: {files.listing(folder)}."
    if variant is None:
        return NotFoundError(f"{told} {advice}".rstrip())
    advice = advice or "Leave the variant out to load what is there."
    return VariantError(f"You are trying to load the model files of the `variant={variant}`. {told} {advice}")


def open_pickles(paths: list[Path]) -> dict[str, StoredTensor]:
    """The tensors of files that `torch.save` wrote, with everything else in them refused."""
    stored: dict[str, StoredTensor] = {}
    for path in paths:
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as problem:
            first = str(problem).partition("\n")[0]
            raise FileFormatError(
                f"{path} is not a pickle of tensors alone, so it was not read: {first} Convert it where you trust it."
            ) from None
        if not isinstance(content, dict) or not all(isinstance(value, torch.Tensor) for value in content.values()):
            raise FileFormatError(f"{path} has to hold tensors by name, but it holds something else.")
        stored |= in_memory(content, path)
    return stored


def _other_variants(there: list[str], weights_name: str) -> str:
    stem = weights_name.removesuffix(".safetensors")
    pattern = re.compile(re.escape(stem) + r"\.(\w+?)(-\d+-of-\d+)?\.safetensors")
    variants = sorted({match[1] for name in there if (match := pattern.fullmatch(name))})
    return f"There are variants: pass variant={variants[0]!r}." if variants else ""


def open_shards(index: Path, read: Callable[[list[Path]], dict[str, StoredTensor]]) -> dict[str, StoredTensor]:
    """Every tensor of the files that an index beside them names."""
    weight_map = files.read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise FileFormatError(f"{index} has no 'weight_map' from tensor names to file names.")
    names = sorted(set(weight_map.values()))
    outside = [name for name in names if Path(name).name != name or not name]
    if outside:
        raise FileFormatError(f"{index} names the file {outside[0]!r} outside of its own folder.")
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise NotFoundError(
            f"{index} names shards that are not there ({len(missing)} of {len(names)}): {', '.join(missing)}."
        )
    stored = read([index.parent / name for name in names])
    for tensor, name in weight_map.items():
        if tensor not in stored or stored[tensor].path.name != name:
            where = stored[tensor].path.name if tensor in stored else "no shard"
            raise FileFormatError(f"{index} says that tensor {tensor!r} is in {name}, but it is in {where}.")
    return stored


def open_weights(paths: list[Path]) -> dict[str, StoredTensor]:
    """Every tensor of some safetensors files by name, with headers checked and nothing read yet."""
    stored: dict[str, StoredTensor] = {}
    for path in paths:
        tensors, _ = files.read_safetensors_header(path)
        for name, info in tensors.items():
            if name in stored:
                raise FileFormatError(f"Tensor {name!r} stands in {stored[name].path.name} and in {path.name}.")
            if info.dtype not in DTYPES:
                raise FileFormatError(f"{path}: tensor {name!r} has dtype {info.dtype}, which torch cannot hold.")
            stored[name] = StoredTensor(path, info)
    return stored


def read_tensors(
    stored: Mapping[str, StoredTensor], dtypes: Mapping[str, torch.dtype], device: torch.device
) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor in its wanted dtype on the device."""
    opened = MappedFiles()
    for name, tensor in stored.items():
        yield name, opened.read(tensor, dtypes[name]).to(device)


class MappedFiles:
    """Files that are memory-mapped once, however many tensors are read from them.

    With `copies`, nothing is mapped: every tensor is read into memory of its own, which is free when it goes (the pages
    of a mapped file that was read through stay with the process).
    """

    def __init__(self, copies: bool = False) -> None:
        self.copies = copies
        self.maps: dict[Path, mmap.mmap] = {}

    def read(self, tensor: StoredTensor, wanted: torch.dtype | None = None) -> torch.Tensor:
        """The tensor in its own dtype, as a view of the file where that can be, or in the wanted one."""
        source = DTYPES[tensor.info.dtype]
        wanted = source if wanted is None else wanted
        if isinstance(tensor, MadeTensor):
            return tensor.make().to(wanted).contiguous()
        if source == wanted and tensor.info.start % source.itemsize == 0 and not self.copies:
            return _view(self._map(tensor.path), tensor.info, source)
        return _read_cast(tensor, source, wanted)

    def _map(self, path: Path) -> mmap.mmap:
        if path not in self.maps:
            with path.open("rb") as file:  # who writes to it has pages of their own: the file stays as it is
                self.maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        return self.maps[path]


def _view(mapped: mmap.mmap, info: TensorInfo, dtype: torch.dtype) -> torch.Tensor:
    """A tensor whose storage is its part of the file alone: who pickles it does not pickle the whole file."""
    if not _count(info):
        return torch.empty(info.shape, dtype=dtype, device="cpu")
    return torch.frombuffer(mapped, dtype=dtype, count=_count(info), offset=info.start).view(info.shape)


def _read_cast(tensor: StoredTensor, source: torch.dtype, wanted: torch.dtype) -> torch.Tensor:
    result = torch.empty(tensor.info.shape, dtype=wanted)
    flat, position = result.view(-1), 0
    buffer = bytearray(min(CAST_BUFFER, max(tensor.info.end - tensor.info.start, 1)))
    with tensor.path.open("rb") as file:
        file.seek(tensor.info.start)
        while position < flat.numel():
            length = min(len(buffer), (flat.numel() - position) * source.itemsize)
            if file.readinto(memoryview(buffer)[:length]) != length:
                raise FileFormatError(f"{tensor.path} ended early: it was cut off while it was read.")
            piece = torch.frombuffer(buffer, dtype=source, count=length // source.itemsize)
            flat[position : position + piece.numel()] = piece
            position += piece.numel()
    return result


def _count(info: TensorInfo) -> int:
    count = 1
    for n in info.shape:
        count *= n
    return count


def parse_size(size: int | str, source: str = "A size") -> int:
    """`"5GB"` -> 5_000_000_000; an error begins with who wants it."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?", str(size).upper())
    unit = match[2] or "" if match else ""
    scale = (1024 if unit.endswith("I") else 1000) ** (" KMGT".index(unit[:1] or " "))
    few = isinstance(size, float) and size < FEW  # 1.5 is rather meant in a unit
    if match is None or few or float(match[1]) * scale < 1:
        raise InputError(f"{source} wants a number of bytes or a text such as '10GB' or '500MB', got {size!r}.")
    return int(float(match[1]) * scale)


def size_text(size: float) -> str:
    """5_000_000_000 -> `5.00 GB`: in a unit in which it is not nothing."""
    for unit, scale, digits in (("GB", 1e9, 2), ("MB", 1e6, 1), ("kB", 1e3, 0)):
        if size >= scale:
            return f"{size / scale:.{digits}f} {unit}"
    return f"{size:.0f} bytes"


def save_weights(
    tensors: Mapping[str, torch.Tensor],
    folder: Path,
    weights_name: str,
    variant: str | None,
    max_shard_size: int | str,
    pickled: bool = False,
) -> list[Path]:
    """Write the tensors into a folder as one file, or as shards with an index; as a pickle only where that is asked."""
    shards = split(tensors, lambda tensor: tensor.nbytes, parse_size(max_shard_size))
    weights_name = pickle_name(weights_name) if pickled else weights_name
    base = with_variant(weights_name, variant)
    stem, _, ending = base.rpartition(".")
    names = [f"{stem}-{i + 1:05d}-of-{len(shards):05d}.{ending}" for i in range(len(shards))]
    names = [base] if len(shards) == 1 else names
    for name, shard in zip(names, shards, strict=True):
        plain = {key: tensor.detach().contiguous() for key, tensor in shard.items()}
        if pickled:
            torch.save(plain, folder / name)
        else:
            save_tensors(plain, folder / name, {"format": "pt"})
    if len(shards) > 1:
        weight_map = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
        total = sum(tensor.nbytes for tensor in tensors.values())
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        files.write_text(
            folder / with_variant(f"{weights_name}.index.json", variant), json.dumps(index, indent=2) + "\n"
        )
    return [folder / name for name in names]


def save_tensors(tensors: Mapping[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
    """One safetensors file, there as a whole or not at all."""
    with files.atomic(path) as temporary:
        try:
            save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, temporary, metadata)
        except SafetensorError as problem:  # it hides what the disk said in a text
            said = re.search(r"(?:code: |os error )(\d+)", str(problem))
            raise OSError(int(said[1]), str(problem)) if said else problem from None


def split(tensors: Mapping[str, T], size_of: Callable[[T], int], limit: int) -> list[dict[str, T]]:
    """The tensors in groups that fit the limit (a tensor that is larger stands alone)."""
    groups: list[dict[str, T]] = [{}]
    filled = 0
    for name, tensor in tensors.items():
        size = size_of(tensor)
        if groups[-1] and filled + size > limit:
            groups.append({})
            filled = 0
        groups[-1][name] = tensor
        filled += size
    return groups


def remove_earlier(folder: Path, weights_name: str, variant: str | None) -> None:
    """Files of an earlier save under the same name would be read in place of the new ones, or together with them."""
    for name in (weights_name, pickle_name(weights_name)):
        stem, _, ending = with_variant(name, variant).rpartition(".")
        pattern = re.compile(re.escape(stem) + rf"(-\d{{5}}-of-\d{{5}})?\.{ending}")
        index = with_variant(f"{name}.index.json", variant)
        for path in folder.iterdir():
            if pattern.fullmatch(path.name) or path.name == index:
                path.unlink()


def check_tensors(owner: str, expected: Mapping[str, torch.Tensor], found: Mapping[str, StoredTensor]) -> None:
    """Refuse weights that do not fit a model: names missing or left over, another shape, or whole numbers."""
    missing = [name for name in expected if name not in found]
    extra = [name for name in found if name not in expected]
    both = [name for name in expected if name in found]
    wrong = [name for name in both if found[name].info.shape != tuple(expected[name].shape)]
    whole = [name for name in both if not DTYPES[found[name].info.dtype].is_floating_point]
    whole = [name for name in whole if expected[name].is_floating_point()]
    lines = [f"Wanted but not there ({len(missing)} of {len(expected)}): {_some(missing)}."] if missing else []
    if extra:
        lines.append(f"There but not wanted ({len(extra)}): {_some(extra)}.")
    for name in wrong[:5]:
        got = found[name]
        lines.append(
            f"Tensor {name!r} in {got.path.name}: wanted shape {list(expected[name].shape)}, "
            f"got {list(got.info.shape)}."
        )
    if len(wrong) > 5:
        lines.append(f"… and {len(wrong) - 5} more of another shape.")
    if whole:
        dtype = found[whole[0]].info.dtype
        lines.append(f"Quantised without a scale ({len(whole)} are {dtype}): {_some(whole)}.")
    if lines:
        paths = sorted({tensor.path for tensor in found.values()})
        source = "A file without tensors does" if not paths else f"The weights in {paths[0]} do"
        if len(paths) > 1:
            source = f"The weights in {len(paths)} files of {paths[0].parent} do"
        raise WeightsError(
            f"{source} not fit this {owner}: {' '.join(lines)} Is the config the one that belongs to the weights?"
        )


def _some(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:4])
    return shown + (", …" if len(names) > 4 else "")
