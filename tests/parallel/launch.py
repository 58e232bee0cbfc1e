"""Ranks as torchrun starts them, with the names of the others in the environment of each; but out of one process that
has imported everything once: `python launch.py FOLDER WORK`, where WORK is JSON: modules, each with its groups of ranks
(a name -> how many) and whether they run all at once. Every rank calls `MODULE.run(folder, group)`."""

import atexit
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def launched(folder, work, seconds=200):
    """Run all ranks to their end; none outlives the time."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, __file__, str(folder), json.dumps(work)]
    subprocess.run(words, env=environment, check=True, timeout=seconds, stdout=subprocess.DEVNULL)


def results(folder, group, world):
    """What the cases of a group gave: case -> [of rank 0, of rank 1, …]."""
    files = [folder / f"{group}-{rank}.json" for rank in range(world)]
    missing = [path for path in files if not path.is_file()]
    assert not missing, last_words(folder, group)
    by_rank = [json.loads(path.read_text()) for path in files]
    return {case: [of_rank[case] for of_rank in by_rank] for case in by_rank[0]}


def last_words(folder, group):
    """Exit code and standard error of each rank."""
    codes = json.loads((folder / f"{group}.codes").read_text())
    return [(code, (folder / f"{group}-{rank}.err").read_text()) for rank, code in enumerate(codes)]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def fork(folder, group, world):
    """The ranks of a group: their process ids here, None in each of them."""
    port, children = free_port(), []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            named = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1"}
            os.environ |= {key: str(value) for key, value in {**named, "MASTER_PORT": port}.items()}
            os.dup2(os.open(folder / f"{group}-{rank}.err", os.O_WRONLY | os.O_CREAT), 2)
            return None
        children.append(child)
    return children


def wait(folder, group, children):
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    (folder / f"{group}.codes").write_text(json.dumps(codes))


def be_rank(run, folder, group):
    """To the end of a process as Python itself does it, but for taking apart what was imported."""
    code = 0
    try:
        run(folder, group)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(code)


def main(folder, work):
    modules = {name: importlib.import_module(name) for name, _, _ in work}
    gc.freeze()  # what all ranks have in common stays one in memory
    for name, groups, at_once in work:
        started = {}
        for group, world in groups.items():
            started[group] = fork(folder, group, world)
            if started[group] is None:
                be_rank(modules[name].run, folder, group)
            if not at_once:
                wait(folder, group, started.pop(group))
        for group, children in started.items():
            wait(folder, group, children)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
