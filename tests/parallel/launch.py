"""Ranks as torchrun starts them, with the names of the others in the environment of each; but out of one process that
has imported everything once: `python launch.py FOLDER MODULE WORLD …` forks so many ranks, which call `MODULE.run`."""

import importlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def results(folder, module, worlds, seconds=200):
    """What the cases of a module gave for each number of ranks: world -> case -> [of rank 0, of rank 1, …]."""
    launched(folder, module, worlds, seconds)
    found = {}
    for world in worlds:
        files = [folder / f"{world}-{rank}.json" for rank in range(world)]
        missing = [path for path in files if not path.is_file()]
        assert not missing, last_words(folder, world)
        by_rank = [json.loads(path.read_text()) for path in files]
        found[world] = {case: [of_rank[case] for of_rank in by_rank] for case in by_rank[0]}
    return found


def launched(folder, module, worlds, seconds):
    """Run a module's ranks to their end; none outlives the time."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    words = [__file__, str(folder), module, *map(str, worlds)]
    subprocess.run([sys.executable, *words], env=environment, check=True, timeout=seconds, stdout=subprocess.DEVNULL)


def last_words(folder, world):
    """Exit code and standard error of each rank."""
    codes = json.loads((folder / f"{world}.codes").read_text())
    return [(code, (folder / f"{world}-{rank}.err").read_text()) for rank, code in enumerate(codes)]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def fork(folder, world):
    """Ranks of this process: the number of one in each of them; None here, when all have ended."""
    port, children = free_port(), []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            named = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1"}
            os.environ |= {key: str(value) for key, value in {**named, "MASTER_PORT": port}.items()}
            os.dup2(os.open(folder / f"{world}-{rank}.err", os.O_WRONLY | os.O_CREAT), 2)
            return rank
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    (folder / f"{world}.codes").write_text(json.dumps(codes))
    return None


if __name__ == "__main__":
    place, module = Path(sys.argv[1]), importlib.import_module(sys.argv[2])
    for ranks in map(int, sys.argv[3:]):
        if fork(place, ranks) is not None:
            module.run(place)
            break
