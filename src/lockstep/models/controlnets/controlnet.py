"""ControlNet for the UNets of Stable Diffusion (arXiv:2302.05543).

Axes: B batch, C channels, Y rows, X columns, L tokens, D width. `sample` is BCYX, `controlnet_cond` a picture of
(B, 3, 8Y, 8X), `encoder_hidden_states` BLD. The trainable copy of the UNet's way down leaves one residual per skip.
"""

from __future__ import annotations

import inspect
import itertools
import typing
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError, InputError, UnsupportedError
from ...outputs import Output, output_or_tuple
from ..inputs import check_tensor
from ..unets.unet_2d_condition import UNet2DConditionModel
from ..unets.unet_2d_config import plan_unet
from ..unets.unet_2d_encoder import UNet2DEncoder, mask_to_bias

Tensor = torch.Tensor
COPIED_MODULES = ("conv_in", "time_embedding", "class_embedding", "add_embedding", "down_blocks", "mid_block")
# What a UNet's way down can have and a ControlNet's published config has no word for.
ONLY_UNET_VALUES = {
    "center_input_sample": False,
    "class_embeddings_concat": False,
    "conv_in_kernel": 3,
    "time_cond_proj_dim": None,
    "time_embedding_act_fn": None,
    "time_embedding_dim": None,
    "timestep_post_act": None,
}


@dataclass
class ControlNetOutput(Output):
    """One residual per skip of the UNet, in the order in which the skips are made, and one for its middle."""

    down_block_res_samples: tuple[Tensor, ...]
    mid_block_res_sample: Tensor


class ControlNetConditioningEmbedding(nn.Module):
    """The picture at the size of the latents: a stride of 2 between the widths, a last layer that starts at zero."""

    def __init__(self, out_channels: int, in_channels: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.conv_in = nn.Conv2d(in_channels, widths[0], 3, padding=1)
        self.blocks = nn.ModuleList()
        for width, next_width in itertools.pairwise(widths):
            self.blocks.append(nn.Conv2d(width, width, 3, padding=1))
            self.blocks.append(nn.Conv2d(width, next_width, 3, padding=1, stride=2))
        self.conv_out = zero_convolution(widths[-1], out_channels, kernel_size=3)

    def forward(self, conditioning: Tensor) -> Tensor:
        embedding = F.silu(self.conv_in(conditioning))
        for block in self.blocks:
            embedding = F.silu(block(embedding))
        return self.conv_out(embedding)


class ControlNetModel(UNet2DEncoder, ConfigMixin):
    """Residuals that steer a UNet towards a picture."""

    @register_to_config
    def __init__(
        self,
        *,
        in_channels: int = 4,
        conditioning_channels: int = 3,
        flip_sin_to_cos: bool = True,
        freq_shift: float = 0,
        down_block_types: tuple[str, ...] = (
            "CrossAttnDownBlock2D",
            "CrossAttnDownBlock2D",
            "CrossAttnDownBlock2D",
            "DownBlock2D",
        ),
        mid_block_type: str | None = "UNetMidBlock2DCrossAttn",
        only_cross_attention: bool | tuple[bool, ...] = False,
        block_out_channels: tuple[int, ...] = (320, 640, 1280, 1280),
        layers_per_block: int = 2,
        downsample_padding: int = 1,
        mid_block_scale_factor: float = 1,
        act_fn: str = "silu",
        norm_num_groups: int | None = 32,
        norm_eps: float = 1e-5,
        cross_attention_dim: int = 1280,
        transformer_layers_per_block: int | tuple[int | tuple[int, ...], ...] = 1,
        encoder_hid_dim: int | None = None,
        encoder_hid_dim_type: str | None = None,
        attention_head_dim: int | tuple[int, ...] = 8,
        num_attention_heads: int | tuple[int, ...] | None = None,
        use_linear_projection: bool = False,
        class_embed_type: str | None = None,
        addition_embed_type: str | None = None,
        addition_time_embed_dim: int | None = None,
        num_class_embeds: int | None = None,
        upcast_attention: bool | None = False,
        resnet_time_scale_shift: str = "default",
        projection_class_embeddings_input_dim: int | None = None,
        controlnet_conditioning_channel_order: str = "rgb",
        conditioning_embedding_out_channels: tuple[int, ...] | None = (16, 32, 96, 256),
        global_pool_conditions: bool = False,
        addition_embed_type_num_heads: int = 64,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        if encoder_hid_dim is not None or encoder_hid_dim_type is not None:
            raise ConfigError(f"{owner}: encoder_hid_dim is not supported; give the text at cross_attention_dim.")
        if controlnet_conditioning_channel_order not in ("rgb", "bgr"):
            raise ConfigError(
                f"{owner}: controlnet_conditioning_channel_order has to be 'rgb' or 'bgr', "
                f"got {controlnet_conditioning_channel_order!r}."
            )
        if not conditioning_embedding_out_channels:
            raise ConfigError(f"{owner}: conditioning_embedding_out_channels has to list at least one width.")
        if mid_block_type is None:
            raise ConfigError(f"{owner}: mid_block_type has to be given; a ControlNet gives a residual for the middle.")
        plan = plan_unet(owner, self.config)
        self.build_conditions(plan)
        widths = tuple(conditioning_embedding_out_channels)
        self.controlnet_cond_embedding = ControlNetConditioningEmbedding(
            block_out_channels[0], conditioning_channels, widths
        )
        self.picture_scale = 2 ** (len(widths) - 1)
        self.down_blocks, residuals = nn.ModuleList(), [zero_convolution(block_out_channels[0])]
        for level, channels in enumerate(block_out_channels):  # in the published order: see unet_2d_blocks
            self.down_blocks.append(self.down_block(plan, level))
            halved = level < len(block_out_channels) - 1
            residuals += [zero_convolution(channels) for _ in range(plan.layers_per_block[level] + halved)]
        self.controlnet_down_blocks = nn.ModuleList(residuals)
        self.controlnet_mid_block = zero_convolution(block_out_channels[-1])
        self.build_middle(plan)

    @classmethod
    def from_unet(
        cls,
        unet: UNet2DConditionModel,
        *,
        controlnet_conditioning_channel_order: str = "rgb",
        conditioning_embedding_out_channels: tuple[int, ...] = (16, 32, 96, 256),
        load_weights_from_unet: bool = True,
        conditioning_channels: int = 3,
    ) -> typing.Self:
        """A ControlNet that starts as a copy of a UNet's way down; its residuals start at zero."""
        for name, value in ONLY_UNET_VALUES.items():
            if unet.config[name] != value:
                raise UnsupportedError(
                    f"A {cls.__name__} has no {name}, and this UNet was built with {name}={unet.config[name]!r}: "
                    "the copy would compute something else."
                )
        known = inspect.signature(cls.__init__).parameters
        shared = {name: value for name, value in unet.config.items() if name in known}
        controlnet = cls(
            **shared,
            controlnet_conditioning_channel_order=controlnet_conditioning_channel_order,
            conditioning_embedding_out_channels=conditioning_embedding_out_channels,
            conditioning_channels=conditioning_channels,
        )
        if load_weights_from_unet:
            for name in COPIED_MODULES:
                source, target = getattr(unet, name), getattr(controlnet, name)
                if source is not None:
                    target.load_state_dict(source.state_dict())
        return controlnet

    @output_or_tuple
    def forward(
        self,
        sample: Tensor,
        timestep: Tensor | float | int,
        encoder_hidden_states: Tensor | None,
        controlnet_cond: Tensor,
        conditioning_scale: float = 1.0,
        class_labels: Tensor | None = None,
        timestep_cond: Tensor | None = None,
        attention_mask: Tensor | None = None,
        added_cond_kwargs: dict[str, Tensor] | None = None,
        cross_attention_kwargs: dict[str, Any] | None = None,
        guess_mode: bool = False,
        return_dict: bool = True,
    ) -> ControlNetOutput | tuple[tuple[Tensor, ...], Tensor]:
        """The residuals for one prediction; `guess_mode` weakens those of the fine levels, down to a tenth."""
        self.check_inputs(
            sample,
            timestep,
            encoder_hidden_states,
            class_labels,
            timestep_cond,
            added_cond_kwargs,
            attention_mask,
            None,
            cross_attention_kwargs,
        )
        self.check_picture(controlnet_cond, sample)
        if self.config["controlnet_conditioning_channel_order"] == "bgr":
            controlnet_cond = controlnet_cond.flip(1)
        temb = self.embed_conditions(
            sample, timestep, encoder_hidden_states, class_labels, timestep_cond, added_cond_kwargs
        )
        text_kwargs: dict[str, Any] = {
            "encoder_hidden_states": encoder_hidden_states,
            "attention_mask": mask_to_bias(attention_mask, sample.dtype),
            "cross_attention_kwargs": cross_attention_kwargs,
        }

        sample = self.conv_in(sample) + self.controlnet_cond_embedding(controlnet_cond)
        skips: tuple[Tensor, ...] = (sample,)
        for block in self.down_blocks:
            sample, block_skips = block(sample, temb, **(text_kwargs if block.has_cross_attention else {}))
            skips += block_skips
        mid_block = typing.cast(nn.Module, self.mid_block)
        sample = mid_block(sample, temb, **(text_kwargs if mid_block.has_cross_attention else {}))

        residuals = [block(skip) for block, skip in zip(self.controlnet_down_blocks, skips, strict=True)]
        residuals.append(self.controlnet_mid_block(sample))
        if guess_mode and not self.config["global_pool_conditions"]:
            scales = torch.logspace(-1, 0, len(residuals), device=sample.device) * conditioning_scale
            residuals = [residual * scale for residual, scale in zip(residuals, scales, strict=True)]
        else:
            residuals = [residual * conditioning_scale for residual in residuals]
        if self.config["global_pool_conditions"]:
            residuals = [residual.mean(dim=(2, 3), keepdim=True) for residual in residuals]
        down, mid = tuple(residuals[:-1]), residuals[-1]
        return ControlNetOutput(down, mid) if return_dict else (down, mid)

    def check_picture(self, picture: Tensor, sample: Tensor) -> None:
        """The picture has to be as many times larger than the latents as the embedding makes it smaller."""
        check_tensor(type(self).__name__, "controlnet_cond", picture, self.dtype, sample.device)
        channels, scale = self.config["conditioning_channels"], self.picture_scale
        rows, columns = sample.shape[2:]
        wanted = (sample.shape[0], channels, rows * scale, columns * scale)
        if tuple(picture.shape) != wanted:
            raise InputError(
                f"{type(self).__name__}: controlnet_cond has to be {wanted} (batch, channels, height, width; {scale} "
                f"times the latents' size), got {tuple(picture.shape)}. Resize the picture, or repeat it for the batch."
            )


def zero_convolution(in_channels: int, out_channels: int | None = None, kernel_size: int = 1) -> nn.Conv2d:
    """A convolution whose output starts at zero, so that training starts from the UNet as it is."""
    convolution = nn.Conv2d(in_channels, out_channels or in_channels, kernel_size, padding=kernel_size // 2)
    nn.init.zeros_(convolution.weight)
    nn.init.zeros_(typing.cast(Tensor, convolution.bias))
    return convolution
