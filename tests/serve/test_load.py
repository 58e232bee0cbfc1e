"""Many clients at once, and kill -9 in the middle: nothing lost, doubled or mixed up. Slow: minutes on purpose."""

import hashlib
import os
import random
import signal
import statistics
import threading
import time
from io import BytesIO
from pathlib import Path

import httpx2
import numpy as np
import pytest
from PIL import Image

from lockstep.blocks.manifest import read_manifest

from .conftest import serving

SECONDS = float(os.environ.get("LOAD_SECONDS", "300"))
CLIENTS = 64
PROMPTS = ["a red heart", "a dog", "a rocket", "a house", "a rose", "a penguin"]


def one_client(server, number, until, made, problems):
    """Ask for a picture, wait for it, check that it is the one that was asked for; again until the time is over."""
    draw = random.Random(number)
    with httpx2.Client(base_url=server.url, timeout=120, headers={"X-Lockstep-Client": f"c{number}"}) as http:
        while time.monotonic() < until:
            seed, prompt = draw.randrange(10**6), draw.choice(PROMPTS)
            body = {"inputs": {"prompt": prompt, "num_inference_steps": 4}, "seed": seed}
            answer = http.post("/api/jobs", json=body)
            if answer.status_code == 429:
                time.sleep(1)
                continue
            job = answer.json()
            while (job := http.get(f"/api/jobs/{job['id']}").json())["state"] in ("queued", "running"):
                time.sleep(0.2)
            if job["state"] != "done" or len(job["outputs"]) != 1:
                problems.append(job)
                continue
            data = http.get(job["outputs"][0]["url"]).content
            path = Path(server.data) / f"check-{number}.png"
            path.write_bytes(data)
            manifest = read_manifest(path)
            path.unlink()
            same = hashlib.sha256(data).hexdigest() == job["outputs"][0]["sha256"]
            if not same or manifest["seed"] != [seed] or manifest["inputs"]["prompt"] != prompt:
                problems.append((job, manifest))
            made.append((prompt, seed, data))


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_64_clients_get_each_their_own_and_memory_stays(tmp_path):
    with serving(tmp_path, "--max-queue-per-client", "100") as server:
        made, problems, health, memory = [], [], [], []
        until = time.monotonic() + SECONDS
        clients = [threading.Thread(target=one_client, args=(server, k, until, made, problems)) for k in range(CLIENTS)]
        for client in clients:
            client.start()
        while time.monotonic() < until:
            began = time.perf_counter()
            server.http.get("/health")
            health.append(time.perf_counter() - began)
            memory.append(resident(server.process.pid) + resident(server.worker()))
            time.sleep(0.1)
        for client in clients:
            client.join(180)
        assert not problems, problems[:2]
        for prompt, seed, data in random.Random(0).sample(made, 5):
            alone = server.made(prompt, seed=seed, deterministic=True)
            one, other = (
                np.asarray(Image.open(BytesIO(d)).convert("RGB")).astype(int) for d in (data, server.picture(alone))
            )
            assert np.abs(one - other).max() <= 1
        half = len(memory) // 2
        grown = statistics.mean(memory[-half // 2 :]) / statistics.mean(memory[half : half + half // 2])
        p99 = sorted(health)[int(len(health) * 0.99)]
        print(f"{len(made)} pictures, /health p99 {p99 * 1e3:.0f} ms, memory x {grown:.3f}")
        assert abs(grown - 1) <= 0.05
        assert p99 < 0.1


@pytest.mark.slow
def test_killed_twenty_times_each_every_job_ends_once(tmp_path):
    draw = random.Random(0)
    jobs = []
    for turn in range(20):
        with serving(tmp_path, "--attempts", "20") as server:
            for k in range(3):
                key = {"Idempotency-Key": f"{turn} {k}"}
                jobs.append(server.make("a dog", seed=10 * turn + k, inputs={"num_inference_steps": 12}, headers=key))
            time.sleep(draw.random())
            os.kill(server.worker(), signal.SIGKILL)
            time.sleep(draw.random() * 3)
            server.process.kill()
            server.process.wait()
    with serving(tmp_path, "--attempts", "20") as server:
        ended = [server.wait(job, seconds=300) for job in jobs]
        assert [job["state"] for job in ended] == ["done"] * len(jobs)
        for job in ended:
            assert hashlib.sha256(server.picture(job)).hexdigest() == job["outputs"][0]["sha256"]
    from .test_jobs import events_of

    assert all([event.kind for event in events_of(tmp_path, job["id"])].count("done") == 1 for job in jobs)
