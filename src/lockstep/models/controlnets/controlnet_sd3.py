"""ControlNets for Stable Diffusion 3 and 3.5: the first blocks of the transformer see a picture too.

Axes: B batch, C channels, Y rows, X columns, L tokens, D width. A tensor without suffix is BLD; any other shape is in
the name.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError, InputError
from ...outputs import Output, output_or_tuple
from ..inputs import check_shape
from ..layers import FeedForward
from ..modeling import checkpointed
from ..side_by_side import SideBySide
from ..transformers.layers import AdaLayerNormZero, TimeTextEmbedding, modulate
from ..transformers.transformer_sd3 import PatchEmbed, SD3Attention, SD3Conditions, SD3Transformer2DModel
from .controlnet_flux import summed, zero_linear

Tensor = torch.Tensor
COPIED = ("pos_embed", "time_text_embed", "context_embedder")


@dataclass
class SD3ControlNetOutput(Output):
    """What is added to the picture after the transformer's blocks."""

    controlnet_block_samples: list[Tensor]


class SD3SingleTransformerBlock(nn.Module):
    """The picture attends to itself alone, as in the ControlNets of 3.5 large."""

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.norm1 = AdaLayerNormZero(width)
        self.attn = SD3Attention(width, heads, head_width, with_text=False, qk_norm=False)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.ff = FeedForward(width, gated=False)

    def forward(self, hidden_states: Tensor, temb: Tensor) -> Tensor:
        normed, gate, shift_ff, scale_ff, gate_ff = self.norm1(hidden_states, temb)
        picture = hidden_states + gate[:, None] * self.attn(normed)
        return picture + gate_ff[:, None] * self.ff(modulate(self.norm2(picture), shift_ff, scale_ff))


class SD3ControlNetModel(SD3Conditions, ConfigMixin):
    """Residuals that steer Stable Diffusion 3 towards an encoded picture.

    Those of 3.5 large read no text (`joint_attention_dim` is null) and have no positions (`use_pos_embed` is false):
    they are given the tokens that the transformer makes of the latents.
    """

    @register_to_config
    def __init__(
        self, sample_size: int = 128, patch_size: int = 2, in_channels: int = 16, num_layers: int = 18,
        attention_head_dim: int = 64, num_attention_heads: int = 18, joint_attention_dim: int | None = 4096,
        caption_projection_dim: int = 1152, pooled_projection_dim: int = 2048, out_channels: int | None = 16,
        pos_embed_max_size: int | None = 96, extra_conditioning_channels: int = 0,
        dual_attention_layers: tuple[int, ...] = (), qk_norm: str | None = None,
        pos_embed_type: str | None = "sincos", use_pos_embed: bool = True,
        force_zeros_for_pooled_projection: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        width, owner = self.check_config(), type(self).__name__
        if joint_attention_dim is not None and caption_projection_dim != width:
            raise ConfigError(f"{owner}: caption_projection_dim has to be {width}, got {caption_projection_dim}.")
        if pos_embed_type not in ("sincos", None):
            raise ConfigError(f"{owner}: pos_embed_type has to be 'sincos' or null, got {pos_embed_type!r}.")
        most = pos_embed_max_size if pos_embed_type == "sincos" else None
        self.pos_embed = PatchEmbed(sample_size, patch_size, in_channels, width, most) if use_pos_embed else None
        self.time_text_embed = TimeTextEmbedding(width, pooled_projection_dim)
        self.context_embedder = None
        if joint_attention_dim is not None:
            self.context_embedder = nn.Linear(joint_attention_dim, caption_projection_dim)
            self.transformer_blocks = nn.ModuleList(self.block(index) for index in range(num_layers))
        else:
            heads = (width, num_attention_heads, attention_head_dim)
            self.transformer_blocks = nn.ModuleList(SD3SingleTransformerBlock(*heads) for _ in range(num_layers))
        self.controlnet_blocks = nn.ModuleList(zero_linear(width, width) for _ in range(num_layers))
        channels = in_channels + extra_conditioning_channels
        self.pos_embed_input = PatchEmbed(sample_size, patch_size, channels, width, None)
        for parameter in self.pos_embed_input.parameters():
            nn.init.zeros_(parameter)

    @classmethod
    def from_transformer(
        cls,
        transformer: SD3Transformer2DModel,
        num_layers: int | None = 12,
        num_extra_conditioning_channels: int = 1,
        load_weights_from_transformer: bool = True,
    ) -> typing.Self:
        """A ControlNet that starts as a copy of a transformer's first blocks; its residuals start at zero."""
        count = num_layers or transformer.config["num_layers"]
        more = {"num_layers": count, "extra_conditioning_channels": num_extra_conditioning_channels}
        controlnet = cls.from_config({**transformer.config, **more})
        if load_weights_from_transformer:
            for name in COPIED:
                getattr(controlnet, name).load_state_dict(getattr(transformer, name).state_dict())
            for own, other in zip(controlnet.transformer_blocks, transformer.transformer_blocks, strict=False):
                known = {name: tensor.shape for name, tensor in own.state_dict().items()}  # the last one has less
                fits = {k: v for k, v in other.state_dict().items() if known.get(k) == v.shape}
                own.load_state_dict(fits, strict=False)
        return controlnet

    @output_or_tuple
    def forward(
        self, hidden_states: Tensor, controlnet_cond: Tensor, conditioning_scale: float = 1.0,
        encoder_hidden_states: Tensor | None = None, *, pooled_projections: Tensor, timestep: Tensor,
        joint_attention_kwargs: dict[str, Any] | None = None, return_dict: bool = True,
    ) -> SD3ControlNetOutput | tuple[list[Tensor]]:  # fmt: skip
        """The residuals for one prediction; latents are BCYX, or tokens for a net without positions."""
        text, kwargs = encoder_hidden_states, joint_attention_kwargs
        self.check_inputs(hidden_states, controlnet_cond, text)
        self.check_conditions(len(hidden_states), text, pooled_projections, timestep, kwargs)
        picture = hidden_states if self.pos_embed is None else self.pos_embed(hidden_states)
        picture = picture + self.pos_embed_input(controlnet_cond)
        temb = self.time_text_embed(timestep, pooled_projections)
        if self.context_embedder is not None:
            text = self.context_embedder(text)

        residuals = []
        for block, out in zip(self.transformer_blocks, self.controlnet_blocks, strict=True):
            if text is None:
                picture = checkpointed(self, block, picture, temb)
            else:
                text, picture = checkpointed(self, block, picture, text, temb, kwargs)
            residuals.append(out(picture) * conditioning_scale)
        return SD3ControlNetOutput(residuals) if return_dict else (residuals,)

    def check_inputs(self, latents: Tensor, picture: Tensor, text: Tensor | None) -> None:
        """Refuse what the weights cannot take, before anything is computed."""
        owner, config = type(self).__name__, self.config
        if self.pos_embed is not None:
            self.check_latents(latents)
        else:
            width = config["num_attention_heads"] * config["attention_head_dim"]
            axes = {"batch": None, "tokens": None, "width": width}
            check_shape(owner, "hidden_states", latents, axes, self.dtype)
        channels = config["in_channels"] + config["extra_conditioning_channels"]
        axes = {"batch": len(latents), "channels": channels, "height": None, "width": None}
        check_shape(owner, "controlnet_cond", picture, axes, self.dtype)
        if (text is None) != (self.context_embedder is None):
            said = "reads no text, but one is given" if text is not None else "reads a text, but none is given"
            raise InputError(f"{owner}: this net {said} (joint_attention_dim is {config['joint_attention_dim']}).")


class SD3MultiControlNetModel(SideBySide):
    """Several ControlNets of one model; what they add is summed."""

    part_class = SD3ControlNetModel
    first_folder = "controlnet"

    def forward(
        self,
        hidden_states: Tensor,
        controlnet_cond: Sequence[Tensor],
        conditioning_scale: Sequence[float],
        **shared: Tensor | dict[str, Any] | None,
    ) -> tuple[list[Tensor] | None]:
        """The sum of all residuals: picture k and scale k go to net k."""
        given = zip(self.nets, controlnet_cond, conditioning_scale, strict=True)
        options: dict[str, Any] = {**shared, "return_dict": False}
        return (summed([net(hidden_states, picture, scale, **options)[0] for net, picture, scale in given]),)
