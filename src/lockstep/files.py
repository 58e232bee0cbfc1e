"""Names and paths to files, and files to values: found without touching the network for a local path, read with
checks, written to a temporary name and then renamed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

from .errors import FileFormatError, InputError, NotFoundError, WriteError

EMBEDDED = {"lockstep/emoji": "embedded/emoji"}  # models that come inside the package
PICKLE_MAGIC = (b"\x80", b"PK\x03\x04")  # a bare pickle, and the zip that torch.save writes
LFS_MAGIC = b"version "  # "https://git-lfs…": what stands in a clone where the file was not fetched
REFUSALS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EISDIR,
    errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ENOENT,
}  # fmt: skip
MAX_HEADER = 100 * 2**20
ITEM_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F4": 4,
}  # fmt: skip


class HubArguments(TypedDict, total=False):
    """What every function that may fetch files from the hub takes for it."""

    revision: str | None
    cache_dir: str | Path | None
    local_files_only: bool
    token: str | bool | None
    force_download: bool


HUB_ARGUMENTS = frozenset(HubArguments.__annotations__)


@dataclass(frozen=True)
class TensorInfo:
    """One entry of a safetensors header; `start` and `end` are offsets from the beginning of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def resolve_folder(
    name_or_path: str | Path,
    *,
    subfolder: str | None = None,
    patterns: list[str] | None = None,
    **hub: Unpack[HubArguments],
) -> Path:
    """The folder of a model: a local path, an embedded model's name, or a hub id (downloaded or in the cache)."""
    if not isinstance(name_or_path, (str, os.PathLike)) or not str(name_or_path):
        raise InputError(f"A model is named by a path, or by a hub id of the form 'owner/name', got {name_or_path!r}.")
    path = Path(name_or_path)
    if str(name_or_path) in EMBEDDED and not path.is_dir():
        path = existing(path)
    elif path.is_file():
        raise NotFoundError(f"{path} is a file; give the folder that it is in.")
    elif not path.is_dir() and not looks_like_hub_id(name_or_path):
        raise NotFoundError(f"{str(name_or_path)!r} is not a folder here, nor a hub id of the form 'owner/name'.")
    elif not path.is_dir():
        path = _download(str(name_or_path), patterns, {**hub})
    folder = path / (subfolder or "")
    if not folder.is_dir():
        raise NotFoundError(f"No subfolder {subfolder!r} in {str(name_or_path)!r}. There: {listing(path)}.")
    return folder


def resolve_file(
    name_or_path: str | Path, file_name: str, *, subfolder: str | None = None, **hub: Unpack[HubArguments]
) -> Path:
    """One file of a model's folder; the error lists what is there instead."""
    patterns = [f"{subfolder}/{file_name}" if subfolder else file_name]
    folder = resolve_folder(name_or_path, subfolder=subfolder, patterns=patterns, **hub)
    path = folder / file_name
    if not path.is_file():
        deeper = sorted(p.parent.name for p in folder.glob(f"*/{file_name}"))
        advice = f" Did you mean subfolder={deeper[0]!r}?" if deeper and not subfolder else ""
        raise NotFoundError(f"No {file_name!r} in {folder}. There: {listing(folder)}.{advice}")
    return path


def require_there(*paths: Path) -> None:
    """Refuse a file or folder that is not there."""
    for path in paths:
        if not path.exists():
            raise NotFoundError(f"There is no file or folder {path}.")


def existing(path: Path) -> Path:
    """A file or folder that is there; an embedded model's name stands for its folder."""
    if str(path) in EMBEDDED and not path.exists():
        return Path(__file__).parent / EMBEDDED[str(path)]
    require_there(path)
    return path


def listing(folder: Path) -> str:
    """What is in a folder, for an error message; a link that leads nowhere is called one."""
    if not folder.is_dir():
        return "no such folder"
    names = (p.name if p.exists() else f"{p.name} (a broken link)" for p in sorted(folder.iterdir()))
    return ", ".join(names) or "nothing"


def looks_like_hub_id(name: str | Path) -> bool:
    """Whether a string that is no folder can be `owner/name` on a hub."""
    parts = str(name).split("/")
    return isinstance(name, str) and len(parts) == 2 and all(parts) and not name.startswith((".", "/", "~"))


def _download(hub_id: str, patterns: list[str] | None, hub: dict[str, Any]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    hub.setdefault("local_files_only", offline)
    try:
        return Path(snapshot_download(hub_id, allow_patterns=patterns, **hub))
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as problem:
        where = "in the local cache (offline)" if hub["local_files_only"] else "on the hub or in the local cache"
        raise NotFoundError(
            f"{hub_id!r} is no folder here and was not found {where}: {str(problem).rstrip('.')}. "
            "Give the path of a downloaded folder, or go online (unset HF_HUB_OFFLINE)."
        ) from problem


def upload(folder: Path, repo_id: str, **options: Any) -> str:
    """Send a folder to the hub, into a repository that is made if it is not there; the address of what was sent.

    `token=`, `private=`, `commit_message=`, `create_pr=` and `revision=` as `huggingface_hub` takes them.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    api, private = HfApi(token=options.pop("token", None)), options.pop("private", None)
    unknown = sorted(set(options) - {"commit_message", "commit_description", "create_pr", "revision"})
    if unknown:
        raise InputError(f"push_to_hub does not know {unknown[0]!r}.")
    try:
        name = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        return str(api.upload_folder(repo_id=name, folder_path=folder, **options))
    except (HfHubHTTPError, HFValidationError, OSError) as problem:
        raise WriteError(
            f"{repo_id!r} could not be sent to the hub: {str(problem).rstrip('.')}. Log in (`hf auth login`), go "
            "online (unset HF_HUB_OFFLINE), or save the folder and send it yourself."
        ) from problem


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # an editor may have put a byte order mark
    except FileNotFoundError:
        raise NotFoundError(f"There is no file {path}.") from None
    except UnicodeDecodeError as problem:
        raise FileFormatError(f"{path} is not valid JSON: {problem}.") from None
    return json_object(text, str(path))


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary name to write to; it becomes `path` when the block ends well, and is deleted when it does not."""
    temporary = temporary_beside(path)
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch()
            mode = (
                temporary.stat().st_mode
            )  # what the umask allows; some writers make files that only their owner can read
            yield temporary
            temporary.chmod(mode)
            settle(temporary, path)
    finally:
        with contextlib.suppress(NotADirectoryError):  # a file is where the folder would be
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to write to. When the block ends well it becomes `folder`, or its files go into the one that
    is there; when it does not, nothing of it stays."""
    temporary = temporary_beside(folder)
    try:
        with writing(folder):
            temporary.mkdir(parents=True)
            yield temporary
            if folder.is_dir():
                for part in sorted(temporary.iterdir()):
                    settle(part, folder / part.name)
            else:
                settle(temporary, folder)
    except WriteError as problem:
        raise WriteError(str(problem).replace(str(temporary), str(folder))) from problem
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def temporary_beside(path: Path) -> Path:
    """A hidden name in the same folder, from which a rename to `path` is one step."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def settle(temporary: Path, path: Path) -> None:
    """A finished file or folder takes its name, on the disk before and after; a folder of that name makes room."""
    for part in [temporary, *temporary.rglob("*")]:
        _sync(part)
    if temporary.is_dir() and path.is_dir():
        aside = temporary_beside(path)
        path.rename(aside)
        os.replace(temporary, path)
        shutil.rmtree(aside)
    else:
        os.replace(temporary, path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name != "posix":
        return  # elsewhere a folder cannot be opened
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the disk refuses inside becomes an error that names the file."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in REFUSALS:
            raise
        reason = os.strerror(problem.errno)
        raise WriteError(
            f"{path} cannot be written: {reason}. Make room, or choose a place that can be written to; "
            "nothing half-written was left."
        ) from problem


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def json_object(text: str | bytes, what: str, **options: Any) -> dict[str, Any]:
    """The JSON object in a text; `what` says in an error what it is the text of."""
    try:
        found = json.loads(text, **options)
    except (ValueError, RecursionError) as problem:
        raise FileFormatError(f"{what} is not valid JSON: {problem}.") from None
    if not isinstance(found, dict):
        raise FileFormatError(f"{what} has to hold a JSON object, but it holds a {type(found).__name__}.")
    return found


def read_safetensors_header(path: Path) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """Names, dtypes, shapes and offsets of a safetensors file, every one of them checked against the file's size."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        # A header's length may begin with a pickle's first byte too, but only a header begins with a brace after it.
        if start.startswith(PICKLE_MAGIC) and file.peek(1)[:1] != b"{":
            raise FileFormatError(
                f"{path} is a pickle, not safetensors. Loading a pickle can run code; convert it where you trust it: "
                "`safetensors.torch.save_file(torch.load(path, weights_only=True), target)`."
            )
        if start == LFS_MAGIC:
            raise FileFormatError(f"{path} is a Git LFS pointer, not the weights. Fetch them with `git lfs pull`.")
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
        if not 0 < length <= min(MAX_HEADER, size - 8):
            raise FileFormatError(
                f"{path} is no safetensors file or is cut off: {size} bytes, of which the header would take {length}."
            )
        raw = file.read(length)
    header = json_object(raw, f"{path} has a damaged safetensors header, which", object_pairs_hook=_each_name_once)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise FileFormatError(f"{path} has a damaged safetensors header: its '__metadata__' has to hold texts by name.")
    tensors = {name: _tensor_info(path, name, entry, 8 + length) for name, entry in header.items()}
    _check_layout(path, tensors, 8 + length, size)
    return tensors, metadata


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON without a name that stands twice, or that no text can hold (half of a surrogate pair)."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands in it twice")
    for text in (one for pair in pairs for one in pair if isinstance(one, str) and not one.isascii()):
        text.encode("utf-8")
    return found


def _tensor_info(path: Path, name: str, entry: Any, base: int) -> TensorInfo:
    try:
        (start, end), shape, dtype = entry["data_offsets"], entry["shape"], entry["dtype"]
        sound = isinstance(dtype, str) and all(type(n) is int and n >= 0 for n in (*shape, start, end))
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise FileFormatError(
            f"{path} has a damaged safetensors header: tensor {name!r} wants a dtype, a shape and two data_offsets "
            f"in whole numbers, got {entry!r}."
        )
    return TensorInfo(dtype, tuple(shape), base + start, base + end)


def _check_layout(path: Path, tensors: dict[str, TensorInfo], base: int, size: int) -> None:
    """Each tensor is as long as its shape says, and together they fill the file without a gap or an overlap."""
    position = base
    for name, info in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        if info.dtype not in ITEM_BITS:
            raise FileFormatError(f"{path}: tensor {name!r} has the unknown dtype {info.dtype!r}.")
        count = 1
        for n in info.shape:
            count *= n
        wanted = (count * ITEM_BITS[info.dtype] + 7) // 8
        if info.end - info.start != wanted:
            raise FileFormatError(
                f"{path}: tensor {name!r} of shape {list(info.shape)} and dtype {info.dtype} needs {wanted} bytes, "
                f"but its offsets give it {info.end - info.start}."
            )
        if info.start != position:
            raise FileFormatError(
                f"{path}: tensor {name!r} starts at byte {info.start}, wanted {position}: a gap or an overlap."
            )
        position = info.end
    if position != size:
        raise FileFormatError(
            f"{path} has {size} bytes, but its tensors end at byte {position}: the file is cut off or has extra data."
        )
