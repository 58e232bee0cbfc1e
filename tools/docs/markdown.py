"""Pages are written for GitHub, where lists and tables need no empty line before them; the site's Markdown wants it."""

from __future__ import annotations

import re

FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
ITEM = re.compile(r"^( *)(?:[-*+]|\d+\.) ")


def repaired(text: str) -> str:
    """An empty line before each list and table, and inner lists set in by four."""
    lines: list[str] = []
    fence, front = "", text.startswith("---\n")
    for number, line in enumerate(text.splitlines()):
        found = FENCE.match(line)
        if front:
            front = number == 0 or line != "---"
        elif fence:
            fence = "" if found and found[1].startswith(fence) and line.strip() == found[1] else fence
        elif found:
            if lines and ITEM.match(lines[-1]) is None and lines[-1].strip() and not line.startswith(" "):
                lines.append("")
            fence = found[1]
        else:
            before = lines[-1] if lines else ""
            if begins(line, before):
                lines.append("")
            line = set_in(line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def begins(line: str, before: str) -> bool:
    """Whether a list or a table begins here, right behind something else."""
    if not before.strip():
        return False
    if line.startswith("|"):
        return not before.startswith("|")
    return bool(ITEM.match(line)) and not line.startswith(" ") and not (ITEM.match(before) or before.startswith(" "))


def set_in(line: str) -> str:
    """Inner items two spaces in (or three, under a number) are four spaces in for the site."""
    item = ITEM.match(line)
    depth = len(item[1]) if item else 0
    return "    " * ((depth + 2) // 4 or 1) + line.lstrip() if 0 < depth < 4 else line
