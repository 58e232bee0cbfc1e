"""The page: what it is served as, and that no part of it could break its own policy."""

import re
from importlib import resources

STUDIO = resources.files("lockstep.serve") / "studio"
SCRIPTS = {file.name: file.read_text(encoding="utf-8") for file in STUDIO.iterdir() if file.name.endswith(".js")}


def test_the_page_and_its_parts_are_served_with_the_strict_policy(live):
    page = live.http.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "trusted-types 'none'" in page.headers["content-security-policy"]
    for address in [*re.findall(r'(?:href|src)="(/[^"]+)"', page.text), *(f"/studio/{name}" for name in SCRIPTS)]:
        assert live.http.get(address).status_code == 200, address
    assert live.http.get("/studio/../app.py").status_code == 404
    assert live.http.get("/studio/index.html").status_code == 404


def test_nothing_of_it_is_inline_foreign_or_made_of_text():
    page = (STUDIO / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|style=|\son[a-z]+=|<script(?![^>]* src=)|https?:", page)
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|https?:(?!//www\.w3\.org/2000/svg)"
    )
    for name, script in SCRIPTS.items():
        assert not re.search(forbidden, script), name
        for imported in re.findall(r'from "([^"]+)"|import "([^"]+)"', script):
            assert "".join(imported).removeprefix("./") in SCRIPTS, (name, imported)


def test_every_route_that_the_page_asks_for_exists(live):
    known = [re.sub(r"\{[^}]*\}", "{}", path) for path in live.http.get("/openapi.json").json()["paths"]]
    asked = {path for script in SCRIPTS.values() for path in re.findall(r'["`](/api/[^"`?]*)', script)}
    assert len(asked) > 12
    for path in asked:
        assert re.sub(r"\$\{[^}]*\}", "{}", path) in known, path
