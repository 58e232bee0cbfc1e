"""Accelerated models in little memory.

A frugal layer prepares its weights when it is first called, and lets the ones that they were made of leave memory where
a file holds them; a convolution makes its transformed weights while it computes. What was prepared can be let go of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import nn

from .. import memory
from .fast import Prepared
from .fast_layers import FastConvolution
from .fast_unet_blocks import FastAttention


def layers_of(model: nn.Module) -> Iterator[Prepared]:
    """The layers that prepare something."""
    return (module for module in model.modules() if isinstance(module, Prepared))


def make_frugal(model: nn.Module) -> None:
    """Take as little memory as can be."""
    for layer in layers_of(model):
        layer.frugal = True
        if isinstance(layer, FastConvolution):
            layer.keeps = False
    let_go(model)


def let_go(model: nn.Module) -> None:
    """Drop what was prepared, and let weights that a file holds leave memory; the next call brings both back."""
    for layer in model.modules():
        if isinstance(layer, (Prepared, FastAttention)):
            layer.forget()
    for weight in model.parameters():
        memory.page_out(weight)


def to_come(model: nn.Module) -> int:
    """Bytes that the layers will still prepare."""
    return sum(layer.size() for layer in layers_of(model) if not layer.is_prepared)


def prepared(model: nn.Module) -> int:
    """Bytes that the layers have prepared."""
    return sum(layer.size() for layer in layers_of(model) if layer.is_prepared)


def weights(model: nn.Module) -> int:
    """Bytes of the weights that a frugal model prepares, also of one that is not accelerated."""
    multiplied = (module for module in model.modules() if isinstance(module, (nn.Linear, nn.Conv2d)))
    return sum(module.weight.nbytes for module in multiplied)


def keep_within(models: Iterable[nn.Module], room: int) -> None:
    """Let convolutions keep their transformed weights, three times what they take anyway, as far as there is room.

    The small ones come first: they are called on the largest maps, so each byte saves the most there.
    """
    convolutions = [layer for model in models for layer in layers_of(model) if isinstance(layer, FastConvolution)]
    for layer in sorted(convolutions, key=lambda layer: layer.in_channels * layer.out_channels):
        layer.keeps = False
        without = layer.size()
        layer.keeps = True
        more = layer.size() - without
        layer.keeps = more <= room
        room -= more if layer.keeps else 0
