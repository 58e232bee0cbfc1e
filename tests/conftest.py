"""What every test shares: no hub, slow tests only when asked for, no other skip than the allowed ones."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["COLUMNS"] = "200"  # a console keeps the width that it began with

import pytest
import torch

from skips import AllowedSkips


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # with several processes, the one that hears from all of them
        config.pluginmanager.register(AllowedSkips())


def pytest_collection_modifyitems(items):
    if os.environ.get("RUN_SLOW") == "1":
        return
    skip = pytest.mark.skip(reason="slow: run with RUN_SLOW=1")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A tiny Stable Diffusion in the published layout, to be read only."""
    from pipelines import tiny

    return tiny.save_folder(tmp_path_factory.mktemp("sd"))


@pytest.fixture
def lockstep(capsys, tmp_path, monkeypatch):
    """Runs the command in a folder of its own: exit code, standard output, standard error."""
    from lockstep.cli.app import run

    monkeypatch.chdir(tmp_path)

    def call(*words):
        with pytest.raises(SystemExit) as leave:
            run([str(word) for word in words])
        captured = capsys.readouterr()
        return leave.value.code, captured.out, captured.err

    return call
