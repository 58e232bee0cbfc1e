"""Rules that only a run tells: the family's blocks are imported, and its model is put through the kit's mixins."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import linecache
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

from ...errors import InputError, LockstepError
from . import declared
from .finding import Finding
from .reading import Rule
from .source import CODE, Family

# rule -> the test of a mixin that knows it, what it is told, and the remedy
BY_MIXIN: dict[str, tuple[str, dict[str, Any], str]] = {
    "no graph break": (
        "test_compiles_without_a_graph_break", {}, "keep numpy, .item(), prints and branches on values out of forward",
    ),
    "a saved model loads bit for bit": (
        "test_save_and_load_bit_for_bit", {"options": {}}, "register every setting with @register_to_config",
    ),
    "LoRA finds its layers": (
        "test_lora_starts_at_zero_and_then_acts", {}, "name projections to_q, to_k, to_v, or set lora_targets",
    ),
    "gradient checkpointing saves memory": (
        "test_gradient_checkpointing_saves_memory_and_changes_nothing", {},
        "run the blocks through checkpointed(self, block, …)",
    ),
    "backends agree": (
        "test_backends_agree", {"backend": "native_math"}, "hand backend=self._attention_backend on to the dispatch",
    ),
    "the model is the reference's": (
        "test_against_reference", {}, "find the first difference: lockstep parity prove REFERENCE PORT",
    ),
}  # fmt: skip


def blocks_read_what_they_declare(family: Family) -> Iterator[Finding]:
    """Every block of the family, by the rule that the house holds its own to."""
    modules = [family.home.module(part, family.name) for part in CODE if part != "map" and family.file(part)]
    with _importable(family):
        for module in modules:
            try:
                importlib.import_module(module)
            except (ImportError, LockstepError, AttributeError, TypeError) as problem:
                yield _failed(family, problem, f"{module} cannot be imported", "repair what the error names")
                return
        found = declared.blocks_of(f"{family.home.module('family', family.name)}.")
        yield from declared.findings(
            kind for kind in found if getattr(sys.modules[kind.__module__], kind.__name__, None) is kind
        )


def mixins_pass(family: Family) -> Iterator[Finding]:
    """The model of the family's own test, put through the tests of the kit's mixins that the checklist names."""
    test = family.file("test")
    if test is None or family.file("model") is None:
        return
    with _importable(family):
        try:
            config = _tester(_module(test))
        except (ImportError, LockstepError, AttributeError, TypeError) as problem:
            yield _failed(family, problem, f"{test.name} cannot be imported", "repair what the error names")
            return
        for rule, (name, told, remedy) in BY_MIXIN.items():
            method: Callable[..., None] | None = getattr(config, name, None)
            if method is None:
                continue  # told by the rule on the mixins
            try:
                with tempfile.TemporaryDirectory() as folder:
                    given = {"tmp_path": Path(folder)} if "tmp_path" in inspect.signature(method).parameters else {}
                    method(**given, **told)
            except Exception as problem:  # whatever the family's own code raises
                said = next(iter(str(problem).splitlines()), "") or type(problem).__name__
                yield _failed(family, problem, f"{rule}: {said}", remedy, rule)


def own_tests_pass(family: Family) -> Iterator[Finding]:
    """The tests of a scheduler or guider, run by pytest in a process of their own, as its author runs them."""
    tests = [path for part in ("scheduler_test", "guider_test") if (path := family.file(part)) is not None]
    if not tests:
        return  # told by the rule on parity
    root = family.home.root
    paths = [str(root / "src"), str(root / "tests"), os.environ.get("PYTHONPATH", "")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        done = subprocess.run([*command, *map(str, tests)], cwd=root, env=environment, capture_output=True, text=True)
        cases = list(ElementTree.parse(report).iter("testcase")) if report.is_file() else []
    failed = [(case, problem) for case in cases for problem in case if problem.tag in ("failure", "error")]
    for case, problem in failed:
        said = next(iter((problem.get("message") or "").splitlines()), "")
        path, line = _place(problem.text or "", tests, root)
        remedy = "repair it until its own tests pass; a test that asks for it by name wants the package installed"
        yield Finding(path, line, f"{case.get('name')}: {said}", remedy)
    if done.returncode and not failed:
        last = (done.stderr.strip() or done.stdout.strip() or "pytest said nothing").splitlines()[-1]
        yield Finding(tests[0], 1, f"its tests cannot be run: {last}", "see what pytest says of this file")


def _place(text: str, tests: list[Path], root: Path) -> tuple[Path, int]:
    """The last line of a report that names one of the tests, as file and line."""
    named = [(root / file, int(line)) for file, line in re.findall(r"^(\S+\.py):(\d+):", text, re.MULTILINE)]
    return next((one for one in reversed(named) if one[0] in tests), (tests[0], 1))


def _failed(family: Family, problem: BaseException, message: str, remedy: str, rule: str = "") -> Finding:
    """The finding at the last line of the family's own files that the error came by."""
    own = {source.path for source in [*family.code, *family.tests]}
    frames = [one for one in traceback.extract_tb(problem.__traceback__) if Path(one.filename) in own]
    place = frames[-1] if frames else None
    path = Path(place.filename) if place is not None else family.code[0].path
    cause = f" ({type(problem).__name__}: {problem})" if "cannot be imported" in message else ""
    return Finding(path, (place.lineno if place is not None else None) or 1, f"{message}{cause}", remedy, rule)


def _tester(module: ModuleType) -> Any:
    """The composed test of a module, as one object."""
    from ..testing.models import BaseModelTesterConfig, ModelTesterMixin

    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    composed: list[type] = [kind for kind in kinds if issubclass(kind, ModelTesterMixin)]
    found: list[type] = composed or [kind for kind in kinds if issubclass(kind, BaseModelTesterConfig)]
    if not found:
        raise InputError(f"{module.__file__} has no test that is composed of the kit's mixins.")
    return found[-1]()


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"checked_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def _importable(family: Family) -> Iterator[None]:
    """The family's sources and tests can be imported, whether its package is installed or not."""
    folders = [str(family.home.root / "src"), str(family.home.root / "tests")]
    sys.path[:0] = folders
    linecache.checkcache()
    try:
        yield
    finally:
        for folder in folders:
            sys.path.remove(folder)


RULES: dict[str, Rule] = {
    declared.RULE: blocks_read_what_they_declare,
    "the mixins pass": mixins_pass,
    "schedulers and guiders pass their tests": own_tests_pass,
}
