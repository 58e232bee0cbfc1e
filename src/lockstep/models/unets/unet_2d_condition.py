"""The text-conditioned UNet of Stable Diffusion 1.x, 2.x and XL (arXiv:2112.10752, arXiv:2307.01952).

Axes: B batch, C channels, Y rows, X columns, L tokens, D width. `sample` is BCYX, `encoder_hidden_states` BLD.
Down blocks leave skips, up blocks take them, last in first out.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...configuration import ConfigMixin, register_to_config
from ...errors import InputError
from ...outputs import Output, output_or_tuple
from ..adapters.ip_adapter import IPAdapterMixin
from ..layers import get_activation
from .freeu import FreeUMixin
from .unet_2d_blocks import CrossAttnUpBlock2D, DownBlock2D, UpBlock2D, skip_channels
from .unet_2d_config import K_UP_BLOCKS, UNetPlan, is_k_unet, plan_unet
from .unet_2d_encoder import UNet2DEncoder, mask_to_bias
from .unet_2d_k_blocks import KUpBlock2D

Tensor = torch.Tensor
Shape = tuple[int, int, int]


@dataclass
class UNet2DConditionOutput(Output):
    """The prediction: noise, velocity or sample, as the scheduler's `prediction_type` says."""

    sample: Tensor


class UNet2DConditionModel(IPAdapterMixin, FreeUMixin, UNet2DEncoder, ConfigMixin):
    """Predicts from a noisy sample, a timestep and a text what the noise was."""

    @register_to_config
    def __init__(
        self,
        *,
        sample_size: int | tuple[int, ...] | None = None,
        in_channels: int = 4,
        out_channels: int = 4,
        center_input_sample: bool = False,
        flip_sin_to_cos: bool = True,
        freq_shift: float = 0,
        down_block_types: tuple[str, ...] = (
            "CrossAttnDownBlock2D",
            "CrossAttnDownBlock2D",
            "CrossAttnDownBlock2D",
            "DownBlock2D",
        ),
        mid_block_type: str | None = "UNetMidBlock2DCrossAttn",
        up_block_types: tuple[str, ...] = (
            "UpBlock2D",
            "CrossAttnUpBlock2D",
            "CrossAttnUpBlock2D",
            "CrossAttnUpBlock2D",
        ),
        only_cross_attention: bool | tuple[bool, ...] = False,
        block_out_channels: tuple[int, ...] = (320, 640, 1280, 1280),
        layers_per_block: int | tuple[int, ...] = 2,
        downsample_padding: int = 1,
        mid_block_scale_factor: float = 1,
        dropout: float = 0.0,
        act_fn: str = "silu",
        norm_num_groups: int | None = 32,
        norm_eps: float = 1e-5,
        cross_attention_dim: int | tuple[int, ...] = 1280,
        transformer_layers_per_block: int | tuple[int | tuple[int, ...], ...] = 1,
        reverse_transformer_layers_per_block: tuple[int | tuple[int, ...], ...] | None = None,
        encoder_hid_dim: int | None = None,
        encoder_hid_dim_type: str | None = None,
        attention_head_dim: int | tuple[int, ...] = 8,
        num_attention_heads: int | tuple[int, ...] | None = None,
        dual_cross_attention: bool | None = False,
        use_linear_projection: bool = False,
        class_embed_type: str | None = None,
        addition_embed_type: str | None = None,
        addition_time_embed_dim: int | None = None,
        num_class_embeds: int | None = None,
        upcast_attention: bool | None = False,
        resnet_time_scale_shift: str = "default",
        resnet_skip_time_act: bool = False,
        resnet_out_scale_factor: float = 1.0,
        time_embedding_type: str = "positional",
        time_embedding_dim: int | None = None,
        time_embedding_act_fn: str | None = None,
        timestep_post_act: str | None = None,
        time_cond_proj_dim: int | None = None,
        conv_in_kernel: int = 3,
        conv_out_kernel: int = 3,
        projection_class_embeddings_input_dim: int | None = None,
        attention_type: str = "default",
        class_embeddings_concat: bool = False,
        mid_block_only_cross_attention: bool | None = None,
        cross_attention_norm: str | None = None,
        addition_embed_type_num_heads: int = 64,
    ) -> None:
        super().__init__()
        plan = plan_unet(type(self).__name__, self.config)
        self.build_conditions(plan)
        self.down_blocks = nn.ModuleList(self.down_block(plan, level) for level in range(len(block_out_channels)))
        self.build_middle(plan)
        (self.build_k_decoder if is_k_unet(self.config) else self.build_decoder)(plan)
        self.conv_norm_out = self.conv_act = None
        if norm_num_groups is not None:
            self.conv_norm_out = nn.GroupNorm(norm_num_groups, block_out_channels[0], eps=norm_eps)
            self.conv_act = get_activation(act_fn)
        padding = (conv_out_kernel - 1) // 2
        self.conv_out = nn.Conv2d(block_out_channels[0], out_channels, conv_out_kernel, padding=padding)

    def build_k_decoder(self, plan: UNetPlan) -> None:
        """The up blocks of k-diffusion's UNets, coarsest first; each but the first takes one skip."""
        self.up_blocks = nn.ModuleList()
        for index, block_type in enumerate(plan.up_block_types):
            level = len(plan.block_out_channels) - 1 - index
            widths = plan.block_out_channels[level], plan.block_out_channels[max(level - 1, 0)]
            transformer = plan.transformer(index, ())  # as published: heads are listed finest first, on both ways
            settings = plan.resnet, transformer if block_type == K_UP_BLOCKS[1] else None
            self.up_blocks.append(KUpBlock2D(*widths, plan.layers_per_block[level], *settings, level > 0))

    def build_decoder(self, plan: UNetPlan) -> None:
        """The up blocks, coarsest first; each resnet takes one skip."""
        skips = skip_channels(plan.block_out_channels, plan.layers_per_block)
        width = plan.block_out_channels[-1]
        self.up_blocks = nn.ModuleList()
        for index, block_type in enumerate(self.config["up_block_types"]):
            level = len(plan.block_out_channels) - 1 - index
            outgoing = plan.block_out_channels[level]
            widths_in = []
            for _ in range(plan.layers_per_block[level] + 1):
                widths_in.append(width + skips.pop())
                width = outgoing
            if block_type == "UpBlock2D":
                block: nn.Module = UpBlock2D(widths_in, outgoing, plan.resnet, level > 0)
            else:
                transformer = plan.transformer(level, plan.up_depths[index], plan.only_cross_attention[level])
                block = CrossAttnUpBlock2D(widths_in, outgoing, plan.resnet, level > 0, transformer)
            self.up_blocks.append(block)

    @output_or_tuple
    def forward(
        self,
        sample: Tensor,
        timestep: Tensor | float | int,
        encoder_hidden_states: Tensor | None = None,
        class_labels: Tensor | None = None,
        timestep_cond: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cross_attention_kwargs: dict[str, Any] | None = None,
        added_cond_kwargs: dict[str, Any] | None = None,
        down_block_additional_residuals: tuple[Tensor, ...] | None = None,
        mid_block_additional_residual: Tensor | None = None,
        down_intrablock_additional_residuals: tuple[Tensor, ...] | None = None,
        encoder_attention_mask: Tensor | None = None,
        return_dict: bool = True,
    ) -> UNet2DConditionOutput | tuple[Tensor]:
        """One prediction; masks are 1 where a token is kept, residuals come from a ControlNet or a T2I-Adapter."""
        added, image_embeds = self.split_conditions(added_cond_kwargs)
        self.check_inputs(
            sample,
            timestep,
            encoder_hidden_states,
            class_labels,
            timestep_cond,
            added,
            attention_mask,
            encoder_attention_mask,
            cross_attention_kwargs,
        )
        self.check_residuals(
            sample, down_block_additional_residuals, mid_block_additional_residual, down_intrablock_additional_residuals
        )
        self.check_pictures(image_embeds, sample, cross_attention_kwargs)
        if self.config["center_input_sample"]:
            sample = 2 * sample - 1.0
        temb = self.embed_conditions(sample, timestep, encoder_hidden_states, class_labels, timestep_cond, added)
        text_kwargs: dict[str, Any] = {
            "encoder_hidden_states": self.read_conditions(encoder_hidden_states, image_embeds),
            "attention_mask": mask_to_bias(attention_mask, sample.dtype),
            "encoder_attention_mask": mask_to_bias(encoder_attention_mask, sample.dtype),
            "cross_attention_kwargs": cross_attention_kwargs,
        }

        sample = self.conv_in(sample)
        skips: tuple[Tensor, ...] = (sample,)
        adapter = list(down_intrablock_additional_residuals or ())
        for block in self.down_blocks:
            residual = adapter.pop(0) if adapter else None
            kwargs = text_kwargs if block.has_cross_attention else {}
            sample, block_skips = block(sample, temb, additional_residuals=residual, **kwargs)
            skips += block_skips
        if down_block_additional_residuals is not None:
            skips = tuple(skip + extra for skip, extra in zip(skips, down_block_additional_residuals, strict=True))

        if self.mid_block is not None:
            kwargs = text_kwargs if self.mid_block.has_cross_attention else {}
            sample = self.mid_block(sample, temb, **kwargs)
        if adapter:
            sample = sample + adapter.pop(0)
        if mid_block_additional_residual is not None:
            sample = sample + mid_block_additional_residual

        for block in typing.cast("list[UpBlock2D]", self.up_blocks):
            left = len(skips) - block.num_skips
            block_skips, skips = skips[left:], skips[:left]
            upsample_size = skips[-1].shape[2:] if skips else None  # the next skip's, so that odd sizes come out right
            kwargs = text_kwargs if block.has_cross_attention else {}
            sample = block(sample, block_skips, temb, upsample_size=upsample_size, **kwargs)

        if self.conv_norm_out is not None and self.conv_act is not None:
            sample = self.conv_act(self.conv_norm_out(sample))
        sample = self.conv_out(sample)
        return UNet2DConditionOutput(sample) if return_dict else (sample,)

    def read_conditions(
        self, text: Tensor | None, image_embeds: list[Tensor] | None
    ) -> Tensor | tuple[Tensor, list[Tensor]] | None:
        """The text at the width that the attention reads; with IP-Adapters, beside it the tokens of their pictures."""
        projections = self.image_projections
        project = self.encoder_hid_proj if projections is None else self.text_encoder_hid_proj
        text = text if project is None or text is None else project(text)
        return text if projections is None or text is None else (text, projections(image_embeds))

    @property
    def has_cross_attention(self) -> bool:
        return super().has_cross_attention or any(block.has_cross_attention for block in self.up_blocks)

    def check_residuals(
        self,
        sample: Tensor,
        down: tuple[Tensor, ...] | None,
        mid: Tensor | None,
        adapter: tuple[Tensor, ...] | None,
    ) -> None:
        """As many residuals as there are places for them, each of its place's shape."""
        if down is None and mid is None and adapter is None:
            return
        blocks, sizes = len(self.down_blocks), self.level_sizes(sample)
        skips, before_halving = self.skip_shapes(sizes)
        if down is not None and len(down) != len(skips):
            raise InputError(
                f"down_block_additional_residuals has {len(down)} tensors, this UNet has {len(skips)} skips. A "
                "ControlNet gives one per skip; those of a T2I-Adapter go to down_intrablock_additional_residuals."
            )
        most = blocks if self.mid_block is None else blocks + 1
        if adapter is not None and not blocks <= len(adapter) <= most:
            raise InputError(
                f"down_intrablock_additional_residuals has {len(adapter)} tensors, this UNet takes one per down block "
                f"({blocks}), and one more for the middle if there is one."
            )
        check_shapes("down_block_additional_residuals", down or (), skips)
        check_shapes("mid_block_additional_residual", () if mid is None else (mid,), skips[-1:])
        check_shapes("down_intrablock_additional_residuals", adapter or (), [*before_halving, skips[-1]])

    def skip_shapes(self, sizes: list[tuple[int, int]]) -> tuple[list[Shape], list[Shape]]:
        """(channels, rows, columns) of every skip, and of the place in each down block where an adapter adds."""
        channels = self.config["block_out_channels"]
        skips, places = [(channels[0], *sizes[0])], []
        for level, block in enumerate(typing.cast("list[DownBlock2D]", self.down_blocks)):
            skips += [(channels[level], *sizes[level])] * len(block.resnets)
            places.append(skips[-1])
            if block.downsamplers is not None:
                skips.append((channels[level], *sizes[level + 1]))
            if not block.has_cross_attention:
                places[-1] = skips[-1]
        return skips, places


def check_shapes(name: str, tensors: Sequence[Tensor], shapes: Sequence[Shape]) -> None:
    """Each tensor is (batch, channels, rows, columns) of its place, or one value for all rows and columns."""
    for index, (tensor, shape) in enumerate(zip(tensors, shapes, strict=False)):
        got = tuple(tensor.shape[1:])
        if tensor.ndim != 4 or (got != shape and got != (shape[0], 1, 1)):
            raise InputError(
                f"{name}: tensor {index} has to be (batch, {', '.join(map(str, shape))}), got {tuple(tensor.shape)}. "
                "Was it made for latents of another size, or for another UNet?"
            )
