"""The transformer of Qwen-Image (arXiv:2508.02324): text and picture in two streams that meet in the attention.

Axes: B batch, L tokens (text first, pictures after), D width, H heads, K = D / H. A tensor without suffix is BLD; any
other shape is in the name. Picture tokens are squares of 2 × 2 latents; pictures that are edited follow the one that is
made. Each picture's places are counted from its middle, and the text stands on the diagonal behind all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ...attention import Cut, SequencePlan
from ...configuration import ConfigMixin, register_to_config
from ...errors import InputError, UnsupportedError
from ...outputs import output_or_tuple
from ..inputs import check_shape
from ..layers import FeedForward, TimestepEmbedding, Timesteps
from ..modeling import ModelMixin, check_sizes, checkpointed
from .joint import JointAttention, JointProcessor, residual_of
from .layers import AdaLayerNormContinuous, Transformer2DModelOutput, finite_in_half
from .rotary import Table, check_axes, rotary_table, rotate

Tensor = torch.Tensor
Shape = tuple[int, int, int]  # frames, rows and columns of a picture, in tokens


class QwenDoubleStreamAttnProcessor2_0(JointProcessor):
    """Attention of all tokens as one sequence, turned by their places; the text comes first."""

    text_first = True

    def __call__(
        self, attn: QwenImageAttention, hidden_states: Tensor, encoder_hidden_states: Tensor,
        encoder_hidden_states_mask: Tensor | None = None, image_rotary_emb: Table | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        query, key, value = self.join(attn, hidden_states, encoder_hidden_states)
        if image_rotary_emb is not None:
            query, key = (rotate(part, image_rotary_emb, self._attention_backend) for part in (query, key))
        mask = None
        if encoder_hidden_states_mask is not None:  # of the pictures every token counts, those of other ranks included
            pictures, shared = hidden_states.shape[1], self._parallel_config
            pictures = pictures if shared is None else shared.total(1, pictures)
            mask = F.pad(encoder_hidden_states_mask, (0, pictures), value=True)[:, None, None]
        return self.part(attn, self.mix(query, key, value, mask), encoder_hidden_states.shape[1])


class QwenImageAttention(JointAttention):
    """Attention with places as rotations."""

    _default_processor_cls = QwenDoubleStreamAttnProcessor2_0
    _available_processors = (QwenDoubleStreamAttnProcessor2_0,)


class QwenTimestepProjEmbeddings(nn.Module):
    """The time as the vector of conditions; models that make layers are told besides which of two tasks they have."""

    def __init__(self, width: int, told_task: bool) -> None:
        super().__init__()
        self.time_proj = Timesteps(256, flip_sin_to_cos=True, downscale_freq_shift=0, scale=1000)
        self.timestep_embedder = TimestepEmbedding(256, width)
        if told_task:
            self.addition_t_embedding = nn.Embedding(2, width)

    def forward(self, timestep_B: Tensor, dtype: torch.dtype, task_B: Tensor | None = None) -> Tensor:
        vector = self.timestep_embedder(self.time_proj(timestep_B).to(dtype))
        return vector if task_B is None else vector + self.addition_t_embedding(task_B).to(dtype)


class QwenImageTransformerBlock(nn.Module):
    """Text and picture attend to each other as one sequence, then each goes through a feed-forward of its own.

    `modulate_index` says of each picture token by which of two vectors it is modulated: 0 by that of the time, 1, for
    pictures that are read and not made, by that of the time 0, which stands behind the others in `temb`.
    """

    passes_through = ("encoder_hidden_states", "hidden_states")  # what comes out, by the names of what goes in

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.img_mod = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.img_norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attn = QwenImageAttention(width, heads, head_width)
        self.img_norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.img_mlp = FeedForward(width, gated=False)
        self.txt_mod = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.txt_norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.txt_norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.txt_mlp = FeedForward(width, gated=False)

    def forward(
        self, hidden_states: Tensor, encoder_hidden_states: Tensor, encoder_hidden_states_mask: Tensor | None,
        temb: Tensor, image_rotary_emb: Table | None = None, joint_attention_kwargs: dict[str, Any] | None = None,
        modulate_index: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        picture, text = hidden_states, encoder_hidden_states
        of_time = temb if modulate_index is None else temb.chunk(2)[0]
        first, second = self.img_mod(temb).chunk(2, dim=-1)
        text_first, text_second = self.txt_mod(of_time).chunk(2, dim=-1)

        normed, gate = modulated(self.img_norm1(picture), first, modulate_index)
        normed_text, text_gate = modulated(self.txt_norm1(text), text_first)
        told = {"image_rotary_emb": image_rotary_emb, **(joint_attention_kwargs or {})}
        mixed, mixed_text = self.attn(
            normed, normed_text, encoder_hidden_states_mask=encoder_hidden_states_mask, **told
        )
        picture, text = picture + gate * mixed, text + text_gate * mixed_text

        normed, gate = modulated(self.img_norm2(picture), second, modulate_index)
        normed_text, text_gate = modulated(self.txt_norm2(text), text_second)
        picture = picture + gate * self.img_mlp(normed)
        text = text + text_gate * self.txt_mlp(normed_text)
        return finite_in_half(text), finite_in_half(picture)


def modulated(normed: Tensor, three: Tensor, index_BL: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Every token scaled and shifted by the conditions, and the gate of what comes next."""
    parts = three[:, None].chunk(3, dim=2)
    shift, scale, gate = parts if index_BL is None else [chosen(part, index_BL) for part in parts]
    return normed * (1 + scale) + shift, gate


def chosen(part: Tensor, index_BL: Tensor) -> Tensor:
    """For each token the first of two halves of a batch, or the second."""
    first, second = part.chunk(2)
    return torch.where(index_BL[:, :, None] == 0, first, second)


class QwenImageTransformer2DModel(ModelMixin, ConfigMixin):
    """Predicts the flow from noisy tokens, a time and a text."""

    _supports_gradient_checkpointing = True
    gradient_checkpointing = False
    fused_layers = (
        ("{}.attn.to_qkv", ("{}.attn.to_q", "{}.attn.to_k", "{}.attn.to_v")),
        ("{}.attn.to_added_qkv", ("{}.attn.add_q_proj", "{}.attn.add_k_proj", "{}.attn.add_v_proj")),
    )
    sequence_plan = SequencePlan(
        split=(
            Cut("", "controlnet_block_samples", "picture"),
            Cut("img_in", 0, "picture"),
            Cut("txt_in", 0, "text"),
            Cut("transformer_blocks.*", "image_rotary_emb", ("text", "picture"), axis=0),
            Cut("transformer_blocks.*", "modulate_index", "picture"),
        ),
        gather=(Cut("proj_out", 0, "picture"),),
        attends={"*": ("text", "picture")},
    )
    trained_size = 128  # of the latents along a side; the published configs do not say it
    ignored_tensors = (r"^__index_timestep_zero__$",)  # by which files for ComfyUI say zero_cond_t

    @register_to_config
    def __init__(
        self, patch_size: int = 2, in_channels: int = 64, out_channels: int | None = 16, num_layers: int = 60,
        attention_head_dim: int = 128, num_attention_heads: int = 24, joint_attention_dim: int = 3584,
        guidance_embeds: bool = False, axes_dims_rope: tuple[int, ...] = (16, 56, 56), zero_cond_t: bool = False,
        use_additional_t_cond: bool = False, use_layer3d_rope: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        owner, width = type(self).__name__, num_attention_heads * attention_head_dim
        check_sizes(owner, self.config, "patch_size", "in_channels", "out_channels", "attention_head_dim")
        check_sizes(owner, self.config, "num_attention_heads", "joint_attention_dim")
        check_sizes(owner, self.config, "num_layers", least=0)
        check_axes(owner, axes_dims_rope, attention_head_dim)
        if guidance_embeds:
            raise UnsupportedError(
                f"{owner}: guidance_embeds belongs to a model that was taught the guidance scale; none is published."
            )
        self.time_text_embed = QwenTimestepProjEmbeddings(width, use_additional_t_cond)
        self.txt_norm = nn.RMSNorm(joint_attention_dim, eps=1e-6)
        self.img_in = nn.Linear(in_channels, width)
        self.txt_in = nn.Linear(joint_attention_dim, width)
        self.transformer_blocks = nn.ModuleList(
            QwenImageTransformerBlock(width, num_attention_heads, attention_head_dim) for _ in range(num_layers)
        )
        self.norm_out = AdaLayerNormContinuous(width)
        self.proj_out = nn.Linear(width, self.made_channels)

    @property
    def packed_side(self) -> int:
        """Of the square of latents that is one token."""
        return self.config["patch_size"]

    @property
    def token_side(self) -> int:
        """Latents along the side of a token."""
        return self.packed_side

    @property
    def made_channels(self) -> int:
        """Of a token that is made; the config counts those of a latent."""
        return self.packed_side**2 * (self.config["out_channels"] or self.config["in_channels"])

    @property
    def condition_widths(self) -> dict[str, int | None]:
        """Channels of each encoding that it reads, by the name that pipelines give it."""
        return {"prompt_embeds": self.config["joint_attention_dim"]}

    @output_or_tuple
    def forward(
        self, hidden_states: Tensor, encoder_hidden_states: Tensor, encoder_hidden_states_mask: Tensor | None = None,
        timestep: Tensor | None = None, img_shapes: Sequence[Any] | None = None, guidance: Tensor | None = None,
        attention_kwargs: dict[str, Any] | None = None, controlnet_block_samples: Sequence[Tensor] | None = None,
        additional_t_cond: Tensor | None = None, return_dict: bool = True,
    ) -> Transformer2DModelOutput | tuple[Tensor]:  # fmt: skip
        """One prediction; `timestep` is from 0 to 1, `img_shapes` are frames, rows and columns of a sample's pictures.

        `encoder_hidden_states_mask` says which tokens of a text count.
        """
        shapes, mask = shapes_of(img_shapes), encoder_hidden_states_mask
        self.check_inputs(hidden_states, encoder_hidden_states, mask, timestep, shapes, guidance, additional_t_cond)
        self.check_processor_kwargs("attention_kwargs", attention_kwargs)
        picture = self.img_in(hidden_states)
        text = self.txt_in(self.txt_norm(encoder_hidden_states))
        mask = None if mask is None else mask.bool()
        times, index = self.times(timestep.to(picture.dtype), shapes)  # type: ignore[union-attr]
        temb = self.time_text_embed(times, picture.dtype, additional_t_cond)
        table = self.places(shapes, encoder_hidden_states.shape[1], picture.device)

        depth, residuals = len(self.transformer_blocks), controlnet_block_samples
        for number, block in enumerate(self.transformer_blocks):
            text, picture = checkpointed(self, block, picture, text, mask, temb, table, attention_kwargs, index)
            if residuals is not None:
                picture = picture + residuals[residual_of(number, depth, len(residuals))]

        sample = self.proj_out(self.norm_out(picture, temb[: len(picture)]))
        return Transformer2DModelOutput(sample) if return_dict else (sample,)

    def times(self, timestep_B: Tensor, shapes: list[Shape]) -> tuple[Tensor, Tensor | None]:
        """The times to embed; where pictures that are read have time 0, that behind them, and which token has it."""
        if not self.config["zero_cond_t"]:
            return timestep_B, None
        made, *read = (prod(shape) for shape in shapes)
        later = torch.arange(made + sum(read), device=timestep_B.device) >= made
        return torch.cat([timestep_B, timestep_B * 0]), later.int().expand(len(timestep_B), -1)

    def places(self, shapes: list[Shape], text_length: int, device: torch.device) -> Table:
        """The rotations of text and picture tokens, in fp32 as they were taught."""
        layered = self.config["use_layer3d_rope"]
        first = list(range(len(shapes)))
        if layered:
            first[-1] = -1  # the picture that layers are made from is before all of them
        pictures = [centred(shape, index) for shape, index in zip(shapes, first, strict=True)]
        behind = max(max(rows, columns) // 2 for _, rows, columns in shapes)
        behind = max(behind, len(shapes) - 1) if layered else behind
        text = torch.arange(behind, behind + text_length)[:, None].expand(-1, 3)
        return rotary_table(torch.cat([text, *pictures]).to(device), self.config["axes_dims_rope"], coarse=True)

    def check_inputs(
        self, picture: Tensor, text: Tensor, mask: Tensor | None, timestep: Tensor | None, shapes: list[Shape],
        guidance: Tensor | None, task: Tensor | None,
    ) -> None:  # fmt: skip
        """Refuse what the weights cannot take, before anything is computed."""
        owner, config, batch = type(self).__name__, self.config, len(picture)
        axes = {"batch": None, "tokens": None, "channels": config["in_channels"]}
        check_shape(owner, "hidden_states", picture, axes, self.dtype)
        words = {"batch": batch, "tokens": None, "width": config["joint_attention_dim"]}
        check_shape(owner, "encoder_hidden_states", text, words, self.dtype)
        if mask is not None and mask.shape != text.shape[:2]:
            want = f"{tuple(text.shape[:2])}, a word for each token, got {tuple(mask.shape)}"
            raise InputError(f"{owner}: encoder_hidden_states_mask has to be {want}.")
        if timestep is None or timestep.numel() != batch:
            got = "none" if timestep is None else timestep.numel()
            raise InputError(f"{owner}: timestep has to be {batch} values from 0 to 1, one for each sample, got {got}.")
        tokens = sum(prod(shape) for shape in shapes)
        if tokens != picture.shape[1]:
            raise InputError(
                f"{owner}: img_shapes (frames, rows and columns of each picture) {shapes} are {tokens} tokens, "
                f"hidden_states has {picture.shape[1]}."
            )
        if guidance is not None:
            raise InputError(f"{owner}: these weights know no guidance scale. Leave guidance out.")
        if (task is not None) != config["use_additional_t_cond"]:
            word = "missing" if task is None else "of no use"
            raise InputError(f"{owner}: additional_t_cond (0 or 1 for each sample) is {word} to these weights.")


def shapes_of(img_shapes: Sequence[Any] | None) -> list[Shape]:
    """The pictures of every sample, which are of the same sizes: a shape, or a list of shapes, for each sample."""
    if not img_shapes:
        raise InputError("img_shapes is missing: frames, rows and columns of each sample's pictures, in tokens.")
    first = img_shapes[0]
    if any(shapes != first for shapes in img_shapes):
        raise InputError(f"The samples of a batch have pictures of the same sizes; got img_shapes {list(img_shapes)}.")
    listed = [first] if isinstance(first[0], int) else first
    return [(int(frames), int(rows), int(columns)) for frames, rows, columns in listed]


def centred(shape: Shape, first: int) -> Tensor:
    """(tokens, 3): the frame from `first` on, row and column from the middle."""
    frames, rows, columns = shape
    sides = (torch.arange(size) - (size - size // 2) for size in (rows, columns))
    return torch.cartesian_prod(torch.arange(first, first + frames), *sides)
