"""Every block of every page is run, in the page's order, in a folder that has what the page names.

A block that cannot run here says so above itself, in a line that a reader sees: `*Not run by the tests: why.*`,
`*Run by the tests with RUN_SLOW=1: why.*`, `*Run by the tests where `jax` is installed.*`. What is left out is read
all the same: Python has to compile, commands have to exist with the options that they are given.
"""

import ast
import importlib.util
import os
import re
import shlex
import shutil
import sys

import pytest
import typer

from docs.pages import FOLLOWED, ROOT, RUN, SHOWN, blocks, is_record, pages
from docs.settings import INSTEAD, set_up
from docs.walk import Walk, split_at_and
from lockstep import kernels
from lockstep.cli.app import app

NOT_RUN = 16  # blocks that no test runs; a further one is a decision
SLOW = os.environ.get("RUN_SLOW") == "1"
WALKED = [page for page in pages() if not is_record(page) and page not in FOLLOWED and blocks(page)]


@pytest.fixture
def walk(request, tmp_path, monkeypatch):
    """A reader at the first line of a page."""
    page = request.param
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    if shutil.which("clang") is None:  # with which tinygrad compiles
        monkeypatch.setenv("CC", str(ROOT / "examples/writers/gcc_for_tinygrad.sh"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # an edited file is read again within the same second
    path = list(sys.path)
    walk = Walk(tmp_path, set_up(page, tmp_path), INSTEAD.get(page, ()))
    yield walk
    sys.path[:] = path
    walk.forget()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("walk", "page"), [(page, page) for page in WALKED], indirect=["walk"], ids=WALKED)
def test_every_block_of_a_page_runs(walk, page):
    if page in ("README.md", "docs/performance.md") and kernels.library() is None:
        pytest.skip("no kernels were compiled here")
    for block in blocks(page):
        if left_out(block):
            read(block)
        else:
            walk.do(block)


def left_out(block):
    """Whether this run only reads the block, as its mark says."""
    if block.mark.startswith("needs "):
        return not all(importlib.util.find_spec(name) or shutil.which(name) for name in block.mark.split()[1:])
    return block.mark == "not run" or (block.mark == "slow" and not SLOW)


@pytest.mark.parametrize("page", [page for page in pages() if blocks(page)])
def test_every_block_can_be_read(page):
    for block in blocks(page):
        if not is_record(page):
            assert block.language in RUN + SHOWN, f"{block.where}: say the language of the block: {RUN + SHOWN}"
            assert block.language in RUN or block.mark, f"{block.where}: a mark has to say why it is not run"
        read(block)


def test_another_test_follows_what_is_not_walked_here():
    for page, test in FOLLOWED.items():
        text = (ROOT / test).read_text(encoding="utf-8")
        assert page in pages()
        assert all(part in text for part in page.split("/")[-2:]), f"{test} says nothing of {page}"


def test_what_is_not_run_is_counted():
    marked = [block.where for page in pages() for block in blocks(page) if block.mark == "not run"]
    assert len(marked) == NOT_RUN, marked


def read(block):
    """What can be known of a block without running it."""
    if block.language == "python":
        ast.parse(block.code, block.where)
    lines = block.code.replace("\\\n", " ").splitlines() if block.language in ("sh", "bash", "console") else []
    for line in lines:
        if block.language == "console" and not line.startswith("$ "):
            continue
        for words in split_at_and(shlex.split(line.removeprefix("$ "), comments=True)):
            if words[0] == "lockstep":
                known(words[1:], block)


def known(words, block):
    """The command is there, with the options that it is given; a model's inputs are options of `generate`."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        assert words, f"{block.where}: a command is missing"
        name = words[0] if words[0] in command.commands else "run"  # `batch FILE` is `batch run FILE`
        assert name in command.commands, f"{block.where}: there is no command {words[0]!r}"
        command, words = command.commands[name], words[words[0] == name :]
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    if not command.context_settings.get("ignore_unknown_options"):
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert given <= options, f"{block.where}: {command.name} has no {sorted(given - options)}"
