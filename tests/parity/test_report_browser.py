"""The page in a real browser: it draws, its script runs, and it asks the network for nothing."""

import shutil
import subprocess

import pytest
from test_report import different, write_trace  # noqa: F401: `different` is a fixture

from lockstep.parity import report as reports

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


def browse(page, tmp_path, *more):
    """Standard output and the console's lines."""
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--enable-logging=stderr",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}", *more, page.as_uri(),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return result.stdout, [line for line in result.stderr.splitlines() if "CONSOLE" in line]


def test_the_page_draws_without_a_console_message(different, tmp_path):  # noqa: F811
    page = reports.write_html(different, tmp_path / "report.html")
    probe = (
        "<script>document.title = [document.querySelectorAll('svg circle').length, document.querySelectorAll('.cell').length,"
        "[...document.images].every((image) => image.naturalWidth > 0), document.documentElement.scrollWidth <= innerWidth].join()</script>"
    )
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{probe}</body>"), encoding="utf-8")
    dom, console = browse(page, tmp_path, "--dump-dom", "--window-size=1240,900")
    assert console == []
    circles, cells, images, fits = dom.partition("<title>")[2].partition("<")[0].split(",")
    assert int(circles) >= 9
    assert int(cells) >= 8
    assert (images, fits) == ("true", "true")


def test_a_broken_script_would_be_seen(tmp_path):
    page = tmp_path / "broken.html"
    page.write_text("<!doctype html><title>x</title><script>nothing.here()</script>", encoding="utf-8")
    assert browse(page, tmp_path, "--dump-dom")[1]
