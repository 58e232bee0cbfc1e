"""Takes a job from submission to its row, in a child that is killed with -9 at the k-th point, for every k in turn.

A point is a statement of SQL, a sync or a rename. After each kill a server starts on what is left, and takes the job to
its end: there has to be one row that is done, the file that it names, with the bytes that it names, and nothing else.
"""

import hashlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from lockstep.serve.queue import Queue, Submission
from lockstep.serve.results import DataFolder
from lockstep.serve.workers import conclude

KEY = "the only job"


class Points:
    """Counts what can be interrupted, and ends this process at a given count."""

    def __init__(self, fatal: int) -> None:
        self.seen, self.fatal = 0, fatal

    def pass_one(self, *_: object) -> None:
        self.seen += 1
        if self.seen == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, module: object, name: str) -> None:
        inner = getattr(module, name)

        def counted(*args: object, **options: object) -> object:
            self.pass_one()
            result = inner(*args, **options)
            self.pass_one()
            return result

        setattr(module, name, counted)


def serve(root: Path, points: Points | None) -> None:
    """What a server does with one job, the worker's part included."""
    folder = DataFolder(root)
    queue = Queue(folder.database)
    if points is not None:
        queue._db.set_trace_callback(points.pass_one)
        for name in ("fsync", "replace"):
            points.around(os, name)
    queue.recover()
    folder.sweep(*queue.names_in_use())
    kept = folder.keep_input(b"a picture that came in", ".png")
    queue.submit(Submission({"image": kept}, "model", key=KEY, inputs=[kept]))
    for job in queue.claim():
        place = folder.place_for(job.id, job.attempt)
        place.mkdir()
        data = f"the picture of {job.id}".encode()
        (place / "0.png").write_bytes(data)
        made = {"n": 0, "file": "0.png", "media": "image/png", "sha256": hashlib.sha256(data).hexdigest(), "facts": {}}
        conclude(queue, folder, job, {"tell": "done", "outputs": [made], "result": {}})
    queue.close()
    folder.close()


def what_is_wrong(root: Path) -> str | None:
    folder = DataFolder(root)
    queue = Queue(folder.database)
    jobs, events = queue.find(), [event.kind for event in queue.events_after(0)]
    problem = None
    if [job.state for job in jobs] != ["done"] or events.count("done") != 1:
        problem = f"states {[job.state for job in jobs]}, events {events}"
    elif {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.results.iterdir()} != {
        output.name: output.sha256 for output in jobs[0].outputs
    }:
        problem = f"files {sorted(path.name for path in folder.results.iterdir())}"
    elif list(folder.work.iterdir()) or not (folder.inputs / jobs[0].request["image"]).exists():
        problem = "work is left, or the input is gone"
    elif queue._value("PRAGMA integrity_check") != "ok":
        problem = "the database is damaged"
    queue.close()
    folder.close()
    return problem


def in_a_child(root: Path, fatal: int) -> bool:
    """Whether the child was killed."""
    child = os.fork()
    if child == 0:
        serve(root, Points(fatal))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"The child failed before point {fatal}.")
    return os.WIFSIGNALED(status)


def main(root: Path) -> None:
    wrong, fatal, killed = [], 0, True
    while killed:
        fatal += 1
        place = root / str(fatal)
        killed = in_a_child(place, fatal)
        serve(place, None)
        if (problem := what_is_wrong(place)) is not None:
            wrong.append(f"killed at point {fatal}: {problem}")
        shutil.rmtree(place)
    print(json.dumps({"points": fatal - 1, "wrong": wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
