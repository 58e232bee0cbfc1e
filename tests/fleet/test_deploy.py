"""The files of deploy/ for clusters: whole as YAML, and with commands that exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from lockstep.cli.app import app

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def options_of(*path):
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    return {name for param in command.params for name in (*param.opts, *param.secondary_opts)}


@pytest.mark.parametrize(
    ("file", "version", "kind"),
    [
        ("kuberay-batch.yaml", "ray.io/v1", "RayJob"),
        ("kuberay-serve.yaml", "apps/v1", "Deployment"),
        ("kuberay-cluster.yaml", "ray.io/v1", "RayCluster"),
    ],
)
def test_a_manifest_is_whole(file, version, kind):
    documents = list(yaml.safe_load_all((DEPLOY / file).read_text(encoding="utf-8")))
    assert (documents[0]["apiVersion"], documents[0]["kind"]) == (version, kind)
    for document in documents:
        assert {"apiVersion", "kind", "metadata", "spec"} <= set(document)
        assert document["metadata"]["name"].startswith("lockstep")


def test_the_job_of_kuberay_runs_a_batch_on_volumes_that_it_has():
    spec = yaml.safe_load((DEPLOY / "kuberay-batch.yaml").read_text(encoding="utf-8"))["spec"]
    words = shlex.split(spec["entrypoint"])
    assert words[:2] == ["lockstep", "batch"]
    assert {word for word in words if word.startswith("--")} <= options_of("batch", "run")
    cluster = spec["rayClusterSpec"]
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"  # the head makes nothing
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for box in pod["containers"] for mount in box["volumeMounts"]} <= volumes
    (workers,) = cluster["workerGroupSpecs"]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]


def test_the_server_of_kuberay_has_options_that_exist():
    (deployment, *_) = yaml.safe_load_all((DEPLOY / "kuberay-serve.yaml").read_text(encoding="utf-8"))
    (box,) = deployment["spec"]["template"]["spec"]["containers"]
    assert box["command"] == ["lockstep", "serve"]
    assert {word for word in box["args"] if word.startswith("--")} <= options_of("serve")


def test_the_cluster_file_has_what_ray_up_asks_for():
    found = yaml.safe_load((DEPLOY / "ray-cluster.yaml").read_text(encoding="utf-8"))
    assert found["provider"]["type"] == "local"
    assert {"cluster_name", "auth", "setup_commands", "head_start_ray_commands", "worker_start_ray_commands"} <= set(
        found
    )
    assert any("--head" in line for line in found["head_start_ray_commands"])
    assert any("--address=$RAY_HEAD_IP:6379" in line for line in found["worker_start_ray_commands"])
    text = (DEPLOY / "ray-cluster.yaml").read_text(encoding="utf-8")
    (line,) = re.findall(r"`lockstep batch ([^`]*)`", text)
    assert {word for word in shlex.split(line) if word.startswith("--")} <= options_of("batch", "run")
