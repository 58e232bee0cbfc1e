"""A fleet under fire: many rows, `kill -9` at random moments, and in the end the files of one undisturbed run.

    python -m benchmarks.fleet [--rows 10000] [--kills 20] [--model lockstep/emoji] [--ray] [--folder FOLDER]

One worker makes all rows undisturbed. Then the same rows are made with kills: of workers, of the driver (which is
started again and goes on), and with --ray, for the last part of the rows, of actors and of one node of a cluster of
two. At the end every file has to be there, none besides, each equal to the undisturbed run's, byte by byte.

Without --model it is a tiny Stable Diffusion with random weights, of 32 x 32 pixels and one step: every block of a real
pipeline, and milliseconds a picture. Prints a table, and exits with 1 where a file is not as it should be.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from .machine import console, print_machine

ROOT = Path(__file__).resolve().parents[1]
CHEAP = ("--height", "32", "--width", "32", "--num-inference-steps", "1")
SHARE_OF_RAY = 0.4  # of the rows, at the end
LOOK = 0.02  # seconds between two looks at the folder
PATIENCE = 300.0  # seconds without a new file after which something is wrong


@dataclass
class Fire:
    """One batch that is killed again and again; what was killed, and how often the driver had to be started."""

    rows: int
    words: list[str]
    folder: Path
    kills: list[tuple[int, str]]  # after so many files, what dies
    cluster: Any = None
    starts: int = 0
    done: Counter[str] = field(default_factory=Counter)

    def run(self, chance: random.Random) -> None:
        """Until the last kill, and then to the end."""
        driver = self.start()
        for files, kind in self.kills:
            if self.cluster is not None and files >= self.rows * (1 - SHARE_OF_RAY) and "ray" not in driver.args:
                driver.kill()  # the rest is for actors
                driver.wait()
                self.done["driver"] += 1
                driver = self.start("--backend", "ray", "--address", self.cluster.address)
            driver = self.wait_for(files, driver)
            driver = self.kill(kind, driver, chance)
        driver.wait()
        if driver.returncode:
            raise SystemExit(f"the last run ended with {driver.returncode}")

    def start(self, *options: str) -> Any:
        self.starts += 1
        return subprocess.Popen([*self.words, "-o", str(self.folder), *options])

    def again(self, driver: Any) -> Any:
        """The same command once more."""
        self.starts += 1
        return subprocess.Popen(driver.args)

    def wait_for(self, files: int, driver: Any) -> Any:
        """Until so many files are there; a driver that ends before that, is started again."""
        last, since = -1, time.monotonic()
        while (there := made_in(self.folder)) < files:
            if there != last:
                last, since = there, time.monotonic()
            if time.monotonic() - since > PATIENCE:
                raise SystemExit(f"no new file for {PATIENCE:.0f} seconds, at {there} of {self.rows}")
            if driver.poll() is not None:
                raise SystemExit(f"the driver ended by itself with {driver.returncode}, at {there} of {self.rows}")
            time.sleep(LOOK)
        return driver

    def kill(self, kind: str, driver: Any, chance: random.Random) -> Any:
        workers = workers_of(driver.pid) if self.cluster is None or "ray" not in driver.args else actors_of(os.getpid())
        if kind == "node" and self.cluster is not None:
            node = chance.choice([one for one in self.cluster.list_all_nodes() if one is not self.cluster.head_node])
            self.cluster.remove_node(node, allow_graceful=False)
            self.cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
        elif kind == "driver" or not workers:
            driver.kill()
            driver.wait()
            kind, driver = "driver", self.again(driver)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
        self.done[kind] += 1
        return driver


def made_in(folder: Path) -> int:
    if not folder.is_dir():
        return 0
    with os.scandir(folder) as entries:
        return sum(entry.name.endswith(".png") and not entry.name.startswith(".") for entry in entries)


def children() -> dict[int, list[tuple[int, str]]]:
    """Process -> its children, each with its command line."""
    found: dict[int, list[tuple[int, str]]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found.setdefault(parent, []).append((int(place.name), words))
    return found


def workers_of(driver: int) -> list[int]:
    """The local workers of a driver."""
    return [pid for pid, words in children().get(driver, []) if "spawn_main" in words]


def descendants(process: int) -> list[tuple[int, str]]:
    """Every process below this one, with its command line."""
    tree, found, waiting = children(), [], [process]
    while waiting:
        below = tree.get(waiting.pop(), [])
        found += below
        waiting += [pid for pid, _ in below]
    return found


def actors_of(process: int) -> list[int]:
    """The actors of the cluster that this process has started."""
    return [pid for pid, words in descendants(process) if words.startswith("ray::Actor")]


def kill_points(rows: int, kills: int, ray: bool, chance: random.Random) -> list[tuple[int, str]]:
    """When what dies: anywhere, workers twice as often as the driver, one node of a cluster."""
    points = sorted(chance.sample(range(1, max(rows - 1, kills + 1)), kills))
    kinds = [chance.choice(("worker", "worker", "driver")) for _ in points]
    kinds[0] = "driver"
    late = [k for k, point in enumerate(points) if point >= rows * (1 - SHARE_OF_RAY)]
    if ray and not late:
        points[-1], late = rows - max(rows // 10, 1), [kills - 1]
    if ray:
        kinds[chance.choice(late)] = "node"
    return list(zip(points, kinds, strict=True))


@contextlib.contextmanager
def two_nodes(wanted: bool) -> Iterator[Any]:
    """A cluster of two nodes on this machine, ended with all that it started."""
    if not wanted:
        yield None
        return
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}  # as the local workers are
    from ray.cluster_utils import Cluster

    room = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**room, "include_dashboard": False})
    try:
        cluster.add_node(**room)
        yield cluster
    finally:
        cluster.shutdown()


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.png")}


def entries(folder: Path) -> list[dict[str, Any]]:
    from lockstep.fleet.driving import Ledger

    return [entry for entry in Ledger.read(folder) if "pixels" in entry]


def cheap_model(folder: Path) -> Path:
    sys.path[:0] = [str(ROOT / "tests")]
    from pipelines import tiny

    return tiny.save_folder(folder / "model")


def prove(folder: Path, options: argparse.Namespace) -> bool:
    """Both runs, and whether they are the same."""
    chance = random.Random(options.seed)
    rows = folder / "rows.jsonl"
    asked = [{"prompt": f"a photo of the {k}th red house", "seed": k} for k in range(options.rows)]
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in asked))
    own = CHEAP if options.model is None else ("--num-inference-steps", str(options.steps))
    model = str(options.model or cheap_model(folder))
    words = [sys.executable, "-m", "lockstep", "batch", str(rows), "--model", model, *own]
    words += ["--threads", "1", "--dtype", "float32", "--quiet"]

    began = time.perf_counter()
    subprocess.run([*words, "-o", str(folder / "single")], check=True)
    alone = time.perf_counter() - began
    console.print(f"one worker, undisturbed: {options.rows} files in {alone:.0f} s", highlight=False)

    points = kill_points(options.rows, options.kills, options.ray, chance)
    with two_nodes(options.ray) as cluster:
        fire = Fire(options.rows, [*words, "--workers", str(options.workers)], folder / "killed", points, cluster)
        began = time.perf_counter()
        fire.run(chance)
        killed = time.perf_counter() - began

    verify = [sys.executable, "-m", "lockstep", "batch", "verify", str(folder / "killed"), "--json"]
    told = json.loads(subprocess.run(verify, capture_output=True, text=True).stdout)
    wanted, got = hashes(folder / "single"), hashes(folder / "killed")
    differing = [name for name in wanted if got.get(name) != wanted[name]]
    besides = sorted(path.name for path in (folder / "killed").glob(".*.part")) + told["strange"]
    fine = bool(told["fine"]) and wanted == got and len(got) == options.rows and not besides
    report = Table("", "", title=f"{options.rows} rows under {sum(fire.done.values())} kills", title_justify="left")
    for name, value in {
        "killed": ", ".join(f"{count} × {kind}" for kind, count in sorted(fire.done.items())),
        "starts of the driver": fire.starts,
        "files": f"{len(got)} of {options.rows}, {len(told['missing'])} missing, {len(besides)} besides",
        "runs of the pipeline that the ledger knows": len(entries(folder / "killed")),
        "files that are not those of the undisturbed run": len(differing),
        "verify": "as planned" if told["fine"] else f"not as planned: {told['wrong'] or told['missing'][:3]}",
        "seconds, undisturbed and killed": f"{alone:.0f}, {killed:.0f} ({options.workers} workers)",
        "proved": "yes" if fine else "NO",
    }.items():
        report.add_row(name, str(value))
    console.print(report)
    return fine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model", help="a folder or an embedded model; the tiny one where it is left out")
    parser.add_argument("--steps", type=int, default=4, help="of a model that is named")
    parser.add_argument("--ray", action="store_true", help="the last part of the rows by actors of two nodes")
    parser.add_argument("--folder", type=Path, help="a new folder that is kept; a temporary one where it is left out")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print_machine()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        fine = prove(folder, options)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
