"""A tiny model's folder, and the command as a function."""

import pytest

from lockstep.cli.app import run
from pipelines import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save_folder(tmp_path_factory.mktemp("sd"))


@pytest.fixture
def lockstep(capsys, tmp_path, monkeypatch):
    """Runs the command in a folder of its own: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words):
        with pytest.raises(SystemExit) as leave:
            run([str(word) for word in words])
        captured = capsys.readouterr()
        return leave.value.code, captured.out, captured.err

    return call
