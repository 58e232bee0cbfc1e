"""The check of skips: an allowed one passes, any other one fails the run and is named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CONFTEST = """
from skips import AllowedSkips
def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(AllowedSkips())
"""


def run(folder, reason, *options):
    """Exit code and output of a run with a test that is skipped for a reason, and one that passes."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(
        f"import pytest\ndef test_skipped(): pytest.skip({reason!r})\ndef test_fine(): pass"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:lockstep_parity", *options]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [*command, "--rootdir", folder, folder], cwd=folder, capture_output=True, text=True, timeout=120,
        env={**inherited, "PYTHONPATH": str(HERE)},
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two processes"])
def test_a_skip_that_is_not_on_the_list_fails_the_run(tmp_path, options):
    (tmp_path / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_module')")
    code, said = run(tmp_path, "no such thing here", *options)
    assert code == 1, said
    told = said.partition("not allowed to")[2]
    assert "test_it.py::test_skipped: no such thing here" in told
    assert "test_module.py: could not import 'no_such_module'" in told


def test_a_skip_on_the_list_passes(tmp_path):
    code, said = run(tmp_path, "slow: run with RUN_SLOW=1")
    assert code == 0, said


def test_some_skips_are_allowed_outside_of_ci_only():
    from skips import AllowedSkips

    browser = ("tests/parity/test_report.py::test_the_page", "needs Chromium")
    outcomes = []
    for environment in ({}, {"CI": "1"}, {"CI": "1", "NO_CHROMIUM": "1"}):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("CI", "NO_CHROMIUM"):
                patch.delenv(name, raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            outcomes.append(AllowedSkips().allows(*browser))
    assert outcomes == [True, False, True]
    assert not AllowedSkips().allows("tests/parity/test_report.py::test_the_page", "needs a browser")
