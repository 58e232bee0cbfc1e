"""A disk that takes nothing more: told as such, waited for, and no job lost by it."""

import asyncio
import errno
import os
import sqlite3
import time

import pytest

from lockstep.errors import WriteError
from lockstep.files import writing
from lockstep.serve import workers
from lockstep.serve.database import Database
from lockstep.serve.problems import NO_ROOM, of_error, of_storage
from lockstep.serve.queue import Queue, Submission
from lockstep.serve.results import DataFolder

from .conftest import serving


def no_space(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_the_disk_refuses_is_told_as_such(tmp_path):
    queue = Queue(tmp_path / "queue.sqlite")
    queue._db.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError, match="full") as full:
        queue.submit(Submission({"inputs": {"prompt": "x" * 500_000}}, "m"))
    with pytest.raises(WriteError) as written, writing(tmp_path):
        no_space()
    for error in (full.value, written.value):
        assert (of_storage(error).status, of_storage(error).code) == (507, NO_ROOM)
    assert of_error(written.value).code == NO_ROOM
    assert str(tmp_path) not in of_error(written.value).message
    assert of_storage(FileNotFoundError(errno.ENOENT, "gone")) is None
    assert of_storage(ValueError("x")) is None
    queue.close()


def test_what_a_worker_tells_waits_for_room(tmp_path, monkeypatch):
    folder, queue = DataFolder(tmp_path), Queue(tmp_path / "queue.sqlite")
    queue.submit(Submission({}, "m"))
    (job,) = queue.claim()
    place = folder.place_for(job.id, 1)
    place.mkdir()
    made = []
    for n in range(2):
        (place / f"{n}.png").write_bytes(b"")
        made.append({"n": n, "file": f"{n}.png", "media": "image/png", "facts": {},
                     "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"})  # fmt: skip
    real, calls = workers.DataFolder.take.__globals__["settle"], []

    def sometimes(source, target):
        calls.append(target)
        if len(calls) == 2:  # behind the first file, before the second
            no_space()
        real(source, target)

    monkeypatch.setitem(workers.DataFolder.take.__globals__, "settle", sometimes)

    async def concluded():
        database = Database()
        done = {"tell": "done", "outputs": made, "result": {}}
        await database.patiently(workers.conclude, queue, folder, job, done)
        assert not database.room.is_set()
        await database.look_for_room(no_space)
        assert not database.room.is_set()
        await database.look_for_room(folder.try_to_write)
        assert database.room.is_set()
        database.close()

    asyncio.run(concluded())
    found = queue.get(job.id)
    assert (found.state, len(found.outputs), len(list(folder.results.iterdir()))) == ("done", 2, 2)
    queue.close(), folder.close()


def test_a_job_whose_picture_found_no_room_is_tried_once_more(tmp_path):
    folder, queue = DataFolder(tmp_path), Queue(tmp_path / "queue.sqlite")
    queue.submit(Submission({}, "m"))
    for state in ("queued", "failed"):
        (job,) = queue.claim()
        failed = {"tell": "failed", "error": {"status": 507, "code": NO_ROOM, "message": "full"}}
        workers.conclude(queue, folder, job, failed)
        assert queue.get(job.id).state == state
    queue.close(), folder.close()


def test_a_server_goes_on_when_there_is_room_again(tmp_path):
    """The largest file that a running server may write is made small, and large again."""
    resource = pytest.importorskip("resource")
    if not hasattr(resource, "prlimit"):
        pytest.skip("no prlimit here")
    with serving(tmp_path / "data") as server:
        first = server.made()
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, limits[1]))
        waiting = []
        for _ in range(3):
            answer = server.http.post("/api/jobs", json={"inputs": {"prompt": "a dog", "num_inference_steps": 1}})
            waiting += [answer.json()] if answer.status_code == 202 else []
            if answer.status_code != 202:
                assert (answer.status_code, answer.json()["error"]["code"]) == (507, NO_ROOM)
                assert answer.headers["retry-after"]
        health = server.http.get("/health").json()
        assert (health["status"], health["ready"]) == ("no_room", False)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)
        end = time.monotonic() + 20
        while not server.http.get("/health").json()["ready"]:
            assert time.monotonic() < end
            time.sleep(0.1)
        for job in [*waiting, server.make()]:
            assert server.wait(job)["state"] == "done"
        assert server.wait(first)["state"] == "done"
        assert "Traceback" not in server.log.read_text()
