"""The page about the house names files and rooms that are there."""

import re
from pathlib import Path

import lockstep

ROOT = Path(lockstep.__file__).parent
PAGE = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"


def named_files():
    """Every file that the page names, without the family that stands for any."""
    return sorted(set(re.findall(r"`((?:<family>/|[a-z_0-9]+/)*[a-z_0-9]+\.py)`", PAGE.read_text(encoding="utf-8"))))


def test_every_file_that_the_page_names_is_there():
    assert len(named_files()) > 30
    folders = [ROOT, ROOT.parent, ROOT / "pipelines", PAGE.parents[1], PAGE.parents[1] / "tests" / "pipelines"]
    folders += [ROOT / "parity" / room for room in ("comparison", "report")]  # named before their files
    missing = []
    for name in named_files():
        if name.startswith("<family>/"):
            found = any((ROOT / "pipelines").glob(f"*/{name.partition('/')[2]}"))
        else:
            found = any((folder / name).is_file() for folder in folders)
        missing += [] if found else [name]
    assert missing == []


def test_the_drawing_shows_every_room_and_every_family():
    drawing = PAGE.read_text(encoding="utf-8").split("```")[1]
    rooms = [path.parent.name for path in ROOT.glob("*/__init__.py")]
    assert [room for room in rooms if room not in drawing] == []
    families = [path.parent.name for path in (ROOT / "pipelines").glob("*/blocks.py")]
    shown = drawing.replace("stable_diffusion{,_xl,_3}", "stable_diffusion stable_diffusion_xl stable_diffusion_3")
    assert [family for family in families if family not in shown] == []
