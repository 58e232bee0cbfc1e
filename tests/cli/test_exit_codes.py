"""One table of exit codes: documented, used by every command, and no number with two meanings."""

import ast
import json
import re
import signal
from pathlib import Path

import pytest
import typer

import lockstep.cli
from lockstep import errors
from lockstep.cli.app import app
from lockstep.cli.exit_codes import ExitCode, exit_code_of, exit_code_of_verdict

ROOT = Path(lockstep.cli.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
TEACHER = ["--teacher", "nowhere"]
# every command with a way to fail, and how it leaves; a command that cannot fail is asked for an option that it has not
FAILURES = [
    (["generate"], ExitCode.WRONG_USE),
    (["generate", "a cat", "--model", "no/such/folder"], ExitCode.NOT_LOADED),
    (["generate", "a cat", "--model", "{damaged}"], ExitCode.NOT_LOADED),
    (["generate", "a cat", "--model", "{foreign}"], ExitCode.UNSUPPORTED),
    (["generate", "a cat", "--device", "cuda:97"], ExitCode.UNSUPPORTED),
    (["generate", "a cat", "--device", "no-such-kind"], ExitCode.WRONG_USE),
    (["generate", "a cat", "--width", "8000000", "--height", "8000000"], ExitCode.UNSUPPORTED),
    (["generate", "a cat", "--scheduler", "flow"], ExitCode.UNSUPPORTED),
    (["replay", "nowhere.png"], ExitCode.NOT_LOADED),
    (["demo", "--seed", "x"], ExitCode.WRONG_USE),
    (["batch", "run", "nowhere.txt", "-o", "folder"], ExitCode.NOT_LOADED),
    (["batch", "verify", "nowhere"], ExitCode.NOT_LOADED),
    (["batch", "pack", "nowhere", "folder"], ExitCode.NOT_LOADED),
    (["capacity", "measure", "-o", "here.json", "--model", "no/such/folder"], ExitCode.NOT_LOADED),
    (["capacity", "plan", "nowhere.json", "--rate", "1"], ExitCode.NOT_LOADED),
    (["capacity", "plan", "nowhere.json"], ExitCode.WRONG_USE),
    (["schema", "nowhere/at/all"], ExitCode.NOT_LOADED),
    (["schema", "--workflow", "text2video"], ExitCode.WRONG_USE),
    (["blocks", "nowhere/at/all"], ExitCode.NOT_LOADED),
    (["schedulers", "--all"], ExitCode.WRONG_USE),
    (["env", "--all"], ExitCode.WRONG_USE),
    (["bench", "nowhere/at/all"], ExitCode.NOT_LOADED),
    (["bench", "--growth", "colour"], ExitCode.WRONG_USE),
    (["tune", "nowhere/at/all"], ExitCode.NOT_LOADED),
    (["tune", "--level", "fast"], ExitCode.WRONG_USE),
    (["inspect", "nowhere.safetensors"], ExitCode.NOT_LOADED),
    (["convert", "nowhere.safetensors", "folder"], ExitCode.NOT_LOADED),
    (["convert", "{damaged}", "file.ckpt"], ExitCode.WRONG_USE),
    (["diff", "nowhere.safetensors", "nowhere.safetensors"], ExitCode.NOT_LOADED),
    (["generate", "a cat", "--model", "nowhere.safetensors"], ExitCode.NOT_LOADED),
    (["lora", "inspect", "nowhere.safetensors"], ExitCode.NOT_LOADED),
    (["lora", "merge", "nowhere", "merged", "--lora", "style.safetensors"], ExitCode.NOT_LOADED),
    (["lora", "extract", "nowhere", "nowhere", "style.safetensors"], ExitCode.NOT_LOADED),
    (["lora", "extract", "nowhere", "nowhere", "style.safetensors", "--rank", "0"], ExitCode.WRONG_USE),
    (["train", "lora", "nowhere", "style"], ExitCode.NOT_LOADED),
    (["train", "lora", "nowhere", "style", "--config", "no-such-settings"], ExitCode.NOT_LOADED),
    (["train", "emoji", "data", "itmes"], ExitCode.WRONG_USE),
    (["train", "emoji", "tokenizer"], ExitCode.NOT_LOADED),
    (["train", "emoji", "latents", *TEACHER], ExitCode.NOT_LOADED),
    (["train", "emoji", "autoencoder", *TEACHER], ExitCode.NOT_LOADED),
    (["train", "emoji", "sketch", *TEACHER], ExitCode.NOT_LOADED),
    (["train", "emoji", "diffusion", *TEACHER], ExitCode.NOT_LOADED),
    (["train", "emoji", "sheet", "sheet.png", *TEACHER], ExitCode.NOT_LOADED),
    (["train", "emoji", "export", "model"], ExitCode.NOT_LOADED),
    (["train", "emoji", "wording", "nowhere"], ExitCode.NOT_LOADED),
    (["train", "emoji", "polish", "nowhere"], ExitCode.NOT_LOADED),
    (["serve", "--host", "0.0.0.0"], ExitCode.WRONG_USE),
    (["serve", "--size-policy", "stretch"], ExitCode.WRONG_USE),
    (["serve", "--device", "banana"], ExitCode.WRONG_USE),
    (["serve", "--dtype", "int8"], ExitCode.WRONG_USE),
    (["serve", "--port", "0", "--data", "/dev/null/data"], ExitCode.UNSUPPORTED),
    (["serve", "--model", "mine=./no/such/folder"], ExitCode.NOT_LOADED),
    (["client", "make", "a cat", "--url", "http://127.0.0.1:9"], ExitCode.NOT_LOADED),
    (["client", "show", "nothing", "--url", "http://127.0.0.1:9"], ExitCode.NOT_LOADED),
    (["client", "cancel", "nothing", "--url", "http://127.0.0.1:9"], ExitCode.NOT_LOADED),
    (["client", "models", "--url", "http://127.0.0.1:9"], ExitCode.NOT_LOADED),
    (["client", "models", "--url", "nonsense"], ExitCode.WRONG_USE),
    (["new", "model", "2fast", "--package", "models"], ExitCode.WRONG_USE),
    (["new", "pipeline", "sunrise", "--workflows", "t2v", "--package", "models"], ExitCode.WRONG_USE),
    (["new", "scheduler", "sunrise"], ExitCode.WRONG_USE),
    (["new", "guider", "../x", "--package", "models"], ExitCode.WRONG_USE),
    (["check", "sunrise", "--package", "nowhere"], ExitCode.NOT_LOADED),
    (["port", "nowhere.py:build"], ExitCode.NOT_LOADED),
    (["port", "nowhere"], ExitCode.WRONG_USE),
    (["parity", "stages", "nowhere.py:build", "nowhere.py:build"], ExitCode.NOT_LOADED),
    (["parity", "stages", "a.py:b", "a.py:b", "--family", "sunrise", "--from", "decode"], ExitCode.WRONG_USE),
    (["parity", "record", "nowhere.py:build"], ExitCode.NOT_LOADED),
    (["parity", "floor", "nowhere.trace"], ExitCode.NOT_LOADED),
    (["parity", "diff", "nowhere.trace", "nowhere.trace"], ExitCode.NOT_LOADED),
    (["parity", "prove", "nowhere.py:build", "nowhere.py:build"], ExitCode.NOT_LOADED),
    (["parity", "explain", "nowhere.trace", "nowhere.trace"], ExitCode.NOT_LOADED),
    (["parity", "zoom", "nowhere.trace", "nowhere.trace"], ExitCode.NOT_LOADED),
    (["parity", "inject", "nowhere.trace", "nowhere.trace", "--at", "net"], ExitCode.NOT_LOADED),
    (["parity", "config", "nowhere"], ExitCode.NOT_LOADED),
    (["parity", "config", "{damaged}", "{foreign}"], ExitCode.NOT_LOADED),
    (["parity", "weights", "nowhere", "nowhere"], ExitCode.NOT_LOADED),
    (["parity", "frames", "nowhere.png", "nowhere.png"], ExitCode.NOT_LOADED),
    (["parity", "mutate", "nowhere.py:build", "--fault", "norm_eps"], ExitCode.NOT_LOADED),
    (["parity", "merge", "nowhere.trace", "-o", "one.trace"], ExitCode.NOT_LOADED),
    (["parity", "mutate", "nowhere.py:build", "--fault", "norm_epss"], ExitCode.WRONG_USE),
]


def commands(command, path=()):
    """Every command that does something, by its words."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield path


@pytest.fixture
def places(folder, tmp_path):
    """A model with a damaged index, and one of a family that Lockstep does not run."""
    index = json.loads((folder / "model_index.json").read_text())
    for name, text in (("damaged", "{"), ("foreign", json.dumps({**index, "_class_name": "FutureVideoPipeline"}))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model_index.json").write_text(text)
    return {"damaged": tmp_path / "damaged", "foreign": tmp_path / "foreign"}


@pytest.mark.parametrize(("words", "code"), FAILURES, ids=lambda value: str(value))
def test_a_failure_leaves_with_its_code_and_says_it_as_json(lockstep, places, words, code):
    words = [word.format(**places) for word in words]
    got, out, err = lockstep(*words)
    assert got == code, err
    assert "Traceback" not in out + err
    got, out, _ = lockstep(*words, "--json")
    if "No such option: --json" not in out:
        assert (got, json.loads(out)["exit_code"]) == (code, code)


def test_every_command_has_a_failure_in_the_table():
    missing = [
        path
        for path in commands(typer.main.get_command(app))
        if not any(tuple(words[: len(path)]) == path for words, _ in FAILURES)
    ]
    assert not missing


def test_every_error_has_a_code():
    def tree(kind):
        return {kind, *(one for child in kind.__subclasses__() for one in tree(child))}

    for kind in tree(errors.LockstepError):
        assert exit_code_of(kind.__new__(kind)) in ExitCode


def test_no_number_and_no_meaning_stands_twice():
    assert len(ExitCode.__members__) == len(ExitCode), "two names for one number"
    assert len({code.meaning for code in ExitCode}) == len(ExitCode)


def test_commands_leave_through_the_table_alone():
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("typer.Exit", "sys.exit", "exit"):
                numbers = [a for a in node.args if isinstance(a, ast.Constant)]
                assert not numbers, f"{path.name}:{node.lineno} leaves with a bare number"


def test_the_documentation_and_the_help_have_the_table(lockstep):
    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", text, re.MULTILINE)
    assert rows == [(str(int(code)), code.meaning) for code in ExitCode]
    told = " ".join(lockstep("--help")[1].split())
    for code in ExitCode:
        assert f"{int(code)} {code.meaning}" in told


def test_the_documentation_names_every_command():
    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    for path in commands(typer.main.get_command(app)):
        assert f"`{' '.join(path[:2])}" in text or f"`{path[0]}`" in text, path


def test_an_interrupt_leaves_with_130(lockstep, monkeypatch):
    def stopped(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("lockstep.cli.env.describe_machine", stopped)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs behind it
    try:
        code, _, err = lockstep("env")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, err) == (ExitCode.INTERRUPTED, "interrupted\n")


def test_every_verdict_of_a_proof_has_its_own_code():
    from lockstep.parity import Verdict

    strict = {verdict: exit_code_of_verdict(verdict, strict=True) for verdict in Verdict}
    assert len(set(strict.values())) == len(Verdict)
    assert strict[Verdict.PASS] == exit_code_of_verdict(Verdict.NOISE) == ExitCode.DONE
    assert all(code.name == verdict for verdict, code in strict.items() if verdict is not Verdict.PASS)
