"""The page: what it is served as, and that no part of it could break its own policy."""

import re
from importlib import resources

STUDIO = resources.files("lockstep.serve") / "studio"


def test_the_page_and_its_parts_are_served_with_the_strict_policy(live):
    page = live.http.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for address in re.findall(r'(?:href|src)="(/[^"]+)"', page.text):
        assert live.http.get(address).status_code == 200, address


def test_nothing_of_it_is_inline_foreign_or_made_of_text():
    page = (STUDIO / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|style=|\son[a-z]+=|<script(?![^>]* src=)|https?:", page)
    script = (STUDIO / "studio.js").read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|https?:", script)


def test_every_route_that_the_page_asks_for_exists(live):
    script = (STUDIO / "studio.js").read_text(encoding="utf-8")
    known = live.http.get("/openapi.json").json()["paths"]
    for path in re.findall(r'["`](/api/[^"`?]*)', script):
        plain = re.sub(r"\$\{[^}]*\}", "{job}", path)
        assert plain in known, path
