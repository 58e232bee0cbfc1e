"""Weights that lie on several ranks (FSDP2, `fully_shard`): each layer's come together while it runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..errors import UnsupportedError
from .ranks import Ranks


def shard(model: nn.Module, ranks: Ranks) -> None:
    """Keep one part of every layer's weights on each rank; those of a stack's blocks come together one by one."""
    from torch.distributed.device_mesh import init_device_mesh  # a second of imports that others need not wait for
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(ranks.device.type, (ranks.world,))
    for module in model.children():
        if isinstance(module, nn.ModuleList):
            for block in module:
                fully_shard(block, mesh=mesh)
    own = type(model)
    fully_shard(model, mesh=mesh)
    spread: Any = type(model)  # torch makes a class of its own, under whose name nobody knows the model
    spread.__name__, spread.outline = own.__name__, getattr(own, "outline", None)


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
    if len({parameter.dtype for parameter in parameters if parameter.is_floating_point()}) > 1:
        raise UnsupportedError(
            f"{type(model).__name__} has weights of several dtypes, which cannot lie on several ranks together. Load "
            f"it in one: dtype={torch.float32}."
        )
