"""The eighteen mistakes that ports make most often (docs/pitfalls.md), and by what a proof tells them apart."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..parity import Cause, Comparison, Trace
    from ..parity.trace.sketch import Stats

PITFALLS = {
    1: "global random numbers",
    2: "timestep dtype",
    3: "guidance mapping",
    4: "patch size in the noise",
    5: "shadowed variable",
    6: "float precision",
    7: "scheduler state not reset",
    8: "component access",
    9: "guider state",
    10: "weights in a temporary folder",
    11: "noise dtype",
    12: "rotary positions in low precision",
    13: "amplification over the steps",
    14: "config assumptions",
    15: "decoder config",
    16: "incomplete injection",
    17: "bfloat16 noise of encoders",
    18: "stale fixtures",
}
BY_CAUSE = {  # what parity calls a cause -> the pitfall that it is
    "random_stream": 1,
    "random_offset": 1,
    "timestep_dtype": 2,
    "guidance": 3,
    "split_order": 3,
    "patch_noise": 4,
    "wrong_operand": 5,
    "timestep_offset": 5,
    "stale_state": 7,
    "exception": 8,
    "guider_state": 9,
    "weight_values": 10,
    "missing_bias": 10,
    "tied_weight": 10,
    "rope_lanes": 12,
    "timestep_spacing": 14,
    "schedule_end": 14,
    "schedule_shift": 14,
    "schedule_reversed": 14,
    "norm_eps": 14,
    "norm_groups": 14,
    "upsample_mode": 15,
}
VAGUE = {"missing_bias", "weight_values"}  # what fits many a difference, and is believed where it is proven alone
SIZES = {"in_features", "out_features", "in_channels", "out_channels", "num_features", "groups"}
BY_VERDICT = {"RAISED": 8, "INVALID": 18}
HALF = {"F16", "BF16"}
ROUNDING = 1e-4  # relative: what positions in float32 instead of float64 stay under
COARSE = 1e-2  # relative: what a rounding to 16 bits or to whole timesteps stays under
UNSEEDED = 67280421310721  # the seed of a generator that nobody gave one
TIMES = ("timestep", "time", "sigma")
BEHIND_ATTENTION = re.compile(r"\.(out|to_out(\.0)?|proj|out_proj|o_proj|wo)\|in\.")  # queries, keys, values are right
SAMPLES = ("latents", "sample", "hidden_states", "in.x", "in.input", "noise")
TURNING = ("rotary", "rope", "turn", "position", "places", "polar", "cos", "sin")


def describe(number: int) -> str:
    """A pitfall for people: its number, its name, and where it is explained."""
    return f"pitfall {number}, {PITFALLS[number]} (docs/pitfalls.md)"


def pitfall_of_error(problem: Exception) -> int | None:
    """The pitfall that a refusal is: an injection that leaves a consumed value open, a component that is not there."""
    kinds = {"InjectionError": 16, "TeacherForcingError": 16, "WiringError": 8, "AttributeError": 8}
    if "which this pipeline does not have" in str(problem):
        return 8
    about_time = "timestep" in str(problem) and ("integer" in str(problem) or "float" in str(problem))
    return 2 if about_time else kinds.get(type(problem).__name__)


def pitfalls_of(stage: str, comparison: Comparison) -> list[int]:
    """The pitfalls that a stage looks like, the likeliest first: what is proven, then what its place suggests."""
    from .. import parity

    verdict, first = str(comparison.verdict), comparison.first
    if verdict == "NOISE":
        half = first is not None and set(first.dtypes) & HALF
        return [17] if half or any(set(node.dtypes) & HALF for node in comparison.nodes) else []
    if verdict == "PASS":
        return []
    if verdict in BY_VERDICT:
        return [BY_VERDICT[verdict]]
    error = first.error or 0.0 if first is not None else 0.0
    place = f"{first.key.path}|{first.key.slot}".lower() if first is not None else ""
    traces = parity.Trace.open(comparison.reference_path), parity.Trace.open(comparison.candidate_path)
    proven = [cause for cause in comparison.causes if cause.standing == "proven"]
    fitting = [cause for cause in comparison.causes if cause not in proven and cause.name not in VAGUE]
    found = [*(_of_draws(*traces) if stage != "decode" else []), *_of_causes(proven, stage, place)]
    found += [*_of_roundings(*traces, stage, place), *_of_weights(*traces), *_of_causes(fitting, stage, place)]
    if place.startswith("@scheduler.timesteps") and first is not None and first.shape != first.other_shape:
        found.append(18)  # another number of steps was asked for
    if settings_that_differ(comparison):
        found.append(15 if stage == "decode" else 14)
    return list(dict.fromkeys(found or _of_place(stage, place, error)))[:3]


def settings_that_differ(comparison: Comparison) -> list[str]:
    """Settings in force that differ and may matter; sizes follow from how layers are cut, and weights tell of them."""
    rows = [one for one in comparison.suspects() if one.get("name") not in SIZES]
    return [f"{one.get('path')}.{one.get('name')} is {one.get('a')} there and {one.get('b')} here" for one in rows]


def _of_draws(a: Trace, b: Trace) -> list[int]:
    """What the random numbers of both sides tell: whence they were drawn, by which seed, in which dtype."""
    reference, port = _draws(a), _draws(b)
    if any(_is_global(draw) for draw in port) and not any(_is_global(draw) for draw in reference):
        return [1]
    if len(port) < len(reference):
        return [1]  # what it takes for noise comes from elsewhere: another library, or a generator of its own
    for mine, theirs in zip(reference, port, strict=False):
        if mine["dtype"] != theirs["dtype"]:
            return [11]
        if mine["seed"] != theirs["seed"] and not _is_global(mine):
            return [1, 18] if theirs["seed"] == UNSEEDED else [18, 1]
        if mine["shape"] != theirs["shape"]:
            return [18, 4] if math.prod(theirs["shape"]) > math.prod(mine["shape"]) else [4]  # of a larger picture
    return []


def _of_roundings(a: Trace, b: Trace, stage: str, place: str) -> list[int]:
    """What the port's values of 16 bits tell, where the reference has none."""
    halves = [any(entry.dtype in HALF for entry in trace.entries) for trace in (a, b)]
    if halves != [False, True]:
        return []
    named = _of_cause("precision", stage, place)
    return [12, 6] if BEHIND_ATTENTION.search(place) else [named] if named else []


def _of_weights(a: Trace, b: Trace) -> list[int]:
    """What tensors of the reference tell that are nowhere in the port: other weights, or none were loaded."""
    from ..parity import align_traces

    there = {path for match in align_traces(a, b).weights if match.kind != "different" for path in match.a}
    lost = [path for path, entry in a.params.items() if path not in there and not _is_constant(a.stats(entry))]
    return [10] if lost else []


def _is_constant(stats: Stats) -> bool:
    return stats.min == stats.max


def _draws(trace: Trace) -> list[dict[str, Any]]:
    """Every draw of a run, in its order; a dropout is none."""
    drawn = [entry for entry in trace.entries if entry.key.slot == "rng"]
    facts = [
        {"dtype": entry.dtype, "shape": entry.shape, "seed": None, **(entry.meta.get("rng") or {})} for entry in drawn
    ]
    return [one for one in facts if "dropout" not in str(one.get("function"))]


def _is_global(draw: dict[str, Any]) -> bool:
    return draw.get("generator") == "global"


def _of_causes(causes: Iterable[Cause], stage: str, place: str) -> list[int]:
    return [number for cause in causes if (number := _of_cause(_named(cause), stage, place))]


def _named(cause: Cause) -> str:
    """A prediction that is zero in the first loop is a guidance mapped wrongly; in a later one the guider's state."""
    first_loop = cause.name == "guider_state" and "the prediction is zero" in cause.why and "pass:" not in cause.at
    return "guidance" if first_loop else cause.name


def _of_cause(cause: str, stage: str, place: str) -> int | None:
    """The pitfall that a proven cause is; a rounding is another one at each place."""
    if cause != "precision":
        found = BY_CAUSE.get(cause)
        return 15 if found == 14 and stage == "decode" else found
    if any(word in place for word in TURNING):
        return 12
    if _is_time(place):
        return 2
    if stage == "encode":
        return 11
    return 13 if "@scheduler" in place or "@pipeline" in place else 6


def _is_time(place: str) -> bool:
    """Whether a place is where a model is told its time: an input of that name, or of a module of that name."""
    path, _, slot = place.rpartition("|")
    return slot.startswith("in.") and any(word in slot or word in path.rpartition(".")[2] for word in TIMES)


def _of_place(stage: str, place: str, error: float) -> list[int]:
    """What a difference at this place is, where it is of the size that the pitfall makes."""
    if stage == "decode":
        return [15]
    if "@rng" in place:
        return [1]
    if stage == "encode" and place.endswith(SAMPLES):
        return [1, 4]
    if _is_time(place):
        return [2] if error < COARSE else []
    if BEHIND_ATTENTION.search(place):
        return [12, 6] if error < ROUNDING else [14, 12]
    if place.startswith(("@scheduler.timesteps", "@scheduler.sigmas")):
        return [14]
    return [13] if "@scheduler" in place and error < COARSE else []
