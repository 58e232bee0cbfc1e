"""Where Ray is installed: one cluster of two nodes for all of it; actors and a node are killed, and nothing is lost."""

import contextlib
import functools
import hashlib
import os
import re
import signal
import threading
import time

import pytest

from lockstep.cli.batch_rows import row_inputs
from lockstep.cli.pipelines import loaded
from lockstep.fleet.driving import Driver, locked
from lockstep.fleet.making import Maker, Setup
from lockstep.fleet.plan import Plan
from lockstep.fleet.ray import RayWorkers
from lockstep.fleet.ray_stages import RayStages
from serve.conftest import serving

ray = pytest.importorskip("ray")

SMALL = {"height": "32", "width": "32", "num_inference_steps": "2"}
ROWS = [{"prompt": f"a thing of kind {k}", "seed": k, **SMALL} for k in range(12)]
NODE = {"num_cpus": 2, "object_store_memory": 100 * 2**20}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes: the head, and one that can be lost."""
    from ray.cluster_utils import Cluster

    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}  # else workers wait for all others here
    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 3, "health_check_initial_delay_ms": 0}
    head = {**NODE, "include_dashboard": False, "_system_config": quick}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.add_node(**NODE, resources={"spare": 1})
    ray.init(address=made.address, log_to_driver=False)
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def setup_of(folder, target, rows=1, load=True):
    options = {"dtype": "float32", "device": None, "workflow": None, "scheduler": None, "guider": None}
    read = functools.partial(loaded, str(folder), load=load, **options)
    target.mkdir(exist_ok=True)
    return Setup(read, row_inputs, target, 1, dict(enumerate(ROWS[:rows])))


def contents(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.png")}


def driven(workers, folder, rows, **options):
    with locked(folder):
        return Driver(workers, folder, lambda shared: Plan.of(shared, rows, rows, ".png"), **options).run()


@pytest.fixture(scope="module")
def alone(folder, tmp_path_factory):
    """All rows by one maker in this process."""
    place = tmp_path_factory.mktemp("alone") / "files"
    maker = Maker(setup_of(folder, place))
    for row in Plan.of(maker.shared(), ROWS, ROWS, ".png").rows:
        maker.make(row).result()
    return contents(place)


def when(files, folder, act):
    """Do something as soon as so many files are there."""

    def wait():
        while len(list(folder.glob("*.png"))) < files:
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_an_actor_and_a_node_are_lost_and_no_file_is(cluster, folder, alone, tmp_path):
    files = tmp_path / "files"
    workers = RayWorkers(setup_of(folder, files), 2)
    spare = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)

    def kill_one():
        with contextlib.suppress(ray.exceptions.RayError, ProcessLookupError):
            os.kill(ray.get(workers._actors[0].pid.remote()), signal.SIGKILL)

    first = when(2, files, kill_one)
    second = when(6, files, lambda: cluster.remove_node(spare, allow_graceful=False))
    report = driven(workers, files, ROWS)
    first.join(), second.join()
    cluster.add_node(**NODE, resources={"spare": 1})
    assert (report.made >= len(ROWS), report.failed) == (True, {})
    assert report.deaths >= 1
    assert contents(files) == alone


def test_stages_on_two_nodes_make_the_same_files(cluster, folder, alone, tmp_path):
    files = tmp_path / "files"
    workers = RayStages(setup_of(folder, files, load=False), (1, 1, 1), places={"decoding": "spare"})
    report = driven(workers, files, ROWS[:8])
    made = contents(files)
    assert (report.made, report.failed, report.deaths) == (8, {}, 0)
    assert made == {name: alone[name] for name in made}


def replicas():
    """The processes of Serve's replicas of this cluster."""
    from benchmarks.fleet import descendants

    return [pid for pid, words in descendants(os.getpid()) if words.startswith("ray::ServeReplica")]


@pytest.mark.slow
def test_replicas_die_and_every_job_ends_once(cluster, tmp_path):
    pytest.importorskip("ray.serve")
    options = ("--backend", "ray", "--address", cluster.address, "--replicas", "2", "--batch", "1", "--attempts", "4")
    with serving(tmp_path / "data", *options, patience=400) as server:
        assert server.make("a thing of kind 0", seed=0)["state"] == "queued"
        jobs = [server.make(f"a thing of kind {k % 4}", seed=k % 4) for k in range(8)]
        server.wait(jobs[0], until=("running", "done"), seconds=200)
        victim = replicas()[0]
        os.kill(victim, signal.SIGKILL)
        ended = [server.wait(job, seconds=400) for job in jobs]
        assert [job["state"] for job in ended] == ["done"] * 8, [job["error"] for job in ended]
        pictures = [server.picture(job) for job in ended]
        assert [len(job["outputs"]) for job in ended] == [1] * 8
        pixels = [read_pixels(picture) for picture in pictures]
        assert pixels[:4] == pixels[4:]
        assert len(set(pixels)) == 4
        told = server.http.get("/metrics").text
        assert sum(map(float, re.findall(r"^lockstep_worker_restarts_total\S* (\S+)$", told, re.MULTILINE))) >= 1


def read_pixels(data):
    import io

    from PIL import Image

    return Image.open(io.BytesIO(data)).tobytes()
