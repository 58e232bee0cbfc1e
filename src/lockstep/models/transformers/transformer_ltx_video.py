"""The transformer of LTX-Video (arXiv:2501.00103, section 3.2): text and a first frame to video.

Axes: B batch, L tokens (frame by frame, row by row), D width, H heads, K = D / H; S is 1, or L where each token has a
time of its own. A tensor without suffix is BLD; any other shape is in the name. A token is one latent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from ...attention import Cut, ProcessorMixin, SequencePlan, dispatch_attention_fn
from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError, InputError
from ...outputs import output_or_tuple
from ..inputs import check_shape
from ..layers import EmbeddedTimestep, FeedForward
from ..modeling import ModelMixin, check_sizes, checkpointed
from .layers import TextProjection, Transformer2DModelOutput
from .rotary import Table, rotate
from .transformer_wan import WanAttention

Tensor = torch.Tensor
Scale = Sequence[float | Tensor] | Tensor  # what one step along time, rows and columns is
WHOLE = (20, 2048, 2048)  # seconds and pixels that are the whole turn of the slowest pair
QK_EPS = 1e-5
MASKED = -10_000.0  # on the scores of tokens that do not count


class LTXVideoAttnProcessor(ProcessorMixin):
    """Attention to the video, whose queries and keys are turned as one vector over all heads, or to the text."""

    def __call__(
        self, attn: LTXAttention, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None, image_rotary_emb: Table | None = None,
    ) -> Tensor:  # fmt: skip
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query, key, value = attn.project(hidden_states, source)
        if image_rotary_emb is not None:
            backend, whole = self._attention_backend, [part.flatten(2).unsqueeze(2) for part in (query, key)]
            query, key = (rotate(part, image_rotary_emb, backend).view_as(query) for part in whole)
        mixed_BLHK = dispatch_attention_fn(
            query, key, value, attn_mask=attention_mask, backend=self._attention_backend,
            parallel_config=self._parallel_config,
        )  # fmt: skip
        return attn.to_out[0](mixed_BLHK.flatten(2).to(query.dtype))


class LTXAttention(WanAttention):
    """Attention whose queries and keys are normed over all heads at once; layers and names are those of Wan's."""

    _default_processor_cls: ClassVar[type] = LTXVideoAttnProcessor
    _available_processors: ClassVar[tuple[type, ...]] = (LTXVideoAttnProcessor,)

    def forward(self, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None, **more: Any) -> Tensor:  # type: ignore[override]
        return self.processor(self, hidden_states, encoder_hidden_states, **more)


class AdaLayerNormSingle(nn.Module):
    """A time as a vector, and as what modulates every block: one layer for all of them (arXiv:2310.00426)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.emb = EmbeddedTimestep(width)
        self.silu = nn.SiLU()
        self.linear = nn.Linear(width, 6 * width)

    def forward(self, timesteps: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        embedded = self.emb(timesteps, dtype)
        return self.linear(self.silu(embedded)), embedded


class LTXVideoTransformerBlock(nn.Module):
    """Attention to the video, to the text, and a feed-forward; time modulates the first and the last."""

    def __init__(self, width: int, heads: int, eps: float, affine: bool) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(width, eps=eps, elementwise_affine=affine)
        self.attn1 = LTXAttention(width, heads, QK_EPS)
        self.norm2 = nn.RMSNorm(width, eps=eps, elementwise_affine=affine)
        self.attn2 = LTXAttention(width, heads, QK_EPS, is_cross_attention=True)
        self.ff = FeedForward(width, gated=False)
        self.scale_shift_table = nn.Parameter(torch.randn(6, width) / width**0.5)

    def forward(
        self, video: Tensor, text: Tensor, temb_BS6D: Tensor, rotary: Table, text_bias: Tensor | None,
        kwargs: dict[str, Any],
    ) -> Tensor:  # fmt: skip
        shift, scale, gate, shift_ff, scale_ff, gate_ff = (self.scale_shift_table + temb_BS6D).unbind(2)
        normed = self.norm1(video) * (1 + scale) + shift
        video = video + self.attn1(normed, image_rotary_emb=rotary, **kwargs) * gate
        video = video + self.attn2(video, text, attention_mask=text_bias, **kwargs)
        normed = self.norm2(video) * (1 + scale_ff) + shift_ff
        return video + self.ff(normed) * gate_ff


class LTXVideoTransformer3DModel(ModelMixin, ConfigMixin):
    """Predicts the flow from noisy tokens of a video, a time (or one for each token) and a text."""

    _supports_gradient_checkpointing = True
    gradient_checkpointing = False
    reads_tokens = True  # latents of a video lie as tokens
    sequence_plan = SequencePlan(
        split=(
            Cut("transformer_blocks.0", "video", "video"),
            Cut("transformer_blocks.*", "rotary", "video"),
            Cut("transformer_blocks.*", "temb_BS6D", "video"),
        ),
        gather=(Cut("norm_out", "input", "video"),),
        attends={"*": ("video",)},
    )

    @register_to_config
    def __init__(
        self, in_channels: int = 128, out_channels: int | None = 128, patch_size: int = 1, patch_size_t: int = 1,
        num_attention_heads: int = 32, attention_head_dim: int = 64, cross_attention_dim: int = 2048,
        num_layers: int = 28, activation_fn: str = "gelu-approximate", qk_norm: str = "rms_norm_across_heads",
        norm_elementwise_affine: bool = False, norm_eps: float = 1e-6, caption_channels: int = 4096,
        attention_bias: bool = True, attention_out_bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        check_config(self)
        width = num_attention_heads * attention_head_dim
        self.proj_in = nn.Linear(in_channels, width)
        self.scale_shift_table = nn.Parameter(torch.randn(2, width) / width**0.5)
        self.time_embed = AdaLayerNormSingle(width)
        self.caption_projection = TextProjection(caption_channels, width, partial(F.gelu, approximate="tanh"))
        layer = (width, num_attention_heads, norm_eps, norm_elementwise_affine)
        self.transformer_blocks = nn.ModuleList(LTXVideoTransformerBlock(*layer) for _ in range(num_layers))
        self.norm_out = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.proj_out = nn.Linear(width, out_channels or in_channels)

    @output_or_tuple
    def forward(
        self, hidden_states: Tensor, encoder_hidden_states: Tensor, timestep: Tensor,
        encoder_attention_mask: Tensor | None = None, num_frames: int | None = None, height: int | None = None,
        width: int | None = None, rope_interpolation_scale: Scale | None = None, video_coords: Tensor | None = None,
        attention_kwargs: dict[str, Any] | None = None, return_dict: bool = True,
    ) -> Transformer2DModelOutput | tuple[Tensor]:  # fmt: skip
        """One prediction. The places of tokens are `video_coords`, or follow from frames, height, width and scale."""
        self.check_inputs(hidden_states, encoder_hidden_states, timestep, encoder_attention_mask)
        self.check_processor_kwargs("attention_kwargs", attention_kwargs)
        if video_coords is None:
            places = self.places(hidden_states, (num_frames, height, width), rope_interpolation_scale)
        else:
            places = self.given_places(hidden_states, video_coords)
        rotary = self.rotary_table(places)
        text_bias = None if encoder_attention_mask is None else bias(encoder_attention_mask, hidden_states.dtype)

        video = self.proj_in(hidden_states)
        temb, embedded = self.time_embed(timestep.flatten(), video.dtype)
        times = timestep.shape if timestep.ndim == 2 else (timestep.numel(), 1)
        temb_BS6D, embedded_BSD = temb.unflatten(0, times).unflatten(2, (6, -1)), embedded.unflatten(0, times)
        text = self.caption_projection(encoder_hidden_states)

        for block in self.transformer_blocks:
            video = checkpointed(self, block, video, text, temb_BS6D, rotary, text_bias, attention_kwargs or {})

        shift, scale = (self.scale_shift_table + embedded_BSD.unsqueeze(2)).unbind(2)
        sample = self.proj_out(self.norm_out(video) * (1 + scale) + shift)
        return Transformer2DModelOutput(sample) if return_dict else (sample,)

    def places(self, tokens: Tensor, grid: tuple[int | None, ...], scale: Scale | None) -> Tensor:
        """Time, row and column of each token, as parts of a whole (1, L, 3); plain counts where there is no scale."""
        if None in grid or math.prod(grid) != tokens.shape[1]:  # type: ignore[arg-type]
            raise InputError(
                f"{type(self).__name__}: {tokens.shape[1]} tokens are not num_frames, height and width {grid}."
            )
        axes = [torch.arange(size, dtype=torch.float32, device=tokens.device) for size in grid]  # type: ignore[arg-type]
        if scale is not None:
            patches = (self.config.patch_size_t, self.config.patch_size, self.config.patch_size)
            axes = [axis * by * patch / all for axis, by, patch, all in zip(axes, scale, patches, WHOLE, strict=True)]
        return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, 2)[None]

    def given_places(self, tokens: Tensor, coords_B3L: Tensor) -> Tensor:
        """Given seconds, rows and columns, in pixels, as parts of a whole (B, L, 3)."""
        wanted = (len(tokens), 3, tokens.shape[1])
        if tuple(coords_B3L.shape) != wanted:
            raise InputError(f"{type(self).__name__}: video_coords has to be {wanted}, got {tuple(coords_B3L.shape)}.")
        return torch.stack([coords_B3L[:, axis] / whole for axis, whole in enumerate(WHOLE)], dim=-1)

    def rotary_table(self, places_BL3: Tensor) -> Table:
        """Cosines and sines (B, L, D), pair by pair; for each speed the three axes follow each other, and the numbers
        that three axes leave over come first and are not turned."""
        inner = self.config.num_attention_heads * self.config.attention_head_dim
        speeds = 10_000.0 ** torch.linspace(0.0, 1.0, inner // 6, dtype=torch.float32, device=places_BL3.device)
        # the order of operations is the published one: angles are large, and another order moves their last bits
        angles = speeds * math.pi / 2.0 * (places_BL3.unsqueeze(-1) * 2 - 1)
        angles = angles.transpose(-1, -2).flatten(2).repeat_interleave(2, dim=-1)
        return F.pad(angles.cos(), (inner % 6, 0), value=1.0), F.pad(angles.sin(), (inner % 6, 0))

    @property
    def condition_widths(self) -> dict[str, int | None]:
        """Channels of what is read beside the latents."""
        return {"prompt_embeds": self.config.caption_channels}

    def check_inputs(self, tokens: Tensor, text: Tensor, timestep: Tensor, mask: Tensor | None) -> None:
        """Refuse what the weights cannot take, before anything is computed."""
        owner, config = type(self).__name__, self.config
        axes = {"batch": None, "tokens": None, "channels": config.in_channels}
        check_shape(owner, "hidden_states", tokens, axes, self.dtype)
        batch, count, _ = tokens.shape
        axes = {"batch": batch, "tokens": None, "width": config.caption_channels}
        check_shape(owner, "encoder_hidden_states", text, axes, self.dtype)
        if tuple(timestep.shape) not in ((), (1,), (batch,), (batch, 1), (batch, count)):
            raise InputError(
                f"{owner}: timestep is one, one for each of {batch} samples, or one for each of {count} tokens of "
                f"them; got {tuple(timestep.shape)}."
            )
        if mask is not None and tuple(mask.shape) not in (tuple(text.shape[:2]), (batch, 1, text.shape[1])):
            raise InputError(
                f"{owner}: encoder_attention_mask says of each of {tuple(text.shape[:2])} tokens of the text whether "
                f"it counts; got {tuple(mask.shape)}."
            )


def bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Which tokens count (B, tokens) as what is added to the scores (B, 1, 1, tokens); three axes are that already."""
    added = mask.to(dtype) if mask.ndim == 3 else ((1 - mask.to(dtype)) * MASKED).unsqueeze(1)
    return added.unsqueeze(1)


def check_config(model: ModelMixin) -> None:
    """Refuse values that cannot work, or that no published model has."""
    owner, config = type(model).__name__, model.config
    sizes = ("in_channels", "out_channels", "patch_size", "patch_size_t", "num_attention_heads", "attention_head_dim")
    check_sizes(owner, config, *sizes, "num_layers", "caption_channels")
    width = config.num_attention_heads * config.attention_head_dim
    if width < 6 or width % 2:
        raise ConfigError(f"{owner}: heads of {width} numbers together cannot be turned by pairs along three axes.")
    published = {
        "cross_attention_dim": width,  # the text is projected to the width before it is attended to
        "qk_norm": "rms_norm_across_heads",
        "activation_fn": "gelu-approximate",
        "attention_bias": True,
        "attention_out_bias": True,
    }
    for name, value in published.items():
        if config[name] != value:
            raise ConfigError(f"{owner}: {name} is {value!r} in every published model, got {config[name]!r}.")
