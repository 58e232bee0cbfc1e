"""The blocks of the text-conditioned UNet (Latent Diffusion, arXiv:2112.10752): attention, transformers, down, mid, up.

Axes: B batch, C channels, Y rows, X columns, L tokens, D width. A feature map is BCYX, a token sequence BLD,
`temb` (the time embedding) BD, `encoder_hidden_states` (the text) BLD; a mask is a bias (B, 1, L) on the scores.
Layers are made in the published order, so that a seed gives a new model the published weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Required, TypedDict, Unpack

import torch
from torch import nn

from ...attention import AttentionModuleMixin, FusedLinear, ProcessorMixin, PublishedAttention, dispatch_attention_fn
from ..layers import Downsample2D, FeedForward, ResnetBlock2D, Upsample2D
from ..modeling import checkpointed

Tensor = torch.Tensor


class TextArguments(TypedDict, total=False):
    """What a text transformer is told beside the map: the text, both masks, and what attention processors take."""

    encoder_hidden_states: Required[Tensor]
    attention_mask: Tensor | None
    encoder_attention_mask: Tensor | None
    cross_attention_kwargs: dict[str, Any] | None


@dataclass(frozen=True)
class ResnetSettings:
    """What all resnets of a UNet have in common."""

    temb_channels: int
    groups: int
    eps: float
    act_fn: str
    time_scale_shift: Literal["default", "scale_shift"]
    dropout: float

    def block(self, in_channels: int, out_channels: int, output_scale_factor: float = 1.0) -> ResnetBlock2D:
        scale = output_scale_factor
        return ResnetBlock2D(
            in_channels=in_channels, out_channels=out_channels, **vars(self), output_scale_factor=scale
        )


@dataclass(frozen=True)
class TransformerSettings:
    """What the transformers of one block have in common; `depths` has one number of layers per transformer."""

    heads: int
    depths: tuple[int, ...]
    cross_attention_dim: int
    groups: int
    use_linear_projection: bool
    upcast_attention: bool
    only_cross_attention: bool = False

    def block(self, channels: int, depth: int) -> Transformer2DModel:
        return Transformer2DModel(channels, depth, self)


class AttnProcessor(ProcessorMixin):
    """Attention by `dispatch_attention_fn`."""

    def __call__(
        self, attn: Attention, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        query, key, value = attn.project(hidden_states, encoder_hidden_states)
        return attn.to_out[0](self.attend(attn, query, key, value, attention_mask))

    def attend(
        self, attn: Attention, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        """Every query's mix of the values, in the query's dtype."""
        dtype = query.dtype
        if attn.upcast_attention:
            query, key, value = query.float(), key.float(), value.float()
        mixed = dispatch_attention_fn(
            query.unflatten(-1, (attn.heads, -1)),
            key.unflatten(-1, (attn.heads, -1)),
            value.unflatten(-1, (attn.heads, -1)),
            attn_mask=None if attention_mask is None else attention_mask[:, None],
            backend=self._attention_backend,
            parallel_config=self._parallel_config,
        )
        return mixed.flatten(2).to(dtype)


class Attention(nn.Module, AttentionModuleMixin, PublishedAttention):
    """Attention among image tokens, or from image tokens to the text."""

    _default_processor_cls = AttnProcessor
    _available_processors = (AttnProcessor,)
    to_kv: FusedLinear  # these two take the place of the separate projections by `fuse_projections`
    to_qkv: FusedLinear
    processor_before: tuple[Callable[..., Any], ...] = ()  # the one that an adapter's stands in for

    def __init__(
        self,
        width: int,
        heads: int,
        cross_attention_dim: int | None,
        upcast_attention: bool,
        bias: bool = False,
        norm_text: bool = False,
    ) -> None:
        super().__init__()
        self.norm_cross = nn.LayerNorm(cross_attention_dim or width) if norm_text else None
        self.describe_widths(width, cross_attention_dim or width, heads)
        self.upcast_attention = upcast_attention
        self.is_cross_attention = cross_attention_dim is not None
        self.to_q = nn.Linear(width, width, bias=bias)
        self.to_k = nn.Linear(cross_attention_dim or width, width, bias=bias)
        self.to_v = nn.Linear(cross_attention_dim or width, width, bias=bias)
        self.to_out = nn.ModuleList([nn.Linear(width, width), nn.Identity()])
        self.set_processor(AttnProcessor())

    def project(self, hidden_states: Tensor, encoder_hidden_states: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value; key and value come from the text where there is one."""
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        if self.norm_cross is not None:
            source = self.norm_cross(source)
        if not self.fused_projections:
            return self.to_q(hidden_states), self.to_k(source), self.to_v(source)
        if self.is_cross_attention:
            key, value = self.to_kv(source)
            return self.to_q(hidden_states), key, value
        query, key, value = self.to_qkv(hidden_states)
        return query, key, value

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **processor_kwargs: Any,
    ) -> Tensor:
        return self.processor(
            self,
            hidden_states,
            encoder_hidden_states=encoder_hidden_states,
            attention_mask=attention_mask,
            **self.taken_by_processor(processor_kwargs),
        )


class BasicTransformerBlock(nn.Module):
    """Self-attention, attention to the text, feed-forward; each on a LayerNorm and added."""

    def __init__(self, width: int, settings: TransformerSettings) -> None:
        super().__init__()
        text_width = settings.cross_attention_dim
        self.only_cross_attention = settings.only_cross_attention
        self.norm1 = nn.LayerNorm(width)
        first_source = text_width if settings.only_cross_attention else None
        self.attn1 = Attention(width, settings.heads, first_source, settings.upcast_attention)
        self.norm2 = nn.LayerNorm(width)
        self.attn2 = Attention(width, settings.heads, text_width, settings.upcast_attention)
        self.norm3 = nn.LayerNorm(width)
        self.ff = FeedForward(width)

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        cross_attention_kwargs: dict[str, Any] | None = None,
    ) -> Tensor:
        kwargs = cross_attention_kwargs or {}
        first_source = encoder_hidden_states if self.only_cross_attention else None
        hidden_states = hidden_states + self.attn1(self.norm1(hidden_states), first_source, attention_mask, **kwargs)
        hidden_states = hidden_states + self.attn2(
            self.norm2(hidden_states), encoder_hidden_states, encoder_attention_mask, **kwargs
        )
        return hidden_states + self.ff(self.norm3(hidden_states))


class Transformer2DModel(nn.Module):
    """A feature map as a sequence of pixels through transformer blocks, added to the map."""

    gradient_checkpointing = False

    def __init__(self, channels: int, depth: int, settings: TransformerSettings) -> None:
        super().__init__()
        self.use_linear_projection = settings.use_linear_projection
        # 1e-6 here and 1e-5 in the resnets: the published files were trained so.
        self.norm = nn.GroupNorm(settings.groups, channels, eps=1e-6)
        linear = settings.use_linear_projection
        self.proj_in = nn.Linear(channels, channels) if linear else nn.Conv2d(channels, channels, 1)
        self.transformer_blocks = nn.ModuleList(BasicTransformerBlock(channels, settings) for _ in range(depth))
        self.proj_out = nn.Linear(channels, channels) if linear else nn.Conv2d(channels, channels, 1)

    def forward(self, hidden_states: Tensor, **text: Unpack[TextArguments]) -> Tensor:
        rows, columns = hidden_states.shape[2:]
        residual = hidden_states
        hidden_states = self.norm(hidden_states)
        if self.use_linear_projection:
            tokens = self.proj_in(hidden_states.flatten(2).transpose(1, 2))
        else:
            tokens = self.proj_in(hidden_states).flatten(2).transpose(1, 2)
        for block in self.transformer_blocks:
            tokens = checkpointed(self, block, tokens, **text)
        if self.use_linear_projection:
            hidden_states = self.proj_out(tokens).transpose(1, 2).unflatten(2, (rows, columns))
        else:
            hidden_states = self.proj_out(tokens.transpose(1, 2).unflatten(2, (rows, columns)))
        return hidden_states + residual


class DownBlock2D(nn.Module):
    """Resnets, then half the size; every result is kept as a skip."""

    has_cross_attention = False
    gradient_checkpointing = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_layers: int,
        resnet: ResnetSettings,
        downsample_padding: int | None,
    ) -> None:
        super().__init__()
        channels = [in_channels] + [out_channels] * num_layers
        self.resnets = nn.ModuleList(resnet.block(*pair) for pair in itertools.pairwise(channels))
        self.downsamplers = downsamplers(out_channels, downsample_padding)

    def forward(
        self, hidden_states: Tensor, temb: Tensor, additional_residuals: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        skips = []
        for resnet in self.resnets:
            hidden_states = checkpointed(self, resnet, hidden_states, temb)
            skips.append(hidden_states)
        if self.downsamplers is not None:
            hidden_states = self.downsamplers[0](hidden_states)
            skips.append(hidden_states)
        if additional_residuals is not None:  # T2I-Adapter: on the block's result, and so on its last skip
            hidden_states = hidden_states + additional_residuals
            skips[-1] = hidden_states
        return hidden_states, tuple(skips)


class CrossAttnDownBlock2D(nn.Module):
    """Resnets with a text transformer after each, then half the size; every result is kept as a skip."""

    has_cross_attention = True
    gradient_checkpointing = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        resnet: ResnetSettings,
        transformer: TransformerSettings,
        downsample_padding: int | None,
    ) -> None:
        super().__init__()
        channels = [in_channels] + [out_channels] * len(transformer.depths)
        self.attentions, self.resnets = nn.ModuleList(), nn.ModuleList()
        for pair, depth in zip(itertools.pairwise(channels), transformer.depths, strict=True):  # as they are passed
            self.resnets.append(resnet.block(*pair))
            self.attentions.append(transformer.block(out_channels, depth))
        self.downsamplers = downsamplers(out_channels, downsample_padding)

    def forward(
        self,
        hidden_states: Tensor,
        temb: Tensor,
        additional_residuals: Tensor | None = None,
        **text: Unpack[TextArguments],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        skips = []
        for resnet, transformer in zip(self.resnets, self.attentions, strict=True):
            hidden_states = checkpointed(self, resnet, hidden_states, temb)
            hidden_states = transformer(hidden_states, **text)
            skips.append(hidden_states)
        if additional_residuals is not None:  # T2I-Adapter: on the last transformer's result, before the size is halved
            hidden_states = hidden_states + additional_residuals
            skips[-1] = hidden_states
        if self.downsamplers is not None:
            hidden_states = self.downsamplers[0](hidden_states)
            skips.append(hidden_states)
        return hidden_states, tuple(skips)


class UNetMidBlock2D(nn.Module):
    """One resnet at the coarsest size."""

    has_cross_attention = False
    gradient_checkpointing = False

    def __init__(self, channels: int, resnet: ResnetSettings, output_scale_factor: float) -> None:
        super().__init__()
        self.resnets = nn.ModuleList([resnet.block(channels, channels, output_scale_factor)])

    def forward(self, hidden_states: Tensor, temb: Tensor) -> Tensor:
        return checkpointed(self, self.resnets[0], hidden_states, temb)


class UNetMidBlock2DCrossAttn(nn.Module):
    """Resnet, text transformer, resnet at the coarsest size."""

    has_cross_attention = True
    gradient_checkpointing = False

    def __init__(
        self, channels: int, resnet: ResnetSettings, transformer: TransformerSettings, output_scale_factor: float
    ) -> None:
        super().__init__()
        before = resnet.block(channels, channels, output_scale_factor)
        self.attentions = nn.ModuleList([transformer.block(channels, transformer.depths[0])])
        self.resnets = nn.ModuleList([before, resnet.block(channels, channels, output_scale_factor)])

    def forward(self, hidden_states: Tensor, temb: Tensor, **text: Unpack[TextArguments]) -> Tensor:
        hidden_states = checkpointed(self, self.resnets[0], hidden_states, temb)
        hidden_states = self.attentions[0](hidden_states, **text)
        return checkpointed(self, self.resnets[1], hidden_states, temb)


class UpBlock2D(nn.Module):
    """Resnets that each take one skip, last in first out, then twice the size."""

    gradient_checkpointing = False
    attentions: nn.ModuleList | None

    def __init__(
        self,
        in_channels: list[int],
        out_channels: int,
        resnet: ResnetSettings,
        add_upsample: bool,
        transformer: TransformerSettings | None = None,
    ) -> None:
        super().__init__()
        self.has_cross_attention = transformer is not None
        self.attentions, self.resnets = None if transformer is None else nn.ModuleList(), nn.ModuleList()
        for layer, channels in enumerate(in_channels):
            self.resnets.append(resnet.block(channels, out_channels))
            if self.attentions is not None and transformer is not None:
                self.attentions.append(transformer.block(out_channels, transformer.depths[layer]))
        self.upsamplers = nn.ModuleList([Upsample2D(out_channels)]) if add_upsample else None
        self.num_skips = len(in_channels)

    def forward(
        self,
        hidden_states: Tensor,
        skips: tuple[Tensor, ...],
        temb: Tensor,
        upsample_size: tuple[int, int] | None = None,
        **text: Any,
    ) -> Tensor:
        for layer, (resnet, skip) in enumerate(zip(self.resnets, reversed(skips), strict=True)):
            hidden_states = checkpointed(self, resnet, self.joined(hidden_states, skip), temb)
            if self.attentions is not None:
                hidden_states = self.attentions[layer](hidden_states, **text)
        return hidden_states if self.upsamplers is None else self.upsamplers[0](hidden_states, upsample_size)

    def joined(self, hidden_states: Tensor, skip: Tensor) -> Tensor:
        """The channels of both, side by side."""
        return torch.cat([hidden_states, skip], dim=1)


class CrossAttnUpBlock2D(UpBlock2D):
    """The same with a text transformer after each resnet."""


def downsamplers(channels: int, padding: int | None) -> nn.ModuleList | None:
    """The one-element list of the published names, or None in the last block."""
    return None if padding is None else nn.ModuleList([Downsample2D(channels, padding)])


def skip_channels(block_out_channels: tuple[int, ...], layers_per_block: tuple[int, ...]) -> list[int]:
    """The widths of all skips in the order in which they are made: conv_in, then each down block's."""
    widths = [block_out_channels[0]]
    for index, (channels, layers) in enumerate(zip(block_out_channels, layers_per_block, strict=True)):
        is_last = index == len(block_out_channels) - 1
        widths += [channels] * (layers if is_last else layers + 1)
    return widths
