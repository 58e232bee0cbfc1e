"""What pages say besides their blocks."""

import tomllib

from docs.pages import ROOT, blocks
from lockstep.extensions import GROUPS


def test_the_entry_points_of_the_pages_are_the_ones_that_are_looked_for():
    for page in ("docs/blocks.md", "docs/integrating.md"):
        (snippet,) = [block.code for block in blocks(page) if block.language == "toml"]
        assert set(tomllib.loads(snippet)["project"]["entry-points"]) <= set(GROUPS.values())


def test_the_page_of_the_house_leads_to_the_page_about_blocks():
    assert "(blocks.md)" in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_page_about_guiders_names_each_of_them():
    from lockstep import guiders

    text = (ROOT / "docs" / "guiders.md").read_text(encoding="utf-8")
    known = [name for name in guiders.__all__ if name.endswith("Guidance") and name != "BaseGuidance"]
    assert [name for name in known if f"| `{name}` |" not in text] == []
