"""A UNet that can read sketches before its first step of training: its cross-attentions look at their own field.

A text ends with a place for each field of the picture (`sketch.py`). What a UNet has to learn of them first is where it
stands itself and which of the places tells of there. The features of a trained UNet know where they stand, from the
zeros around its maps, so that a line through them and through the hidden states of the places gives queries and keys
that meet; values are what the places tell of the latents. How to draw what was read is left to the training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .sketch_head import SketchHead

SHARP = 10.0  # the score of a row or a column that is one's own, above the others'
LOUD = 0.5  # what was read beside what was there
RIDGE = 1e-5


@torch.no_grad()
def write_reading(unet: nn.Module, head: SketchHead, draw: Callable[[], object], hidden_BLC: Tensor) -> None:
    """Let every cross-attention read the sketch; `draw` runs the UNet on examples, `hidden_BLC` are their texts."""
    keys = line_through(hidden_BLC.flatten(0, 1), places_of(hidden_BLC, head.fields))
    blocks: list[Any] = [module for module in unet.modules() if hasattr(module, "attn2")]
    for block in blocks:
        seen: list[Tensor] = []  # in the order of the computation, since what is written changes what comes after it
        handle = block.norm2.register_forward_hook(lambda _, args, out, seen=seen: seen.extend((args[0], out)))
        draw()
        handle.remove()
        stream, features = (values.float() for values in seen)
        write_layer(block.attn2, head, features, keys, LOUD * stream.square().mean().sqrt())


def places_of(hidden_BLC: Tensor, fields: int) -> Tensor:
    """Row and column of the field that each place of the texts tells, one after the other; nothing for words."""
    own = torch.cartesian_prod(torch.arange(fields), torch.arange(fields))
    told = nn.functional.one_hot(own, fields).flatten(1).to(hidden_BLC)
    words = told.new_zeros(hidden_BLC.shape[1] - len(told), 2 * fields)
    return torch.cat([words, told]).repeat(len(hidden_BLC), 1)


def line_through(given: Tensor, wanted: Tensor) -> Tensor:
    """The weights [wanted, given] of the line through the given vectors that comes nearest to what is wanted."""
    square = given.T @ given + RIDGE * len(given) * given.square().mean() * torch.eye(given.shape[1])
    return torch.linalg.solve(square, given.T @ wanted).T


def write_layer(layer: Any, head: SketchHead, features_BLC: Tensor, keys: Tensor, loud: Tensor) -> None:
    """Each head looks at one of the fields that a place of the map covers; heads that are left, or too narrow, stay as
    they are."""
    side, width = int(features_BLC.shape[1] ** 0.5), len(layer.to_q.weight) // layer.heads
    covered, codes, values = max(1, head.fields // side), len(keys), len(head.out.weight)
    if width < max(codes, values):
        return
    offsets = torch.cartesian_prod(torch.arange(covered), torch.arange(covered))
    for number, offset in enumerate(offsets[: layer.heads]):
        standing = torch.cartesian_prod(torch.arange(side), torch.arange(side)) * head.fields // side + offset
        places = nn.functional.one_hot(standing, head.fields).flatten(1).to(features_BLC).repeat(len(features_BLC), 1)
        rows = slice(number * width, (number + 1) * width)
        for projection, written in (
            (layer.to_q, SHARP * width**0.5 * line_through(features_BLC.flatten(0, 1), places)),
            (layer.to_k, keys),
            (layer.to_v, head.out.weight),
        ):
            projection.weight[rows] = nn.functional.pad(written, (0, 0, 0, width - len(written)))
        out = layer.to_out[0].weight
        draw = torch.Generator().manual_seed(number)
        out[:, rows] = torch.randn(len(out), width, generator=draw) * loud / values**0.5
