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
import torch
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


def cpu_seconds(*pids):
    """What processes have computed, which other load on the machine does not change."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def cost_of(server, wishes, most):
    """Seconds of both processes for some jobs that are asked for at once."""
    server.made(seed=1)
    pids = server.process.pid, server.worker()
    before = cpu_seconds(*pids)
    jobs = [server.make(**wish) for wish in wishes]
    for job in jobs:
        ended = server.wait(job, seconds=300)
        assert ended["state"] == "done"
        assert ended["result"]["batch"] <= most
    return cpu_seconds(*pids) - before


@pytest.mark.slow
def test_batches_are_worth_it(tmp_path):
    wishes = [{"seed": k, "inputs": {"num_inference_steps": 25}} for k in range(24)]
    costs = {}
    for batch, most in (("1", 1), ("4", 8)):
        with serving(tmp_path / batch, "--batch", batch) as server:
            costs[batch] = cost_of(server, wishes, most)
    ratio = costs["1"] / costs["4"]
    print(f"batches of 4 cost {ratio:.2f} times less than one by one")
    assert ratio >= 1.4


@pytest.mark.slow
def test_a_server_costs_little_more_than_a_call(tmp_path):
    from lockstep.pipelines.pipeline import DiffusionPipeline

    torch.set_num_threads(1)
    pipe = DiffusionPipeline.from_pretrained("lockstep/emoji", dtype="float32")
    pipe.set_progress_bar_config(disable=True)
    pipe("a dog", num_inference_steps=4, seed=0).save(tmp_path / "warm.png")
    began = time.process_time()
    for k in range(8):
        pipe("a red heart", num_inference_steps=50, seed=k).save(tmp_path / f"{k}.png")
    bare = time.process_time() - began
    with serving(tmp_path / "data", "--batch", "1") as server:
        served = cost_of(server, [{"seed": k, "inputs": {"num_inference_steps": 50}} for k in range(8)], most=1)
    print(f"a server costs {served / bare:.3f} of a call")
    assert served / bare < 1.05


@pytest.mark.slow
def test_a_worker_for_each_device(tmp_path):
    with serving(tmp_path, "--device", "cpu", "--device", "cpu") as server:
        shapes = [{"inputs": {"num_inference_steps": 20 + k}} for k in range(6)]
        jobs = [server.make(**shape) for shape in shapes]
        assert [server.wait(job)["state"] for job in jobs] == ["done"] * 6
        ran = [float(line.split()[-1]) for line in server.http.get("/metrics").text.splitlines()
               if line.startswith("lockstep_batches_total{")]  # fmt: skip
        assert len(ran) == 2
        assert all(ran), "each has done something"


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced(tmp_path):
    with serving(tmp_path, "--stall-seconds", "40", "--attempts", "50") as server:
        server.made(seed=2)
        job = server.make(inputs={"num_inference_steps": 100})
        server.wait(job, until=("running",))
        os.kill(server.worker(), signal.SIGSTOP)
        ended = server.wait(job, seconds=300)
        assert ended["state"] == "done"
        assert ended["attempt"] >= 2
