"""The eighteen mistakes that ports make most often (docs/pitfalls.md), and by what a proof tells them apart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..parity import Comparison

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
    "norm_eps": 14,
    "norm_groups": 14,
    "upsample_mode": 15,
}
SIZES = {"in_features", "out_features", "in_channels", "out_channels", "num_features", "groups"}
BY_VERDICT = {"RAISED": 8, "INVALID": 18}
HALF = {"F16", "BF16"}
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
    return kinds.get(type(problem).__name__)


def pitfalls_of(stage: str, comparison: Comparison) -> list[int]:
    """The pitfalls that a stage looks like, the likeliest first: what is proven, then what its place suggests."""
    verdict, first = str(comparison.verdict), comparison.first
    if verdict == "NOISE":
        half = first is not None and set(first.dtypes) & HALF
        return [17] if half or any(set(node.dtypes) & HALF for node in comparison.nodes) else []
    if verdict == "PASS":
        return []
    if verdict in BY_VERDICT:
        return [BY_VERDICT[verdict]]
    place = f"{first.key.path}|{first.key.slot}".lower() if first is not None else ""
    found = [number for cause in comparison.causes if (number := _of_cause(cause.name, stage, place))]
    if settings_that_differ(comparison):
        found.append(15 if stage == "decode" else 14)
    return list(dict.fromkeys([*found, *_of_place(stage, place)]))[:3]


def settings_that_differ(comparison: Comparison) -> list[str]:
    """Settings in force that differ and may matter; sizes follow from how layers are cut, and weights tell of them."""
    rows = [one for one in comparison.suspects() if one.get("name") not in SIZES]
    return [f"{one.get('path')}.{one.get('name')} is {one.get('a')} there and {one.get('b')} here" for one in rows]


def _of_cause(cause: str, stage: str, place: str) -> int | None:
    """The pitfall that a proven cause is; a rounding is another one at each place."""
    if cause != "precision":
        return BY_CAUSE.get(cause)
    if any(word in place for word in TURNING):
        return 12
    if stage == "encode":
        return 11
    return 13 if "@scheduler" in place or "@pipeline" in place else 6


def _of_place(stage: str, place: str) -> list[int]:
    """What a difference at this place is most often."""
    if stage == "decode":
        return [15]
    if "@rng" in place:
        return [1]
    if stage == "encode" and place.endswith(SAMPLES):
        return [4, 1]
    if any(word in place.rpartition("|")[2] for word in TIMES):
        return [2]
    if BEHIND_ATTENTION.search(place):
        return [12, 6]
    return [13, 3] if "@scheduler" in place else []
