"""Workflows: the part of a tree that runs for given inputs."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from .block import ModularPipelineBlocks
from .wiring import Flow, branch_for, check_made, check_readers_agree, join, trace


def workflow_flows(root: Any, given: Iterable[str] = ()) -> dict[str, Flow]:
    """What flows in each named workflow, every one of them checked."""
    flows = {}
    for name, triggers in root.workflow_triggers().items():
        flows[name] = trace(root, branch_for(dict.fromkeys(triggers, True)), show_branches=False)
        check_made(root, flows[name], {*given, *triggers}, f" (workflow {name!r})")
        check_readers_agree(flows[name], all_run=True)
    return flows


def pruned(root: Any, values: Mapping[str, Any]) -> Any:
    """The tree with each choice replaced by the branch that it takes for these values, and without skipped choices."""
    choices = trace(root, branch_for(values), show_branches=False).choices
    return _prune(root, "", choices)


def _prune(block: ModularPipelineBlocks, tree: str, choices: Mapping[str, str | None]) -> ModularPipelineBlocks | None:
    if block.kind == "leaf":
        return block
    parts: Any = block.sub_blocks  # type: ignore[attr-defined]
    if block.kind == "choice" and not block.loop_triggers:  # type: ignore[attr-defined]
        branch = choices.get(tree)
        return None if branch is None else _prune(parts[branch], join(tree, branch), choices)
    kept = {name: _prune(part, join(tree, name), choices) for name, part in parts.items()}
    twin: Any = copy.copy(block)
    twin.sub_blocks = type(parts)({name: part for name, part in kept.items() if part is not None})
    return twin
