"""The transformer of Wan (arXiv:2503.20314, section 4.2): 2.1 and 2.2, text, image and first/last frame to video.

Axes: B batch, L tokens (frame by frame, row by row), D width, H heads, K = D / H. A tensor without suffix is BLD; any
other shape is in the name. Latents are BCTYX; a token is a patch of them.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar, cast

import torch
from torch import nn
from torch.nn import functional as F

from ...attention import (
    AttentionModuleMixin,
    Cut,
    FusedLinear,
    ProcessorMixin,
    PublishedAttention,
    SequencePlan,
    dispatch_attention_fn,
)
from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError, InputError
from ...notes import say_once
from ...outputs import output_or_tuple
from ..inputs import check_shape
from ..layers import FeedForward, TimestepEmbedding, Timesteps
from ..modeling import ModelMixin, check_sizes, checkpointed
from .layers import TextProjection, Transformer2DModelOutput
from .rotary import Table, rotary_table, rotate

Tensor = torch.Tensor
TEXT_TOKENS = 512  # what comes before the last 512 tokens of a condition are an image's


class FP32LayerNorm(nn.LayerNorm):
    """A norm that is computed in fp32, whatever its input is."""

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = (None if part is None else part.float() for part in (self.weight, self.bias))
        return F.layer_norm(input.float(), self.normalized_shape, weight, bias, self.eps).to(input.dtype)


class WanAttnProcessor(ProcessorMixin):
    """Attention to the video, or to the text and, with projections of its own, to the image that comes before it."""

    def __call__(
        self, attn: WanAttention, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None, rotary_emb: Table | None = None,
    ) -> Tensor:  # fmt: skip
        source, image = hidden_states if encoder_hidden_states is None else encoder_hidden_states, None
        if attn.add_k_proj is not None:
            tokens = max(source.shape[1] - TEXT_TOKENS, 0)
            image, source = source[:, :tokens], source[:, tokens:]
        query, key, value = attn.project(hidden_states, source)
        backend = self._attention_backend
        if rotary_emb is not None:
            query, key = rotate(query, rotary_emb, backend), rotate(key, rotary_emb, backend)
        attend = partial(dispatch_attention_fn, backend=backend, parallel_config=self._parallel_config)
        mixed = attend(query, key, value, attn_mask=attention_mask).flatten(2)
        if image is not None and image.shape[1] and attn.add_k_proj is not None and attn.add_v_proj is not None:
            key = attn.norm_added_k(attn.add_k_proj(image)).unflatten(2, (attn.heads, -1))
            value = attn.add_v_proj(image).unflatten(2, (attn.heads, -1))
            mixed = mixed + attend(query, key, value).flatten(2)
        return attn.to_out[0](mixed)


class WanAttention(nn.Module, AttentionModuleMixin, PublishedAttention):
    """Attention whose queries and keys are normed over all heads at once."""

    _default_processor_cls: ClassVar[type] = WanAttnProcessor
    _available_processors: ClassVar[tuple[type, ...]] = (WanAttnProcessor,)
    to_qkv: FusedLinear  # takes the place of the separate projections by `fuse_projections`
    to_kv: FusedLinear

    def __init__(
        self, width: int, heads: int, eps: float, *, is_cross_attention: bool = False, image_width: int | None = None
    ) -> None:
        super().__init__()
        self.is_cross_attention = is_cross_attention
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(width, width)
        self.to_v = nn.Linear(width, width)
        self.to_out = nn.ModuleList([nn.Linear(width, width), nn.Identity()])
        self.norm_q = nn.RMSNorm(width, eps=eps)
        self.norm_k = nn.RMSNorm(width, eps=eps)
        self.add_k_proj = self.add_v_proj = None
        if image_width is not None:
            self.add_k_proj = nn.Linear(image_width, width)
            self.add_v_proj = nn.Linear(image_width, width)
            self.norm_added_k = nn.RMSNorm(width, eps=eps)
        self.describe_widths(width, width, heads)
        self.set_processor()

    def project(self, hidden: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value, BLHK; query and key on their norms."""
        if not self.fused_projections:
            query, key, value = self.to_q(hidden), self.to_k(source), self.to_v(source)
        elif self.is_cross_attention:
            query, (key, value) = self.to_q(hidden), self.to_kv(source)
        else:
            query, key, value = self.to_qkv(hidden)
        query, key = self.norm_q(query), self.norm_k(key)
        return tuple(part.unflatten(2, (self.heads, -1)) for part in (query, key, value))

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        rotary_emb: Table | None = None,
        **more: Any,
    ) -> Tensor:
        return self.processor(self, hidden_states, encoder_hidden_states, rotary_emb=rotary_emb, **more)


class ImageFeedForward(nn.Module):
    """A projection, GELU and a projection to another width; the published files number them 0 and 2."""

    def __init__(self, image_width: int, width: int) -> None:
        super().__init__()
        first = nn.Module()
        first.proj = nn.Linear(image_width, image_width)
        self.net = nn.ModuleList([first, nn.Identity(), nn.Linear(image_width, width)])

    def forward(self, image: Tensor) -> Tensor:
        return self.net[2](F.gelu(self.net[0].proj(image)))  # type: ignore[operator]


class WanImageEmbedding(nn.Module):
    """The tokens of an image encoder, of one image or (with places of their own) of a first and a last one."""

    def __init__(self, image_width: int, width: int, places: int | None) -> None:
        super().__init__()
        self.norm1 = FP32LayerNorm(image_width)
        self.ff = ImageFeedForward(image_width, width)
        self.norm2 = FP32LayerNorm(width)
        self.pos_embed = None if places is None else nn.Parameter(torch.zeros(1, places, image_width))

    def forward(self, image: Tensor) -> Tensor:
        if self.pos_embed is not None:
            image = image.reshape(-1, 2 * image.shape[1], image.shape[2]) + self.pos_embed
        return self.norm2(self.ff(self.norm1(image)))


class WanTimeTextImageEmbedding(nn.Module):
    """What the blocks are told: the time as a vector and as six modulations, text and image as tokens."""

    def __init__(
        self, width: int, freq_dim: int, text_width: int, image_width: int | None = None, places: int | None = None
    ) -> None:
        super().__init__()
        self.timesteps_proj = Timesteps(freq_dim, flip_sin_to_cos=True, downscale_freq_shift=0)
        self.time_embedder = TimestepEmbedding(freq_dim, width)
        self.act_fn = nn.SiLU()
        self.time_proj = nn.Linear(width, 6 * width)
        self.text_embedder = TextProjection(text_width, width, partial(F.gelu, approximate="tanh"))
        self.image_embedder = None if image_width is None else WanImageEmbedding(image_width, width, places)

    def forward(self, timestep: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Times, one a sample (B) or one a token (BL), as vectors and as what modulates: BSD and BS6D, S is 1 or L."""
        waves = self.timesteps_proj(timestep.flatten()).to(self.time_embedder.linear_1.weight.dtype)
        temb = self.time_embedder(waves.unflatten(0, timestep.shape)).to(dtype)
        modulation = self.time_proj(self.act_fn(temb)).unflatten(-1, (6, -1))
        return (temb, modulation) if timestep.ndim == 2 else (temb[:, None], modulation[:, None])


class WanTransformerBlock(nn.Module):
    """Attention to the video, to the conditions, and a feed-forward; time modulates the first and the last."""

    def __init__(
        self, width: int, ffn_dim: int, heads: int, cross_attn_norm: bool, eps: float, image_width: int | None = None
    ) -> None:
        super().__init__()
        self.norm1 = FP32LayerNorm(width, eps, elementwise_affine=False)
        self.attn1 = WanAttention(width, heads, eps)
        self.attn2 = WanAttention(width, heads, eps, is_cross_attention=True, image_width=image_width)
        self.norm2 = FP32LayerNorm(width, eps) if cross_attn_norm else nn.Identity()
        self.ffn = FeedForward(width, ffn_dim, gated=False)
        self.norm3 = FP32LayerNorm(width, eps, elementwise_affine=False)
        self.scale_shift_table = nn.Parameter(torch.randn(1, 6, width) / width**0.5)

    def forward(
        self, video: Tensor, conditions: Tensor, temb_BS6D: Tensor, rotary_emb: Table, kwargs: dict[str, Any]
    ) -> Tensor:
        modulation = (self.scale_shift_table + temb_BS6D.float()).unbind(2)
        shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = modulation
        normed = (self.norm1(video.float()) * (1 + scale) + shift).type_as(video)
        video = (video.float() + self.attn1(normed, rotary_emb=rotary_emb, **kwargs) * gate).type_as(video)
        normed = self.norm2(video.float()).type_as(video)
        video = video + self.attn2(normed, conditions, **kwargs)
        normed = (self.norm3(video.float()) * (1 + ffn_scale) + ffn_shift).type_as(video)
        return (video.float() + self.ffn(normed).float() * ffn_gate).type_as(video)


class WanTransformer3DModel(ModelMixin, ConfigMixin):
    """Predicts the flow from noisy latents of a video, a time (or one for each token), a text and images."""

    _supports_gradient_checkpointing = True
    gradient_checkpointing = False
    keep_in_fp32 = (r"time_embedder\.", r"scale_shift_table$", r"\.norm[123]\.")
    ignored_tensors = (r"\.norm_added_q\.",)  # published, and never used
    sequence_plan = SequencePlan(
        split=(
            Cut("blocks.0", "video", "video"),
            Cut("blocks.*", "rotary_emb", "video", axis=0),
            Cut("blocks.*", "temb_BS6D", "video"),
        ),
        gather=(Cut("norm_out", "input", "video"),),
        attends={"*": ("video",)},
    )

    @register_to_config
    def __init__(
        self, patch_size: tuple[int, ...] = (1, 2, 2), num_attention_heads: int = 40, attention_head_dim: int = 128,
        in_channels: int = 16, out_channels: int = 16, text_dim: int = 4096, freq_dim: int = 256,
        ffn_dim: int = 13824, num_layers: int = 40, cross_attn_norm: bool = True,
        qk_norm: str | None = "rms_norm_across_heads", eps: float = 1e-6, image_dim: int | None = None,
        added_kv_proj_dim: int | None = None, rope_max_seq_len: int = 1024, pos_embed_seq_len: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        check_video_config(self)
        width, patch = num_attention_heads * attention_head_dim, cast("tuple[int, int, int]", tuple(patch_size))
        self.patch_embedding = nn.Conv3d(in_channels, width, patch, stride=patch)
        self.condition_embedder = WanTimeTextImageEmbedding(width, freq_dim, text_dim, image_dim, pos_embed_seq_len)
        layer = (width, ffn_dim, num_attention_heads, cross_attn_norm, eps, added_kv_proj_dim)
        self.blocks = nn.ModuleList(WanTransformerBlock(*layer) for _ in range(num_layers))
        self.norm_out = FP32LayerNorm(width, eps, elementwise_affine=False)
        self.proj_out = nn.Linear(width, out_channels * math.prod(patch_size))
        self.scale_shift_table = nn.Parameter(torch.randn(1, 2, width) / width**0.5)

    @output_or_tuple
    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        encoder_hidden_states_image: Tensor | None = None,
        return_dict: bool = True,
        attention_kwargs: dict[str, Any] | None = None,
    ) -> Transformer2DModelOutput | tuple[Tensor]:
        """One prediction."""
        self.check_inputs(hidden_states, timestep, encoder_hidden_states, encoder_hidden_states_image)
        self.check_processor_kwargs("attention_kwargs", attention_kwargs)
        rotary_emb = self.rotary_table(hidden_states)
        grid_BDTYX = self.patch_embedding(hidden_states)
        video = grid_BDTYX.flatten(2).transpose(1, 2).contiguous()

        timestep = timestep if timestep.ndim == 2 else timestep.expand(len(video))
        temb_BSD, temb_BS6D = self.condition_embedder(timestep, encoder_hidden_states.dtype)
        conditions = self.condition_embedder.text_embedder(encoder_hidden_states)
        if encoder_hidden_states_image is not None and self.condition_embedder.image_embedder is not None:
            image = self.condition_embedder.image_embedder(encoder_hidden_states_image)
            conditions = torch.cat([image, conditions], dim=1)

        for block in self.blocks:
            video = checkpointed(self, block, video, conditions, temb_BS6D, rotary_emb, attention_kwargs or {})

        shift, scale = (self.scale_shift_table + temb_BSD.unsqueeze(2)).unbind(2)
        video = (self.norm_out(video.float()) * (1 + scale) + shift).type_as(video)
        sample = unpatchified(self.proj_out(video), self.config.patch_size, grid_BDTYX.shape[2:])
        return Transformer2DModelOutput(sample) if return_dict else (sample,)

    def rotary_table(self, latents: Tensor) -> Table:
        """Frame, row and column of each patch; time has what the other two thirds leave."""
        head, patch = self.config.attention_head_dim, self.config.patch_size
        side = 2 * (head // 6)
        frames, rows, columns = (size // by for size, by in zip(latents.shape[2:], patch, strict=True))
        positions = torch.cartesian_prod(*(torch.arange(n, device=latents.device) for n in (frames, rows, columns)))
        return rotary_table(positions, (head - 2 * side, side, side))

    @property
    def condition_widths(self) -> dict[str, int | None]:
        """Channels of what is read beside the latents."""
        return {"prompt_embeds": self.config.text_dim, "image_embeds": self.config.image_dim}

    def check_inputs(self, latents: Tensor, timestep: Tensor, text: Tensor, image: Tensor | None) -> None:
        """Refuse what the weights cannot take, before anything is computed."""
        owner, config = type(self).__name__, self.config
        check_video_latents(self, "hidden_states", latents, config.in_channels)
        batch, _, *sizes = latents.shape
        counts = [size // by for size, by in zip(sizes, config.patch_size, strict=True)]
        if max(counts) > config.rope_max_seq_len:
            raise InputError(f"{owner} knows {config.rope_max_seq_len} places along an axis, got {counts} patches.")
        axes = {"batch": batch, "tokens": None, "width": config.text_dim}
        check_shape(owner, "encoder_hidden_states", text, axes, self.dtype)
        allowed = ((), (1,), (batch,), (batch, math.prod(counts)))
        if tuple(timestep.shape) not in allowed:
            raise InputError(
                f"{owner}: timestep is one, one for each of {batch} samples, or one for each of {math.prod(counts)} "
                f"tokens of them; got {tuple(timestep.shape)}."
            )
        if image is None:
            return
        if config.image_dim is None:
            raise InputError(f"{owner}: these weights read no image tokens (image_dim is None), but some are given.")
        check_shape(
            owner, "encoder_hidden_states_image", image, {**axes, "batch": None, "width": config.image_dim}, self.dtype
        )
        if text.shape[1] != TEXT_TOKENS and not torch.compiler.is_compiling():
            say_once(
                f"Image tokens are told from a text of {TEXT_TOKENS} tokens by their number; this text has "
                f"{text.shape[1]}, so some are read as text, here as elsewhere. Use max_sequence_length={TEXT_TOKENS}."
            )


def unpatchified(tokens: Tensor, patch: tuple[int, ...], grid: tuple[int, ...]) -> Tensor:
    """Tokens as latents, BCTYX; within a token the channel is the last axis."""
    cells = tokens.unflatten(2, (*patch, -1)).unflatten(1, tuple(grid))
    return cells.permute(0, 7, 1, 4, 2, 5, 3, 6).flatten(6, 7).flatten(4, 5).flatten(2, 3)


def check_video_latents(model: ModelMixin, name: str, latents: Tensor, channels: int) -> None:
    """Latents of a video that are whole patches."""
    owner, patch = type(model).__name__, model.config.patch_size
    axes = {"batch": None, "channels": channels, "frames": None, "height": None, "width": None}
    check_shape(owner, name, latents, axes, model.dtype)
    if any(size % by for size, by in zip(latents.shape[2:], patch, strict=True)):
        raise InputError(
            f"{owner}: frames, height and width of the latents are multiples of {list(patch)}, got "
            f"{list(latents.shape[2:])}."
        )


def check_video_config(model: ModelMixin) -> None:
    """Refuse values that cannot work."""
    owner, config = type(model).__name__, model.config
    sizes = ("patch_size", "num_attention_heads", "attention_head_dim", "in_channels", "out_channels", "num_layers")
    check_sizes(owner, config, *sizes, "text_dim", "freq_dim", "ffn_dim", "image_dim", "added_kv_proj_dim")
    if len(config.patch_size) != 3:
        raise ConfigError(f"{owner}: patch_size wants frames, rows and columns, got {list(config.patch_size)}.")
    if config.attention_head_dim % 2 or config.freq_dim % 2:
        raise ConfigError(
            f"{owner}: attention_head_dim and freq_dim are even, got {config.attention_head_dim}, {config.freq_dim}."
        )
    if config.qk_norm != "rms_norm_across_heads":
        raise ConfigError(f"{owner}: qk_norm is 'rms_norm_across_heads', got {config.qk_norm!r}.")
