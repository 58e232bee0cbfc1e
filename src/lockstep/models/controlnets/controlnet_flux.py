"""ControlNets for FLUX: the first blocks of the transformer see a picture too, and each gives a residual.

Axes: B batch, L tokens, D width. A tensor without suffix is BLD; any other shape is in the name.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ...configuration import ConfigMixin, register_to_config
from ...errors import InputError
from ...outputs import Output, output_or_tuple
from ..modeling import checkpointed
from ..side_by_side import SideBySide
from ..transformers.transformer_flux import FluxConditions, FluxTransformer2DModel, single
from .controlnet import ControlNetConditioningEmbedding

Tensor = torch.Tensor
HINT_WIDTHS = (16, 16, 16, 16)
COPIED = ("time_text_embed", "context_embedder", "x_embedder")


@dataclass
class FluxControlNetOutput(Output):
    """What is added to the picture after the transformer's blocks of each kind; None where there are none."""

    controlnet_block_samples: list[Tensor] | None
    controlnet_single_block_samples: list[Tensor] | None


class FluxControlNetModel(FluxConditions, ConfigMixin):
    """Residuals that steer FLUX towards a picture: encoded and packed, or as pixels for nets with a hint block.

    A union (`num_mode`) knows several kinds of pictures and is told which it sees.
    """

    @register_to_config
    def __init__(
        self, patch_size: int = 1, in_channels: int = 64, num_layers: int = 19, num_single_layers: int = 38,
        attention_head_dim: int = 128, num_attention_heads: int = 24, joint_attention_dim: int = 4096,
        pooled_projection_dim: int = 768, guidance_embeds: bool = False, axes_dims_rope: tuple[int, ...] = (16, 56, 56),
        num_mode: int | None = None, conditioning_embedding_channels: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.build_conditions()
        width = num_attention_heads * attention_head_dim
        self.controlnet_blocks = nn.ModuleList(zero_linear(width, width) for _ in range(num_layers))
        self.controlnet_single_blocks = nn.ModuleList(zero_linear(width, width) for _ in range(num_single_layers))
        if num_mode is not None:
            self.controlnet_mode_embedder = nn.Embedding(num_mode, width)
        self.input_hint_block = None
        if conditioning_embedding_channels is not None:
            self.input_hint_block = ControlNetConditioningEmbedding(conditioning_embedding_channels, 3, HINT_WIDTHS)
        self.controlnet_x_embedder = zero_linear(in_channels, width)

    @classmethod
    def from_transformer(
        cls,
        transformer: FluxTransformer2DModel,
        num_layers: int = 4,
        num_single_layers: int = 10,
        *,
        num_mode: int | None = None,
        load_weights_from_transformer: bool = True,
    ) -> typing.Self:
        """A ControlNet that starts as a copy of a transformer's first blocks; its residuals start at zero."""
        known = {key: value for key, value in transformer.config.items() if key != "out_channels"}
        counts = {"num_layers": num_layers, "num_single_layers": num_single_layers, "num_mode": num_mode}
        controlnet = cls.from_config({**known, **counts})
        if load_weights_from_transformer:
            for name in COPIED:
                getattr(controlnet, name).load_state_dict(getattr(transformer, name).state_dict())
            for name in ("transformer_blocks", "single_transformer_blocks"):
                for own, other in zip(getattr(controlnet, name), getattr(transformer, name), strict=False):
                    own.load_state_dict(other.state_dict())
        return controlnet

    @output_or_tuple
    def forward(
        self, hidden_states: Tensor, controlnet_cond: Tensor, controlnet_mode: Tensor | None = None,
        conditioning_scale: float = 1.0, *, encoder_hidden_states: Tensor, pooled_projections: Tensor,
        timestep: Tensor, img_ids: Tensor, txt_ids: Tensor, guidance: Tensor | None = None,
        joint_attention_kwargs: dict[str, Any] | None = None, return_dict: bool = True,
    ) -> FluxControlNetOutput | tuple[list[Tensor] | None, list[Tensor] | None]:  # fmt: skip
        """The residuals for one prediction; `controlnet_mode` is (batch, 1)."""
        text, pooled, kwargs = encoder_hidden_states, pooled_projections, joint_attention_kwargs
        self.check_inputs(hidden_states, text, pooled, timestep, img_ids, txt_ids, guidance, kwargs)
        picture = self.x_embedder(hidden_states) + self.controlnet_x_embedder(self.hint(controlnet_cond))
        temb = self.embed_conditions(timestep, guidance, pooled)
        text = self.context_embedder(text)
        if self.config["num_mode"] is not None:
            text, txt_ids = self.with_mode(text, single(txt_ids), controlnet_mode)
        table = self.positions(txt_ids, img_ids)

        residuals, single_residuals = [], []
        for block, out in zip(self.transformer_blocks, self.controlnet_blocks, strict=True):
            text, picture = checkpointed(self, block, picture, text, temb, table, kwargs)
            residuals.append(out(picture) * conditioning_scale)
        for block, out in zip(self.single_transformer_blocks, self.controlnet_single_blocks, strict=True):
            text, picture = checkpointed(self, block, picture, text, temb, table, kwargs)
            single_residuals.append(out(picture) * conditioning_scale)
        output = FluxControlNetOutput(residuals or None, single_residuals or None)
        return output if return_dict else (output.controlnet_block_samples, output.controlnet_single_block_samples)

    def hint(self, picture: Tensor) -> Tensor:
        """Pixels as tokens, for a net that reads pixels."""
        if self.input_hint_block is None:
            return picture
        patch = self.config["patch_size"]
        grid = self.input_hint_block(picture).unflatten(3, (-1, patch)).unflatten(2, (-1, patch))
        return grid.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)

    def with_mode(self, text: Tensor, txt_ids: Tensor, mode: Tensor | None) -> tuple[Tensor, Tensor]:
        """The kind of picture as one more token before the text."""
        if mode is None:
            raise InputError(
                f"{type(self).__name__}: controlnet_mode is missing; this net knows {self.config['num_mode']} kinds of "
                "pictures and has to be told which it sees."
            )
        return torch.cat([self.controlnet_mode_embedder(mode), text], dim=1), torch.cat([txt_ids[:1], txt_ids])


class FluxMultiControlNetModel(SideBySide):
    """Several ControlNets of one FLUX model; what they add is summed."""

    part_class = FluxControlNetModel
    first_folder = "controlnet"
    sees_several: ClassVar[bool] = True  # one alone, a union, may see several pictures, each of its kind

    def forward(
        self,
        hidden_states: Tensor,
        controlnet_cond: Sequence[Tensor],
        controlnet_mode: Sequence[Tensor | None],
        conditioning_scale: Sequence[float],
        **shared: Tensor | dict[str, Any] | None,
    ) -> tuple[list[Tensor] | None, list[Tensor] | None]:
        """The sum of all residuals: picture k, mode k and scale k go to net k; one union may see several pictures."""
        nets = list(self.nets) * (len(controlnet_cond) if len(self.nets) == 1 else 1)
        given = zip(nets, controlnet_cond, controlnet_mode, conditioning_scale, strict=True)
        found = [
            net(hidden_states, picture, mode, scale, return_dict=False, **shared) for net, picture, mode, scale in given
        ]
        return summed([double for double, _ in found]), summed([one for _, one in found])


def summed(residuals: Sequence[list[Tensor] | None]) -> list[Tensor] | None:
    """Place by place; nothing where there is nothing."""
    there = [parts for parts in residuals if parts is not None]
    return [sum(parts[1:], parts[0]) for parts in zip(*there, strict=True)] if there else None


def zero_linear(width_in: int, width_out: int) -> nn.Linear:
    """A layer whose output starts at zero, so that training starts from the transformer as it is."""
    layer = nn.Linear(width_in, width_out)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
