"""Wrong numbers planted in every guider, one at a time: does a test see them?

    python -m benchmarks.planted_guiders [--only NAME …] [--all] [--record FILE --minutes N]

Every number, sign, comparison and choice in the source of the guiders is changed once (`a - b` to `a + b`, 7.5 to
9.375, `<` to `<=`, …) and `tests/guiders` runs on it, in a process of its own. Prints how many of the changes turned
the tests red (`--all`: each change with the test that saw it), and exits with 1 if one did not. Not counted are changes
after which the same numbers come out; they are listed in HARMLESS with the reason.

In parts: `--minutes` ends after so long (exit code 3: some are left), `--record` keeps what turned red, which the next
run takes over; with another source or other tests the record begins anew.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

from rich.table import Table

from .machine import console

ROOT = Path(__file__).resolve().parents[1]
GUIDERS = ROOT / "src" / "lockstep" / "guiders"
TESTS = ROOT / "tests" / "guiders"
MODULES = (
    "guidance", "branches", "classifier_free", "frequency_decoupled", "text_and_image", "perturbed", "disturbances",
)  # fmt: skip
MOST_SECONDS = 300
OTHER: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.USub: ast.UAdd, ast.Not: ast.UAdd,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
# (class or function, what its line has after the change): why the same numbers come out
HARMLESS = {
    ("BaseGuidance", "strict=False"): "the two lists are as long, one is made from the other",
    ("BaseGuidance", "copied.set_state(0, 2, None)"): "the number of steps is forgotten in the next line",
    ("BaseGuidance", "_num_inference_steps is None and self._step is None"): "the two are set together",
    ("predict_branches", "len(batches) >= 1"): "one branch alone is a batch of one either way",
    ("_predict_together", "for key in inputs[1]"): "all branches have the same keys here, or they are not one batch",
    ("_one_shape", "shape == shapes[1]"): "whether all are equal does not depend on which they are compared with",
    ("Disturbances", "sys.exc_info()[1] is None"): "an error's class and the error itself are there together",
    ("laplacian_pyramid", "<= SMALLEST"): "what is left of a side there is even",
    ("TangentialClassifierFreeGuidance", "full_matrices=True"): "the first row is the same, it only takes longer",
}


@dataclass(frozen=True)
class Mutant:
    """One planted error: where it is, the line that has it, and the module's source with it."""

    module: str
    owner: str
    line: str
    source: str


def mutants(module: str) -> Iterator[Mutant]:
    """Every single change of what a module computes."""
    tree = ast.parse((GUIDERS / f"{module}.py").read_text(encoding="utf-8"))
    for name, owner in named_parts(tree):
        for statement in ast.walk(owner):
            for expression in computed(statement):
                for change in (change for node in ast.walk(expression) for change in changes(node)):
                    change()
                    yield Mutant(module, name, first_line(statement), ast.unparse(tree))
                    change()  # a change is its own opposite


def named_parts(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """The classes, functions and constants of a module, by their names."""
    for part in tree.body:
        match part:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name, part
            case ast.Assign(targets=[ast.Name(id=name)] | [ast.Tuple(elts=[ast.Name(id=name), *_])]):
                yield name, part


def computed(statement: ast.AST) -> list[ast.expr]:
    """The expressions of a statement whose values matter: not its annotation, and no message of an error."""
    if isinstance(statement, ast.FunctionDef):
        return [default for default in (*statement.args.defaults, *statement.args.kw_defaults) if default is not None]
    if not isinstance(statement, ast.stmt) or isinstance(statement, (ast.Raise, ast.ClassDef)):
        return []
    annotation = getattr(statement, "annotation", None)
    return [one for one in ast.iter_child_nodes(statement) if isinstance(one, ast.expr) and one is not annotation]


def changes(node: ast.AST) -> Iterator[Callable[[], None]]:
    """What can be wrong in one node."""
    match node:
        case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() if type(node.op) in OTHER:
            yield swap(node, "op", OTHER[type(node.op)]())
        case ast.Compare(ops=[operator]) if type(operator) in OTHER:
            yield swap(node, "ops", [OTHER[type(operator)]()])
        case ast.Compare(ops=[first, second]) if type(first) in OTHER and type(second) in OTHER:
            yield swap(node, "ops", [OTHER[type(first)](), second])
            yield swap(node, "ops", [first, OTHER[type(second)]()])
        case ast.IfExp():
            yield swap(node, "body", node.orelse, "orelse", node.body)
        case ast.Constant(value=bool(value)):
            yield swap(node, "value", not value)
        case ast.Constant(value=int(value)):
            yield swap(node, "value", value + 1)
        case ast.Constant(value=float(value)):
            yield swap(node, "value", value * 1.25 if value else 0.25)


def swap(node: Any, *names_and_values: Any) -> Callable[[], None]:
    """A function that gives attributes of a node other values, and called again gives them back."""
    others = dict(zip(names_and_values[::2], names_and_values[1::2], strict=True))

    def change() -> None:
        for name, value in others.items():
            others[name] = getattr(node, name)
            setattr(node, name, value)

    return change


def first_line(statement: ast.AST) -> str:
    return ast.unparse(statement).splitlines()[0]


class Planted(SourceFileLoader):
    """Loads a module of the guiders from a changed source, and never from a cache."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__(f"lockstep.guiders.{mutant.module}", str(GUIDERS / f"{mutant.module}.py"))
        self.source = mutant.source

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def get_code(self, fullname: str) -> Any:
        return compile(self.source, self.path, "exec")


class FirstFailure:
    """A plugin of pytest that tells the first test that failed, and ends; those that name the guider run first."""

    def __init__(self, owner: str, answer: int) -> None:
        self.owner, self.answer = owner, answer

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: self.owner not in item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.tell(report)

    def pytest_collectreport(self, report: Any) -> None:
        self.tell(report)

    def tell(self, report: Any) -> None:
        if report.failed:
            os.write(self.answer, report.nodeid.rpartition("/")[2].encode())
            os._exit(1)


def seen_by(mutant: Mutant | None) -> str:
    """The first test that is red with the mutant ("" if none); runs in a process that is forked off."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        run_tests(mutant, writing)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return answer or ("" if status == 0 else "the process ended")


def run_tests(mutant: Mutant | None, answer: int) -> None:
    """In the child: run the tests on the mutant and end, with 0 if none of them saw it."""
    import pytest

    signal.alarm(MOST_SECONDS)
    os.environ.pop("RUN_SLOW", None)  # one of the slow tests runs this
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    if mutant is not None:
        sys.meta_path.insert(0, Planted(mutant))  # type: ignore[arg-type]
    # plain asserts: pytest would load the modules itself otherwise, to rewrite theirs
    options = ["-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:unraisableexception", f"--rootdir={ROOT}"]
    os._exit(int(pytest.main([*options, str(TESTS)], [FirstFailure(mutant.owner if mutant else "", answer)])))


def import_what_tests_need() -> None:
    """Once, so that each forked process begins with it; never Lockstep itself."""
    import diffusers.guiders
    import kornia  # noqa: F401
    import pytest  # noqa: F401
    import torch

    diffusers.guiders.FrequencyDecoupledGuidance, diffusers.UNet2DConditionModel  # noqa: B018  imported when asked for
    torch.set_num_threads(1)
    sys.path.insert(0, str(ROOT / "src"))


def parts() -> dict[str, set[str]]:
    """Every class, function and constant of the guiders, with the others that it names."""
    trees = [ast.parse((GUIDERS / f"{module}.py").read_text(encoding="utf-8")) for module in MODULES]
    owners = {name: part for tree in trees for name, part in named_parts(tree)}
    named = {name: {n.id for n in ast.walk(one) if isinstance(n, ast.Name)} for name, one in owners.items()}
    return {name: ids & set(owners) - {name} for name, ids in named.items()}


def computes_with(guider: str, named: dict[str, set[str]]) -> set[str]:
    """The guider and all that it inherits and calls, however far."""
    found, pending = set(), {guider}
    while pending:
        found |= pending
        pending = {other for one in pending for other in named[one]} - found
    return found


def print_results(results: list[tuple[Mutant, str]], every: bool) -> None:
    table, named = Table("guider", "planted in it and what it computes with", "red", "green"), parts()
    for guider in [
        name for name in named if name.endswith("Guidance") and not any(name in ids for ids in named.values())
    ]:
        used = computes_with(guider, named)
        seen = [bool(test) for mutant, test in results if mutant.owner in used]
        table.add_row(guider, str(len(seen)), str(sum(seen)), str(len(seen) - sum(seen)))
    everything = [bool(test) for _, test in results]
    table.add_row("all", str(len(everything)), str(sum(everything)), str(len(everything) - sum(everything)))
    console.print(table)
    for mutant, test in results:
        if every or not test:
            console.print("[green]red[/]  " if test else "[red]GREEN[/]", end=" ")
            console.print(f"{mutant.owner}: {mutant.line}   {test}", markup=False, highlight=False, soft_wrap=True)


class Record:
    """Which test saw a planted error, by the source that has it; those that turned red are kept in a file."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.tests = path, dict[str, str]()
        read = [*GUIDERS.glob("*.py"), *TESTS.glob("*.py"), TESTS.parent / "helpers.py", Path(__file__)]
        self.state = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(read))).hexdigest()
        if path is not None and path.is_file():
            kept = json.loads(path.read_text(encoding="utf-8"))
            self.tests = kept["red"] if kept["state"] == self.state else {}

    def add(self, results: dict[str, str]) -> None:
        self.tests |= results
        if self.path is not None:
            red = {source: test for source, test in self.tests.items() if test}
            self.path.write_text(json.dumps({"state": self.state, "red": red}), encoding="utf-8")


def run_missing(planted: list[Mutant], record: Record, jobs: int, deadline: float) -> int:
    """Run what the record does not have, until the deadline; how many are left."""
    missing = [mutant for mutant in planted if mutant.source not in record.tests]
    batches = [missing[first : first + 8 * jobs] for first in range(0, len(missing), 8 * jobs)]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        while batches and time.monotonic() < deadline:
            batch = batches.pop(0)
            tests = pool.map(seen_by, batch, chunksize=1)
            record.add({mutant.source: test for mutant, test in zip(batch, tests, strict=True)})
            console.print("".join("." if test else "[red]G[/]" for test in tests), end="")
    console.print()
    return sum(len(batch) for batch in batches)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these classes, functions and constants")
    parser.add_argument("--all", action="store_true", help="print every change with the test that saw it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at a time")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep what turned red here, and begin after it")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no more after so long")
    asked = parser.parse_args()
    os.chdir(ROOT)
    import_what_tests_need()
    if test := seen_by(None):
        console.print(f"Without any planted error {test} is red: repair that first.")
        return 2
    planted = [one for module in MODULES for one in mutants(module) if not asked.only or one.owner in asked.only]
    planted = [one for one in planted if not any(one.owner == who and part in one.line for who, part in HARMLESS)]
    record = Record(asked.record)
    left = run_missing(planted, record, asked.jobs, time.monotonic() + 60 * asked.minutes)
    if left:
        console.print(f"{left} of {len(planted)} are left for another run.")
        return 3
    results = [(mutant, record.tests[mutant.source]) for mutant in planted]
    print_results(results, asked.all)
    return 0 if all(test for _, test in results) else 1


if __name__ == "__main__":
    sys.exit(main())
