"""The page on blocks: every line of Python on it runs, in the order of the page."""

import re
import tomllib
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "blocks.md"


def snippets(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_every_snippet_runs(capsys):
    found = snippets("python")
    assert len(found) >= 4
    page: dict[str, object] = {"__name__": "page"}
    for number, snippet in enumerate(found, start=1):
        exec(compile(snippet, f"{PAGE.name}, snippet {number}", "exec"), page)
    assert "Watch: latents" in capsys.readouterr().out


def test_the_entry_point_is_the_one_that_is_looked_for():
    from lockstep.pipelines.finding import ENTRY_POINTS

    (snippet,) = snippets("toml")
    assert list(tomllib.loads(snippet)["project"]["entry-points"]) == [ENTRY_POINTS]


def test_the_page_of_the_house_leads_here():
    assert "(blocks.md)" in (PAGE.parent / "architecture.md").read_text(encoding="utf-8")
