"""The guides in `.ai/`: every command of a skill is run on a toy model, so that a skill cannot go stale."""

import re
import subprocess
from pathlib import Path

import pytest

from kit.scaffold import importable, install
from lockstep.kit.new import package_at

ROOT = Path(__file__).parents[2]
SKILLS = ROOT / ".ai" / "skills"


def commands(path):
    """The lines of every shell block of a page."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


@pytest.mark.parametrize("name", ["model-integration", "parity-testing"])
def test_a_skill_says_when_it_is_to_be_read(name):
    text = (SKILLS / name / "SKILL.md").read_text(encoding="utf-8")
    front = re.match(r"---\nname: (\S+)\ndescription: >\n((?:  .+\n)+)---\n", text)
    assert front[1] == name
    assert "Use it when" in " ".join(front[2].split())
    assert name in (ROOT / ".ai" / "AGENTS.md").read_text(encoding="utf-8")


def test_every_command_of_the_skills_works_in_their_order(lockstep, tmp_path, monkeypatch):
    ran = 0
    lines = [line for name in ("model-integration", "parity-testing") for line in commands(SKILLS / name / "SKILL.md")]
    home = package_at(tmp_path / "sunrise-models")
    for line in lines:
        program, *words = line.split()
        if program == "cd":
            monkeypatch.chdir(words[0])
        elif line == "pip install -e .":
            install(home)
        elif program == "make":
            targets = re.findall(r"^(\w+):", (home.root / "Makefile").read_text(), re.MULTILINE)
            assert set(words) <= set(targets)
        else:
            assert program == "lockstep", line
            with importable(home):
                code, out, err = lockstep(*words)
            assert code == 0, f"{line}\n{out}\n{err}"
            ran += 1
    assert ran >= 8


def test_links_are_made_where_the_tools_look_and_removed_again(tmp_path):
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    (tmp_path / ".ai" / "skills").mkdir(parents=True)
    (tmp_path / ".ai" / "AGENTS.md").write_text("guide\n")

    def make(target):
        subprocess.run(["make", "-s", target], cwd=tmp_path, check=True, capture_output=True)

    for target, page, folder in (("codex", "AGENTS.md", ".agents"), ("claude", "CLAUDE.md", ".claude")):
        make(target)
        make(target)
        assert (tmp_path / page).read_text() == "guide\n"
        assert (tmp_path / folder / "skills").resolve() == tmp_path / ".ai" / "skills"
    make("clean-ai")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ai", "Makefile"]
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"/AGENTS.md", "/CLAUDE.md", "/.agents/", "/.claude/"} <= set(ignored)


def test_links_of_the_pages_lead_somewhere():
    for page in (ROOT / ".ai").rglob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
