"""The transformer of Stable Diffusion 3 and 3.5 (MMDiT, arXiv:2403.03206): text and picture meet in the attention.

Axes: B batch, C channels, Y rows, X columns, L tokens, D width, H heads, K = D / H. A tensor without suffix is BLD; any
other shape is in the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ...attention import Cut, SequencePlan
from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError, InputError
from ...outputs import output_or_tuple
from ..inputs import check_shape
from ..modeling import check_divisible, check_sizes, checkpointed
from .joint import JointAttention, JointProcessor, JointTransformerBlock
from .layers import (
    AdaLayerNormContinuous,
    TimeTextEmbedding,
    TokenModel,
    Transformer2DModelOutput,
)

Tensor = torch.Tensor


class PatchEmbed(nn.Module):
    """Squares of latents as tokens, with the middle of a table of positions added."""

    def __init__(self, sample_size: int, patch_size: int, in_channels: int, width: int, max_size: int | None) -> None:
        super().__init__()
        self.patch_size, self.max_size = patch_size, max_size
        self.proj = nn.Conv2d(in_channels, width, patch_size, stride=patch_size)
        if max_size is not None:  # ControlNets of 3.5 have no positions of their own
            table = position_table(width, max_size, sample_size // patch_size)
            self.register_buffer("pos_embed", table[None])

    def forward(self, latents_BCYX: Tensor) -> Tensor:
        tokens = self.proj(latents_BCYX).flatten(2).transpose(1, 2)
        if self.max_size is None:
            return tokens.contiguous()
        rows, columns = (size // self.patch_size for size in latents_BCYX.shape[2:])
        return (tokens + self.middle(rows, columns)).to(tokens.dtype).contiguous()

    def middle(self, rows: int, columns: int) -> Tensor:
        """The part of the table that a picture of so many tokens uses, around its middle."""
        size = self.max_size or 0
        top, left = (size - rows) // 2, (size - columns) // 2
        table_YXD = self.pos_embed[0].unflatten(0, (size, size))  # type: ignore[index]
        return table_YXD[top : top + rows, left : left + columns].flatten(0, 1)[None]


def position_table(width: int, size: int, base_size: int) -> Tensor:
    """Sines and cosines of column and row of a square, LD; `base_size` is the square that the steps were made for."""
    steps = torch.arange(size, dtype=torch.float32) / (size / base_size)
    exact = torch.float32 if steps.device.type == "mps" else torch.float64
    frequencies = 1.0 / 10_000 ** (torch.arange(width // 4, dtype=exact, device=steps.device) / (width / 4))
    angles = torch.outer(steps.to(exact), frequencies)
    line = torch.cat([angles.sin(), angles.cos()], dim=1)
    columns, rows = line.repeat(size, 1), line.repeat_interleave(size, dim=0)
    return torch.cat([columns, rows], dim=1).float()


class JointAttnProcessor2_0(JointProcessor):
    """Attention of all tokens as one sequence; the picture comes first."""

    text_first = False

    def __call__(
        self, attn: SD3Attention, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        query, key, value = self.join(attn, hidden_states, encoder_hidden_states)
        mixed = self.mix(query, key, value)
        if encoder_hidden_states is None:
            return attn.to_out[0](mixed)
        return self.part(attn, mixed, encoder_hidden_states.shape[1])


class SD3Attention(JointAttention):
    """Attention without positions: they are in the tokens."""

    _default_processor_cls = JointAttnProcessor2_0
    _available_processors = (JointAttnProcessor2_0,)


class SD3Conditions(TokenModel):
    """What the transformer and its ControlNets have in common."""

    def check_config(self) -> int:
        """Refuse sizes that do not fit together; the width of a token."""
        config, owner = self.config, type(self).__name__
        sizes = ("sample_size", "patch_size", "in_channels", "attention_head_dim", "num_attention_heads", "num_layers")
        check_sizes(owner, config, *sizes, "joint_attention_dim", "pooled_projection_dim", "pos_embed_max_size")
        if config["qk_norm"] not in (None, "rms_norm"):
            raise ConfigError(f"{owner}: qk_norm has to be 'rms_norm' or null, got {config['qk_norm']!r}.")
        width: int = config["num_attention_heads"] * config["attention_head_dim"]
        check_divisible(owner, "the width (heads times head width)", width, "4", 4)
        return width

    def block(self, index: int, *, last: bool = False) -> JointTransformerBlock:
        """A block by the config: its number says whether it has a second attention."""
        config = self.config
        heads, head_width, normed = (
            config["num_attention_heads"],
            config["attention_head_dim"],
            config["qk_norm"] is not None,
        )
        width, second = heads * head_width, None
        first = SD3Attention(width, heads, head_width, text_out=not last, qk_norm=normed)
        if index in config["dual_attention_layers"]:
            second = SD3Attention(width, heads, head_width, with_text=False, qk_norm=normed)
        return JointTransformerBlock(width, first, second)

    def check_latents(self, latents: Tensor) -> None:
        """Refuse latents that cannot be cut into squares, or are larger than the table of positions."""
        owner, config = type(self).__name__, self.config
        axes = {"batch": None, "channels": config["in_channels"], "height": None, "width": None}
        check_shape(owner, "hidden_states", latents, axes, self.dtype)
        patch, most = config["patch_size"], config["pos_embed_max_size"]
        for name, side in zip(("height", "width"), latents.shape[2:], strict=True):
            if side % patch or (most is not None and side // patch > most):
                raise InputError(
                    f"{owner}: the {name} of the latents has to be a multiple of {patch}"
                    f"{'' if most is None else f' up to {most * patch}'}, got {side}."
                )


class SD3Transformer2DModel(SD3Conditions, ConfigMixin):
    """Predicts the flow from noisy latents, a time and a text."""

    sequence_plan = SequencePlan(
        split=(
            Cut("pos_embed", 0, "picture"),
            Cut("", "encoder_hidden_states", "text"),
            Cut("", "block_controlnet_hidden_states", "picture"),
        ),
        gather=(Cut("proj_out", 0, "picture"),),
        attends={"*.attn2": ("picture",), "*": ("picture", "text")},
    )

    @property
    def largest_size(self) -> int:
        """Latents along a side for which there are positions."""
        return self.config["pos_embed_max_size"] * self.config["patch_size"]

    @register_to_config
    def __init__(
        self, sample_size: int = 128, patch_size: int = 2, in_channels: int = 16, num_layers: int = 18,
        attention_head_dim: int = 64, num_attention_heads: int = 18, joint_attention_dim: int = 4096,
        caption_projection_dim: int = 1152, pooled_projection_dim: int = 2048, out_channels: int | None = 16,
        pos_embed_max_size: int = 96, dual_attention_layers: tuple[int, ...] = (), qk_norm: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        width = self.check_config()
        if caption_projection_dim != width:
            raise ConfigError(
                f"{type(self).__name__}: caption_projection_dim has to be the width of the tokens, {width}, "
                f"got {caption_projection_dim}."
            )
        self.pos_embed = PatchEmbed(sample_size, patch_size, in_channels, width, pos_embed_max_size)
        self.time_text_embed = TimeTextEmbedding(width, pooled_projection_dim)
        self.context_embedder = nn.Linear(joint_attention_dim, caption_projection_dim)
        self.transformer_blocks = nn.ModuleList(
            self.block(index, last=index == num_layers - 1) for index in range(num_layers)
        )
        self.norm_out = AdaLayerNormContinuous(width)
        self.proj_out = nn.Linear(width, patch_size**2 * (out_channels or in_channels))

    @output_or_tuple
    def forward(
        self, hidden_states: Tensor, encoder_hidden_states: Tensor, pooled_projections: Tensor, timestep: Tensor,
        block_controlnet_hidden_states: Sequence[Tensor] | None = None,
        joint_attention_kwargs: dict[str, Any] | None = None, return_dict: bool = True,
        skip_layers: Sequence[int] | None = None,
    ) -> Transformer2DModelOutput | tuple[Tensor]:  # fmt: skip
        """One prediction; residuals come from a ControlNet, `skip_layers` are left out (skip-layer guidance)."""
        self.check_latents(hidden_states)
        self.check_conditions(
            len(hidden_states), encoder_hidden_states, pooled_projections, timestep, joint_attention_kwargs
        )
        picture, text = self.pos_embed(hidden_states), self.context_embedder(encoder_hidden_states)
        temb = self.time_text_embed(timestep, pooled_projections)

        depth, residuals = len(self.transformer_blocks), block_controlnet_hidden_states
        for index, block in enumerate(self.transformer_blocks):
            if index not in (skip_layers or ()):
                text, picture = checkpointed(self, block, picture, text, temb, joint_attention_kwargs)
            if residuals is not None and index < depth - 1:
                picture = picture + residuals[int(index / (depth / len(residuals)))]

        tokens = self.proj_out(self.norm_out(picture, temb))
        sample = self.unpatchified(tokens, *hidden_states.shape[2:])
        return Transformer2DModelOutput(sample) if return_dict else (sample,)

    def unpatchified(self, tokens: Tensor, rows: int, columns: int) -> Tensor:
        """Tokens as latents, BCYX; within a token the channel is the last axis."""
        patch = self.config["patch_size"]
        grid = tokens.unflatten(2, (patch, patch, -1)).unflatten(1, (rows // patch, columns // patch))
        return grid.permute(0, 5, 1, 3, 2, 4).reshape(tokens.shape[0], -1, rows, columns)
