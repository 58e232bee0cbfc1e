"""The command as a function."""

import pytest

from lockstep.cli.app import run


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
