"""The transformer of Z-Image (arXiv:2511.22699): picture and text as one sequence through one set of weights.

Axes: B batch, L tokens (picture first, text after), D width, H heads, K = D / H; of a picture C channels, F frames,
Y rows, X columns. A tensor without suffix is BLD; any other shape is in the name. Pictures and texts come as lists, for
each may have its own size; short sequences are filled up, first with a learned token to whole groups, which everybody
attends to, then with zeros to the longest of the batch, which nobody does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from ...attention import Cut, SequencePlan
from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError, InputError, UnsupportedError
from ...outputs import Output, output_or_tuple
from ..inputs import check_shape
from ..layers import Timesteps
from ..modeling import ModelMixin, check_divisible, check_sizes, checkpointed
from .joint import JointAttention, JointProcessor
from .rotary import Table, rotary_table, rotate

Tensor = torch.Tensor
GROUP = 32  # tokens: every sequence is filled up to a multiple of it
CONDITION_WIDTH, TIME_WIDTH = 256, 1024  # of the vector of conditions, and of the layer before it


@dataclass
class ZImageOutput(Output):
    """The prediction for each picture, CFYX."""

    sample: list[Tensor]


class Sequences(NamedTuple):
    """Sequences of tokens side by side, their rotations, and which tokens count where not all do."""

    tokens: Tensor
    table: Table
    mask: Tensor | None
    lengths: list[int]

    @classmethod
    def of(cls, tokens: Sequence[Tensor], cosines: Sequence[Tensor], sines: Sequence[Tensor]) -> Sequences:
        """From one tensor a sequence; short ones get zeros behind them."""
        lengths = [len(one) for one in tokens]
        mask = None
        if min(lengths) < max(lengths):
            ends = torch.tensor(lengths, device=tokens[0].device)
            mask = (torch.arange(max(lengths), device=ends.device) < ends[:, None])[:, None, None]
        rows, cos, sin = (pad_sequence(list(part), batch_first=True) for part in (tokens, cosines, sines))
        return cls(rows, (cos, sin), mask, lengths)

    def followed_by(self, other: Sequences) -> Sequences:
        """Each sequence with the other's behind it."""
        parts = zip((self.tokens, *self.table), (other.tokens, *other.table), strict=True)
        return Sequences.of(*([*map(torch.cat, zip(self.cut(a), other.cut(b), strict=True))] for a, b in parts))

    def cut(self, rows: Tensor) -> list[Tensor]:
        """The rows of a batch without the zeros behind them."""
        return [row[:length] for row, length in zip(rows, self.lengths, strict=True)]


class ZSingleStreamAttnProcessor(JointProcessor):
    """Attention of all tokens, turned by their positions."""

    text_first = False

    def __call__(
        self, attn: ZImageAttention, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None, freqs_cis: Table | None = None,
    ) -> Tensor:  # fmt: skip
        query, key, value = self.join(attn, hidden_states, encoder_hidden_states)
        if freqs_cis is not None:
            query, key = (rotate(part, freqs_cis, self._attention_backend) for part in (query, key))
        return attn.to_out[0](self.mix(query, key, value, attention_mask))


class ZImageAttention(JointAttention):
    """Attention of one stream, without biases."""

    _default_processor_cls = ZSingleStreamAttnProcessor
    _available_processors = (ZSingleStreamAttnProcessor,)

    def __init__(self, width: int, heads: int, qk_norm: bool) -> None:
        super().__init__(width, heads, width // heads, with_text=False, qk_norm=qk_norm, bias=False, eps=1e-5)


class ZImageFeedForward(nn.Module):
    """Gated feed forward (arXiv:2002.05202)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = int(width / 3 * 8)
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.w3 = nn.Linear(width, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class ZImageTransformerBlock(nn.Module):
    """Attention and feed forward between two norms each; where it is told the time, scaled before and gated after."""

    def __init__(self, width: int, heads: int, eps: float, qk_norm: bool, modulation: bool = True) -> None:
        super().__init__()
        self.modulation = modulation
        self.attention = ZImageAttention(width, heads, qk_norm)
        self.feed_forward = ZImageFeedForward(width)
        self.attention_norm1 = nn.RMSNorm(width, eps=eps)
        self.ffn_norm1 = nn.RMSNorm(width, eps=eps)
        self.attention_norm2 = nn.RMSNorm(width, eps=eps)
        self.ffn_norm2 = nn.RMSNorm(width, eps=eps)
        if modulation:
            self.adaLN_modulation = nn.Sequential(nn.Linear(min(width, CONDITION_WIDTH), 4 * width))

    def forward(
        self, x: Tensor, attn_mask: Tensor | None, freqs_cis: Table, adaln_input: Tensor | None = None
    ) -> Tensor:
        normed = self.attention_norm1(x)
        if not self.modulation:
            x = x + self.attention_norm2(self.attention(normed, attention_mask=attn_mask, freqs_cis=freqs_cis))
            return x + self.ffn_norm2(self.feed_forward(self.ffn_norm1(x)))
        scale, gate, scale_ff, gate_ff = self.adaLN_modulation(adaln_input)[:, None].chunk(4, dim=2)
        mixed = self.attention(normed * (1 + scale), attention_mask=attn_mask, freqs_cis=freqs_cis)
        x = x + gate.tanh() * self.attention_norm2(mixed)
        return x + gate_ff.tanh() * self.ffn_norm2(self.feed_forward(self.ffn_norm1(x) * (1 + scale_ff)))


class TimestepEmbedder(nn.Module):
    """The time as the vector of conditions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.time_proj = Timesteps(256, flip_sin_to_cos=True, downscale_freq_shift=0)
        self.mlp = nn.Sequential(nn.Linear(256, TIME_WIDTH), nn.SiLU(), nn.Linear(TIME_WIDTH, width))

    def forward(self, t_B: Tensor, dtype: torch.dtype) -> Tensor:
        return self.mlp(self.time_proj(t_B).to(dtype))


class FinalLayer(nn.Module):
    """A norm that the conditions scale, and what each token says of its latents."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.norm_final = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.linear = nn.Linear(width, channels)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(min(width, CONDITION_WIDTH), width))

    def forward(self, x: Tensor, c_BD: Tensor) -> Tensor:
        return self.linear(self.norm_final(x) * (1 + self.adaLN_modulation(c_BD)[:, None]))


class ZImageTransformer2DModel(ModelMixin, ConfigMixin):
    """Predicts the flow of each picture from its noisy latents, a time from 0 (noise) to 1, and a text."""

    _supports_gradient_checkpointing = True
    gradient_checkpointing = False
    sequence_plan = SequencePlan(  # of each picture with its text behind it, the zeros of short ones included
        split=(
            Cut("noise_refiner.0", "x", "picture"),
            Cut("noise_refiner.*", "freqs_cis", "picture"),
            Cut("context_refiner.0", "x", "text"),
            Cut("context_refiner.*", "freqs_cis", "text"),
            Cut("layers.0", "x", "both"),
            Cut("layers.*", "freqs_cis", "both"),
        ),
        gather=(
            Cut("noise_refiner.-1", 0, "picture"),
            Cut("context_refiner.-1", 0, "text"),
            Cut("all_final_layer.*", "x", "both"),
        ),
        attends={"noise_refiner.*": ("picture",), "context_refiner.*": ("text",), "layers.*": ("both",)},
    )
    trained_size = 128  # of the latents along a side; the published configs do not say it

    @register_to_config
    def __init__(
        self, all_patch_size: tuple[int, ...] = (2,), all_f_patch_size: tuple[int, ...] = (1,), in_channels: int = 16,
        dim: int = 3840, n_layers: int = 30, n_refiner_layers: int = 2, n_heads: int = 30, n_kv_heads: int = 30,
        norm_eps: float = 1e-5, qk_norm: bool = True, cap_feat_dim: int = 2560, siglip_feat_dim: int | None = None,
        rope_theta: float = 256.0, t_scale: float = 1000.0, axes_dims: tuple[int, ...] = (32, 48, 48),
        axes_lens: tuple[int, ...] = (1024, 512, 512),
    ) -> None:  # fmt: skip
        super().__init__()
        self.check_config()
        patches = {f"{side}-{frames}": side**2 * frames * in_channels for side, frames in self.patches}
        block = (dim, n_heads, norm_eps, qk_norm)
        self.all_x_embedder = nn.ModuleDict({name: nn.Linear(size, dim) for name, size in patches.items()})
        self.all_final_layer = nn.ModuleDict({name: FinalLayer(dim, size) for name, size in patches.items()})
        self.noise_refiner = nn.ModuleList(ZImageTransformerBlock(*block) for _ in range(n_refiner_layers))
        self.context_refiner = nn.ModuleList(
            ZImageTransformerBlock(*block, modulation=False) for _ in range(n_refiner_layers)
        )
        self.t_embedder = TimestepEmbedder(min(dim, CONDITION_WIDTH))
        self.cap_embedder = nn.Sequential(nn.RMSNorm(cap_feat_dim, eps=norm_eps), nn.Linear(cap_feat_dim, dim))
        self.x_pad_token = nn.Parameter(torch.zeros(1, dim))
        self.cap_pad_token = nn.Parameter(torch.zeros(1, dim))
        self.layers = nn.ModuleList(ZImageTransformerBlock(*block) for _ in range(n_layers))

    @property
    def patches(self) -> list[tuple[int, int]]:
        """Side and frames of the squares that can be a token."""
        return list(zip(self.config["all_patch_size"], self.config["all_f_patch_size"], strict=True))

    @property
    def token_side(self) -> int:
        """Latents along the side of a token."""
        return self.config["all_patch_size"][0]

    @property
    def largest_size(self) -> int:
        """Latents along a side for which there are positions."""
        return min(self.config["axes_lens"][1:]) * self.token_side

    @property
    def condition_widths(self) -> dict[str, int | None]:
        """Channels of each encoding that it reads, by the name that pipelines give it."""
        return {"prompt_embeds": self.config["cap_feat_dim"]}

    @output_or_tuple
    def forward(
        self, x: Sequence[Tensor] | Tensor, t: Tensor, cap_feats: Sequence[Tensor] | Tensor, return_dict: bool = True,
        *, patch_size: int = 2, f_patch_size: int = 1, joint_attention_kwargs: dict[str, Any] | None = None,
    ) -> ZImageOutput | tuple[list[Tensor]]:  # fmt: skip
        """One prediction for each picture of `x` (CFYX each) by its text of `cap_feats` (LD each)."""
        pictures, texts = list(x), list(cap_feats)
        self.check_inputs(pictures, t, texts, (patch_size, f_patch_size), joint_attention_kwargs)
        patch = (f_patch_size, patch_size, patch_size)
        embed, final = (part[f"{patch_size}-{f_patch_size}"] for part in (self.all_x_embedder, self.all_final_layer))
        temb = self.t_embedder(t * self.config["t_scale"], pictures[0].dtype)

        grids = [tuple(size // side for size, side in zip(one.shape[1:], patch, strict=True)) for one in pictures]
        behind = [in_groups(len(text)) + 1 for text in texts]  # a picture's place on the first axis is after its text
        squares = [patched(one, patch) for one in pictures]
        seen = self.sequences(embed, squares, [*map(grid_places, grids, behind)], self.x_pad_token)
        for block in self.noise_refiner:
            seen = seen._replace(tokens=checkpointed(self, block, seen.tokens, seen.mask, seen.table, temb))

        places = [grid_places((in_groups(len(text)), 1, 1), 1) for text in texts]
        read = self.sequences(self.cap_embedder, texts, places, self.cap_pad_token)
        for block in self.context_refiner:
            read = read._replace(tokens=checkpointed(self, block, read.tokens, read.mask, read.table))

        both = seen.followed_by(read)
        tokens = both.tokens
        for block in self.layers:
            tokens = checkpointed(self, block, tokens, both.mask, both.table, temb)
        rows = final(tokens, temb)
        sample = [unpatched(row, grid, patch) for row, grid in zip(rows, grids, strict=True)]
        return ZImageOutput(sample) if return_dict else (sample,)

    def sequences(
        self, embed: nn.Module, rows: Sequence[Tensor], places: Sequence[Tensor], pad_token: Tensor
    ) -> Sequences:
        """Rows of features as tokens, filled up to whole groups with a learned one, whose place is the first of all."""
        whole = [in_groups(len(row)) for row in rows]
        filled = [torch.cat([row, row[-1:].expand(size - len(row), -1)]) for row, size in zip(rows, whole, strict=True)]
        added = [torch.arange(size) >= len(row) for row, size in zip(rows, whole, strict=True)]
        tokens = embed(torch.cat(filled))
        tokens = torch.where(torch.cat(added)[:, None].to(tokens.device), pad_token, tokens)
        ids = torch.cat([F.pad(one, (0, 0, 0, size - len(one))) for one, size in zip(places, whole, strict=True)])
        turns = rotary_table(ids.to(tokens.device), self.config["axes_dims"], self.config["rope_theta"], single=True)
        return Sequences.of(*(part.split(whole) for part in (tokens, *turns)))

    def check_config(self) -> None:
        """Refuse sizes that do not fit together."""
        config, owner = self.config, type(self).__name__
        check_sizes(owner, config, "in_channels", "dim", "n_heads", "cap_feat_dim")
        check_sizes(owner, config, "n_layers", "n_refiner_layers", least=0)
        check_divisible(owner, "dim", config["dim"], "n_heads", config["n_heads"])
        if len(config["all_patch_size"]) != len(config["all_f_patch_size"]) or not config["all_patch_size"]:
            raise ConfigError(f"{owner}: all_patch_size and all_f_patch_size have to be of one length, at least 1.")
        head, axes = config["dim"] // config["n_heads"], config["axes_dims"]
        if sum(axes) != head or any(width % 2 for width in axes) or not len(axes) == len(config["axes_lens"]) == 3:
            raise ConfigError(
                f"{owner}: axes_dims has to be three even numbers that sum to the width of a head, {head}, with as "
                f"many axes_lens, got {list(axes)} and {list(config['axes_lens'])}."
            )
        if config["siglip_feat_dim"] is not None:
            raise UnsupportedError(f"{owner}: siglip_feat_dim belongs to Z-Image-Omni, which is not offered.")

    def check_inputs(
        self,
        pictures: list[Tensor],
        t: Tensor,
        texts: list[Tensor],
        patch: tuple[int, int],
        kwargs: dict[str, Any] | None,
    ) -> None:
        """Refuse what the weights cannot take, before anything is computed."""
        owner, config = type(self).__name__, self.config
        if patch not in self.patches:
            raise InputError(f"{owner} knows the patches (side, frames) {self.patches}, got {patch}.")
        if not len(pictures) == len(texts) > 0 or t.numel() != len(pictures):
            got = f"{len(pictures)} pictures, {len(texts)} texts, {t.numel()} times"
            raise InputError(f"{owner} wants as many texts and times as pictures, at least one; got {got}.")
        side, frames = patch
        for picture, text in zip(pictures, texts, strict=True):
            axes = {"channels": config["in_channels"], "frames": None, "height": None, "width": None}
            check_shape(owner, "x", picture, axes, self.dtype)
            check_shape(owner, "cap_feats", text, {"tokens": None, "width": config["cap_feat_dim"]}, self.dtype)
            grid = (
                in_groups(len(text)) + 1 + picture.shape[1] // frames,
                *(size // side for size in picture.shape[2:]),
            )
            if any(size % one for size, one in zip(picture.shape[1:], (frames, side, side), strict=True)):
                raise InputError(f"{owner}: {tuple(picture.shape)} (CFYX) cannot be cut into patches {patch}.")
            if not len(text) or any(size > most for size, most in zip(grid, config["axes_lens"], strict=True)):
                raise InputError(
                    f"{owner} has places for {config['axes_lens']} (text and frames, rows, columns); a text of "
                    f"{len(text)} tokens with latents of {tuple(picture.shape)} wants {grid}."
                )
        self.check_processor_kwargs("joint_attention_kwargs", kwargs)


def in_groups(length: int) -> int:
    """A length, rounded up to whole groups."""
    return length + -length % GROUP


def grid_places(grid: Sequence[int], start: int) -> Tensor:
    """(tokens, 3): the frame from `start` on, row, column."""
    frames, rows, columns = grid
    return torch.cartesian_prod(torch.arange(start, start + frames), torch.arange(rows), torch.arange(columns))


def patched(picture_CFYX: Tensor, patch: Sequence[int]) -> Tensor:
    """A picture as a row of patches; within a patch the channel is the last axis."""
    frames, rows, columns = patch
    cut = picture_CFYX.unflatten(3, (-1, columns)).unflatten(2, (-1, rows)).unflatten(1, (-1, frames))
    return cut.permute(1, 3, 5, 2, 4, 6, 0).flatten(3).flatten(0, 2)


def unpatched(tokens: Tensor, grid: Sequence[int], patch: Sequence[int]) -> Tensor:
    """A row of patches, and whatever is behind them, as a picture, CFYX."""
    frames, rows, columns = grid
    cut = tokens[: frames * rows * columns].unflatten(1, (*patch, -1)).unflatten(0, (frames, rows, columns))
    return cut.permute(6, 0, 3, 1, 4, 2, 5).flatten(5).flatten(3, 4).flatten(1, 2)
