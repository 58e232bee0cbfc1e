"""The transformer of Helios: Wan's, with the past of a long video before the frames that are made now.

The past is seen at three distances, coarser the longer ago (patches of 4, 2 and 1 times the size). Axes: B batch, L
tokens (long ago, a while ago, just now, then the frames of this chunk), D width, H heads, K = D / H, S kinds of time.
A tensor without suffix is BLD; any other shape is in the name. Latents are BCTYX; a token is a patch of them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ...attention import Cut, ProcessorMixin, SequencePlan, dispatch_attention_fn
from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError, InputError
from ...outputs import output_or_tuple
from ..inputs import check_shape
from ..layers import FeedForward
from ..modeling import ModelMixin, checkpointed
from .layers import Transformer2DModelOutput
from .rotary import Table, rotate
from .transformer_wan import (
    FP32LayerNorm,
    WanAttention,
    WanTimeTextImageEmbedding,
    check_video_config,
    check_video_latents,
    unpatchified,
)

Tensor = torch.Tensor
MOST_SCALE = 10.0  # how far the keys of the past can be amplified
SCALE_MODES = ("scalar", "per_head")


class HeliosAttnProcessor(ProcessorMixin):
    """Attention to past and present, or to the text; the keys of the past can be amplified."""

    def __call__(
        self, attn: HeliosAttention, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None, rotary_emb: Table | None = None,
        original_context_length: int | None = None,
    ) -> Tensor:  # fmt: skip
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query, key, value = attn.project(hidden_states, source)
        if rotary_emb is not None:
            query, key = (rotate(part, rotary_emb, self._attention_backend) for part in (query, key))
        if attn.history_key_scale is not None and original_context_length is not None:
            past, now = key.split((key.shape[1] - original_context_length, original_context_length), dim=1)
            scale = 1.0 + torch.sigmoid(attn.history_key_scale) * (MOST_SCALE - 1.0)
            key = torch.cat([(past * scale.view(1, 1, -1, 1)).to(now.dtype), now], dim=1)
        mixed = dispatch_attention_fn(
            query, key, value, attn_mask=attention_mask, backend=self._attention_backend,
            parallel_config=self._parallel_config,
        )  # fmt: skip
        return attn.to_out[0](mixed.flatten(2))


class HeliosAttention(WanAttention):
    """Wan's attention; where a model was taught so, it holds on to the past more strongly."""

    _default_processor_cls = HeliosAttnProcessor
    _available_processors = (HeliosAttnProcessor,)

    def __init__(
        self, width: int, heads: int, eps: float, *, is_cross_attention: bool = False, scales: int | None = None,
        image_width: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(width, heads, eps, is_cross_attention=is_cross_attention, image_width=image_width)
        self.history_key_scale = None if scales is None else nn.Parameter(torch.ones(scales))


class HeliosTransformerBlock(nn.Module):
    """Attention to past and present, to the text, and a feed-forward; time shifts, scales and gates first and last."""

    def __init__(
        self, width: int, ffn_dim: int, heads: int, cross_attn_norm: bool, eps: float, text_for_now: bool,
        scales: int | None, image_width: int | None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.text_for_now = text_for_now
        self.norm1 = FP32LayerNorm(width, eps, elementwise_affine=False)
        self.attn1 = HeliosAttention(width, heads, eps, scales=scales)
        self.attn2 = HeliosAttention(width, heads, eps, is_cross_attention=True, image_width=image_width)
        self.norm2 = FP32LayerNorm(width, eps) if cross_attn_norm else nn.Identity()
        self.ffn = FeedForward(width, ffn_dim, gated=False)
        self.norm3 = FP32LayerNorm(width, eps, elementwise_affine=False)
        self.scale_shift_table = nn.Parameter(torch.randn(1, 6, width) / width**0.5)

    def forward(
        self, video: Tensor, text: Tensor, temb_BS6D: Tensor, kinds_L: Tensor, rotary_emb: Table, now: int,
        kwargs: dict[str, Any],
    ) -> Tensor:  # fmt: skip
        modulation = (self.scale_shift_table + temb_BS6D.float())[:, kinds_L].unbind(2)
        shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = modulation
        normed = (self.norm1(video.float()) * (1 + scale) + shift).type_as(video)
        mixed = self.attn1(normed, rotary_emb=rotary_emb, original_context_length=now, **kwargs)
        video = (video.float() + mixed * gate).type_as(video)
        told = now if self.text_for_now else video.shape[1]
        past, present = video.split((video.shape[1] - told, told), dim=1)
        present = present + self.attn2(self.norm2(present.float()).type_as(present), text, **kwargs)
        video = torch.cat([past, present], dim=1)
        normed = (self.norm3(video.float()) * (1 + ffn_scale) + ffn_shift).type_as(video)
        return (video.float() + self.ffn(normed).float() * ffn_gate).type_as(video)


class HeliosOutputNorm(nn.Module):
    """The last norm, shifted and scaled by the time."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.scale_shift_table = nn.Parameter(torch.randn(1, 2, width) / width**0.5)
        self.norm = FP32LayerNorm(width, eps, elementwise_affine=False)

    def forward(self, video: Tensor, temb_BD: Tensor) -> Tensor:
        shift, scale = (self.scale_shift_table + temb_BD.unsqueeze(1)).chunk(2, dim=1)
        return (self.norm(video.float()) * (1 + scale) + shift).type_as(video)


class HeliosTransformer3DModel(ModelMixin, ConfigMixin):
    """Predicts the flow of a chunk of a video from its noisy latents, a time, a text and what came before."""

    _supports_gradient_checkpointing = True
    gradient_checkpointing = False
    keep_in_fp32 = (r"time_embedder\.", r"scale_shift_table$", r"\.norm[123]\.", r"history_key_scale$")
    ignored_tensors = (r"\.norm_added_q\.",)  # published, and never used
    sequence_plan = SequencePlan(
        split=(
            Cut("blocks.*", "now", "now"),
            Cut("blocks.0", "video", ("past", "now")),
            Cut("blocks.*", "kinds_L", ("past", "now"), axis=0),
            Cut("blocks.*", "rotary_emb", ("past", "now")),
        ),
        gather=(Cut("blocks.-1", 0, ("past", "now")),),
        attends={"*": ("past", "now")},
    )

    @register_to_config
    def __init__(
        self, patch_size: tuple[int, ...] = (1, 2, 2), num_attention_heads: int = 40, attention_head_dim: int = 128,
        in_channels: int = 16, out_channels: int = 16, text_dim: int = 4096, freq_dim: int = 256,
        ffn_dim: int = 13824, num_layers: int = 40, cross_attn_norm: bool = True,
        qk_norm: str | None = "rms_norm_across_heads", eps: float = 1e-6, added_kv_proj_dim: int | None = None,
        rope_dim: tuple[int, ...] = (44, 42, 42), rope_theta: float = 10000.0, guidance_cross_attn: bool = True,
        zero_history_timestep: bool = True, has_multi_term_memory_patch: bool = True,
        is_amplify_history: bool = False, history_scale_mode: str = "per_head",
    ) -> None:  # fmt: skip
        super().__init__()
        check_config(self)
        width = num_attention_heads * attention_head_dim
        self.patch_embedding = nn.Conv3d(in_channels, width, times(1, patch_size), stride=times(1, patch_size))
        if has_multi_term_memory_patch:
            self.patch_short = nn.Conv3d(in_channels, width, times(1, patch_size), stride=times(1, patch_size))
            self.patch_mid = nn.Conv3d(in_channels, width, times(2, patch_size), stride=times(2, patch_size))
            self.patch_long = nn.Conv3d(in_channels, width, times(4, patch_size), stride=times(4, patch_size))
        self.condition_embedder = WanTimeTextImageEmbedding(width, freq_dim, text_dim)
        scales = {"per_head": num_attention_heads, "scalar": 1}[history_scale_mode] if is_amplify_history else None
        layer = (width, ffn_dim, num_attention_heads, cross_attn_norm, eps)
        self.blocks = nn.ModuleList(
            HeliosTransformerBlock(*layer, guidance_cross_attn, scales, added_kv_proj_dim) for _ in range(num_layers)
        )
        self.norm_out = HeliosOutputNorm(width, eps)
        self.proj_out = nn.Linear(width, out_channels * math.prod(patch_size))

    @output_or_tuple
    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        indices_hidden_states: Tensor | None = None,
        indices_latents_history_short: Tensor | None = None,
        indices_latents_history_mid: Tensor | None = None,
        indices_latents_history_long: Tensor | None = None,
        latents_history_short: Tensor | None = None,
        latents_history_mid: Tensor | None = None,
        latents_history_long: Tensor | None = None,
        return_dict: bool = True,
        attention_kwargs: dict[str, Any] | None = None,
    ) -> Transformer2DModelOutput | tuple[Tensor]:
        """One prediction for the frames of now; indices say where in time each frame is."""
        past = {
            "short": (latents_history_short, indices_latents_history_short),
            "mid": (latents_history_mid, indices_latents_history_mid),
            "long": (latents_history_long, indices_latents_history_long),
        }
        self.check_inputs(hidden_states, timestep, encoder_hidden_states, past)
        self.check_processor_kwargs("attention_kwargs", attention_kwargs)
        grid_BDTYX = self.patch_embedding(hidden_states)
        frames, rows, columns = grid_BDTYX.shape[2:]
        if indices_hidden_states is None:
            indices_hidden_states = torch.arange(frames, device=hidden_states.device)[None]
        tokens = [grid_BDTYX.flatten(2).transpose(1, 2)]
        angles = [self.cos_sin(indices_hidden_states, rows, columns).flatten(2)]
        now, patch = tokens[0].shape[1], self.config.patch_size
        short, where = past["short"]
        if short is not None and where is not None:
            short_BDTYX = self.patch_short(short)
            rows, columns = short_BDTYX.shape[3:]
            tokens.insert(0, short_BDTYX.flatten(2).transpose(1, 2))
            angles.insert(0, self.cos_sin(where, rows, columns).flatten(2))
        mid, where = past["mid"]
        if mid is not None and where is not None:
            tokens.insert(0, self.patch_mid(padded(mid, times(2, patch))).flatten(2).transpose(1, 2))
            angles.insert(0, pooled(self.cos_sin(where, rows, columns), 2).flatten(2))
        long, where = past["long"]
        if long is not None and where is not None:
            tokens.insert(0, self.patch_long(padded(long, times(4, patch))).flatten(2).transpose(1, 2))
            angles.insert(0, pooled(self.cos_sin(where, rows, columns), 4).flatten(2))
        video = torch.cat(tokens, dim=1)
        cos, sin = torch.cat(angles, dim=2).transpose(1, 2).repeat_interleave(2, dim=2).chunk(2, dim=2)

        kinds_L = torch.ones(video.shape[1], dtype=torch.long, device=video.device)
        kinds_L[: video.shape[1] - now] = 0 if self.config.zero_history_timestep else 1
        made = torch.zeros_like(timestep.flatten()[:1])  # what has been made has no noise
        _, made_1S6D = self.condition_embedder(made, encoder_hidden_states.dtype)
        temb_BSD, temb_BS6D = self.condition_embedder(timestep.expand(len(video)), encoder_hidden_states.dtype)
        temb_BS6D = torch.cat([made_1S6D.expand_as(temb_BS6D), temb_BS6D], dim=1)
        text = self.condition_embedder.text_embedder(encoder_hidden_states)

        for block in self.blocks:
            video = checkpointed(self, block, video, text, temb_BS6D, kinds_L, (cos, sin), now, attention_kwargs or {})

        tokens_now = self.proj_out(self.norm_out(video[:, -now:], temb_BSD[:, 0]))
        sample = unpatchified(tokens_now, patch, grid_BDTYX.shape[2:])
        return Transformer2DModelOutput(sample) if return_dict else (sample,)

    def cos_sin(self, frames_BT: Tensor, rows: int, columns: int) -> Tensor:
        """Cosines, then sines of the angles of each place, as channels: B2K'TYX, a number for each pair of K.

        In fp32 as published, whatever autocast says: places far into a video have many digits.
        """
        grids = (
            frames_BT.float()[:, :, None, None].expand(-1, -1, rows, columns),
            torch.arange(rows, device=frames_BT.device).float()[None, None, :, None],
            torch.arange(columns, device=frames_BT.device).float()[None, None, None, :],
        )
        parts = []
        for places, width in zip(grids, self.config.rope_dim, strict=True):
            powers = torch.arange(0, width, 2, dtype=torch.float32, device=frames_BT.device) / width
            frequencies = 1.0 / self.config.rope_theta**powers
            parts.append((frequencies.view(1, -1, 1, 1, 1) * places[:, None]).expand(-1, -1, *grids[0].shape[1:]))
        angles = torch.cat([part.expand(len(frames_BT), -1, -1, -1, -1) for part in parts], dim=1)
        return torch.cat([angles.cos(), angles.sin()], dim=1)

    @property
    def condition_widths(self) -> dict[str, int | None]:
        """Channels of what is read beside the latents."""
        return {"prompt_embeds": self.config.text_dim}

    def check_inputs(
        self, latents: Tensor, timestep: Tensor, text: Tensor, past: dict[str, tuple[Tensor | None, Tensor | None]]
    ) -> None:
        """Refuse what the weights cannot take, before anything is computed."""
        owner, config = type(self).__name__, self.config
        check_video_latents(self, "hidden_states", latents, config.in_channels)
        axes = {"batch": len(latents), "tokens": None, "width": config.text_dim}
        check_shape(owner, "encoder_hidden_states", text, axes, self.dtype)
        if tuple(timestep.shape) not in ((), (1,), (len(latents),)):
            raise InputError(
                f"{owner}: timestep is one, or one for each of {len(latents)} samples, got {tuple(timestep.shape)}."
            )
        given = {name: one for name, (one, where) in past.items() if one is not None and where is not None}
        if given and not config.has_multi_term_memory_patch:
            raise InputError(f"{owner}: these weights know no past (has_multi_term_memory_patch is off).")
        if given and "short" not in given:
            raise InputError(f"{owner}: a past needs its newest part, latents_history_short, with indices.")
        axes = {"batch": len(latents), "channels": config.in_channels, "frames": None, "height": None, "width": None}
        for name, one in given.items():
            check_shape(owner, f"latents_history_{name}", one, axes, self.dtype)


def times(factor: int, sizes: tuple[int, ...]) -> tuple[int, int, int]:
    frames, rows, columns = sizes
    return factor * frames, factor * rows, factor * columns


def padded(latents: Tensor, patch: tuple[int, ...]) -> Tensor:
    """As much more of the last frame, row and column as whole patches want."""
    behind = [-size % by for size, by in zip(latents.shape[2:], patch, strict=True)]
    return F.pad(latents, (0, behind[2], 0, behind[1], 0, behind[0]), mode="replicate")


def pooled(angles: Tensor, factor: int) -> Tensor:
    """The mean cosine and sine of the places that a coarse patch covers; not of unit length, as published."""
    return F.avg_pool3d(padded(angles, (factor,) * 3), factor)


def check_config(model: ModelMixin) -> None:
    """Refuse values that cannot work."""
    owner, config = type(model).__name__, model.config
    check_video_config(model)
    if sum(config.rope_dim) != config.attention_head_dim or any(width % 2 for width in config.rope_dim):
        raise ConfigError(
            f"{owner}: rope_dim has three even widths that make up attention_head_dim, {config.attention_head_dim}, "
            f"got {list(config.rope_dim)}."
        )
    if config.history_scale_mode not in SCALE_MODES:
        raise ConfigError(f"{owner}: history_scale_mode is one of {SCALE_MODES}, got {config.history_scale_mode!r}.")
