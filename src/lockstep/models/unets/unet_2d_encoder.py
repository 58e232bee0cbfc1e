"""What a UNet and its ControlNet have in common: the conditions, the way down and the middle.

Axes: B batch, C channels, Y rows, X columns, L tokens, D width.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ...errors import ConfigError, InputError, UnknownNameError
from ..inputs import check_tensor
from ..layers import Downsample2D, TimestepEmbedding, Timesteps, get_activation
from ..modeling import ModelMixin
from .unet_2d_blocks import CrossAttnDownBlock2D, DownBlock2D, UNetMidBlock2D, UNetMidBlock2DCrossAttn
from .unet_2d_config import K_DOWN_BLOCKS, UNetPlan
from .unet_2d_k_blocks import KDownBlock2D

Tensor = torch.Tensor


class FourierTimesteps(nn.Module):
    """Noise levels to waves of random, stored frequencies (arXiv:2006.10739)."""

    def __init__(self, num_channels: int, flip_sin_to_cos: bool) -> None:
        super().__init__()
        self.flip_sin_to_cos = flip_sin_to_cos
        self.weight = nn.Parameter(torch.randn(num_channels // 2), requires_grad=False)

    def forward(self, timesteps: Tensor) -> Tensor:
        angles = timesteps[:, None] * self.weight[None, :] * 2 * torch.pi
        parts = (angles.cos(), angles.sin()) if self.flip_sin_to_cos else (angles.sin(), angles.cos())
        return torch.cat(parts, dim=-1)


class AttentionPooling(nn.Module):
    """A text as one vector: its mean, with a learned offset, attends to all its tokens."""

    def __init__(self, num_heads: int, width: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.positional_embedding = nn.Parameter(torch.randn(1, width) / width**0.5)
        self.k_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)

    def forward(self, text: Tensor) -> Tensor:
        mean = text.mean(dim=1, keepdim=True) + self.positional_embedding.to(text.dtype)
        text = torch.cat([mean, text], dim=1)
        query_BHCL, key_BHCL, value_BHCL = (
            projected.unflatten(-1, (self.num_heads, -1)).permute(0, 2, 3, 1)
            for projected in (self.q_proj(mean), self.k_proj(text), self.v_proj(text))
        )
        scale = query_BHCL.shape[2] ** -0.25  # on both sides, so that half precision does not overflow
        scores = (query_BHCL * scale).transpose(2, 3) @ (key_BHCL * scale)
        weights = scores.float().softmax(dim=-1).to(scores.dtype)
        return (value_BHCL @ weights.transpose(2, 3)).flatten(1)


class TextTimeEmbedding(nn.Module):
    """The pooled text as an addition to the time embedding."""

    def __init__(self, text_width: int, time_embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(text_width)
        self.pool = AttentionPooling(num_heads, text_width)
        self.proj = nn.Linear(text_width, time_embed_dim)
        self.norm2 = nn.LayerNorm(time_embed_dim)

    def forward(self, text: Tensor) -> Tensor:
        return self.norm2(self.proj(self.pool(self.norm1(text))))


class UNet2DEncoder(ModelMixin):
    """The conditions, the way down and the middle; the classes that register a config build on it."""

    _supports_gradient_checkpointing = True

    def build_conditions(self, plan: UNetPlan) -> None:
        """conv_in, and embeddings of time, class and text, as the config asks for them."""
        config, width = self.config, plan.time_embed_dim
        kernel = config.get("conv_in_kernel", 3)
        self.conv_in = nn.Conv2d(config["in_channels"], plan.block_out_channels[0], kernel, padding=(kernel - 1) // 2)
        sinusoids, flip = plan.block_out_channels[0], config["flip_sin_to_cos"]
        self.time_proj: nn.Module = Timesteps(sinusoids, flip, config["freq_shift"])
        if config.get("time_embedding_type") == "fourier":
            sinusoids, self.time_proj = width, FourierTimesteps(width, flip)
        self.time_embedding = TimestepEmbedding(
            sinusoids,
            width,
            act_fn=config["act_fn"],
            post_act_fn=config.get("timestep_post_act"),
            cond_proj_dim=config.get("time_cond_proj_dim"),
        )
        self.encoder_hid_proj: nn.Module | None = text_projection(plan, config)
        self.class_embedding = class_embedding(plan, config)
        self.add_time_proj, self.add_embedding = addition_embedding(plan, config)
        act_fn = config.get("time_embedding_act_fn")
        self.time_embed_act = None if act_fn is None else get_activation(act_fn)

    def down_block(self, plan: UNetPlan, level: int) -> nn.Module:
        """The block of a level on the way down."""
        channels, block_type = plan.block_out_channels, plan.down_block_types[level]
        incoming, outgoing = channels[max(level - 1, 0)], channels[level]
        padding = self.config["downsample_padding"] if level < len(channels) - 1 else None
        layers, attends = plan.layers_per_block[level], "CrossAttn" in block_type
        transformer = plan.transformer(level, plan.down_depths[level], plan.only_cross_attention[level])
        if block_type in K_DOWN_BLOCKS:
            k_settings = plan.resnet, transformer if attends else None
            return KDownBlock2D(incoming, outgoing, layers, *k_settings, padding is not None)
        if attends:
            return CrossAttnDownBlock2D(incoming, outgoing, plan.resnet, transformer, padding)
        return DownBlock2D(incoming, outgoing, layers, plan.resnet, padding)

    def build_middle(self, plan: UNetPlan) -> None:
        """The block at the coarsest size, where there is one."""
        channels = plan.block_out_channels
        scale = float(self.config["mid_block_scale_factor"])
        self.mid_block: nn.Module | None = None
        if plan.mid_block_type == "UNetMidBlock2D":
            self.mid_block = UNetMidBlock2D(channels[-1], plan.resnet, scale)
        elif plan.mid_block_type == "UNetMidBlock2DCrossAttn":
            transformer = plan.transformer(-1, (plan.mid_depth,))
            self.mid_block = UNetMidBlock2DCrossAttn(channels[-1], plan.resnet, transformer, scale)

    def embed_conditions(
        self, sample: Tensor, timestep: Tensor | float | int, encoder_hidden_states: Tensor | None,
        class_labels: Tensor | None, timestep_cond: Tensor | None, added_cond_kwargs: Mapping[str, Tensor] | None,
    ) -> Tensor:  # fmt: skip
        """Time, class and pooled text as one vector per sample."""
        timesteps = timestep if isinstance(timestep, Tensor) else torch.tensor([timestep], device=sample.device)
        timesteps = timesteps.to(sample.device).reshape(-1).expand(sample.shape[0])
        # The sinusoids are fp32 whatever the model's dtype; the layers after them are the model's.
        emb = self.time_embedding(self.time_proj(timesteps).to(sample.dtype), timestep_cond)
        if self.class_embedding is not None and class_labels is not None:
            if self.config["class_embed_type"] == "timestep":
                class_labels = self.time_proj(class_labels).to(sample.dtype)
            class_emb = self.class_embedding(class_labels).to(sample.dtype)
            concat = self.config.get("class_embeddings_concat")
            emb = torch.cat([emb, class_emb], dim=-1) if concat else emb + class_emb
        if isinstance(self.add_embedding, TextTimeEmbedding):
            emb = emb + self.add_embedding(encoder_hidden_states)
        elif self.add_embedding is not None and self.add_time_proj is not None and added_cond_kwargs is not None:
            text_embeds, time_ids = added_cond_kwargs["text_embeds"], added_cond_kwargs["time_ids"]
            time_embeds = self.add_time_proj(time_ids.flatten()).reshape(text_embeds.shape[0], -1)
            emb = emb + self.add_embedding(torch.cat([text_embeds, time_embeds], dim=-1).to(emb.dtype))
        return emb if self.time_embed_act is None else self.time_embed_act(emb)

    @property
    def has_cross_attention(self) -> bool:
        """Whether any block reads the text."""
        return any(block.has_cross_attention for block in (*self.down_blocks, self.mid_block) if block is not None)

    def text_width(self) -> int:
        """The width of `encoder_hidden_states` that the weights want."""
        wanted = self.config.get("encoder_hid_dim") or self.config["cross_attention_dim"]
        return wanted if isinstance(wanted, int) else wanted[0]

    def check_inputs(
        self,
        sample: Tensor,
        timestep: Tensor | float | int,
        encoder_hidden_states: Tensor | None,
        class_labels: Tensor | None,
        timestep_cond: Tensor | None,
        added_cond_kwargs: Mapping[str, Tensor] | None,
        attention_mask: Tensor | None,
        encoder_attention_mask: Tensor | None,
        cross_attention_kwargs: Mapping[str, Any] | None,
    ) -> None:
        """Refuse what the weights cannot take, before anything is computed."""
        owner = type(self).__name__
        check_sample(owner, sample, self.config["in_channels"], self.dtype)
        if min(self.level_sizes(sample)[-1]) < 1:
            raise InputError(
                f"{owner}: {sample.shape[2]}×{sample.shape[3]} latents are too small to be halved "
                f"{len(self.down_blocks) - 1} times. Give larger ones."
            )
        batch = sample.shape[0]
        if not isinstance(timestep, (Tensor, float, int)):
            raise InputError(f"{owner}: timestep has to be a number or a tensor, got {type(timestep).__name__}.")
        if isinstance(timestep, Tensor) and timestep.numel() not in (1, batch):
            raise InputError(
                f"{owner}: timestep has {timestep.numel()} values for {batch} samples; give one, or {batch}."
            )
        self.check_text(owner, encoder_hidden_states, encoder_attention_mask, sample)
        self.check_class_labels(owner, class_labels, batch)
        check_added(owner, self.config, added_cond_kwargs, batch)
        wanted = self.config.get("time_cond_proj_dim")
        if timestep_cond is not None and wanted is None:
            raise InputError(f"{owner}: these weights take no timestep_cond (no time_cond_proj_dim). Leave it out.")
        if timestep_cond is not None and timestep_cond.shape[-1] != wanted:
            raise InputError(f"{owner}: timestep_cond has to be {wanted} wide, got {timestep_cond.shape[-1]}.")
        self.check_attention_mask(owner, attention_mask, sample, encoder_hidden_states)
        self.check_processor_kwargs("cross_attention_kwargs", cross_attention_kwargs)

    def check_text(self, owner: str, text: Tensor | None, mask: Tensor | None, sample: Tensor) -> None:
        batch = sample.shape[0]
        needs_text = self.has_cross_attention or self.config["addition_embed_type"] == "text"
        width = self.text_width()
        if text is None:
            if needs_text:
                raise InputError(f"{owner}: encoder_hidden_states is missing; give a text of (batch, tokens, {width}).")
            if mask is not None:
                raise InputError(f"{owner}: encoder_attention_mask was given without encoder_hidden_states.")
            return
        check_tensor(owner, "encoder_hidden_states", text, self.dtype, sample.device)
        if text.ndim != 3 or text.shape[0] != batch:
            raise InputError(
                f"{owner}: encoder_hidden_states has to be ({batch}, tokens, {width}), got {tuple(text.shape)}."
            )
        if text.shape[2] != width:
            raise InputError(
                f"{owner}: encoder_hidden_states is {text.shape[2]} wide, these weights want {width}. "
                "Use the text encoder that belongs to this model."
            )
        if mask is not None and tuple(mask.shape) != (batch, text.shape[1]):
            raise InputError(
                f"{owner}: encoder_attention_mask has to be (batch, tokens) = {(batch, text.shape[1])}, "
                f"got {tuple(mask.shape)}."
            )

    def check_class_labels(self, owner: str, class_labels: Tensor | None, batch: int) -> None:
        if self.class_embedding is None:
            if class_labels is not None:
                raise InputError(f"{owner}: these weights take no class_labels. Leave them out.")
            return
        if class_labels is None:
            raise InputError(f"{owner}: class_labels is missing; these weights are conditioned on a class.")
        widths = {
            "projection": self.config["projection_class_embeddings_input_dim"],
            "simple_projection": self.config["projection_class_embeddings_input_dim"],
            "identity": self.time_embedding.linear_2.out_features,
        }
        width = widths.get(self.config["class_embed_type"])
        wanted = (batch,) if width is None else (batch, width)
        if tuple(class_labels.shape) != wanted:
            raise InputError(f"{owner}: class_labels has to be {wanted}, got {tuple(class_labels.shape)}.")

    def check_attention_mask(self, owner: str, mask: Tensor | None, sample: Tensor, text: Tensor | None) -> None:
        """A mask over the tokens of self-attention fits only where all of them have as many tokens."""
        if mask is None:
            return
        counts = self.self_attention_tokens(sample, text)
        if mask.ndim != 2 or mask.shape[0] != sample.shape[0] or counts != {mask.shape[1]}:
            raise InputError(
                f"{owner}: attention_mask has to be (batch, tokens) and fit every self-attention; it is "
                f"{tuple(mask.shape)}, they have {sorted(counts)} tokens. To mask the text, use encoder_attention_mask."
            )

    def level_sizes(self, sample: Tensor) -> list[tuple[int, int]]:
        """Rows and columns at each level, the finest first."""
        sizes = [(sample.shape[2], sample.shape[3])]
        for block in typing.cast("list[DownBlock2D]", self.down_blocks):
            if block.downsamplers is not None:
                halve = typing.cast(Downsample2D, block.downsamplers[0]).output_size
                sizes.append((halve(sizes[-1][0]), halve(sizes[-1][1])))
        return sizes

    def self_attention_tokens(self, sample: Tensor, text: Tensor | None) -> set[int]:
        """How many tokens the first attention of the transformers has at the levels that have transformers."""
        sizes = self.level_sizes(sample)
        text_tokens = 0 if text is None else text.shape[1]
        counts = set()
        for block, (rows, columns) in zip([*self.down_blocks, self.mid_block], [*sizes, sizes[-1]], strict=True):
            if block is None or not block.has_cross_attention:
                continue
            for transformer in block.attentions:
                if getattr(transformer, "attn1", None) is not None:  # of a K block
                    counts.add(rows * columns)
                for layer in getattr(transformer, "transformer_blocks", ()):
                    counts.add(text_tokens if layer.only_cross_attention else rows * columns)
        return counts


def mask_to_bias(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A mask (1 keep, 0 leave out) as a bias on the scores; -10000 as published, so an all-zero row stays finite."""
    return None if mask is None else ((1 - mask.to(dtype)) * -10000.0)[:, None, :]


def check_sample(owner: str, sample: Tensor, in_channels: int, weights_dtype: torch.dtype) -> None:
    check_tensor(owner, "sample", sample, weights_dtype)
    if sample.ndim != 4 or sample.shape[1] != in_channels:
        raise InputError(
            f"{owner}: sample has to be (batch, {in_channels}, height, width), got {tuple(sample.shape)}; "
            f"these weights take {in_channels} channels."
        )


def check_added(owner: str, config: Mapping[str, Any], added: Mapping[str, Tensor] | None, batch: int) -> None:
    """`added_cond_kwargs` has exactly what the kind of addition needs."""
    needed = ("text_embeds", "time_ids") if config["addition_embed_type"] == "text_time" else ()
    for key in added or {}:
        if key not in needed:
            raise UnknownNameError(f"added_cond_kwargs key for this {owner}", key, needed)
    for key in needed:
        if added is None or key not in added:
            raise InputError(f"{owner}: added_cond_kwargs[{key!r}] is missing; these weights are conditioned on it.")
        shape = tuple(added[key].shape)
        if len(shape) != 2 or shape[0] != batch:
            raise InputError(f"{owner}: added_cond_kwargs[{key!r}] has to be ({batch}, width), got {shape}.")
    if needed and added is not None:
        text, ids, each = added["text_embeds"].shape[1], added["time_ids"].shape[1], config["addition_time_embed_dim"]
        wanted = config["projection_class_embeddings_input_dim"]
        if text + ids * each != wanted:
            raise InputError(
                f"{owner}: text_embeds ({text} wide) and {ids} time_ids of {each} give {text + ids * each}, these "
                f"weights want {wanted}: with {ids} time_ids, text_embeds that are {wanted - ids * each} wide."
            )


def text_projection(plan: UNetPlan, config: Mapping[str, Any]) -> nn.Linear | None:
    """From the text encoder's width to the one that the attention reads."""
    width, kind = config.get("encoder_hid_dim"), config.get("encoder_hid_dim_type")
    if width is None and kind is not None:
        raise ConfigError(f"{plan.owner}: encoder_hid_dim_type is {kind!r}, so encoder_hid_dim has to be given.")
    return None if width is None else nn.Linear(width, plan.cross_attention_dim)


def class_embedding(plan: UNetPlan, config: Mapping[str, Any]) -> nn.Module | None:
    """How class labels become an addition to the time embedding."""
    kind, labels = config["class_embed_type"], config["num_class_embeds"]
    input_dim = config["projection_class_embeddings_input_dim"]
    if kind in ("projection", "simple_projection") and input_dim is None:
        raise ConfigError(f"{plan.owner}: class_embed_type {kind!r} needs projection_class_embeddings_input_dim.")
    if kind is None:
        return None if labels is None else nn.Embedding(labels, plan.time_embed_dim)
    if kind == "timestep":
        return TimestepEmbedding(plan.block_out_channels[0], plan.time_embed_dim, act_fn=config["act_fn"])
    if kind == "projection":
        return TimestepEmbedding(input_dim, plan.time_embed_dim)
    return nn.Identity() if kind == "identity" else nn.Linear(input_dim, plan.time_embed_dim)


def addition_embedding(plan: UNetPlan, config: Mapping[str, Any]) -> tuple[Timesteps | None, nn.Module | None]:
    """How a pooled text (and picture sizes) become an addition to the time embedding."""
    kind = config["addition_embed_type"]
    if kind == "text_time":
        each, total = config["addition_time_embed_dim"], config["projection_class_embeddings_input_dim"]
        if each is None or total is None:
            raise ConfigError(
                f"{plan.owner}: addition_embed_type 'text_time' needs addition_time_embed_dim and "
                f"projection_class_embeddings_input_dim, got {each} and {total}."
            )
        sinusoids = Timesteps(each, config["flip_sin_to_cos"], config["freq_shift"])
        return sinusoids, TimestepEmbedding(total, plan.time_embed_dim)
    if kind == "text":
        width = config.get("encoder_hid_dim") or plan.cross_attention_dim
        heads = config["addition_embed_type_num_heads"]
        if heads < 1 or width % heads:
            raise ConfigError(
                f"{plan.owner}: a text {width} wide cannot be divided into addition_embed_type_num_heads {heads}."
            )
        return None, TextTimeEmbedding(width, plan.time_embed_dim, heads)
    return None, None
