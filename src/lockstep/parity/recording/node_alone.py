"""How to record one node alone: full tensors for it and its operations, and nothing after it."""

from __future__ import annotations

from typing import Any

from ..trace.names import NO_STEP, Key


def keep_node(key: Key) -> dict[str, str]:
    """Full tensors for one node, its own operations, and those of the module around it."""
    path = key.path.partition("/")[0]
    parent = path.rpartition(".")[0]
    return {"*": "sketch", path: "full", f"{path}/*": "full", **({f"{parent}/*": "full"} if parent else {})}


def node_options(key: Key) -> dict[str, Any]:
    """Options of `record` that end the run where nothing more is needed: behind its step, or behind the module
    itself."""
    path = key.path.partition("/")[0]
    stop = None
    if key.step != NO_STEP:
        stop = key.step if "/" not in key.step else None
    elif not path.startswith("@") and not key.call:
        stop = path
    return {"keep": keep_node(key), "stop_at": stop}
