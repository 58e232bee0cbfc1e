"""pytest: `parity.assert_same(ref=..., cand=...)` with goldens of sketches that can be committed.

Loaded by every pytest run where Lockstep is installed, so nothing heavy is imported before a test asks for the fixture.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .comparison.results import Comparison
    from .trace.reader import Trace

_FORMATS = ("html", "json", "junit")
_RESULTS: pytest.StashKey[list[tuple[str, str, str]]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("parity", "are two implementations the same (lockstep)")
    group.addoption("--parity-report", choices=_FORMATS, help="write a report per comparison")
    group.addoption("--parity-report-dir", default="parity-report", help="where reports go (default: parity-report)")
    group.addoption("--parity-at", metavar="KEY", help="record one node (step|path|slot) alone, with full tensors")
    group.addoption(
        "--parity-update", action="store_true", help="record the goldens again instead of comparing with them"
    )
    group.addoption(
        "--parity-mode", choices=("saved", "fresh"), default="saved",
        help="saved: compare with goldens; fresh: record the reference again where a test can",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "parity(dtype=None, steps=None): how the `parity` fixture of this test runs and records"
    )
    config.stash[_RESULTS] = []


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    results = config.stash.get(_RESULTS, [])
    if not results:
        return
    counts = Counter(verdict for _, verdict, _ in results)
    terminalreporter.section("parity")
    terminalreporter.write_line(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    for node, _, report in results:
        if report:
            terminalreporter.write_line(f"{node}: {report}")


@pytest.fixture
def parity(request: pytest.FixtureRequest, tmp_path: Path, record_property: Callable[[str, object], None]) -> Parity:
    """Compares implementations: `parity.assert_same(ref=..., cand=..., floor=True)`."""
    return Parity(request, tmp_path, record_property)


class Parity:
    """What the `parity` fixture gives. A side is a trace's path, (model, call), a model with `inputs=`, or a function.

    Of a function the models that it refers to are watched: `cand=lambda: unet(**parity.inputs)`.
    """

    def __init__(self, request: pytest.FixtureRequest, folder: Path, record: Callable[[str, object], None]) -> None:
        marker = request.node.get_closest_marker("parity")
        settings: Mapping[str, Any] = marker.kwargs if marker is not None else {}
        unknown = set(settings) - {"dtype", "steps"}
        if unknown:
            raise pytest.UsageError(f"the marker parity takes dtype= and steps=, got {', '.join(sorted(unknown))}")
        self.steps = settings.get("steps", "all")
        self._dtype_name = settings.get("dtype")
        self._request, self._folder, self._record = request, folder, record
        self._config = request.config
        self._reference: Trace | None = None
        self._count = 0

    @property
    def dtype(self) -> Any:
        """The marker's dtype as torch has it; None if it names none."""
        import torch

        return getattr(torch, self._dtype_name) if isinstance(self._dtype_name, str) else self._dtype_name

    @property
    def inputs(self) -> dict[str, Any]:
        """The arguments that the reference's model was given, for use inside of `cand`."""
        from .recording.replay import call_entries, recorded_arguments

        if self._reference is None:
            raise pytest.UsageError("parity.inputs is there while assert_same runs: use it inside of cand=lambda: ...")
        root = next(path for path in self._reference.meta.get("modules", {"model": None}) if "." not in path)
        return recorded_arguments(self._reference, call_entries(self._reference, root))

    def assert_same(
        self,
        *,
        cand: Any,
        ref: Any = None,
        fresh: Any = None,
        inputs: Any = None,
        floor: bool | str | Path = True,
        strict: bool = False,
        map: Any = "auto",
        explain: bool = True,
    ) -> Comparison:
        """Fail unless the verdict is PASS or NOISE (`strict`: PASS alone).

        `fresh` is the live reference behind a golden: recorded instead of read with --parity-mode=fresh, and written to
        `ref` with --parity-update (where there is none, the candidate becomes the golden).
        """
        from .comparison.answer import compare

        self._count += 1
        folder = self._folder / f"parity-{self._count}"
        golden = self._golden(ref)
        if golden is not None and self._config.getoption("--parity-update"):
            self._update(golden, _side(fresh if fresh is not None else cand, inputs, self.dtype))
        live = None if golden is not None else _side(ref, inputs, self.dtype)
        if golden is not None and fresh is not None and self._config.getoption("--parity-mode") == "fresh":
            live, golden = _side(fresh, inputs, self.dtype), None
        reference = golden if golden is not None else self._run(live, folder / "ref.trace", "ref", "module+ops")
        self._reference = _opened(reference)
        candidate = _side(cand, inputs, self.dtype, self._reference)
        trace = self._run(candidate, folder / "cand.trace", "cand", self._reference.meta.get("level", "module"))
        measured = self._floor(floor, reference, live, trace, candidate, folder)
        result = compare(reference, trace, floor=measured, map=map)
        if explain:
            _explain(result, live, candidate)
        self._finish(result, strict)
        return result

    def _golden(self, ref: Any) -> Path | None:
        """A path of a saved trace, relative to the test's file."""
        if not isinstance(ref, (str, Path)):
            return None
        path = Path(self._request.path.parent, ref)
        if not path.exists() and not self._config.getoption("--parity-update"):
            pytest.fail(f"there is no golden {path}: run pytest once with --parity-update to record it", pytrace=False)
        return path

    def _update(self, golden: Path, side: _Side) -> None:
        """Record the golden anew, and its floor beside it."""
        from .floors.measure import floor

        if golden.is_dir():
            shutil.rmtree(golden)
        self._run(side, golden, "ref", "module")  # without operations: small enough to be committed
        floor(side.target, golden, call=side.call, name=side.name)

    def _run(self, side: _Side | None, path: Path, name: str, level: str) -> Path:
        from .recording.node_alone import node_options
        from .recording.recorder import record
        from .trace.names import Key

        if side is None:
            pytest.fail(
                "assert_same needs ref=: a golden's path, (model, call), a model with inputs=, or a function",
                pytrace=False,
            )
        if side.trace is not None:
            return side.trace
        options: dict[str, Any] = {"steps": self.steps, "level": level}
        if self._config.getoption("--parity-at"):
            options = {"level": level, **node_options(Key.parse(self._config.getoption("--parity-at")))}
        with record(side.target, path, side=name, name=side.name, **options) as recorder:
            recorder.result(side.call())
        return path

    def _floor(
        self, wanted: Any, reference: Path, live: _Side | None, trace: Path, candidate: _Side, folder: Path
    ) -> Any:
        """A given file, the one beside the golden, or one measured now on the side that can be run."""
        from .floors.file import Floor
        from .floors.measure import floor

        if not isinstance(wanted, bool):
            return Floor.load(Path(self._request.path.parent, wanted))
        beside = reference.with_suffix(".floor")
        if not wanted:
            return None
        if beside.is_file():
            return Floor.load(beside)
        side, own = (live, reference) if live is not None else (candidate, trace)
        if side.trace is not None:
            return None
        return floor(side.target, own, call=side.call, path=folder / "run.floor", name=side.name)

    def _finish(self, result: Comparison, strict: bool) -> None:
        from .report.junit import junit_properties
        from .report.parts import build

        report = build(result, pictures=False)
        for name, value in junit_properties(report).items():
            self._record(name, value)
        written = self._write(result)
        self._config.stash[_RESULTS].append((self._request.node.nodeid, str(result.verdict), written))
        if not result.verdict.passes(strict):
            report.command = self._command(report)
            pytest.fail(_as_text(report, written), pytrace=False)

    def _command(self, report: Any) -> str:
        """This test again, with nothing but the first bad node in full."""
        words = ["pytest", self._request.node.nodeid]
        return shlex.join([*words, f"--parity-at={report.first.key}"] if report.first is not None else words)

    def _write(self, result: Comparison) -> str:
        kind = self._config.getoption("--parity-report")
        if kind is None:
            return ""
        import json

        from .report.html import write_html
        from .report.junit import to_junit
        from .report.parts import build, to_json

        name = re.sub(r"[^\w.-]+", "_", self._request.node.nodeid).strip("_")
        path = Path(self._config.getoption("--parity-report-dir"), f"{name}-{self._count}").absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        path = path.with_name(f"{path.name}.{'xml' if kind == 'junit' else kind}")
        if kind == "html":
            write_html(result, path)
        elif kind == "json":
            path.write_text(json.dumps(to_json(result)), encoding="utf-8")
        else:
            path.write_text(to_junit(build(result, pictures=False), name), encoding="utf-8")
        return str(path)


class _Side:
    """A model and how to run it, or the trace of such a run."""

    def __init__(
        self, target: Any = None, call: Any = None, name: str | None = None, trace: Path | None = None
    ) -> None:
        self.target, self.call, self.name, self.trace = target, call, name, trace


def _side(given: Any, inputs: Any, dtype: Any, reference: Trace | None = None) -> _Side:
    from torch import nn

    if isinstance(given, (str, Path)):
        return _Side(trace=Path(given))
    if isinstance(given, tuple) and len(given) in (2, 3) and callable(given[1]):
        return _Side(*given)
    if isinstance(given, nn.Module):
        if inputs is None and reference is not None:
            inputs = _recorded_inputs(reference)
        if inputs is None:
            raise pytest.UsageError("a model as a side needs inputs=: a tuple of arguments or a dict of named ones")
        model, arguments = _in_dtype(given, inputs, dtype)
        return _Side(model, lambda: _called(model, arguments))
    if callable(given):
        target = _models_of(given)
        root = _only_root(reference) if isinstance(target, nn.Module) else None
        return _Side(target, given, root)
    raise pytest.UsageError(
        f"a side is a trace's path, (model, call), a model or a function; got {type(given).__name__}"
    )


def _opened(path: Path) -> Trace:
    from .trace.reader import Trace

    return Trace.open(path)


def _recorded_inputs(reference: Trace) -> dict[str, Any]:
    from .recording.replay import call_entries, recorded_arguments

    return recorded_arguments(reference, call_entries(reference, _only_root(reference) or "model"))


def _only_root(reference: Trace | None) -> str | None:
    roots = [path for path in (reference.meta.get("modules") or {}) if "." not in path] if reference is not None else []
    return roots[0] if len(roots) == 1 else None


def _in_dtype(model: Any, inputs: Any, dtype: Any) -> tuple[Any, Any]:
    """A copy of the model in the marker's dtype, and the inputs with it; the test's own model is left alone."""
    import copy

    from .recording.values import map_tensors

    if dtype is None:
        return model, inputs
    cast = map_tensors(inputs, lambda t: t.to(dtype) if t.is_floating_point() else t)
    return copy.deepcopy(model).to(dtype), cast


def _called(model: Any, arguments: Any) -> Any:
    import torch

    from .recording.replay import call_module

    with torch.no_grad():
        if isinstance(arguments, Mapping):
            return call_module(model, dict(arguments))
        return model(*(arguments if isinstance(arguments, tuple) else (arguments,)))


def _models_of(function: Callable[[], Any]) -> Any:
    """The models and pipelines that a function refers to by name."""
    import inspect

    from .errors import RecordError
    from .recording.targets import find_target

    seen = inspect.getclosurevars(inspect.unwrap(function))
    found: dict[str, Any] = {}
    for name, value in {**seen.globals, **seen.nonlocals}.items():
        if isinstance(value, (Parity, str, int, float, type)) or inspect.ismodule(value) or inspect.isroutine(value):
            continue
        with suppress(RecordError):
            find_target(value)
            found[name] = value
    if not found:
        raise pytest.UsageError("the function refers to no model by name; give (model, call) instead")
    return next(iter(found.values())) if len(found) == 1 else found


def _explain(result: Comparison, reference: _Side | None, candidate: _Side) -> None:
    from .causes.diagnosis import Live, diagnose
    from .comparison.results import Verdict

    if result.verdict not in (Verdict.BUG, Verdict.DRIFT):
        return
    live = [
        Live(side.target, side.call, side.name) if side is not None and side.trace is None else None
        for side in (reference, candidate)
    ]
    diagnose(result, reference=live[0], candidate=live[1])


def _as_text(report: Any, written: str) -> str:
    from rich.console import Console

    from .report.terminal import to_terminal

    console = Console(width=110, no_color=True, force_terminal=False)
    with console.capture() as capture:
        console.print(to_terminal(report), highlight=False)
    lines = [capture.get().rstrip()]
    if report.command:
        lines.append(f"This node alone: {report.command}")
    if written:
        lines.append(f"Report: {written}")
    return "\n".join(lines)
