"""A skip that nobody allowed fails the run: tests/allowed_skips.toml names the allowed ones, each with its reason."""

from __future__ import annotations

import os
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ALLOWED = Path(__file__).parent / "allowed_skips.toml"


class AllowedSkips:
    """A plugin of pytest that collects the skips of a run and ends it with an error if one is not on the list."""

    def __init__(self, allowed: Path = ALLOWED) -> None:
        self.allowed = tomllib.loads(allowed.read_text(encoding="utf-8"))["skip"]
        self.unexpected: list[str] = []

    def allows(self, test: str, reason: str) -> bool:
        return any(
            fnmatchcase(reason, entry["says"])
            and fnmatchcase(test, entry.get("test", "*"))
            and all(name in os.environ for name in entry.get("needs", ()) if "CI" in os.environ)
            for entry in self.allowed
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.note(report)

    def note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            reason = reason.removeprefix("Skipped: ")
            if not self.allows(report.nodeid, reason):
                self.unexpected.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unexpected and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unexpected:
            terminalreporter.section("skipped, and not allowed to", red=True)
            terminalreporter.write_line("\n".join(dict.fromkeys(self.unexpected)))
            terminalreporter.write_line(
                "Install what is missing, or add the skip with its reason to tests/allowed_skips.toml."
            )
