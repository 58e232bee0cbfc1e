"""The site is built as `make docs` builds it: strictly, from nothing but this folder, and it wants no network."""

import os
import re
import subprocess
import sys

import pytest

import lockstep
from docs.pages import ROOT

FETCHED = re.compile(r'(?:<script[^>]*src|<link[^>]*href|<img[^>]*src)="(https?:[^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"}
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_nothing_is_fetched_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    fetched = {(page.name, url) for page in pages for url in FETCHED.findall(page.read_text(encoding="utf-8"))}
    assert fetched == set()


def test_every_public_name_is_in_the_reference(site):
    listed = (site / "reference" / "index.html").read_text(encoding="utf-8")
    assert [name for name in lockstep.__all__ if name not in listed and not name.startswith("_")] == []
    for room in ("blocks", "guiders", "media", "parity", "schedulers", "attention"):
        names = __import__(f"lockstep.{room}", fromlist=["__all__"]).__all__
        assert [name for name in names if name not in listed] == [], room


def test_lists_tables_and_code_came_out_as_such(site):
    """GitHub wants no empty line before them, the site's Markdown does."""
    for page in site.glob("*.html"):
        text = re.sub(r"<(pre|code).*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        article = text.partition("<article")[2].partition("</article>")[0]
        assert not re.search(r"^(<p>)?(\| |- \*\*|```)", article, re.MULTILINE), page.name


def test_what_a_page_of_the_house_points_at_is_in_the_site(site):
    assert "Trace" in (site / "source" / "examples" / "writers" / "ptrace_numpy.py.html").read_text(encoding="utf-8")
