"""The parts of a report, each plain data; what a renderer shows it has from here alone."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from ..comparison.config_table import differing, settings_of
from ..comparison.results import (
    AxisEnergy,
    Cause,
    Comparison,
    Coverage,
    FailedHypothesis,
    NodeResult,
    Role,
    Standing,
    Status,
    Structure,
    Verdict,
)
from ..errors import ParityError
from ..trace.names import NO_STEP, Key
from ..trace.reader import Trace
from .pictures import PicturePair, pictures_of

MAX_ROWS = 40  # of the heat map
MAX_LISTED = 200  # values in the table of the worst
STATE = ("@scheduler.step", "@latents")


@dataclass
class Point:
    """One value on the way through the model."""

    key: str
    step: str
    error: float | None
    floor: float | None
    tau: float
    ratio: float | None
    status: str
    role: str
    op: str


@dataclass
class Heat:
    """Largest R per group of nodes and step; None where nothing was compared, infinity where it is no number."""

    rows: list[str]
    steps: list[str]
    cells: list[list[float | None]]


@dataclass
class AxisPart:
    """Where along one axis the squared error lies."""

    name: str
    size: int
    concentration: float
    top_index: int
    share: list[float]


@dataclass
class First:
    """The first difference, looked at closely."""

    key: str
    other: str
    op: str
    shape: list[int]
    dtypes: list[str]
    numbers: list[tuple[str, str]]
    findings: list[str]
    axes: list[AxisPart]
    inputs: list[tuple[str, str]]  # key and state of what went in


@dataclass
class StepPart:
    """The loop's state after one step."""

    step: str
    error: float
    floor: float | None
    gain: float | None


@dataclass
class Report:
    """Everything that is shown, in the order in which it is shown."""

    verdict: str
    sentence: str
    reasons: list[str]
    command: str  # reproduces the first difference alone; empty where there is none
    facts: list[tuple[str, str]]
    causes: list[Cause]
    first: First | None
    curve: list[Point]
    loop: list[StepPart]
    heat: Heat | None
    pictures: list[PicturePair] = field(default_factory=list)
    settings: list[dict[str, Any]] = field(default_factory=list)
    weights: list[dict[str, Any]] = field(default_factory=list)
    coverage: Coverage = field(default_factory=lambda: Coverage(0, 0))
    worst: list[Point] = field(default_factory=list)
    config: list[dict[str, Any]] = field(default_factory=list)  # settings in force that differ or contradict themselves
    explained: str = ""  # what is left with every proven cause in force
    not_tried: list[FailedHypothesis] = field(default_factory=list)


def build(comparison: Comparison, *, pictures: bool = True) -> Report:
    """A comparison as parts; pictures and configs are read from the traces, if these are still there."""
    shown = [n for n in comparison.nodes if not n.key.is_input and not n.key.is_operation]
    return Report(
        verdict=comparison.verdict.value,
        sentence=comparison.sentence(),
        reasons=list(comparison.reasons),
        command=reproduce(comparison),
        facts=_facts(comparison),
        causes=shown_causes(comparison.causes),
        first=_first(comparison),
        curve=[_point(node) for node in shown],
        loop=_loop(comparison.nodes),
        heat=_heat(shown),
        pictures=_pictures(comparison) if pictures else [],
        settings=_settings(comparison),
        weights=list(comparison.weights),
        coverage=comparison.coverage,
        worst=_worst(comparison.nodes),
        config=_config(comparison),
        explained=_explained(comparison),
        not_tried=list(comparison.search.failed_hypotheses) if comparison.search is not None else [],
    )


def _explained(comparison: Comparison) -> str:
    """The verdict that remains, and the error of the last value before and after."""
    left = comparison.explained
    if left is None or left.verdict in (Verdict.INVALID, Verdict.INCONCLUSIVE):  # a node alone has no end to look at
        return ""
    last = [n for n in comparison.nodes if n.error is not None and not n.key.is_input and not n.key.is_operation][-1:]
    ends = [
        f"; `{n.key}` from {number(n.error)} to {number(again.error)}" for n in last if (again := left.node(str(n.key)))
    ]
    return left.sentence().rpartition(" [")[0] + "".join(ends)


def shown_causes(causes: list[Cause]) -> list[Cause]:
    """The proven ones, one behind the other, and what is not known behind them; what merely fits only without any."""
    proven = any(cause.standing is Standing.PROVEN for cause in causes)
    return [cause for cause in causes if not proven or cause.standing is not Standing.FITS]


def cause_heading(report: Report, place: int) -> str:
    standing = report.causes[place].standing
    if standing is Standing.FITS:
        return "Fits this value only"
    if standing is Standing.UNKNOWN:
        return "Not found"
    return "Cause" if place == 0 else "Behind it"


def patch_of(cause: Cause) -> list[str]:
    """The port's line as it is and as it has to be, where that was tried."""
    before, after = (cause.evidence.get(name) for name in ("before", "after"))
    return [f"{sign} {text}" for sign, text in (("-", before), ("+", after)) if text]


def explained_heading(report: Report) -> str:
    """What was changed for the comparison that was made again."""
    return "With that line written so" if report.causes and patch_of(report.causes[0]) else "With all of it imitated"


def _settings(comparison: Comparison) -> list[dict[str, Any]]:
    """Settings of the first bad module before all others."""
    site = comparison.first.site if comparison.first is not None else ""
    return sorted(comparison.suspects(), key=lambda setting: setting["path"] != site)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison itself, and the command that reproduces its first difference; strict JSON (no NaN)."""
    return strict({**comparison.to_json(), "command": reproduce(comparison)})


def strict(value: Any) -> Any:
    """Infinity and NaN as text: JSON has no word for them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    if isinstance(value, (AxisEnergy, Structure, Key)):
        return strict(asdict(value))
    return value


def reproduce(comparison: Comparison) -> str:
    """The one command that runs the first bad node alone."""
    if comparison.first is None or not comparison.reference_path or comparison.verdict is Verdict.INVALID:
        return ""
    words = ["lockstep", "parity", "zoom", comparison.reference_path, comparison.candidate_path]
    return shlex.join([*words, "--at", str(comparison.first.key)])


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    nodes = [n for n in comparison.nodes if n.error is not None and not n.key.is_operation]
    same = sum(n.status is Status.SAME for n in nodes)
    judged = [n for n in nodes if n.ratio is not None and n.role is not Role.HEALED]
    facts = [("coverage", f"{comparison.coverage.fraction:.1%}"), ("equal to the last bit", f"{same} of {len(nodes)}")]
    if judged:
        facts.append(("largest R", number(max(n.ratio or 0.0 for n in judged))))
        worst = max(judged, key=lambda n: n.error or 0.0)
        facts.append(("largest error", number(worst.error)))
    over = sum(n.bad and n.role is not Role.HEALED for n in nodes)
    facts.append(("over the floor", str(over)))
    dtypes = sorted({d for n in nodes for d in n.dtypes if d})
    facts.append(("dtypes", ", ".join(dtypes) or "-"))
    facts.append(("floor", "measured" if any(n.floor is not None for n in nodes) else "not measured"))
    return facts


def number(value: float | None) -> str:
    """A number for a person: three digits, or words for the ends of the scale."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return "∞"
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.1e}"


def _point(node: NodeResult) -> Point:
    return Point(
        str(node.key), node.step, _finite(node.error), _finite(node.floor), node.tau, _finite(node.ratio),
        str(node.status), str(node.role), node.op,
    )  # fmt: skip


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else 1e30


def _worst(nodes: list[NodeResult]) -> list[Point]:
    """Bad ones first, in order of R; healed ones last of them. Operations say where and not whether: they stay out."""
    ranked = sorted(
        (n for n in nodes if not n.key.is_operation),
        key=lambda n: (not n.bad, n.role is Role.HEALED, -(n.ratio or 0.0), n.order),
    )
    return [_point(n) for n in ranked[:MAX_LISTED] if n.error or n.bad]


def _loop(nodes: Iterable[NodeResult]) -> list[StepPart]:
    """Error of what the loop carries, and what each step does to it."""
    found: list[StepPart] = []
    for node in nodes:
        if node.step == NO_STEP or node.slot != "out" or node.path not in STATE or node.error is None:
            continue
        before = found[-1].error if found else 0.0
        gain = node.error / before if before and math.isfinite(node.error) else None
        found.append(StepPart(node.step, node.error, node.floor, gain))
    return found


def _heat(nodes: list[NodeResult]) -> Heat | None:
    nodes = [n for n in nodes if not n.path.startswith("@rng")]
    steps = list(dict.fromkeys(n.step for n in nodes))
    if not nodes:
        return None
    depth = _row_depth([n.path for n in nodes])
    rows = list(dict.fromkeys(_row(n.path, depth) for n in nodes))
    table: dict[tuple[str, str], float] = {}
    for node in nodes:
        cell = (_row(node.path, depth), node.step)
        value = math.inf if node.status is Status.STRUCT else node.ratio
        if value is not None and node.role is not Role.HEALED:
            table[cell] = max(table.get(cell, 0.0), value)
    return Heat(rows, steps, [[table.get((row, step)) for step in steps] for row in rows])


def _row(path: str, depth: int) -> str:
    return path if path.startswith("@") else ".".join(path.split(".")[:depth])


def _row_depth(paths: list[str]) -> int:
    """The finest grouping of the paths that still fits."""
    deepest = max(path.count(".") for path in paths) + 1
    for depth in range(deepest, 1, -1):
        if len({_row(path, depth) for path in paths}) <= MAX_ROWS:
            return depth
    return 1


def _first(comparison: Comparison) -> First | None:
    node = comparison.first
    if node is None:
        return None
    by_key = {str(n.key): n for n in comparison.nodes}
    numbers = [
        ("error", number(node.error)),
        ("threshold", number(node.tau)),
        ("floor", number(node.floor)),
        ("rounding prior", number(node.prior)),
        ("R", number(node.ratio)),
        ("largest element / rms", number(node.tail)),
        ("own error, reference's inputs", number(node.local_error)),
    ]
    inputs = [(key, _state(by_key.get(key))) for key in node.inputs]
    structure = node.structure
    names = axis_names(node.shape, node.op or node.path)
    axes = [
        AxisPart(names[a.axis], a.size, a.concentration, a.top_index, a.share)
        for a in (structure.axes if structure else [])
    ]
    return First(
        str(node.key), str(node.other or ""), node.op, list(node.shape), list(node.dtypes),
        [(name, value) for name, value in numbers if value != "-"],
        [*_inside(comparison), *findings(node)], axes, inputs,
    )  # fmt: skip


def _inside(comparison: Comparison) -> list[str]:
    found = [f"inside of it first {comparison.place.describe()}"] if comparison.place is not None else []
    return [f"it arises at {comparison.begins} of the candidate", *found] if comparison.begins else found


def _state(node: NodeResult | None) -> str:
    if node is None:
        return "not compared"
    words = {Status.SAME: "identical", Status.PRIOR: "equal up to rounding", Status.FLOOR: "inside the floor"}
    return words.get(node.status, f"differs ({node.problem or number(node.error)})")


def findings(node: NodeResult) -> list[str]:
    """What the difference looks like, in words."""
    if node.problem:
        return [node.problem]
    s = node.structure
    if s is None:
        return []
    found = []
    if s.transform and (s.transform_r2 or 0.0) > 0.5:
        found.append(
            f"the candidate is the reference after {s.transform} (explains {s.transform_r2:.1%} of the difference)"
        )
    if s.affine_r2 is not None and s.affine_r2 > 0.5:
        found.append(f"the candidate is {s.gain:.7g} × reference {s.offset:+.2g} (explains {s.affine_r2:.1%})")
    if s.norms_equal:
        found.append("both have the same norm: the same numbers in another order are likely")
    if s.bias is not None and s.bias > 6:
        found.append(f"the difference has one sign (bias {s.bias:.0f}; rounding gives about 1): a systematic cause")
    if s.first_position_exact is not None:
        found.append(f"index 0 of axis {s.first_position_exact} is exact, the rest is not: positions")
    if s.low_bits_zero and abs(s.low_bits_zero[0] - s.low_bits_zero[1]) > 0.5:
        side = "reference" if s.low_bits_zero[0] > s.low_bits_zero[1] else "candidate"
        found.append(f"the {side} went through bfloat16: its low mantissa bits are zero")
    if s.aligned is not None and abs(s.aligned) > 0.35:
        found.append(f"the difference points along the reference (cosine {s.aligned:.2f}); noise would give about 0")
    return found


def axis_names(shape: tuple[int, ...], op: str) -> list[str]:
    """What the axes of a tensor of this kind usually are."""
    if "attention" in op and len(shape) == 4:
        return ["batch", "head", "token", "channel"]
    usual = {
        1: ["channel"],
        2: ["batch", "channel"],
        3: ["batch", "token", "channel"],
        4: ["batch", "channel", "height", "width"],
        5: ["batch", "channel", "frame", "height", "width"],
    }
    return usual.get(len(shape), [f"axis {i}" for i in range(len(shape))])


def _config(comparison: Comparison) -> list[dict[str, Any]]:
    """Both sides of every setting that differs, or that the tensors contradict."""
    try:
        sides = settings_of(comparison.reference_path), settings_of(comparison.candidate_path)
    except (ParityError, OSError):
        return []
    wanted = {(a.part, a.name) for a, _ in differing(*sides)} | {
        key for side in sides for key, s in side.items() if s.conflict
    }
    rows = []
    for key in sorted(wanted):
        for name, side in zip(("reference", "candidate"), sides, strict=True):
            if key in side:
                setting = side[key]
                columns = {"file": setting.file, "effective": setting.effective, "shapes imply": setting.implied}
                told = {title: "" if value is None else value for title, value in columns.items()}
                rows.append({"setting": ".".join(filter(None, key)), "side": name, **told, "remark": setting.conflict})
    return rows


def _pictures(comparison: Comparison) -> list[PicturePair]:
    try:
        return pictures_of(Trace.open(comparison.reference_path), Trace.open(comparison.candidate_path))
    except (ParityError, OSError):
        return []  # a report can be made after the traces have gone
