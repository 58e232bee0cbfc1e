"""The data folder: what comes in and what goes out, files first and the row last.

queue.sqlite   the rows
inputs/        pictures that requests brought, decoded and written anew, named by their hash
work/          what the worker is writing; nothing in it counts
results/       what the rows name; only the web process puts something here
lock           held while a server uses the folder
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ..errors import InputError
from ..files import settle, temporary_beside, writing
from .queue import Output

NETWORKED = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs")
PROBE = 2**20  # bytes that have to fit before a disk that was full counts as one with room
OLD = 3600.0  # seconds after which a file that no row names is swept
SUFFIX = re.compile(r"\.[a-z0-9]{2,12}")


class DataFolder:
    """The folder of one server, locked as long as it is open."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.inputs, self.work, self.results = (self.root / name for name in ("inputs", "work", "results"))
        self.traces, self.reports = self.root / "traces", self.root / "reports"
        with writing(self.root):
            self.root.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.root, self.inputs, self.work, self.results, self.traces, self.reports):
                folder.mkdir(exist_ok=True, mode=0o700)
            _refuse_network(self.root)
            self._lock = _locked(self.root / "lock")
            self.database.touch(0o600)
            self.database.chmod(0o600)  # what SQLite puts beside it is as open as this

    @property
    def database(self) -> Path:
        return self.root / "queue.sqlite"

    def close(self) -> None:
        self._lock.close()

    def keep_input(self, data: bytes, suffix: str) -> str:
        """Write a picture that came in; the name that requests, rows and the worker know it by."""
        return self.keep(data, self.inputs, suffix)

    def keep(self, data: bytes, folder: Path, suffix: str) -> str:
        """Write what came in under the name of its hash."""
        name = f"{hashlib.sha256(data).hexdigest()}{suffix}"
        path = folder / name
        try:
            os.utime(path)  # it is here already: the sweep looks at the time
        except FileNotFoundError:
            _put(data, path)
        return name

    def place_for(self, job: str, attempt: int) -> Path:
        """Where the worker writes one attempt of a job."""
        return self.work / f"{job}.{attempt}"

    def take(self, job: str, attempt: int, made: Sequence[Mapping[str, Any]]) -> list[Output]:
        """What the worker has written, checked against its hashes, under the names that the rows will hold."""
        outputs = []
        for entry in made:
            source = self.place_for(job, attempt) / Path(entry["file"]).name
            suffix = source.suffix
            if not SUFFIX.fullmatch(suffix):
                raise InputError(f"The worker wrote a file of no known kind: {suffix!r}.")
            name = f"{job}-{entry['n']}{suffix}"
            target = self.results / name
            data = (source if source.exists() else target).read_bytes()  # there already, where a full disk came between
            if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                raise InputError("What the worker wrote is not what it said: the hash differs.")
            if source.exists():
                settle(source, target)
            outputs.append(Output(entry["n"], name, entry["media"], entry["sha256"], len(data), entry["facts"]))
        self.forget_work(job, attempt)
        return outputs

    def try_to_write(self) -> None:
        """Whether there is room for a picture."""
        place = self.work / "room"
        try:
            place.mkdir(exist_ok=True)
            with (place / "probe").open("wb") as file:
                file.write(bytes(PROBE))
                file.flush()
                os.fsync(file.fileno())
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def forget_work(self, job: str, attempt: int) -> None:
        shutil.rmtree(self.place_for(job, attempt), ignore_errors=True)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            (self.results / name).unlink(missing_ok=True)

    def sweep(self, outputs: set[str], inputs: set[str], now: float | None = None, work: bool = True) -> int:
        """Remove what no row names: all work at once where no worker lives, pictures when they are old. How many."""
        removed = 0
        for folder in self.work.iterdir() if work else ():
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
        for folder, named in ((self.results, outputs), (self.inputs, inputs)):
            for path in folder.iterdir():
                with contextlib.suppress(FileNotFoundError):  # one that is being written takes its name meanwhile
                    if path.name not in named and (now or time.time()) - path.stat().st_mtime > OLD:
                        path.unlink()
                        removed += 1
        return removed


def _put(data: bytes, path: Path) -> None:
    temporary = temporary_beside(path)  # a name of its own: equal bytes may come twice at once
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        settle(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _locked(path: Path) -> IO[bytes]:
    """A file that is open and locked: two servers on one folder would be two writers of one database."""
    file = path.open("ab")
    with contextlib.suppress(ImportError):  # Windows has no fcntl
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise InputError(
                f"Another server uses the folder {path.parent}. Stop it, or choose another --data."
            ) from None
    return file


def _refuse_network(root: Path) -> None:
    """SQLite's journal needs shared memory, which folders over a network do not have."""
    try:
        rows = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return
    around = [(Path(row[1]), row[2]) for row in rows if len(row) > 2 and root.is_relative_to(row[1])]
    kind = max(around, key=lambda entry: len(entry[0].parts), default=(root, ""))[1]
    if kind in NETWORKED:
        raise InputError(f"--data {root} lies on a network file system ({kind}); the queue wants a local disk.")
