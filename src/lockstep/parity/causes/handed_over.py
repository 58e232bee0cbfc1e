"""What a model is given, put right: the proof that handing over the wrong thing is all that is wrong."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch

from ..comparison.results import Cause, Comparison, Role, Standing
from ..recording.values import to_torch
from ..trace.names import Key
from .edits import Edit, ModuleChange
from .observed.transplant import replaced

Given = dict[str, dict[int, torch.Tensor]]  # by model and by call


def prove_handed_over(search: Any, comparison: Comparison, cause: Cause) -> bool:
    """True, and told, if with the reference's value handed over wherever it differs the whole run agrees."""
    key = Key.parse(cause.at)
    given = _right_values(search, comparison, key)
    if not key.is_input or not given:
        return False
    changes = tuple(_handed(search.modules[path], path, key.slot, values) for path, values in given.items())
    again = search.whole.compared_again([Edit("put_right", f"{key.slot} of {', '.join(given)}", changes)])
    if again is None or not again.nodes:
        return False
    bad = [n for n in again.nodes if n.bad and n.role is not Role.HEALED and not n.key.is_operation]
    # what a model is given is written down before it is put right
    left = [n for n in bad if n.key.slot != key.slot or n.other is None or n.other.path not in given]
    if left:
        return False
    cause.standing, cause.evidence["accepted"] = Standing.PROVEN, True
    cause.why += "; with the reference's handed over instead, wherever it differs, everything behind it agrees"
    return True


def _right_values(search: Any, comparison: Comparison, key: Key) -> Given:
    """What the reference's models are given in this slot, for every call where the candidate's get something else."""
    given: Given = defaultdict(dict)
    for node in comparison.nodes:
        entry = search.foreign.get(node.key)
        if not node.bad or node.key.slot != key.slot or node.other is None or entry is None or not entry.has_data:
            continue
        if node.other.path in search.live.parts.modules and node.other.is_input:
            number = search.call_number(node.other.path, node.other)
            given[node.other.path][number] = to_torch(search.foreign.array(entry))
    return given


def _handed(module: Any, path: str, slot: str, values: dict[int, torch.Tensor]) -> ModuleChange:
    count = iter(range(1 << 30))

    def before(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        value = values.get(next(count))
        return (args, kwargs) if value is None else replaced(module, slot, args, kwargs, value)

    return ModuleChange(path, before, before=True)
