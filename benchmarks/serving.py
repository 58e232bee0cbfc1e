"""What does a server gain by batches, and what does it cost over a bare call?

    python -m benchmarks.serving [--pictures 24] [--steps 12] [--rounds 3]

Two servers with the embedded model, one with batches and one without, are asked for the same pictures in turn; beside
them the bare pipeline, which writes its pictures into files too. Seconds of the clock, on a machine that does nothing
else: threads that wait for each other are a part of what batches save.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lockstep.cli.client import Remote

from .machine import interleaved, print_comparison, print_machine, seconds

PROMPTS = ["a red heart", "a dog", "a rocket", "a house", "a rose", "a penguin"]
POLL = 0.02  # seconds between two looks at a job


@contextlib.contextmanager
def server(folder: Path, batch: int) -> Iterator[Remote]:
    """A server of its own process, ready to work, for as long as the block runs."""
    words = ["serve", "--port", "0", "--data", str(folder), "--json", "--dtype", "float32", "--batch", str(batch)]
    process = subprocess.Popen([sys.executable, "-m", "lockstep", *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        remote = Remote(json.loads(process.stdout.readline())["url"], None)
        while not remote.get("/health")["ready"]:
            time.sleep(POLL)
        yield remote
    finally:
        process.terminate()
        process.wait()


def wishes(count: int, steps: int) -> list[dict[str, Any]]:
    return [
        {"inputs": {"prompt": PROMPTS[k % len(PROMPTS)], "num_inference_steps": steps}, "seed": k} for k in range(count)
    ]


def finish(remote: Remote, jobs: Sequence[dict[str, Any]]) -> None:
    for job in jobs:
        while (found := remote.get(f"/api/jobs/{job['id']}"))["state"] in ("queued", "running"):
            time.sleep(POLL)
        assert found["state"] == "done", found


def asked_at_once(remote: Remote, wanted: Sequence[dict[str, Any]]) -> Callable[[], None]:
    return lambda: finish(remote, [remote.post("/api/jobs", wish) for wish in wanted])


def called(wanted: Sequence[dict[str, Any]], folder: Path) -> Callable[[], None]:
    """The pipeline without a server."""
    from lockstep.pipelines.pipeline import DiffusionPipeline

    pipe: Any = DiffusionPipeline.from_pretrained("lockstep/emoji", dtype="float32")
    pipe.set_progress_bar_config(disable=True)

    def work() -> None:
        for number, wish in enumerate(wanted):
            pipe(**wish["inputs"], seed=wish["seed"]).save(folder / f"{number}.png")

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=24)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    wanted = wishes(options.pictures, options.steps)
    print_machine()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        alone = stack.enter_context(server(folder / "alone", 1))
        together = stack.enter_context(server(folder / "together", options.batch))
        sides = {
            "server, one by one": asked_at_once(alone, wanted),
            f"server, batches of {options.batch}": asked_at_once(together, wanted),
            "bare call": called(wanted, folder),
        }
        for run in sides.values():
            run()  # loads
        results = interleaved({name: lambda run=run: seconds(run) for name, run in sides.items()}, options.rounds)
    print_comparison(f"{options.pictures} pictures of {options.steps} steps", "s", results, "server, one by one")


if __name__ == "__main__":
    main()
