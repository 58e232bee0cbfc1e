"""Weights of another place than the reference's, in a port that takes them from a table by their name or number."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from ..edits import Edit, ParameterChange
from .anchors import WeightUse, weight_uses
from .lines import told_line
from .matching import Matching

NAME = "tied_weight"


def weights_of_another_place(matching: Matching, modules: Mapping[str, nn.Module]) -> Edit | None:
    """The reference with the weights of another of its modules in the place of those that the candidate never uses."""
    mine, others = weight_uses(matching.ours), weight_uses(matching.theirs)
    lacking = [use for key, uses in mine.items() if key not in others for use in uses[:1]]
    for use in sorted(lacking, key=lambda use: use.step.number):
        for key, uses in others.items():
            known = mine.get(key, [])
            if not known or len(uses) <= len(known):
                continue
            taken = next((other for other in uses if _is_alike(matching, use, known[0], other)), None)
            if taken is not None:
                return _in_its_place(matching, use.weight, known[0].weight, taken, modules)
    return None


def _is_alike(matching: Matching, lacking: WeightUse, known: WeightUse, other: WeightUse) -> bool:
    """The candidate gives the other weight what the reference gives the one that is lacking."""
    sizes = [tuple(v.content.shape for v in use.step.operands() if v is not use.data) for use in (lacking, known)]
    return sizes[0] == sizes[1] and matching.same_numbers(lacking.data, other.data)


def _in_its_place(
    matching: Matching, lacking: str, used: str, taken: WeightUse, modules: Mapping[str, nn.Module]
) -> Edit | None:
    right, wrong = _parted(lacking, used)
    if right not in modules or wrong not in modules:
        return None
    own = dict(modules[right].named_parameters())
    there = dict(modules[wrong].named_parameters())
    changes = [
        ParameterChange(
            ".".join(part for part in (right, name.rpartition(".")[0]) if part),
            name.rpartition(".")[2],
            lambda old, new=there[name]: new.detach(),
        )
        for name, tensor in own.items()
        if name in there and there[name].shape == tensor.shape
    ]
    line = told_line(matching.theirs, taken.step, 1, matching.ours)
    told = f"the weights of `{wrong}` are used in the place of those of `{right}`, which are not used at all"
    return Edit(NAME, told, tuple(changes), rank=1, owner=right, line=line) if changes else None


def _parted(one: str, other: str) -> tuple[str, str]:
    """The largest modules around two weights that are not the same: `blocks.0` and `blocks.1`."""
    left, right = one.split("."), other.split(".")
    shared = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    if shared is None or left[shared + 1 :] != right[shared + 1 :]:
        return one.rpartition(".")[0], other.rpartition(".")[0]
    return ".".join(left[: shared + 1]), ".".join(right[: shared + 1])
