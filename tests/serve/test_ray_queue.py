"""The server in front of a cluster that is not up yet: what is asked for is checked, queued and answered at once."""

import asyncio

import pytest

from lockstep.serve.metrics import Metrics
from lockstep.serve.problems import Problem
from lockstep.serve.ray_workers import RayWorker
from lockstep.serve.server import Server
from lockstep.serve.settings import Settings
from lockstep.serve.wishes import Wish


def test_a_job_waits_in_the_queue_while_no_replica_is_up(tmp_path, folder, monkeypatch):
    async def never(self):
        await asyncio.Event().wait()

    monkeypatch.setattr(RayWorker, "_spawn", never)
    settings = Settings(tmp_path / "data", {"tiny": str(folder)}, backend="ray", replicas=(1, 2))
    server = Server(settings, Metrics())
    server.open()

    async def asked():
        await server.start()
        try:
            job = await asyncio.wait_for(server.submit(Wish(inputs={"prompt": "a cat"}), client="me", face="api"), 60)
            with pytest.raises(Problem, match="sed"):
                await server.submit(Wish(inputs={"prompt": "a cat", "sed": 1}), client="me", face="api")
            return job.state, server.supervisor.is_ready, [one.pid for one in server.supervisor.workers]
        finally:
            await server.stop()

    assert asyncio.run(asked()) == ("queued", False, [None, None])
