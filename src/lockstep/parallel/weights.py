"""Weights that lie on several ranks (FSDP2, `fully_shard`): each layer's come together while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from ..errors import UnsupportedError
from .ranks import Ranks


def shard(model: nn.Module, ranks: Ranks, *, by_block: bool) -> None:
    """Keep one part of every layer's weights on each rank; they come together for a call, or block by block of it.

    Block by block is for models that read no weight of a block but by calling it. Nothing of it is trained: so weights
    may have several dtypes.
    """
    from torch.distributed.device_mesh import init_device_mesh  # a second of imports that others need not wait for
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(ranks.device.type, (ranks.world,))
    model.requires_grad_(False)
    for block in blocks_of_stacks(model) if by_block else ():
        fully_shard(block, mesh=mesh)
    own = type(model)
    fully_shard(model, mesh=mesh, reshard_after_forward=True)
    spread: Any = type(model)  # torch makes a class of its own, under whose name nobody knows the model
    spread.__name__, spread.outline = own.__name__, getattr(own, "outline", None)


def blocks_of_stacks(module: nn.Module) -> Iterator[nn.Module]:
    """The blocks of the outermost lists whose members are of one class, which a model calls one after the other."""
    for child in module.children():
        kinds = {type(block) for block in child} if isinstance(child, nn.ModuleList) else set()
        if isinstance(child, nn.ModuleList) and len(child) > 1 and len(kinds) == 1:
            yield from (block for block in child if next(block.parameters(), None) is not None)
        else:
            yield from blocks_of_stacks(child)


def is_sharded(model: nn.Module) -> bool:
    """Whether its weights lie on several ranks."""
    return any(hasattr(parameter, "full_tensor") for parameter in model.parameters())


def check_shardable(model: nn.Module) -> None:
    """Refuse what has no weights to share out, or has them shared out already."""
    if is_sharded(model):
        raise UnsupportedError(f"The weights of {type(model).__name__} lie on several ranks already.")
    if getattr(model, "acceleration", None) is not None:
        raise UnsupportedError(
            f'{type(model).__name__} is accelerated by kernels that want whole weights: accelerate("off").'
        )
    parameters = list(model.parameters())
    if not parameters or any(parameter.is_meta for parameter in parameters):
        raise UnsupportedError(f"{type(model).__name__} has no weights to share out among ranks. Load them first.")
