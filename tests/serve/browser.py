"""A browser for the tests of the studio: the system's Chromium, driven by Playwright, with every complaint noted."""

import shutil
import time
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"]
SECONDS = 60_000  # a busy machine is no failure


@contextmanager
def browsing():
    """A browser, for as long as the block runs."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Studio:
    """One tab of the studio, and what it complained about."""

    def __init__(self, browser, server, *, width=1280, height=860, theme="light", **more):
        self.server = server
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme, **more)
        self.page = self.context.new_page()
        self.page.set_default_timeout(SECONDS)
        self.complaints, self.foreign = [], []
        self.page.on("console", lambda line: line.type in ("error", "warning") and self.complaints.append(line.text))
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        self.page.on("request", self._note)

    def _note(self, request):
        if not request.url.startswith((self.server.url, "data:", "blob:")):
            self.foreign.append(request.url)

    def __getattr__(self, name):
        return getattr(self.page, name)

    def open(self, view="make"):
        """Go to a view, and wait until it is drawn."""
        here = self.page.url.startswith(self.server.url)
        self.page.goto(f"{self.server.url}/#/{view}")
        if here:
            self.page.evaluate("0")  # the same page, another address
        self.page.locator("#view > *").first.wait_for()
        return self

    def json(self, path):
        return self.server.http.get(path).json()

    def newest(self):
        return next(iter(self.json("/api/jobs?limit=1")["jobs"]), {"seq": 0})

    def made_after(self, seq):
        """The job that was asked for last, when it has ended and the page shows it."""
        end = time.monotonic() + SECONDS / 1000
        while self.newest()["seq"] <= seq:
            assert time.monotonic() < end, "nothing was asked for"
            self.page.wait_for_timeout(20)
        job = self.server.wait(self.newest())
        self.page.locator(f".frame img[src='{job['outputs'][0]['url']}']").wait_for()
        return job

    def width_too_many(self):
        """How far the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - innerWidth")

    def end(self):
        self.context.close()
        assert (self.complaints, self.foreign) == ([], [])
