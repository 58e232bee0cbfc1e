"""A UNet that can read sketches before its first step of training: its cross-attentions look at their own field.

A text ends with a place for each field of the picture (`sketch.py`). What a UNet has to learn of them first is where it
stands itself and which of the places tells of there. The features of a trained UNet know where they stand, from the
zeros around its maps, so that a line through them and through the hidden states of the places gives queries and keys
that meet; values are what the places tell of the latents. How to draw what was read is left to the training.

Where a map is finer than the fields, each head stands for one of the places within a field: it looks at the field only
from there, and from elsewhere at the first mark of the text, which tells nothing. So every place reads its own latents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .sketch_head import SketchHead

SHARP = 10.0  # the score of a row or a column that is one's own, above the others'
LOUD = 0.5  # what was read beside what was there
RIDGE = 1e-5
AWAY = 2.5  # how far the first mark is above the own field for a head that stands elsewhere


@torch.no_grad()
def write_reading(unet: nn.Module, head: SketchHead, draw: Callable[[], object], hidden_BLC: Tensor) -> None:
    """Let every cross-attention read the sketch; `draw` runs the UNet on examples, `hidden_BLC` are their texts."""
    keys = line_through(hidden_BLC.flatten(0, 1), places_of(hidden_BLC, head.fields))
    pass_on(unet)
    for block in blocks_of(unet):
        seen: list[Tensor] = []  # in the order of the computation, since what is written changes what comes after it
        handle = block.norm2.register_forward_hook(lambda _, args, out, seen=seen: seen.extend((args[0], out)))
        draw()
        handle.remove()
        stream, features = (values.float() for values in seen)
        if features.shape[1] > head.fields**2:
            write_fine_layer(block.attn2, head, features, hidden_BLC)
            continue
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


def blocks_of(unet: nn.Module) -> list[Any]:
    return [module for module in unet.modules() if hasattr(module, "attn2")]


def pass_on(unet: Any) -> None:
    """The transformers of the finest maps begin as what adds the first numbers of what was read, and little else."""
    for transformer in getattr(unet.up_blocks[-1], "attentions", None) or ():
        width = len(transformer.proj_in.weight)
        for projection, kept in ((transformer.proj_in, width), (transformer.proj_out, 4)):
            projection.weight.zero_()
            projection.weight[:kept, :kept] = torch.eye(kept).view(kept, kept, *projection.weight.shape[2:])
            projection.bias.zero_()
        for block in transformer.transformer_blocks:
            for last in (block.attn1.to_out[0], block.ff.net[2]):
                last.weight.zero_()
                last.bias.zero_()


def on_circles(places: Tensor, count: int) -> Tensor:
    """Four numbers for a row or a column: its place on a circle, and on one that is run through twice."""
    angles = places[..., None] * torch.tensor([1.0, 2.0]) * (2 * torch.pi / count)
    return torch.cat([angles.cos(), angles.sin()], dim=-1) / 2**0.5


def standing_at(side: int, fields: int) -> tuple[Tensor, Tensor]:
    """For each place of a map the field, and the number of the place within it."""
    fine = side // fields
    rows, columns = torch.cartesian_prod(torch.arange(side), torch.arange(side)).T
    return rows // fine * fields + columns // fine, rows % fine * fine + columns % fine


def write_fine_layer(layer: Any, head: SketchHead, features_BLC: Tensor, hidden_BLC: Tensor) -> None:
    """Each head looks at the own field from one of the places within it, and from elsewhere at the first mark."""
    count, side, fields = len(features_BLC), int(features_BLC.shape[1] ** 0.5), head.fields
    width, (own, within) = len(layer.to_q.weight) // layer.heads, standing_at(side, fields)
    fine = (side // fields) ** 2
    lattice = torch.cartesian_prod(torch.arange(fields), torch.arange(fields))
    codes = on_circles(lattice, fields).flatten(1)  # [fields, 8]
    if width <= codes.shape[1] or layer.heads < fine:
        return
    told = hidden_BLC.new_zeros(hidden_BLC.shape[1], codes.shape[1] + 1)
    told[-len(codes) :, :-1] = codes
    told[0, -1] = 1.0
    keys = line_through(hidden_BLC.flatten(0, 1), told.repeat(len(hidden_BLC), 1))
    latents = F.pad(head.out(hidden_BLC[:, -len(codes) :]), (0, 0, hidden_BLC.shape[1] - len(codes), 0))
    values = line_through(hidden_BLC.flatten(0, 1), latents.flatten(0, 1))
    for number in range(fine):
        away = 1 + AWAY * (within != number)[:, None]
        wanted = torch.cat([codes[own], away.to(codes)], dim=1).repeat(count, 1)
        rows = slice(number * width, (number + 1) * width)
        for projection, written in (
            (layer.to_q, SHARP * width**0.5 * line_through(features_BLC.flatten(0, 1), wanted)),
            (layer.to_k, keys),
            (layer.to_v, values[number::fine]),
        ):
            projection.weight[rows] = F.pad(written, (0, 0, 0, width - len(written)))
        layer.to_out[0].weight[:, rows] = F.pad(
            torch.eye(len(layer.to_out[0].weight), len(values) // fine), (0, width - len(values) // fine)
        )
    layer.to_out[0].bias.zero_()


def split_heads(values_BLC: Tensor, heads: int) -> Tensor:
    return values_BLC.unflatten(-1, (heads, -1)).transpose(1, 2).float()


class ReadingLoss:
    """How far the cross-attentions of the finest maps are from looking where they should, while the UNet runs."""

    def __init__(self, unet: Any, fields: int) -> None:
        self.fields = fields
        self.seen: list[Tensor] = []
        attentions = getattr(unet.up_blocks[-1], "attentions", None) or ()
        self.layers = [block.attn2 for transformer in attentions for block in transformer.transformer_blocks]
        for layer in self.layers:
            for projection in (layer.to_q, layer.to_k):
                projection.register_forward_hook(self.keep)

    def keep(self, _module: nn.Module, _inputs: object, output: Tensor) -> None:
        if output.requires_grad:  # not where somebody only looks
            self.seen.append(output)

    def take(self) -> Tensor:
        """The loss of the last run of the UNet."""
        losses = []
        for layer, queries, keys in zip(self.layers, self.seen[::2], self.seen[1::2], strict=True):
            queries, keys = (split_heads(values, layer.heads) for values in (queries, keys))
            scores = queries @ keys.transpose(2, 3) * queries.shape[-1] ** -0.5
            own, within = standing_at(int(queries.shape[2] ** 0.5), self.fields)
            here = within == torch.arange(layer.heads)[:, None]
            wanted = torch.where(here, own + keys.shape[2] - self.fields**2, 0)
            losses.append(F.cross_entropy(scores.permute(0, 3, 1, 2), wanted.expand(len(scores), -1, -1)))
        self.seen.clear()
        return torch.stack(losses).mean()
