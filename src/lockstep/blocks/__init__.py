"""The mechanism that carries every pipeline: a tree of named blocks, in which every boundary between two blocks is a
place where a value can be watched, saved, stopped at, or replaced.

Read in this order: vocabulary (what names mean), params (what a block declares), state (what a block sees), block
(the leaf), compose (sequence, loop, choice), wiring (who reads and makes what), plan (what a call will do), run (the
engine).
"""

from .block import ModularPipelineBlocks
from .checkpoints import Checkpoint
from .components import ComponentsView
from .compose import (
    AutoPipelineBlocks,
    CompositeBlocks,
    ConditionalPipelineBlocks,
    LoopSequentialPipelineBlocks,
    SequentialPipelineBlocks,
)
from .events import Event
from .manifest import Manifest
from .output import PipelineOutput
from .params import ComponentSpec, ConfigSpec, InputParam, OutputParam, needs
from .randomness import randn_tensor
from .run import Run, RunOptions
from .state import LATER, BlockState, BlockView, PipelineState

__all__ = [
    "LATER",
    "AutoPipelineBlocks",
    "BlockState",
    "BlockView",
    "Checkpoint",
    "ComponentSpec",
    "ComponentsView",
    "CompositeBlocks",
    "ConditionalPipelineBlocks",
    "ConfigSpec",
    "Event",
    "InputParam",
    "LoopSequentialPipelineBlocks",
    "Manifest",
    "ModularPipelineBlocks",
    "OutputParam",
    "PipelineOutput",
    "PipelineState",
    "Run",
    "RunOptions",
    "SequentialPipelineBlocks",
    "needs",
    "randn_tensor",
]
