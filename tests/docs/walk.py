"""A walk along a page: each block is done as a reader does it, in one folder, and what is printed is compared."""

import contextlib
import importlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from docs.pages import ROOT
from kit.scaffold import install
from lockstep.cli.app import run
from lockstep.cli.exit_codes import ExitCode
from lockstep.kit.new import package_at

FILE = re.compile(r"^# ([\w./-]+\.\w+)\n")  # a block that begins so is the file of that name
ANSWERS = {  # what a command may end with in place of 0, where the page shows it
    "BUG: first difference": {ExitCode.BUG, ExitCode.DIFFERENT},
    "First difference": {ExitCode.BUG},
    "Cause: ": {ExitCode.BUG},
    "✗": {ExitCode.CHECK_FAILED},
    "In force, reference and candidate": {ExitCode.DIFFERENT},
}


def plain(text):
    """What does not depend on the machine: no digits, no bars, no frame, no line ends."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", re.sub(r"[▁-█]+", "bar", re.sub(r"\d+", "0", text))).split())


def assert_printed(shown, printed, where):
    """What a page shows was printed, with the notes of the error stream or without; `…` stands for anything."""
    *others, last = printed
    for one in others:
        with contextlib.suppress(AssertionError):
            return assert_is(shown, one, where)
    return assert_is(shown, last, where)


def assert_is(shown, printed, where):
    printed, at = plain(printed), 0
    parts = [part.strip() for part in plain(shown).split("…")]
    for number, part in enumerate(parts):
        found = printed.find(part, at)
        assert found >= 0, f"{where} shows\n{part}\n\nprinted was\n{printed}"
        assert number or not part or found == 0, f"{where}: before what is shown was printed\n{printed[:found]}"
        at = found + len(part)
    assert not parts[-1] or at == len(printed), f"{where}: behind what is shown was printed\n{printed[at:]}"


class Walk:
    """The folder of a reader, the names of their Python, and where they stand."""

    def __init__(self, folder, names=None, instead=()):
        self.folder = self.place = Path(folder)
        self.names = {"__name__": "page", **(names or {})}
        self.instead = list(instead)
        self.printed = ["", ""]  # on both streams, and on the first alone

    def do(self, block):
        """One block."""
        code = block.code
        for old, new in self.instead:
            code = code.replace(old, new)
        with contextlib.chdir(self.place):
            getattr(self, f"do_{block.language}")(code, block)

    def do_python(self, code, block):
        if name := FILE.match(code):
            Path(name[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(name[1]).write_text(code, encoding="utf-8")
            return
        with captured() as printed:
            exec(compile("\n" * block.line + code, block.page, "exec"), self.names)
        self.printed = [stream.getvalue() for stream in printed]

    def do_text(self, code, block):
        """Drawings; right behind Python it is what that prints."""
        if block.follows == "python":
            assert_printed(code, self.printed, block.where)

    def do_toml(self, code, block):
        tomllib.loads(code)

    def do_json(self, code, block):
        json.loads(code)

    def do_diff(self, code, block):
        """`--- FILE`, then lines that go and lines that come in their place."""
        name, *lines = code.splitlines()
        assert name.startswith("--- "), f"{block.where}: the first line of a diff names its file"
        path = Path(name.removeprefix("--- "))
        before, after = ("".join(f"{one[1:]}\n" for one in lines if one[0] != other) for other in "+-")
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{block.where}: {path} has these lines {text.count(before)} times:\n{before}"
        path.write_text(text.replace(before, after), encoding="utf-8")

    def do_sh(self, code, block):
        for line in code.replace("\\\n", " ").splitlines():
            self.command(line, "", block)

    do_bash = do_sh

    def do_console(self, code, block):
        for part in re.split(r"^(?=\$ )", code, flags=re.MULTILINE):
            if part.strip():
                line, _, shown = part.partition("\n")
                self.command(line.removeprefix("$ "), shown, block)

    def command(self, line, shown, block):
        """A line of a shell; commands of Lockstep in this process, which has torch already."""
        wanted = next((codes for sign, codes in ANSWERS.items() if sign in " ".join(shown.split())), {ExitCode.DONE})
        printed = ["", ""]
        for words in split_at_and(shlex.split(line, comments=True)):
            with contextlib.chdir(self.place):
                code, printed = getattr(self, f"run_{words[0]}", self.run_other)(words, block)
            assert code in wanted, f"{block.where}: {line}\nended with {code}\n{printed[0]}"
        if shown.strip():
            assert_printed(shown, printed, f"{block.where}: {line}")

    def run_lockstep(self, words, block):
        self.forget()
        if words[1] == "serve":  # the page about serving starts one
            words = [*words, "--help"]
        with captured() as printed, pytest.raises(SystemExit) as leave:
            run(words[1:])
        return leave.value.code, [stream.getvalue() for stream in printed]

    def forget(self):
        """A command of a shell begins anew: what it imports is what the files say now."""
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(f"{self.folder}/"):
                del sys.modules[name]
        importlib.invalidate_caches()

    def run_cd(self, words, block):
        self.place = (self.place / words[1]).resolve()
        return 0, ["", ""]

    def run_cp(self, words, block):
        shutil.copy(*words[1:])
        return 0, ["", ""]

    def run_make(self, words, block):
        """That the targets are there; what they do has tests of its own, and takes minutes."""
        makefile = Path("Makefile") if Path("Makefile").is_file() else ROOT / "Makefile"
        targets = re.findall(r"^([\w-]+):", makefile.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(words[1:]) <= set(targets), block.where
        return 0, ["", ""]

    def run_pip(self, words, block):
        """The package of this folder becomes known, as if it were installed."""
        assert words[1:] == ["install", "-e", "."], f"{block.where}: only a package of the page's own is installed"
        install(package_at(self.place))
        sys.path[:0] = [str(self.place / "src"), str(self.place / "tests")]
        return 0, ["", ""]

    def run_python(self, words, block):
        quiet = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # of the outer run
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, env=quiet)
        return done.returncode, [done.stdout + done.stderr, done.stdout]

    def run_pytest(self, words, block):
        return self.run_python(["python", "-m", "pytest", "-p", "no:cacheprovider", *words[1:]], block)

    def run_other(self, words, block):
        raise AssertionError(f"{block.where}: nobody runs {words[0]!r}: teach tests/docs/walk.py, or mark the block")


def split_at_and(words):
    """The commands between `&&`."""
    commands = [[]]
    for word in words:
        if word == "&&":
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


class Output(io.StringIO):
    """Standard output, which is written to what both streams share as well."""

    def __init__(self, shared):
        super().__init__()
        self.shared = shared

    def write(self, text):
        self.shared.write(text)
        return super().write(text)


@contextlib.contextmanager
def captured():
    """What is printed: on both streams, and on the first alone."""
    both = io.StringIO()
    out = Output(both)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(both):
        yield both, out
