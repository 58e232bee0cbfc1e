"""The vision tower of Qwen2.5-VL (arXiv:2502.13923, section 2.1): pictures of any size to tokens of a language model.

Axes: L patches of all pictures, D width, H heads, K = D / H. A tensor without suffix is LD; any other shape is in the
name. Patches come in groups of 2 × 2 that become one token. Most layers attend within windows, for which the groups are
put in another order; a grid is the number of a picture's frames, rows and columns of patches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, product
from typing import Any

import torch
from torch import nn

from ...attention import AttentionModuleMixin, ProcessorMixin, dispatch_attention_fn
from ...errors import ConfigError, InputError
from ..modeling import check_divisible, check_sizes, checkpointed
from .decoder import GatedMLP, Table, turned
from .encoder import RMSNorm

Tensor = torch.Tensor
Grid = tuple[int, int, int]
DEFAULTS: dict[str, Any] = {
    "depth": 32, "hidden_size": 1280, "hidden_act": "silu", "intermediate_size": 3420, "num_heads": 16,
    "in_channels": 3, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112,
    "out_hidden_size": 3584, "fullatt_block_indexes": [7, 15, 23, 31],
}  # fmt: skip
SIZES = tuple(name for name, value in DEFAULTS.items() if isinstance(value, int))
THETA = 10_000.0


class Qwen2_5_VisionPatchEmbed(nn.Module):
    """A vector for each patch of two frames."""

    def __init__(self, channels: int, width: int, frames: int, side: int) -> None:
        super().__init__()
        self.patch = (channels, frames, side, side)
        self.proj = nn.Conv3d(channels, width, self.patch[1:], stride=self.patch[1:], bias=False)

    def forward(self, patches: Tensor) -> Tensor:
        return self.proj(patches.to(self.proj.weight.dtype).unflatten(1, self.patch)).flatten(1)


class Qwen2_5_VLVisionAttnProcessor(ProcessorMixin):
    """Attention within each of the parts, as many patches as `lengths` says; neighbours of one length go as a batch."""

    def __call__(
        self, attn: Qwen2_5_VLVisionAttention, hidden_states: Tensor, table: Table, lengths: Sequence[int]
    ) -> Tensor:
        query, key, value = attn.qkv(hidden_states).unflatten(1, (3, attn.heads, -1)).unbind(1)
        query, key = (turned(part, table).to(part.dtype) for part in (query, key))
        runs = [(length, len(list(run))) for length, run in groupby(lengths)]
        sizes = [length * count for length, count in runs]
        parts = (part.split(sizes) for part in (query, key, value))
        mixed = []
        for (_, count), *three in zip(runs, *parts, strict=True):
            rows_BLHK = (part.unflatten(0, (count, -1)) for part in three)
            attended = dispatch_attention_fn(
                *rows_BLHK, backend=self._attention_backend, parallel_config=self._parallel_config
            )
            mixed.append(attended.flatten(2).flatten(0, 1))
        return attn.proj(torch.cat(mixed))


class Qwen2_5_VLVisionAttention(nn.Module, AttentionModuleMixin):
    """Self-attention of patches; the projections are one layer, as published."""

    _default_processor_cls = Qwen2_5_VLVisionAttnProcessor
    _available_processors = (Qwen2_5_VLVisionAttnProcessor,)
    fused_projections = True

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.set_processor(Qwen2_5_VLVisionAttnProcessor())

    def unfuse_projections(self) -> None:
        """They stay one layer, as published."""

    def forward(self, hidden_states: Tensor, table: Table, lengths: Sequence[int]) -> Tensor:
        return self.processor(self, hidden_states, table, lengths)


class Qwen2_5_VLVisionBlock(nn.Module):
    """Attention and feed forward, each after its norm and added to what came in."""

    def __init__(self, width: int, heads: int, hidden: int, hidden_act: str) -> None:
        super().__init__()
        self.norm1 = RMSNorm(width, 1e-6)
        self.norm2 = RMSNorm(width, 1e-6)
        self.attn = Qwen2_5_VLVisionAttention(width, heads)
        self.mlp = GatedMLP(width, hidden, hidden_act, bias=True)

    def forward(self, hidden_states: Tensor, table: Table, lengths: Sequence[int]) -> Tensor:
        hidden_states = hidden_states + self.attn(self.norm1(hidden_states), table, lengths)
        return hidden_states + self.mlp(self.norm2(hidden_states))


class Qwen2_5_VLPatchMerger(nn.Module):
    """Each group of patches as one token of the language model."""

    def __init__(self, width: int, out_width: int, group: int) -> None:
        super().__init__()
        self.group = group
        self.ln_q = RMSNorm(width, 1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(group * width, group * width), nn.GELU(), nn.Linear(group * width, out_width)
        )

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.mlp(self.ln_q(hidden_states).unflatten(0, (-1, self.group)).flatten(1))


class Qwen2_5_VisionTransformer(nn.Module):
    """Patches of pictures to tokens, in the order of the groups."""

    gradient_checkpointing = False

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.sizes = sizes = {**DEFAULTS, **config}
        check_tower(sizes)
        width, self.side = sizes["hidden_size"], sizes["spatial_merge_size"]
        block = (width, sizes["num_heads"], sizes["intermediate_size"], sizes["hidden_act"])
        patch = (sizes["temporal_patch_size"], sizes["patch_size"])
        self.patch_embed = Qwen2_5_VisionPatchEmbed(sizes["in_channels"], width, *patch)
        self.blocks = nn.ModuleList(Qwen2_5_VLVisionBlock(*block) for _ in range(sizes["depth"]))
        self.merger = Qwen2_5_VLPatchMerger(width, sizes["out_hidden_size"], self.side**2)

    def forward(self, patches: Tensor, grids: Sequence[Grid]) -> Tensor:
        group, window = self.side**2, self.sizes["window_size"] // self.side // self.sizes["patch_size"]
        order, windows = window_order([(t, h // self.side, w // self.side) for t, h, w in grids], window)
        order = order.to(patches.device)
        whole = [rows * columns for frames, rows, columns in grids for _ in range(frames)]
        lengths = [count * group for count in windows]

        tokens = in_order(self.patch_embed(patches), order, group)
        places = torch.cat([grouped_places(grid, self.side) for grid in grids]).to(patches.device)
        cos, sin = (in_order(part, order, group) for part in self.turns(places))
        for number, block in enumerate(self.blocks):
            seen = whole if number in self.sizes["fullatt_block_indexes"] else lengths
            tokens = checkpointed(self, block, tokens, (cos, sin), seen)
        return self.merger(tokens)[order.argsort()]

    def turns(self, places: Tensor) -> Table:
        """Cosines and sines of rows and columns (L, 2), which share a head's numbers; in fp32."""
        head = self.sizes["hidden_size"] // self.sizes["num_heads"]
        steps = torch.arange(0, head // 2, 2, dtype=torch.float32, device=places.device)
        angles = (places.float()[..., None] * (1.0 / THETA ** (steps / (head // 2)))).flatten(1).repeat(1, 2)
        return angles.cos(), angles.sin()

    def check_patches(self, patches: Tensor, grids: Sequence[Grid]) -> None:
        """Refuse patches of another size or number than the grids say."""
        sizes, count = self.sizes, sum(frames * rows * columns for frames, rows, columns in grids)
        numbers = sizes["in_channels"] * sizes["temporal_patch_size"] * sizes["patch_size"] ** 2
        if tuple(patches.shape) != (count, numbers):
            raise InputError(
                f"The grids {list(grids)} (frames, rows, columns) want pixel_values of {(count, numbers)}, got "
                f"{tuple(patches.shape)}. Qwen2VLImageProcessor makes both."
            )
        if any(size % self.side for _, *sides in grids for size in sides):
            raise InputError(f"Rows and columns of patches are multiples of {self.side}, got {list(grids)}.")


def in_order(rows: Tensor, order: Tensor, group: int) -> Tensor:
    """Groups of rows in another order."""
    return rows.unflatten(0, (-1, group))[order].flatten(0, 1)


def window_order(grids: Sequence[Grid], side: int) -> tuple[Tensor, list[int]]:
    """Groups of all pictures window by window, and how many each window has; those at the edge have fewer."""
    pieces, first = [], 0
    for frames, rows, columns in grids:
        count = frames * rows * columns
        index = torch.arange(first, first + count).unflatten(0, (frames, rows, columns))
        starts = product(range(frames), range(0, rows, side), range(0, columns, side))
        pieces += [index[frame, top : top + side, left : left + side].flatten() for frame, top, left in starts]
        first += count
    return torch.cat(pieces), [len(piece) for piece in pieces]


def grouped_places(grid: Grid, side: int) -> Tensor:
    """(patches, 2): row and column of each patch of a picture, group by group."""
    frames, rows, columns = grid
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).unflatten(0, (rows, columns))
    groups = places.unflatten(1, (-1, side)).unflatten(0, (-1, side)).transpose(1, 2)
    return groups.flatten(0, 3).repeat(frames, 1)


def check_tower(sizes: Mapping[str, Any]) -> None:
    """Refuse sizes that do not fit together."""
    owner = "Qwen2.5-VL's vision_config"
    check_sizes(owner, sizes, *SIZES)
    check_divisible(owner, "hidden_size", sizes["hidden_size"], "num_heads", sizes["num_heads"])
    check_divisible(owner, "the width of a head", sizes["hidden_size"] // sizes["num_heads"], "4 (pairs, two axes)", 4)
    if sizes["window_size"] < sizes["patch_size"] * sizes["spatial_merge_size"]:
        raise ConfigError(f"{owner}: window_size has to hold a group of patches, got {sizes['window_size']}.")
