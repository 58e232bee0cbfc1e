"""What a comparison says: the objects that the report, the command line and the tests read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..trace.names import Key


class Verdict(StrEnum):
    """The seven answers; every one of them is printed with its coverage."""

    PASS = "PASS"
    NOISE = "NOISE"
    BUG = "BUG"
    DRIFT = "DRIFT"
    INVALID = "INVALID"
    INCONCLUSIVE = "INCONCLUSIVE"
    RAISED = "RAISED"

    def passes(self, strict: bool = False) -> bool:
        """Whether a test may go on: PASS, and NOISE too where nobody is strict."""
        return self is Verdict.PASS or (self is Verdict.NOISE and not strict)


class Status(StrEnum):
    """Where one value's error lies."""

    SAME = "same"  # equal to the last bit (or equal sketches)
    PRIOR = "prior"  # inside what rounding alone explains
    FLOOR = "floor"  # above that, inside what the reference differs from itself
    OVER = "over"  # above the floor
    STRUCT = "struct"  # not comparable as numbers: missing, shape, integers unequal, other non-finite values


class Role(StrEnum):
    """What a value over the floor is to the others."""

    NONE = ""
    ORIGIN = "origin"  # over, and everything that was captured going in is not
    PROPAGATED = "propagated"  # over, because its inputs are (within the measured gain)
    HEALED = "healed"  # over, but it does not leave the module that contains it: another way to the same result
    AMPLIFIED = "amplified"  # over, inputs too, but more than the measured gain explains: maybe a second cause


@dataclass
class AxisEnergy:
    """How unevenly the squared error lies along one axis: 1 = uniform, `size` = all of it at one index."""

    axis: int
    size: int
    concentration: float
    top_index: int
    share: list[float] = field(default_factory=list)  # energy share per index (binned to at most 64)


@dataclass
class Structure:
    """Noise has no structure, bugs do: what the difference d = B - A looks like."""

    bias: float | None = None  # |mean d| * sqrt(n) / sd(d); over 6 is not noise
    gain: float | None = None  # a of the best B = a A + b
    offset: float | None = None  # b of it
    affine_r2: float | None = None  # share of |d|^2 that a, b explain
    aligned: float | None = None  # cosine between d and A (from sketches if need be); noise is about 0
    transform: str | None = None  # "roll:axis:k", "flip:axis", "halfswap:axis" that explains B best
    transform_r2: float | None = None  # share of |d|^2 that it explains
    norms_equal: bool | None = None  # |A| = |B| though A != B: a permutation is likely
    first_position_exact: int | None = None  # axis along which index 0 is exact and the rest is not
    axes: list[AxisEnergy] = field(default_factory=list)
    low_bits_zero: tuple[float, float] | None = None  # share of elements with 16 zero low mantissa bits, A and B

    @property
    def structured(self) -> bool:
        """True if anything here says that this is no rounding noise."""
        return bool(
            (self.aligned is not None and abs(self.aligned) > 0.35)
            or (self.bias is not None and self.bias > 6)
            or (self.affine_r2 is not None and self.affine_r2 > 0.5)
            or (self.transform_r2 is not None and self.transform_r2 > 0.5)
        )


@dataclass
class NodeResult:
    """One value of the reference beside its partner in the candidate."""

    key: Key
    order: int  # rank in the reference's order
    status: Status
    other: Key | None = None  # the candidate's key; None if it has no partner
    how: str = "name"  # how the two were put side by side: name, weights, order, rows, sequence, map
    op: str = ""  # class of the module, or name of the operation
    shape: tuple[int, ...] = ()
    dtypes: tuple[str, str] = ("", "")
    other_shape: tuple[int, ...] | None = None  # of the candidate's value
    exact: bool = False  # measured on full tensors, not on sketches
    masked: bool = False  # measured without the numbers of a mask, beside which any difference is rounding
    error: float | None = None  # e = |B - A| / |A|
    tail: float | None = None  # max|B - A| / rms(A), full tensors only
    cosine: float | None = None  # for display
    floor: float | None = None  # f, measured
    prior: float = 0.0  # what rounding explains locally
    tau: float = 0.0  # the threshold in force
    ratio: float | None = None  # R = e / tau
    local_error: float | None = None  # own error with the reference's inputs (teacher forcing)
    gain: float | None = None  # measured amplification of the node, from the floor
    role: Role = Role.NONE
    arranged: str = ""  # how the candidate's numbers were put in the reference's order, in words
    problem: str = ""  # for STRUCT: what is wrong, in words
    inputs: list[str] = field(default_factory=list)  # keys (as text) of the captured inputs
    structure: Structure | None = None

    @property
    def path(self) -> str:
        return self.key.path

    @property
    def step(self) -> str:
        return self.key.step

    @property
    def slot(self) -> str:
        return self.key.slot

    @property
    def site(self) -> str:
        """The module whose code made this value: of an input that is the module around, of an operation its module."""
        if self.key.is_operation:
            return self.key.path.partition("/")[0]
        if not self.key.is_input or self.key.path.startswith("@pipeline"):
            return self.key.path
        return self.key.path.rpartition(".")[0] if "." in self.key.path.lstrip("@") else "@pipeline"

    @property
    def bad(self) -> bool:
        return self.status in (Status.OVER, Status.STRUCT)

    def describe(self) -> str:
        where = f"`{self.key.path}` {self.key.slot}" + (f" (call {self.key.call})" if self.key.call else "")
        when = "" if self.key.step == "-" else f" at {self.key.step}"
        if self.key.is_input and self.site != self.key.path:
            when += f" (made by the code of `{self.site}` between its modules)"
        if self.how == "steps":
            when += " (by the values of both sides, since their names tell nothing)"
        if self.status is Status.STRUCT:
            return f"{where}{when}: {self.problem}"
        floor = f", floor {self.floor:.1e}" if self.floor is not None else ", no floor measured"
        return f"{where}{when}: error {self.error:.2e}, threshold {self.tau:.1e}{floor} (R = {self.ratio:.2g})"


class Standing(StrEnum):
    """How far a cause may be relied on."""

    PROVEN = "proven"  # with it imitated the whole run agrees, or the recorded values say it bit for bit
    FITS = "fits this value only"  # one value agrees with it; the run as a whole does not, or rivals fit as well
    UNKNOWN = "not found"


@dataclass
class Cause:
    """A named cause with its proof: the residual before and after the hypothesis is applied."""

    name: str
    why: str
    at: str
    residual_before: float
    residual_after: float
    floor: float | None = None
    fix: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    standing: Standing = Standing.PROVEN


@dataclass
class FailedHypothesis:
    """A hypothesis that could not be tried, for a reason that does not lie in the hypothesis."""

    hypothesis: str
    at: str
    error: str
    ours: bool  # the code of parity went wrong; False: the side cannot be run again
    traceback: str
    times: int = 1

    def describe(self) -> str:
        whose = " (a bug of Lockstep, please report it)" if self.ours else ""
        often = f", {self.times} times" if self.times > 1 else ""
        return f"{self.hypothesis}, at `{self.at}`{often}: {self.error}{whose}"


@dataclass
class SearchLog:
    """What a search for causes ran, and what it could not try."""

    runs: int = 0
    spent: float = 0.0  # evaluations, a run of something large counted as several
    tried: dict[str, int] = field(default_factory=dict)  # hypotheses by the cause that they would be
    misfits: dict[str, int] = field(default_factory=dict)  # runs that the model refused with the edit, by kind of error
    failed_hypotheses: list[FailedHypothesis] = field(default_factory=list)
    tell: Callable[[str], None] | None = None
    interrupted: bool = False

    def trying(self, name: str, at: str) -> None:
        """One more hypothesis; now and then somebody is told."""
        self.tried[name] = self.tried.get(name, 0) + 1
        if sum(self.tried.values()) % 20 == 1:
            self.say(f"now {name} at {at}")

    def say(self, words: str) -> None:
        if self.tell is not None:
            self.tell(f"{sum(self.tried.values())} hypotheses tried, {words}")

    def add(self, failed: FailedHypothesis) -> None:
        for known in self.failed_hypotheses:
            if (known.hypothesis, known.at, known.error) == (failed.hypothesis, failed.at, failed.error):
                known.times += 1
                return
        self.failed_hypotheses.append(failed)


@dataclass
class Coverage:
    """What was compared and what was not."""

    captured: int  # values in the reference
    compared: int
    missing: list[str] = field(default_factory=list)  # reference keys without partner
    extra: list[str] = field(default_factory=list)  # candidate keys without partner
    by_kind: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # module / operation / pipeline: compared, captured

    @property
    def fraction(self) -> float:
        return self.compared / self.captured if self.captured else 0.0

    def __str__(self) -> str:
        alone = self.captured - self.compared
        rest = f", {alone} in the reference alone" if alone else ""
        return f"{self.compared} of {self.captured} values compared ({self.fraction:.1%}{rest})"


def is_without(key: Key, patterns: Iterable[str]) -> bool:
    """True for a value that was left out on purpose: by its path, its slot, or both (`text_encoder|out.1`)."""
    names = (key.path, f"{key.path}|{key.slot}", key.slot.partition(".")[2], str(key))
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names if name)


@dataclass
class Comparison:
    """The answer to "are they the same?"."""

    verdict: Verdict
    nodes: list[NodeResult]
    coverage: Coverage
    first: NodeResult | None = None
    place: NodeResult | None = None  # inside of the first, where it was seen in the steps of both sides
    begins: str = ""  # the line of the candidate (`port.py:12`) in which it arises, where that was proven by the line
    origins: list[NodeResult] = field(default_factory=list)  # every independent origin, first one first
    causes: list[Cause] = field(default_factory=list)  # filled by diagnosis
    reasons: list[str] = field(default_factory=list)  # why this verdict, in words
    reference: dict[str, Any] = field(default_factory=dict)  # trace.json of A
    candidate: dict[str, Any] = field(default_factory=dict)  # trace.json of B
    reference_path: str = ""
    candidate_path: str = ""
    floor_path: str = ""
    weights: list[dict[str, Any]] = field(default_factory=list)  # parameters that differ, were fused, split, transposed
    attributes: list[dict[str, Any]] = field(default_factory=list)  # effective settings of partner modules that differ
    unmeasured: list[str] = field(default_factory=list)  # candidate keys that only full tensors could compare
    without: list[str] = field(default_factory=list)  # patterns of values that were left out on purpose
    other_form: list[tuple[str, str]] = field(
        default_factory=list
    )  # values of both sides with other axes: not compared
    explained: Comparison | None = None  # the same once more with every proven cause in force; filled by diagnosis
    search: SearchLog | None = None  # how the causes were looked for; filled by diagnosis

    def node(self, key: str) -> NodeResult | None:
        """The result of one key, given as text (`step|path[#call]|slot`)."""
        return next((n for n in self.nodes if str(n.key) == key), None)

    def suspects(self) -> list[dict[str, Any]]:
        """Settings that differ and may matter: not those of a module whose every result is right."""
        results: dict[str, bool] = {}
        for node in self.nodes:
            if not node.key.is_input and not node.key.is_operation:
                results[node.key.path] = results.get(node.key.path, False) or node.bad
        return [setting for setting in self.attributes if results.get(setting["path"], True)]

    def sentence(self) -> str:
        """The one sentence for a person."""
        head = self.reasons[0] if self.reasons else ""
        if self.verdict is Verdict.BUG and self.first is not None:
            head = f"first difference: {(self.place or self.first).describe()}"
            head += f", begun at {self.begins} of the candidate" if self.begins else ""
            if self.causes:
                head += f"; {self.causes[0].why}"
        return f"{self.verdict.value}: {head} [{self.coverage}]".replace(":  [", " [")

    def html(self, path: str | Path) -> Path:
        """Write the report as one self-contained page."""
        from ..report.html import write_html

        return write_html(self, path)

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dump`; nodes in the reference's order."""
        quiet = replace(self.search, tell=None) if self.search is not None else None
        data = asdict(replace(self, explained=None, search=quiet))
        data["explained"] = self.explained.sentence() if self.explained is not None else None
        data["schema"] = "pcompare/1"
        data["sentence"] = self.sentence()
        data["coverage"]["fraction"] = self.coverage.fraction
        single = [data[name] for name in ("first", "place") if data[name]]
        for node in [*data["nodes"], *data["origins"], *single]:
            node["key"] = str(Key(**node["key"]))
            node["other"] = str(Key(**node["other"])) if node["other"] else None
        return data
