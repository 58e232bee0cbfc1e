"""The queue: jobs in SQLite, one writing connection, and every way from one state to the next.

    queued ──claim──▶ running ──finish──▶ done
      │ ▲               │ │
      │ └──release──────┘ └──fail──▶ failed
      └──cancel──▶ cancelled ◀──cancelled──┘

A running job that nobody wants any more says so in its row (`unwanted`), so that no death of a process forgets it.

A result counts only for the attempt that the row names: what comes late from an older one is dropped. What changes is
one transaction with the event that tells of it, so nobody hears of what is not on the disk.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import sqlite3
import time
from base64 import b32encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .problems import Problem

State = Literal["queued", "running", "done", "failed", "cancelled"]
OPEN = ("queued", "running")
# what was asked for, and not a look at the way there
IS_MADE = "json_extract(facts, '$.kind') NOT IN ('values', 'preview', 'trace')"
MAX_CLAIMS = 100  # a server that is killed this often in the middle of a job has met its cause

TABLES = """
CREATE TABLE IF NOT EXISTS jobs(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, key TEXT UNIQUE, client TEXT NOT NULL,
    face TEXT NOT NULL, request TEXT NOT NULL, text TEXT NOT NULL, model TEXT NOT NULL, shape TEXT,
    rows INTEGER NOT NULL, cost REAL NOT NULL, priority INTEGER NOT NULL, turn REAL NOT NULL, turn_end REAL NOT NULL,
    state TEXT NOT NULL CHECK(state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    attempt INTEGER NOT NULL DEFAULT 0, faults INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, started REAL,
    ended REAL, deadline REAL, result TEXT, error TEXT, unwanted TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS waiting ON jobs(priority DESC, turn, seq) WHERE state = 'queued';
CREATE INDEX IF NOT EXISTS under_way ON jobs(client) WHERE state IN ('queued', 'running');
CREATE TABLE IF NOT EXISTS outputs(
    job TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE, n INTEGER NOT NULL, name TEXT NOT NULL,
    media TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL, facts TEXT NOT NULL,
    starred INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(job, n)
) STRICT;
CREATE TABLE IF NOT EXISTS inputs(
    job TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE, sha256 TEXT NOT NULL, PRIMARY KEY(job, sha256)
) STRICT;
CREATE TABLE IF NOT EXISTS events(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
    kind TEXT NOT NULL, time REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS events_of ON events(job);
"""


@dataclass(frozen=True)
class Output:
    """One file of a job: a picture, a video, or the values at a boundary."""

    n: int
    name: str
    media: str
    sha256: str
    bytes: int
    facts: dict[str, Any]
    starred: bool = False


@dataclass(frozen=True)
class Job:
    """A row of the queue, with its outputs."""

    seq: int
    id: str
    client: str
    face: str
    request: dict[str, Any]
    text: str  # what a search looks in: the prompt
    model: str
    shape: str | None  # jobs of one shape can run as one batch; None runs alone
    rows: int
    cost: float
    priority: int
    state: State
    attempt: int
    faults: int
    created: float
    started: float | None
    ended: float | None
    deadline: float | None
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    unwanted: str | None = None  # `cancel` or `shorten`: asked for while it ran
    outputs: list[Output] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self.state in OPEN


@dataclass(frozen=True)
class Event:
    """A change of a job's state, numbered for all jobs together."""

    seq: int
    job: str
    kind: str
    time: float


@dataclass(frozen=True)
class Room:
    """How much may wait."""

    jobs: int = 1000
    per_client: int = 200
    faults: int = 2  # workers that a job may lose before it is given up


@dataclass(frozen=True)
class Submission:
    """A job that is to be."""

    request: Mapping[str, Any]
    model: str
    client: str = "local"
    face: str = "api"
    text: str = ""
    shape: str | None = None
    rows: int = 1
    cost: float = 1.0
    priority: int = 0
    key: str | None = None
    deadline: float | None = None
    inputs: Sequence[str] = ()


def new_id() -> str:
    """26 letters and digits, as no file name or table ever had them before."""
    return b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()


class Queue:
    """All jobs, and the only connection that writes; used by one thread at a time."""

    def __init__(
        self, path: Path, room: Room | None = None, tell: Callable[[Event], None] = lambda event: None
    ) -> None:
        self.room, self.tell = room or Room(), tell
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "busy_timeout = 5000"):
            self._db.execute(f"PRAGMA {setting}")
        self._db.executescript(TABLES)
        if "unwanted" not in {row["name"] for row in self._db.execute("PRAGMA table_info(jobs)")}:
            self._db.execute("ALTER TABLE jobs ADD COLUMN unwanted TEXT")  # of a folder from before there was one
        self._told: list[Event] = []
        self._now = 0.0  # the turn of the job that was claimed last: where a client that comes new begins

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        """One transaction, and after it the events that it wrote. A plain BEGIN would fail where it meets another."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._told.clear()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        told, self._told = self._told, []
        for event in told:
            self.tell(event)

    def _note(self, job: str, kind: str) -> None:
        now = time.time()
        seq = self._db.execute("INSERT INTO events(job, kind, time) VALUES(?, ?, ?)", (job, kind, now)).lastrowid
        self._told.append(Event(seq or 0, job, kind, now))

    # ---- in ----

    def submit(self, wanted: Submission) -> tuple[Job, bool]:
        """The job, and whether it is new: the same key with the same request is the same job."""
        request = json.dumps(wanted.request, sort_keys=True)
        with self._change():
            if wanted.key is not None and (held := self._one("key = ?", wanted.key)) is not None:
                if json.dumps(held.request, sort_keys=True) != request:
                    raise Problem(422, "idempotency_key_reused", "This Idempotency-Key was sent with another request.")
                return held, False
            self._require_room(wanted.client)
            last = self._value("SELECT max(turn_end) FROM jobs WHERE client = ? AND state IN ('queued', 'running')",
                               wanted.client)  # fmt: skip
            turn = max(self._now, last or 0.0)
            made = new_id()
            self._db.execute(
                "INSERT INTO jobs(id, key, client, face, request, text, model, shape, rows, cost, priority, turn,"
                " turn_end, state, created, deadline) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?)",
                (made, wanted.key, wanted.client, wanted.face, request, wanted.text, wanted.model, wanted.shape,
                 wanted.rows, wanted.cost, wanted.priority, turn, turn + wanted.cost, time.time(), wanted.deadline),
            )  # fmt: skip
            for sha256 in dict.fromkeys(wanted.inputs):
                self._db.execute("INSERT INTO inputs(job, sha256) VALUES(?, ?)", (made, sha256))
            self._note(made, "queued")
        return self.get(made), True

    def _require_room(self, client: str) -> None:
        waiting = self._value("SELECT count(*) FROM jobs WHERE state = 'queued'")
        own = self._value("SELECT count(*) FROM jobs WHERE state IN ('queued', 'running') AND client = ?", client)
        if waiting >= self.room.jobs:
            raise Problem(429, "queue_full", f"{waiting} jobs are waiting, the most that this server keeps. Try later.")
        if own >= self.room.per_client:
            raise Problem(429, "queue_full", f"{own} jobs of yours are waiting, the most that one client may have.")

    # ---- running ----

    def claim(self, size: int = 1, long_queue: int = 0) -> list[Job]:
        """The next job, and others of its shape up to `size` rows; all of them are running now.

        The one whose turn it is leads, so nobody starves; one that a worker died of runs alone. Where `long_queue` is
        given and as many rows wait, twice the size is taken.
        """
        with self._change():
            self._expire()
            lead = self._one("state = 'queued' ORDER BY priority DESC, turn, seq LIMIT 1")
            if lead is None:
                return []
            chosen, rows = [lead], lead.rows
            if lead.shape is not None and not lead.faults:
                mates = self._jobs("state = 'queued' AND shape = ? AND id != ? AND faults = 0"
                                   " ORDER BY priority DESC, turn, seq LIMIT 64", lead.shape, lead.id)  # fmt: skip
                if long_queue and rows + sum(mate.rows for mate in mates) >= long_queue:
                    size *= 2
                for mate in mates:
                    if rows + mate.rows <= size:
                        chosen.append(mate)
                        rows += mate.rows
            for job in chosen:
                self._db.execute("UPDATE jobs SET state = 'running', attempt = attempt + 1, started = ? WHERE id = ?",
                                 (time.time(), job.id))  # fmt: skip
                self._note(job.id, "running")
            self._now = max(self._now, self._value("SELECT turn FROM jobs WHERE id = ?", lead.id))
        return [self.get(job.id) for job in chosen]

    def _expire(self) -> None:
        error = {"status": 504, "code": "deadline", "message": "The job waited longer than its deadline allows."}
        for job in self._jobs("state = 'queued' AND deadline < ?", time.time()):
            self._end(job.id, "failed", error=error)

    def finish(self, job: str, attempt: int, outputs: Sequence[Output], result: Mapping[str, Any]) -> bool:
        """A result, with the rows of its files; False where another attempt owns the job by now."""
        with self._change():
            if not self._owns(job, attempt):
                return False
            self._db.execute("DELETE FROM outputs WHERE job = ?", (job,))
            self._db.executemany(
                "INSERT INTO outputs(job, n, name, media, sha256, bytes, facts) VALUES(?, ?, ?, ?, ?, ?, ?)",
                [(job, o.n, o.name, o.media, o.sha256, o.bytes, json.dumps(o.facts)) for o in outputs],
            )
            self._end(job, "done", result=result)
        return True

    def fail(self, job: str, attempt: int, error: Mapping[str, Any]) -> bool:
        """The job cannot be done; `error` has status, code and message."""
        with self._change():
            return self._owns(job, attempt) and self._end(job, "failed", error=error)

    def cancelled(self, job: str, attempt: int) -> bool:
        """The worker has let go of a job that was to be cancelled."""
        with self._change():
            return self._owns(job, attempt) and self._end(job, "cancelled")

    def stop(self, job: str, how: str = "cancel") -> Job:
        """A waiting job ends here; one that runs is for the worker to `cancel` or `shorten`, and its row says so."""
        with self._change():
            found = self.get(job)
            if found.state == "queued":
                self._end(job, "cancelled")
            elif found.state == "running" and found.unwanted != "cancel":
                self._db.execute("UPDATE jobs SET unwanted = ? WHERE id = ?", (how, job))
        return self.get(job)

    def release(self, job: str, attempt: int, error: Mapping[str, Any] | None = None) -> bool:
        """Back to the queue, or cancelled where nobody wants it; with an error it was the worker's death, which is
        endured `room.faults` times."""
        with self._change():
            if not self._owns(job, attempt):
                return False
            if self.get(job).unwanted is not None:
                return self._end(job, "cancelled")
            if error is not None:
                self._db.execute("UPDATE jobs SET faults = faults + 1 WHERE id = ?", (job,))
                if self.get(job).faults >= self.room.faults:
                    return self._end(job, "failed", error=error)
            self._db.execute("UPDATE jobs SET state = 'queued', started = NULL WHERE id = ?", (job,))
            self._note(job, "queued")
        return True

    def recover(self) -> int:
        """At start no worker lives: what was running waits again, or is cancelled where nobody wanted it any more.
        How many there were."""
        with self._change():
            left = self._jobs("state = 'running'")
            for job in left:
                if job.unwanted is not None:
                    self._end(job.id, "cancelled")
                    continue
                if job.attempt >= MAX_CLAIMS:
                    self._end(job.id, "failed", error={"status": 500, "code": "server_died", "message":
                              f"The server ended {job.attempt} times in the middle of this job."})  # fmt: skip
                    continue
                self._db.execute("UPDATE jobs SET state = 'queued', started = NULL WHERE id = ?", (job.id,))
                self._note(job.id, "queued")
            self._now = self._value("SELECT min(turn) FROM jobs WHERE state = 'queued'") or 0.0
        return len(left)

    def _owns(self, job: str, attempt: int) -> bool:
        found = "SELECT count(*) FROM jobs WHERE id = ? AND attempt = ? AND state = 'running'"
        return bool(self._value(found, job, attempt))

    def _end(
        self, job: str, state: State, result: Mapping[str, Any] | None = None, error: Mapping[str, Any] | None = None
    ) -> bool:
        self._db.execute(
            "UPDATE jobs SET state = ?, ended = ?, result = ?, error = ? WHERE id = ?",
            (state, time.time(), _json(result), _json(error), job),
        )
        self._note(job, state)
        return True

    # ---- out ----

    def get(self, job: str) -> Job:
        found = self._one("id = ?", job)
        if found is None:
            raise Problem(404, "not_found", "There is no such job.")
        return found

    def by_key(self, key: str) -> Job | None:
        return self._one("key = ?", key)

    def find(
        self, *, states: Sequence[str] = (), text: str = "", model: str = "", starred: bool = False, made: bool = False,
        before: int | None = None, limit: int = 50,
    ) -> list[Job]:  # fmt: skip
        """Jobs with every word of a text, the newest first; `before` is the `seq` where the last answer ended.

        `made` leaves out those that have nothing to show.
        """
        wanted: list[str] = ["seq < ?"]
        values: list[Any] = [before if before is not None else 2**62]
        if states:
            wanted.append(f"state IN ({', '.join('?' * len(states))})")
            values += states
        for word in text.split():
            wanted.append("instr(lower(text), lower(?)) > 0")
            values.append(word)
        if model:
            wanted.append("model = ?")
            values.append(model)
        if starred:
            wanted.append("EXISTS(SELECT 1 FROM outputs WHERE outputs.job = jobs.id AND starred)")
        if made:
            wanted.append(f"EXISTS(SELECT 1 FROM outputs WHERE outputs.job = jobs.id AND {IS_MADE})")
        return self._jobs(f"{' AND '.join(wanted)} ORDER BY seq DESC LIMIT ?", *values, limit)

    def waiting(self) -> list[Job]:
        """What is open, in the order in which it comes."""
        return self._jobs("state IN ('queued', 'running') ORDER BY state DESC, priority DESC, turn, seq LIMIT 1000")

    def open_states(self) -> dict[str, str]:
        """The state of every job that has not ended."""
        rows = self._db.execute("SELECT id, state FROM jobs WHERE state IN ('queued', 'running')")
        return {row[0]: row[1] for row in rows}

    def counts(self) -> dict[str, int]:
        """State -> how many."""
        return {row[0]: row[1] for row in self._db.execute("SELECT state, count(*) FROM jobs GROUP BY state")}

    def work_ahead(self) -> float:
        """The cost of all that waits or runs."""
        return self._value("SELECT sum(cost) FROM jobs WHERE state IN ('queued', 'running')") or 0.0

    def events_after(self, seq: int, limit: int = 1000) -> list[Event]:
        rows = self._db.execute(
            "SELECT seq, job, kind, time FROM events WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)
        )
        return [Event(*row) for row in rows]

    def last_event(self) -> int:
        return self._value("SELECT max(seq) FROM events") or 0

    def names_in_use(self) -> tuple[set[str], set[str]]:
        """The files that rows name: outputs, and inputs by their hash."""
        outputs, inputs = (self._db.execute(f"SELECT {what}") for what in ("name FROM outputs", "sha256 FROM inputs"))
        return {row[0] for row in outputs}, {row[0] for row in inputs}

    # ---- by hand ----

    def star(self, job: str, n: int, on: bool) -> None:
        with self._change():
            if not self._db.execute("UPDATE outputs SET starred = ? WHERE job = ? AND n = ?", (on, job, n)).rowcount:
                raise Problem(404, "not_found", "There is no such picture.")

    def move(self, job: str, priority: int) -> Job:
        """Another priority, for a job that waits."""
        with self._change():
            if self.get(job).state == "queued":
                self._db.execute("UPDATE jobs SET priority = ? WHERE id = ?", (priority, job))
                self._note(job, "queued")
        return self.get(job)

    def delete(self, job: str) -> list[str]:
        """Forget a job that has ended; the names of its files, which go after the row."""
        with self._change():
            found = self.get(job)
            if found.is_open:
                raise Problem(422, "invalid_value", f"The job is {found.state}: cancel it before it is deleted.")
            self._db.execute("DELETE FROM jobs WHERE id = ?", (job,))
        return [output.name for output in found.outputs]

    def _value(self, sql: str, *values: Any) -> Any:
        return self._db.execute(sql, values).fetchone()[0]

    def _one(self, where: str, *values: Any) -> Job | None:
        return next(iter(self._jobs(where, *values)), None)

    def _jobs(self, where: str, *values: Any) -> list[Job]:
        return [self._job(row) for row in self._db.execute(f"SELECT * FROM jobs WHERE {where}", values).fetchall()]

    def _job(self, row: sqlite3.Row) -> Job:
        held: dict[str, Any] = {name: row[name] for name in Job.__dataclass_fields__ if name != "outputs"}
        held |= {name: None if row[name] is None else json.loads(row[name]) for name in ("request", "result", "error")}
        found = self._db.execute("SELECT * FROM outputs WHERE job = ? ORDER BY n", (row["id"],)).fetchall()
        outputs = [
            Output(o["n"], o["name"], o["media"], o["sha256"], o["bytes"], json.loads(o["facts"]), bool(o["starred"]))
            for o in found
        ]
        return Job(**held, outputs=outputs)


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value)
