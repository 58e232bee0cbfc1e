"""The transformer of FLUX.1 (Black Forest Labs): text and picture in streams of their own, then in one.

Axes: B batch, L tokens (text first, picture after), D width, H heads, K = D / H. A tensor without suffix is BLD; any
other shape is in the name. Picture tokens are squares of 2 × 2 latents; Fill and Control models read more beside them
(`in_channels`), Kontext reads further tokens behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ...attention import Cut, SequencePlan
from ...configuration import ConfigMixin, register_to_config
from ...errors import InputError
from ...outputs import output_or_tuple
from ..inputs import check_shape
from ..modeling import check_sizes, checkpointed
from .joint import JointAttention, JointProcessor, JointTransformerBlock, residual_of
from .layers import (
    AdaLayerNormContinuous,
    AdaLayerNormZero,
    TimeTextEmbedding,
    TokenModel,
    Transformer2DModelOutput,
    finite_in_half,
)
from .rotary import Table, check_axes, rotary_table, rotate

Tensor = torch.Tensor


class FluxAttnProcessor(JointProcessor):
    """Attention of all tokens as one sequence, turned by their positions; the text comes first."""

    text_first = True

    def __call__(
        self, attn: FluxAttention, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None, image_rotary_emb: Table | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
        query, key, value = self.join(attn, hidden_states, encoder_hidden_states)
        if image_rotary_emb is not None:
            backend = self._attention_backend
            query, key = (rotate(part, image_rotary_emb, backend) for part in (query, key))
        mixed = self.mix(query, key, value, attention_mask)
        return mixed if encoder_hidden_states is None else self.part(attn, mixed, encoder_hidden_states.shape[1])


class FluxAttention(JointAttention):
    """Attention with positions as rotations."""

    _default_processor_cls = FluxAttnProcessor
    _available_processors = (FluxAttnProcessor,)


class FluxTransformerBlock(JointTransformerBlock):
    """Text and picture in streams of their own, with positions."""

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__(width, FluxAttention(width, heads, head_width))

    def forward(  # type: ignore[override]
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor,
        temb: Tensor,
        image_rotary_emb: Table,
        joint_attention_kwargs: dict[str, Any] | None = None,
    ) -> tuple[Tensor | None, Tensor]:
        kwargs = {"image_rotary_emb": image_rotary_emb, **(joint_attention_kwargs or {})}
        return super().forward(hidden_states, encoder_hidden_states, temb, kwargs)


class FluxSingleTransformerBlock(nn.Module):
    """Text and picture as one sequence through one set of weights; attention and feed-forward side by side."""

    passes_through = ("encoder_hidden_states", "hidden_states")

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.norm = AdaLayerNormZero(width, parts=3)
        self.proj_mlp = nn.Linear(width, 4 * width)
        self.proj_out = nn.Linear(5 * width, width)
        self.attn = FluxAttention(width, heads, head_width, with_text=False, out=False)

    def forward(
        self, hidden_states: Tensor, encoder_hidden_states: Tensor, temb: Tensor, image_rotary_emb: Table,
        joint_attention_kwargs: dict[str, Any] | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        tokens = torch.cat([encoder_hidden_states, hidden_states], dim=1)
        normed, gate = self.norm(tokens, temb)
        mixed = self.attn(normed, image_rotary_emb=image_rotary_emb, **(joint_attention_kwargs or {}))
        wide = F.gelu(self.proj_mlp(normed), approximate="tanh")
        tokens = tokens + gate[:, None] * self.proj_out(torch.cat([mixed, wide], dim=2))
        text, picture = finite_in_half(tokens).split([encoder_hidden_states.shape[1], hidden_states.shape[1]], dim=1)
        return text, picture


class FluxConditions(TokenModel):
    """What FLUX and its ControlNets have in common: the embeddings of all that they are told, and the blocks."""

    def build_conditions(self) -> None:
        """Embeddings and blocks by the config."""
        config, owner = self.config, type(self).__name__
        sizes = ("in_channels", "attention_head_dim", "num_attention_heads", "joint_attention_dim")
        check_sizes(owner, config, *sizes, "pooled_projection_dim")
        check_sizes(owner, config, "num_layers", "num_single_layers", least=0)
        heads, head_width = config["num_attention_heads"], config["attention_head_dim"]
        check_axes(owner, config["axes_dims_rope"], head_width)
        width = heads * head_width
        self.time_text_embed = TimeTextEmbedding(width, config["pooled_projection_dim"], config["guidance_embeds"])
        self.context_embedder = nn.Linear(config["joint_attention_dim"], width)
        self.x_embedder = nn.Linear(config["in_channels"], width)
        self.transformer_blocks = nn.ModuleList(
            FluxTransformerBlock(width, heads, head_width) for _ in range(config["num_layers"])
        )
        self.single_transformer_blocks = nn.ModuleList(
            FluxSingleTransformerBlock(width, heads, head_width) for _ in range(config["num_single_layers"])
        )

    def embed_conditions(self, timestep_B: Tensor, guidance_B: Tensor | None, pooled_BD: Tensor) -> Tensor:
        """Time, guidance and pooled text as one vector; time and guidance come as parts of 1000."""
        dtype = pooled_BD.dtype
        guidance = None if guidance_B is None else guidance_B.to(dtype) * 1000
        return self.time_text_embed(timestep_B.to(dtype) * 1000, pooled_BD, guidance)

    def positions(self, txt_ids: Tensor, img_ids: Tensor) -> Table:
        """The rotations of text and picture tokens."""
        ids = torch.cat([single(txt_ids), single(img_ids)])
        return rotary_table(ids.float(), self.config["axes_dims_rope"])

    def check_inputs(
        self,
        picture: Tensor,
        text: Tensor,
        pooled: Tensor,
        timestep: Tensor,
        img_ids: Tensor,
        txt_ids: Tensor,
        guidance: Tensor | None,
        kwargs: dict[str, Any] | None,
    ) -> None:
        """Refuse what the weights cannot take, before anything is computed."""
        owner, config = type(self).__name__, self.config
        axes = {"batch": None, "tokens": None, "channels": config["in_channels"]}
        check_shape(owner, "hidden_states", picture, axes, self.dtype)
        self.check_conditions(len(picture), text, pooled, timestep, kwargs)
        for name, ids, tokens in (("img_ids", img_ids, picture), ("txt_ids", txt_ids, text)):
            if tuple(single(ids).shape) != (tokens.shape[1], 3):
                raise InputError(f"{owner}: {name} has to be ({tokens.shape[1]}, 3), got {tuple(ids.shape)}.")
        if config["guidance_embeds"] and guidance is None:
            raise InputError(f"{owner}: guidance is missing; these weights were taught the guidance scale.")
        if guidance is not None and not config["guidance_embeds"]:
            raise InputError(f"{owner}: these weights know no guidance scale (guidance_embeds). Leave guidance out.")


def single(ids: Tensor) -> Tensor:
    """Positions without a batch axis, which older callers give."""
    return ids[0] if ids.ndim == 3 else ids


class FluxTransformer2DModel(FluxConditions, ConfigMixin):
    """Predicts the flow from noisy tokens, a time, a text and, where it was taught it, a guidance scale."""

    fused_layers = (
        ("{}.attn.to_qkv", ("{}.attn.to_q", "{}.attn.to_k", "{}.attn.to_v")),
        ("{}.attn.to_added_qkv", ("{}.attn.add_q_proj", "{}.attn.add_k_proj", "{}.attn.add_v_proj")),
    )
    sequence_plan = SequencePlan(
        split=(
            Cut("", "hidden_states", "picture"),
            Cut("", "img_ids", "picture", axis=-2),
            Cut("", "encoder_hidden_states", "text"),
            Cut("", "txt_ids", "text", axis=-2),
            Cut("", "controlnet_block_samples", "picture"),
            Cut("", "controlnet_single_block_samples", "picture"),
        ),
        gather=(Cut("proj_out", 0, "picture"),),
        attends={"*": ("text", "picture")},
    )
    trained_size = 128  # of the latents along a side; the published configs do not say it
    packed_side = 2  # of the square of latents that is one token

    @register_to_config
    def __init__(
        self, patch_size: int = 1, in_channels: int = 64, out_channels: int | None = None, num_layers: int = 19,
        num_single_layers: int = 38, attention_head_dim: int = 128, num_attention_heads: int = 24,
        joint_attention_dim: int = 4096, pooled_projection_dim: int = 768, guidance_embeds: bool = False,
        axes_dims_rope: tuple[int, ...] = (16, 56, 56),
    ) -> None:  # fmt: skip
        super().__init__()
        self.build_conditions()
        width = num_attention_heads * attention_head_dim
        self.norm_out = AdaLayerNormContinuous(width)
        self.proj_out = nn.Linear(width, patch_size**2 * (out_channels or in_channels))

    @output_or_tuple
    def forward(
        self, hidden_states: Tensor, encoder_hidden_states: Tensor, pooled_projections: Tensor, timestep: Tensor,
        img_ids: Tensor, txt_ids: Tensor, guidance: Tensor | None = None,
        joint_attention_kwargs: dict[str, Any] | None = None, controlnet_block_samples: Sequence[Tensor] | None = None,
        controlnet_single_block_samples: Sequence[Tensor] | None = None, return_dict: bool = True,
        controlnet_blocks_repeat: bool = False,
    ) -> Transformer2DModelOutput | tuple[Tensor]:  # fmt: skip
        """One prediction; `timestep` is from 0 to 1, residuals come from a ControlNet."""
        self.check_inputs(
            hidden_states,
            encoder_hidden_states,
            pooled_projections,
            timestep,
            img_ids,
            txt_ids,
            guidance,
            joint_attention_kwargs,
        )
        picture, text = self.x_embedder(hidden_states), self.context_embedder(encoder_hidden_states)
        temb = self.embed_conditions(timestep, guidance, pooled_projections)
        table = self.positions(txt_ids, img_ids)

        depth, residuals = len(self.transformer_blocks), controlnet_block_samples
        for index, block in enumerate(self.transformer_blocks):
            text, picture = checkpointed(self, block, picture, text, temb, table, joint_attention_kwargs)
            if residuals is not None:
                picture = picture + residuals[residual_of(index, depth, len(residuals), controlnet_blocks_repeat)]
        depth, residuals = len(self.single_transformer_blocks), controlnet_single_block_samples
        for index, block in enumerate(self.single_transformer_blocks):
            text, picture = checkpointed(self, block, picture, text, temb, table, joint_attention_kwargs)
            if residuals is not None:
                picture = picture + residuals[residual_of(index, depth, len(residuals))]

        sample = self.proj_out(self.norm_out(picture, temb))
        return Transformer2DModelOutput(sample) if return_dict else (sample,)
