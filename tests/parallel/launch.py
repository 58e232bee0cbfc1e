"""Starts ranks as torchrun does: one process each, with the names of the others in its environment."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(world, script, *words):
    """The processes of so many ranks, each with its standard error kept."""
    port = free_port()
    processes = []
    for rank in range(world):
        more = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, **{key: str(value) for key, value in more.items()}, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).with_name(script)), *map(str, words)]
        processes.append(
            subprocess.Popen(
                command, env={**environment, "PYTHONPATH": path}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
            )
        )
    return processes


def ended(processes, seconds):
    """Exit code and last words of each; none outlives the time."""
    try:
        told = [process.communicate(timeout=seconds)[1].decode() for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, words) for process, words in zip(processes, told, strict=True)]


def results(world, folder, script="cases.py", seconds=150):
    """What every case of the script gave on each rank: case -> [of rank 0, of rank 1, …]."""
    for code, words in ended(start(world, script, folder), seconds):
        assert code == 0, words
    by_rank = [json.loads((folder / f"{world}-{rank}.json").read_text()) for rank in range(world)]
    return {case: [of_rank[case] for of_rank in by_rank] for case in by_rank[0]}
