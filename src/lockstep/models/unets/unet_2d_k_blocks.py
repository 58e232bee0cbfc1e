"""The blocks of the UNets of k-diffusion, which the latent upscaler is: every norm is told the time.

Axes as in unet_2d_blocks: a feature map is BCYX, a token sequence BLD, `temb` (the time embedding) BD. A level
keeps one skip alone, its last, and the coarsest level none.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..layers import get_activation
from ..modeling import checkpointed
from .unet_2d_blocks import Attention, ResnetSettings, TransformerSettings

Tensor = torch.Tensor
GROUP = 32  # channels of a norm's group
FILTER = (1 / 8, 3 / 8, 3 / 8, 1 / 8)


class AdaGroupNorm(nn.Module):
    """Group norm whose scale and shift follow from the time."""

    def __init__(self, temb_channels: int, channels: int, groups: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.groups, self.eps = groups, eps
        self.linear = nn.Linear(temb_channels, 2 * channels)

    def forward(self, hidden_states: Tensor, temb: Tensor) -> Tensor:
        scale, shift = self.linear(temb)[:, :, None, None].chunk(2, dim=1)
        return F.group_norm(hidden_states, self.groups, eps=self.eps) * (1 + scale) + shift


class KResnetBlock2D(nn.Module):
    """Norm, activation, convolution, twice, around a shortcut; both norms are told the time."""

    def __init__(
        self, in_channels: int, mid_channels: int, out_channels: int, mid_groups: int, settings: ResnetSettings
    ) -> None:
        super().__init__()
        temb, eps = settings.temb_channels, settings.eps
        self.norm1 = AdaGroupNorm(temb, in_channels, in_channels // GROUP, eps)
        self.conv1 = nn.Conv2d(in_channels, mid_channels, 3, padding=1)
        self.norm2 = AdaGroupNorm(temb, mid_channels, mid_groups, eps)
        self.dropout = nn.Dropout(settings.dropout)
        self.conv2 = nn.Conv2d(mid_channels, out_channels, 3, padding=1)
        self.nonlinearity = get_activation(settings.act_fn)
        same = in_channels == out_channels
        self.conv_shortcut = None if same else nn.Conv2d(in_channels, out_channels, 1, bias=False)

    def forward(self, hidden_states: Tensor, temb: Tensor) -> Tensor:
        shortcut = hidden_states if self.conv_shortcut is None else self.conv_shortcut(hidden_states)
        hidden_states = self.conv1(self.nonlinearity(self.norm1(hidden_states, temb)))
        hidden_states = self.nonlinearity(self.norm2(hidden_states, temb))
        return shortcut + self.conv2(self.dropout(hidden_states))


class KAttentionBlock(nn.Module):
    """Attention to the text, after attention among the pixels where a level has it; each on a norm told the time."""

    def __init__(self, channels: int, temb_channels: int, settings: TransformerSettings, attends_itself: bool) -> None:
        super().__init__()
        heads, upcast, groups = channels // settings.heads, settings.upcast_attention, max(1, channels // GROUP)
        self.norm1 = self.attn1 = None
        if attends_itself:
            self.norm1 = AdaGroupNorm(temb_channels, channels, groups)
            self.attn1 = Attention(channels, heads, None, False, bias=True)
        self.norm2 = AdaGroupNorm(temb_channels, channels, groups)
        self.attn2 = Attention(channels, heads, settings.cross_attention_dim, upcast, bias=True, norm_text=True)

    def forward(
        self,
        hidden_states: Tensor,
        temb: Tensor,
        encoder_hidden_states: Tensor,
        attention_mask: Tensor | None,
        encoder_attention_mask: Tensor | None,
        cross_attention_kwargs: dict[str, Any] | None,
    ) -> Tensor:
        kwargs = cross_attention_kwargs or {}
        if self.norm1 is not None and self.attn1 is not None:
            tokens = as_tokens(self.norm1(hidden_states, temb))
            hidden_states = hidden_states + as_map(self.attn1(tokens, None, attention_mask, **kwargs), hidden_states)
        tokens = as_tokens(self.norm2(hidden_states, temb))
        mixed = self.attn2(tokens, encoder_hidden_states, encoder_attention_mask, **kwargs)
        return hidden_states + as_map(mixed, hidden_states)


def as_tokens(hidden_states: Tensor) -> Tensor:
    """BCYX to BLD."""
    return hidden_states.flatten(2).transpose(1, 2)


def as_map(tokens: Tensor, like: Tensor) -> Tensor:
    """BLD to BCYX."""
    return tokens.transpose(1, 2).unflatten(2, like.shape[2:])


class KDownsample2D(nn.Module):
    """Half the size by a smooth filter, without weights."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        return F.conv2d(F.pad(hidden_states, (1,) * 4, "reflect"), kernel_for(hidden_states, 1.0), stride=2)

    def output_size(self, size: int) -> int:
        """How many rows or columns come out of so many."""
        return (size + 2 - len(FILTER)) // 2 + 1


class KUpsample2D(nn.Module):
    """Twice the size by a smooth filter, without weights."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        padded = F.pad(hidden_states, (1,) * 4, "reflect")
        return F.conv_transpose2d(padded, kernel_for(hidden_states, 2.0), stride=2, padding=len(FILTER) - 1)


def kernel_for(hidden_states: Tensor, gain: float) -> Tensor:
    """The filter in two directions, from each channel to itself alone."""
    channels, line = hidden_states.shape[1], torch.tensor(FILTER).to(hidden_states) * gain
    return torch.eye(channels).to(hidden_states)[:, :, None, None] * torch.outer(line, line)


class KDownBlock2D(nn.Module):
    """Resnets, with attention after each where there is a transformer's settings, then half the size."""

    gradient_checkpointing = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_layers: int,
        resnet: ResnetSettings,
        transformer: TransformerSettings | None,
        add_downsample: bool,
    ) -> None:
        super().__init__()
        self.has_cross_attention = transformer is not None
        self.resnets = nn.ModuleList()
        self.attentions = nn.ModuleList() if transformer is not None else None
        for before in [in_channels] + [out_channels] * (num_layers - 1):
            self.resnets.append(KResnetBlock2D(before, out_channels, out_channels, out_channels // GROUP, resnet))
            if self.attentions is not None and transformer is not None:
                attention = KAttentionBlock(out_channels, resnet.temb_channels, transformer, not add_downsample)
                self.attentions.append(attention)
        self.downsamplers = nn.ModuleList([KDownsample2D()]) if add_downsample else None

    def forward(
        self, hidden_states: Tensor, temb: Tensor, additional_residuals: Tensor | None = None, **text: Any
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        for layer, resnet in enumerate(self.resnets):
            hidden_states = checkpointed(self, resnet, hidden_states, temb)
            if self.attentions is not None:
                hidden_states = self.attentions[layer](hidden_states, temb, **text)
        if additional_residuals is not None:
            hidden_states = hidden_states + additional_residuals
        skip = hidden_states
        if self.downsamplers is not None:
            hidden_states = self.downsamplers[0](hidden_states)
        coarsest = self.has_cross_attention and self.downsamplers is None
        return hidden_states, () if coarsest else (skip,)


def is_coarsest(channels: int, next_channels: int, temb_channels: int, attends: bool) -> bool:
    """Whether an up block is the first one, which takes no skip: published models tell it by its widths."""
    return attends and channels == next_channels == temb_channels


class KUpBlock2D(nn.Module):
    """Takes the skip of its level, resnets with attention as on the way down, then twice the size."""

    gradient_checkpointing = False

    def __init__(
        self,
        channels: int,
        next_channels: int,
        num_layers: int,
        resnet: ResnetSettings,
        transformer: TransformerSettings | None,
        add_upsample: bool,
    ) -> None:
        super().__init__()
        self.has_cross_attention = transformer is not None
        coarsest = is_coarsest(channels, next_channels, resnet.temb_channels, transformer is not None)
        self.num_skips = 0 if coarsest else 1
        widths_in = [channels * (1 + self.num_skips)] + [channels] * (num_layers - 1)
        widths_out = [channels] * (num_layers - 1) + [next_channels]
        # the last resnet narrows in its second convolution where there is attention, else in its first
        middles = widths_out if transformer is None else [channels] * num_layers
        self.resnets = nn.ModuleList()
        self.attentions = nn.ModuleList() if transformer is not None else None
        for before, middle, after in zip(widths_in, middles, widths_out, strict=True):
            self.resnets.append(KResnetBlock2D(before, middle, after, channels // GROUP, resnet))
            if self.attentions is not None and transformer is not None:
                self.attentions.append(KAttentionBlock(after, resnet.temb_channels, transformer, coarsest))
        self.upsamplers = nn.ModuleList([KUpsample2D()]) if add_upsample else None

    def forward(
        self,
        hidden_states: Tensor,
        skips: tuple[Tensor, ...],
        temb: Tensor,
        upsample_size: tuple[int, int] | None = None,
        **text: Any,
    ) -> Tensor:
        hidden_states = torch.cat([hidden_states, *skips], dim=1)
        for layer, resnet in enumerate(self.resnets):
            hidden_states = checkpointed(self, resnet, hidden_states, temb)
            if self.attentions is not None:
                hidden_states = self.attentions[layer](hidden_states, temb, **text)
        return hidden_states if self.upsamplers is None else self.upsamplers[0](hidden_states)
