"""What type checkers see: a user's script gets an error at each wrong line, and at no other."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lockstep

ROOT = Path(__file__).parents[1]
SOURCES = Path(lockstep.__file__).parents[1]
SCRIPT = ROOT / "tests" / "fixtures" / "typing" / "user_script.py"


def wrong_lines(path):
    return {number for number, line in enumerate(path.read_text().splitlines(), 1) if line.endswith("# error")}


def run_mypy(path):
    """Line -> the errors that mypy finds there; what it knows of torch and Lockstep is kept for the next time."""
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "user_script")]
    options = ["--config-file", os.devnull, "--python-version", "3.11", "--follow-imports", "silent", *cache]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--output", "json", str(path)],
        env={**os.environ, "MYPYPATH": str(SOURCES)}, cwd=path.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode in (0, 1), run.stdout + run.stderr
    entries = [json.loads(line) for line in run.stdout.splitlines()]
    return _by_line((entry["line"], entry["message"]) for entry in entries if entry["severity"] == "error")


def run_pyright(path, folder):
    """Line -> the errors that pyright finds there."""
    settings = {"extraPaths": [str(SOURCES)], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    shutil.copy(path, folder)
    run = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = [entry for entry in json.loads(run.stdout)["generalDiagnostics"] if entry["severity"] == "error"]
    return _by_line((entry["range"]["start"]["line"] + 1, entry["message"]) for entry in found)


def _by_line(entries):
    lines = {}
    for line, message in entries:
        lines.setdefault(line, []).append(message)
    return lines


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_type_checker_finds_the_wrong_lines_of_a_users_script(checker, tmp_path):
    found = run_mypy(SCRIPT) if checker == "mypy" else run_pyright(SCRIPT, tmp_path)
    wanted = wrong_lines(SCRIPT)
    assert {line: found[line] for line in found if line not in wanted} == {}
    assert wanted - found.keys() == set(), "wrong lines that went unnoticed"
