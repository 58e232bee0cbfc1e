"""A block reads only what it declares: every block of the package's pipelines, by the rule of the integration kit."""

from __future__ import annotations

import importlib
import pkgutil

from lockstep import pipelines
from lockstep.blocks import ModularPipelineBlocks
from lockstep.kit.checks.declared import blocks_of, findings

__all__ = ["all_blocks", "findings"]


def all_blocks() -> list[type[ModularPipelineBlocks]]:
    """Every block of the package's pipelines."""
    for module in pkgutil.walk_packages(pipelines.__path__, f"{pipelines.__name__}."):
        importlib.import_module(module.name)
    return blocks_of(f"{pipelines.__name__}.")
