"""The pages and their blocks: what a page shows, and which blocks it says are not run here, and why."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ("docs/log.md", "docs/decisions/", "docs/integrations/")  # of a day: not run again
FOLLOWED = {  # pages that another test follows, with the fixtures of its room
    "docs/serving.md": "tests/serve/test_docs.py",
    ".ai/skills/model-integration/SKILL.md": "tests/kit/test_skills.py",
    ".ai/skills/parity-testing/SKILL.md": "tests/kit/test_skills.py",
}
RUN = ("python", "console", "sh", "bash", "diff", "toml", "json", "text")
SHOWN = ("cpp", "rust")  # languages that need a compiler: always with a mark
MARKS = {  # what stands in a line above a block -> what it means
    re.compile(r"^\*Not run by the tests: .+\*$"): "not run",
    re.compile(r"^\*Run by the tests with RUN_SLOW=1: .+\*$"): "slow",
    re.compile(r"^\*Run by the tests where `(\w+)`(?: and `(\w+)`)? (?:is|are) installed\.\*$"): "needs",
}
FENCE = re.compile(r"^```(.*)$")


@dataclass(frozen=True)
class Block:
    """A block of a page, with what stands around it."""

    page: str
    line: int
    language: str
    code: str
    mark: str = ""  # "", "not run", "slow" or "needs jax"
    follows: str = ""  # the language of the block right before it, with nothing between
    after: str = ""  # the text behind it

    @property
    def where(self):
        return f"{self.page}:{self.line}"


def pages():
    """Every page of the project, by its path."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".ai").rglob("*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found if not path.is_symlink())


def is_record(page):
    return page.startswith(RECORDS)


def blocks(page):
    """The blocks of a page, in its order; a mark under the title is for all of them."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    found, start, last_end = [], None, 0
    whole = mark_of(lines[1]) if len(lines) > 1 else ""
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if not fence:
            continue
        if start is None:
            start = number
            continue
        assert fence[1] == "", f"{page}:{number + 1}: a block begins inside of another"
        above = [text for text in lines[last_end:start] if text.strip()]
        found.append(
            Block(
                page, start + 1, FENCE.match(lines[start])[1], "\n".join(lines[start + 1 : number]) + "\n",
                mark_of(above[-1]) or whole if above else whole,
                found[-1].language if found and not above else "",
                "\n".join(lines[number + 1 : number + 4]),
            )
        )  # fmt: skip
        start, last_end = None, number + 1
    assert start is None, f"{page}: a block does not end"
    return found


def mark_of(line):
    """What a line above a block says about running it."""
    for mark, meaning in MARKS.items():
        if found := mark.match(line):
            return " ".join([meaning, *filter(None, found.groups())])
    return ""
