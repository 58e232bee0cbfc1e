"""What docs/serving.md shows runs as it stands, against a live server; and what deploy/ says is what there is."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest
import typer

from lockstep.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python|bash)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
RUNNABLE = [block for block in BLOCKS if block[1].strip() != "lockstep serve"]


@pytest.mark.parametrize(("language", "code"), RUNNABLE, ids=[code.split("\n")[0][:40] for _, code in RUNNABLE])
def test_an_example_runs(live, tmp_path, language, code):
    code = code.replace("http://127.0.0.1:7860", live.url).replace("7860", str(live.port))
    words = [sys.executable, "-c", code]
    if language == "bash":
        assert shutil.which("curl") or "curl" not in code, "the examples want curl"
        here = tmp_path / "bin"
        here.mkdir()
        (here / "lockstep").write_text(f'#!/bin/sh\nexec {sys.executable} -m lockstep "$@"\n')
        (here / "lockstep").chmod(0o755)
        words = ["bash", "-euc", code.replace("curl -s", "curl -sf")]
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    ran = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PATH": path, "LOCKSTEP_URL": live.url}
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def serve_options():
    command = typer.main.get_command(app).commands["serve"]
    return {name for param in command.params for name in param.opts}


def test_every_option_that_is_named_exists():
    for file in (ROOT / "docs" / "serving.md", *(ROOT / "deploy").iterdir()):
        text = file.read_text(encoding="utf-8")
        for line in re.findall(r"lockstep serve[^\n`]*|(?<=`)--[a-z-]+|ENTRYPOINT.*|command:.*", text):
            for option in re.findall(r"--[a-z][a-z-]+", line):
                assert option in serve_options() or option == "--max-", f"{file.name}: {option}"


def test_the_unit_and_the_image_start_the_server_with_their_data_folder():
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(ROOT / "deploy" / "lockstep.service", encoding="utf-8")
    assert unit["Service"]["ExecStart"].endswith(f"lockstep serve --data /var/lib/{unit['Service']['StateDirectory']}")
    image = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    assert 'ENTRYPOINT ["lockstep", "serve", "--host", "0.0.0.0", "--data", "/data"]' in image
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {"serve", "video"} <= set(extras)
    assert "[serve,video]" in image
    assert "setup.py" in image, "the kernels are built from it"
    for copied in re.findall(r"^COPY (.*) \S+$", image, re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split())
