"""The eighteen mistakes that ports make most often (docs/pitfalls.md), and by what a proof tells them apart."""

from __future__ import annotations

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
    "stale_state": 7,
    "exception": 8,
    "guider_state": 9,
    "weight_values": 10,
    "missing_bias": 10,
    "tied_weight": 10,
    "rope_lanes": 12,
    "upsample_mode": 15,
    "norm_groups": 15,
}
TIMES = ("timestep", "time", "sigma")
TURNING = ("rotary", "rope", "turn", "position", "places", "polar", "cos", "sin")


def describe(number: int) -> str:
    """A pitfall for people: its number, its name, and where it is explained."""
    return f"pitfall {number}, {PITFALLS[number]} (docs/pitfalls.md)"


def pitfalls_of(stage: str, comparison: Comparison) -> list[int]:
    """The pitfalls that a failed stage looks like, the likeliest first."""
    first = comparison.first
    path, slot = (first.key.path, first.key.slot) if first is not None else ("", "")
    place = f"{path}|{slot}".lower()
    found = [BY_CAUSE[cause.name] for cause in comparison.causes if cause.name in BY_CAUSE]
    verdict = str(comparison.verdict)
    if verdict == "RAISED":
        found.append(8)
    if verdict == "INVALID":
        found.append(18)
    if any(word in slot.lower() for word in TIMES):
        found.insert(0, 2)
    if any(cause.name == "precision" for cause in comparison.causes):
        found.append(_rounded(stage, place))
    if stage == "decode":
        found.append(15)
    if comparison.suspects():
        found.append(14)
    if not found and stage == "encode" and path.startswith("@rng"):
        found.append(1)
    if not found and path.startswith("@scheduler"):
        found.append(3 if "model_output" in slot or "prediction" in slot else 13)
    return list(dict.fromkeys(found))


def _rounded(stage: str, place: str) -> int:
    """Which pitfall a rounding is, by where it happens."""
    if any(word in place for word in TURNING):
        return 12
    if stage == "encode":
        return 11
    return 13 if "@scheduler" in place else 6
