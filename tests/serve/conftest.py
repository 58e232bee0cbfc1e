"""A server as people run it: its own process, the embedded model, a folder of its own."""

import json
import os
import select
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx2
import pytest
import torch
from safetensors.torch import save_file

from lockstep.models.controlnets.controlnet import ControlNetModel
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel

FAST = {"num_inference_steps": 4}
ENDS = ("done", "failed", "cancelled")


class Running:
    """A server process, and requests to it."""

    def __init__(self, process, url, data, log, token=None):
        self.process, self.url, self.data, self.log, self.token = process, url, data, log, token
        self.http = self.client()

    def client(self, **headers):
        own = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return httpx2.Client(base_url=self.url, headers={**own, **headers}, timeout=60)

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1].strip("/"))

    def make(self, prompt="a red heart", inputs=None, headers=None, **wish):
        """Ask for a job."""
        body = {"inputs": {"prompt": prompt, **FAST, **(inputs or {})}, **wish}
        answer = self.http.post("/api/jobs", json=body, headers=headers or {})
        assert answer.status_code == 202, answer.text
        return answer.json()

    def wait(self, job, *, until=ENDS, seconds=60):
        """The job, when it is in one of these states."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.http.get(f"/api/jobs/{job['id']}").json()
            if found["state"] in until:
                return found
            time.sleep(0.02)
        raise AssertionError(f"still {found['state']} after {seconds} s: {found}")

    def made(self, *args, **wish):
        found = self.wait(self.make(*args, **wish))
        assert found["state"] == "done", found["error"]
        return found

    def picture(self, job, n=0):
        return self.http.get(f"/api/jobs/{job['id']}/outputs/{n}").content

    def worker(self):
        """The process id of the worker."""
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return int(children.stdout.split()[0])


@contextmanager
def serving(data, *options, token=None, environment=None, patience=60):
    """A server for as long as the block runs."""
    words = [
        sys.executable,
        "-m",
        "lockstep",
        "serve",
        "--port",
        "0",
        "--data",
        str(data),
        "--json",
        "--dtype",
        "float32",
    ]
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    surroundings.pop("LOCKSTEP_TOKEN", None)
    if token:
        surroundings["LOCKSTEP_TOKEN"] = token
    log = data.with_suffix(".log")
    with log.open("a") as errors:
        process = subprocess.Popen(
            [*words, *options], stdout=subprocess.PIPE, stderr=errors, text=True, env=surroundings
        )
    try:
        assert select.select([process.stdout], [], [], 60)[0], "the server says nothing"
        line = process.stdout.readline()
        assert line, log.read_text()
        server = Running(process, json.loads(line)["url"].rstrip("/"), data, log, token)
        wait_until_up(server, patience)
        try:
            yield server
        finally:
            server.http.close()
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def wait_until_up(server, patience=60):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            if server.http.get("/health").json()["ready"]:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("the server did not become ready")


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """One server for all tests that leave it as it was."""
    with serving(tmp_path_factory.mktemp("serve")) as server:
        yield server


@pytest.fixture(scope="session")
def frugal(tmp_path_factory):
    """A server that refuses every wish for its size, so that nothing is computed."""
    with serving(tmp_path_factory.mktemp("frugal"), "--max-pixels", "64") as server:
        yield server


@pytest.fixture(scope="session")
def equipped(tmp_path_factory):
    """A server with a ControlNet and a LoRA for the embedded model."""
    folder = tmp_path_factory.mktemp("parts")
    unet = UNet2DConditionModel.from_pretrained("lockstep/emoji", subfolder="unet", dtype="float32")
    net = ControlNetModel.from_unet(unet)
    torch.manual_seed(0)
    for block in (*net.controlnet_down_blocks, net.controlnet_mid_block):
        torch.nn.init.normal_(block.weight, std=0.05)
    net.save_pretrained(folder / "edges")
    save_lora(unet, folder / "style.safetensors")
    options = ("--controlnet", f"edges={folder / 'edges'}", "--lora", f"style={folder / 'style.safetensors'}")
    with serving(tmp_path_factory.mktemp("equipped"), *options) as server:
        yield server


def save_lora(unet, path):
    name, layer = next((n, m) for n, m in unet.named_modules() if n.endswith("attn2.to_q"))
    rows, columns = layer.weight.shape
    make = torch.Generator().manual_seed(1)
    down, up = torch.randn(2, columns, generator=make), torch.randn(rows, 2, generator=make)
    save_file({f"unet.{name}.lora_A.weight": down, f"unet.{name}.lora_B.weight": up}, path)
