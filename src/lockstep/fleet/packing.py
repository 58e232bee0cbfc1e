"""The files of a batch as shards of tar (WebDataset): for each row its picture, its words and its inputs as JSON."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

from ..errors import InputError, NotFoundError
from ..files import atomic
from .plan import NAME, Plan


def pack(
    folder: Path, target: Path, *, most_bytes: int = 10**9, tell: Callable[[int], None] = lambda count: None
) -> list[Path]:
    """Shards `target/000000.tar`, …, the same bytes for the same files; a batch with files missing is refused."""
    plan = Plan.read(folder)
    if plan is None:
        raise NotFoundError(f"{folder} is not the folder of a batch: it has no {NAME}.")
    missing = [name for name in plan.files if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(plan.files)} files are not made yet ({missing[0]} …): finish it first."
        )
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise InputError(f"{target} is not empty. Shards go into a folder of their own.")
    groups: list[list[str]] = [[]]
    size = 0
    for name in plan.files:
        size += (folder / name).stat().st_size
        if size > most_bytes and groups[-1]:
            groups.append([])
            size = (folder / name).stat().st_size
        groups[-1].append(name)
    shards = []
    for number, names in enumerate(groups):
        shards.append(target / f"{number:06d}.tar")
        with atomic(shards[-1]) as temporary, tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as shard:
            for name in names:
                row = plan.files[name]
                _put(shard, name, (folder / name).read_bytes())
                _put(shard, f"{row.key}.json", json.dumps(row.inputs, sort_keys=True).encode())
                _put(shard, f"{row.key}.txt", str(row.inputs.get("prompt", "")).encode())
                tell(1)
    return shards


def _put(shard: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(data), 0, 0o644
    shard.addfile(entry, io.BytesIO(data))
