"""T5's encoder (arXiv:1910.10683) and UMT5's (arXiv:2304.09151): positions as a bias on the attention, nothing else.

Axes: B batch, L tokens, D width, H heads, K head width (H * K need not be D). A tensor without suffix is BLD; any other
shape is in the name. Tensor names are the published ones.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ...attention import AttentionModuleMixin
from ...configuration import register_to_config, with_defaults
from ...errors import ConfigError
from ...outputs import Output, output_or_tuple
from ..modeling import check_sizes, checkpointed
from ..weights import StoredTensor
from .encoder import RMSNorm, TextAttnProcessor, TextEncoder, activation, embedding


@dataclass
class T5EncoderOutput(Output):
    """`hidden_states` are the embeddings and each layer's output, the last one after the final norm."""

    last_hidden_state: torch.Tensor
    hidden_states: tuple[torch.Tensor, ...] | None = None


class T5DenseActDense(nn.Module):
    """Feed forward of the first T5 models."""

    def __init__(self, width: int, hidden: int, act: str, dropout: float) -> None:
        super().__init__()
        self.wi = nn.Linear(width, hidden, bias=False)
        self.wo = nn.Linear(hidden, width, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.act = activation(act, "feed_forward_proj")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.dropout(self.act(self.wi(x)))
        return self.wo(hidden.to(self.wo.weight.dtype))  # wo may be fp32 in a half-precision model


class T5DenseGatedActDense(nn.Module):
    """Gated feed forward (arXiv:2002.05202) of T5 1.1 and after."""

    def __init__(self, width: int, hidden: int, act: str, dropout: float) -> None:
        super().__init__()
        self.wi_0 = nn.Linear(width, hidden, bias=False)
        self.wi_1 = nn.Linear(width, hidden, bias=False)
        self.wo = nn.Linear(hidden, width, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.act = activation(act, "feed_forward_proj")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.dropout(self.act(self.wi_0(x)) * self.wi_1(x))
        return self.wo(hidden.to(self.wo.weight.dtype))  # wo may be fp32 in a half-precision model


class T5LayerFF(nn.Module):
    """Norm, feed forward, added to what came in."""

    def __init__(self, width: int, hidden: int, act: str, gated: bool, eps: float, dropout: float) -> None:
        super().__init__()
        dense = T5DenseGatedActDense if gated else T5DenseActDense
        self.DenseReluDense = dense(width, hidden, act, dropout)
        self.layer_norm = RMSNorm(width, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.dropout(self.DenseReluDense(self.layer_norm(x)))


class T5AttnProcessor(TextAttnProcessor):
    """Attention without a scale (the initialisation has it), with the position bias in the place of a mask."""

    def __call__(self, attn: T5Attention, x: torch.Tensor, bias_BHLL: torch.Tensor) -> torch.Tensor:
        qkv = attn.to_qkv(x) if attn.fused_projections else (attn.q(x), attn.k(x), attn.v(x))
        return attn.o(self.mix(attn, qkv, bias_BHLL, scale=1.0))


class T5Attention(nn.Module, AttentionModuleMixin):
    """Self-attention; the first layer's (in UMT5 every layer's) has the table of position biases."""

    _default_processor_cls = T5AttnProcessor
    _available_processors = (T5AttnProcessor,)
    _projection_names = ("q", "k", "v")
    to_qkv: nn.Module  # the three in one, while they are fused

    def __init__(
        self, width: int, heads: int, head_width: int, dropout: float, num_buckets: int, max_distance: int,
        has_bias: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.num_buckets, self.max_distance, self.has_bias = num_buckets, max_distance, has_bias
        self.q = nn.Linear(width, heads * head_width, bias=False)
        self.k = nn.Linear(width, heads * head_width, bias=False)
        self.v = nn.Linear(width, heads * head_width, bias=False)
        self.o = nn.Linear(heads * head_width, width, bias=False)
        if has_bias:
            self.relative_attention_bias = embedding(num_buckets, heads)
        self.set_processor(T5AttnProcessor())

    def position_bias(self, length: int, attention_mask_BL: torch.Tensor | None) -> torch.Tensor:
        """One value per head and pair of positions; padding is pushed out of the softmax."""
        positions = torch.arange(length, device=self.relative_attention_bias.weight.device)
        buckets_LL = position_buckets(positions[None, :] - positions[:, None], self.num_buckets, self.max_distance)
        bias_1HLL = self.relative_attention_bias(buckets_LL).permute(2, 0, 1)[None]
        if attention_mask_BL is None:
            return bias_1HLL.contiguous()
        padding_B11L = ~attention_mask_BL.bool()[:, None, None, :]
        return bias_1HLL.masked_fill(padding_B11L, torch.finfo(bias_1HLL.dtype).min)

    def forward(self, x: torch.Tensor, bias_BHLL: torch.Tensor) -> torch.Tensor:
        return self.processor(self, x, bias_BHLL)


def position_buckets(distance_LL: torch.Tensor, num_buckets: int, max_distance: int) -> torch.Tensor:
    """Half of the buckets for each direction; near distances have their own, far ones share on a log scale."""
    half = num_buckets // 2
    exact = half // 2
    behind = (distance_LL > 0).long() * half
    distance_LL = distance_LL.abs()
    far = torch.log(distance_LL.clamp_min(1).float() / exact) / math.log(max_distance / exact) * (half - exact)
    far = (exact + far.long()).clamp_max(half - 1)
    return behind + torch.where(distance_LL < exact, distance_LL, far)


class T5LayerSelfAttention(nn.Module):
    """Norm, attention, added to what came in."""

    def __init__(self, width: int, eps: float, dropout: float, *attention: int | float | bool) -> None:
        super().__init__()
        self.SelfAttention = T5Attention(width, *attention)  # type: ignore[arg-type]
        self.layer_norm = RMSNorm(width, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, bias_BHLL: torch.Tensor) -> torch.Tensor:
        return x + self.dropout(self.SelfAttention(self.layer_norm(x), bias_BHLL))


class T5Block(nn.Module):
    """Attention, then feed forward."""

    def __init__(self, config: Mapping[str, Any], has_bias: bool) -> None:
        super().__init__()
        width, eps, dropout = config["d_model"], config["layer_norm_epsilon"], config["dropout_rate"]
        attention = T5LayerSelfAttention(
            width, eps, dropout, config["num_heads"], config["d_kv"], dropout,
            config["relative_attention_num_buckets"], config["relative_attention_max_distance"], has_bias,
        )  # fmt: skip
        dense = T5LayerFF(width, config["d_ff"], config["dense_act_fn"], config["is_gated_act"], eps, dropout)
        self.layer = nn.ModuleList([attention, dense])

    @property
    def attention(self) -> T5Attention:
        return typing.cast(T5LayerSelfAttention, self.layer[0]).SelfAttention

    def forward(self, x: torch.Tensor, bias_BHLL: torch.Tensor) -> torch.Tensor:
        attention, dense = self.layer
        x = finite_in_half(attention(x, bias_BHLL))
        return finite_in_half(dense(x))


def finite_in_half(x: torch.Tensor) -> torch.Tensor:
    """fp16 overflows in the large T5 models: infinities become the largest numbers."""
    if x.dtype != torch.float16:
        return x
    largest = torch.finfo(x.dtype).max
    limit = torch.where(x.isinf().any(), largest - 1000, largest)
    return torch.clamp(x, min=-limit, max=limit)


class T5Stack(nn.Module):
    """The stack of blocks; returns what went in and what came out of each."""

    gradient_checkpointing = False

    def __init__(self, config: Mapping[str, Any], bias_in_every_layer: bool) -> None:
        super().__init__()
        self.block = nn.ModuleList(T5Block(config, bias_in_every_layer or i == 0) for i in range(config["num_layers"]))
        self.final_layer_norm = RMSNorm(config["d_model"], config["layer_norm_epsilon"])
        self.dropout = nn.Dropout(config["dropout_rate"])

    def forward(self, embedded: torch.Tensor, attention_mask_BL: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        states = [self.dropout(embedded)]
        for block in typing.cast("Iterable[T5Block]", self.block):
            if block.attention.has_bias:  # otherwise the first layer's bias serves this one too
                bias_BHLL = block.attention.position_bias(embedded.shape[1], attention_mask_BL)
            states.append(checkpointed(self, block, states[-1], bias_BHLL))
        return *states[:-1], self.dropout(self.final_layer_norm(states[-1]))


class T5EncoderModel(TextEncoder):
    """T5's encoder alone (arXiv:1910.10683), as Stable Diffusion 3, FLUX and PixArt use it."""

    model_type = "t5"
    bias_in_every_layer: ClassVar[bool] = False
    ignored_tensors = (r"^decoder\.", r"^lm_head\.")  # files of the whole model serve too
    tensor_renames = ((r"^encoder\.embed_tokens\.", "shared."),)
    keep_in_fp32 = (r"\.wo\.weight$",)

    @register_to_config
    def __init__(
        self, *, vocab_size: int = 32128, d_model: int = 512, d_kv: int = 64, d_ff: int = 2048, num_layers: int = 6,
        num_heads: int = 8, relative_attention_num_buckets: int = 32, relative_attention_max_distance: int = 128,
        dropout_rate: float = 0.1, layer_norm_epsilon: float = 1e-6, initializer_factor: float = 1.0,
        feed_forward_proj: str = "relu", dense_act_fn: str | None = None, is_gated_act: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        owner = type(self).__name__
        check_sizes(owner, self.config, "vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads")
        check_buckets(owner, self.config)
        self.register_to_config(**resolve_feed_forward(feed_forward_proj, dense_act_fn, is_gated_act))
        self.shared = embedding(vocab_size, d_model)
        self.encoder = T5Stack(self.config, self.bias_in_every_layer)
        initialize(self, initializer_factor)

    @classmethod
    def stored_tensors(cls, stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
        """The token vectors have two names; where a file has both, `shared` is the one that counts."""
        both = "shared.weight" in stored
        return super().stored_tensors(
            {n: t for n, t in stored.items() if not (both and cls.renamed(n) == "shared.weight" != n)}
        )

    def _dtype_of(self, name: str, stored: StoredTensor, wanted: torch.dtype | None) -> torch.dtype:
        """`wo` stays fp32 in fp16 only: bf16 has the range that the large models need."""
        return wanted if wanted is torch.bfloat16 else super()._dtype_of(name, stored, wanted)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.shared

    @output_or_tuple
    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        output_hidden_states: bool = False,
        return_dict: bool = True,
    ) -> T5EncoderOutput | tuple[torch.Tensor | tuple[torch.Tensor, ...], ...]:
        """Hidden states of every token."""
        self.check_tokens(input_ids, attention_mask)
        states = self.encoder(self.shared(input_ids), attention_mask)
        output = T5EncoderOutput(states[-1], states if output_hidden_states else None)
        return output if return_dict else output.to_tuple()


class UMT5EncoderModel(T5EncoderModel):
    """UMT5's encoder alone (arXiv:2304.09151): every layer has position biases of its own."""

    model_type = "umt5"
    bias_in_every_layer = True
    __init__ = with_defaults(
        T5EncoderModel.__init__,
        vocab_size=250112, d_ff=1024, num_layers=8, num_heads=6, feed_forward_proj="gated-gelu",
    )  # fmt: skip


def check_buckets(owner: str, config: Mapping[str, Any]) -> None:
    """Refuse position buckets that cannot be divided into near and far ones on both sides."""
    buckets, distance = config["relative_attention_num_buckets"], config["relative_attention_max_distance"]
    if buckets < 4 or distance <= buckets // 4:
        raise ConfigError(
            f"{owner} wants relative_attention_num_buckets of at least 4 and a relative_attention_max_distance above a "
            f"quarter of it, got {buckets} and {distance}."
        )


def resolve_feed_forward(proj: str, act: str | None, gated: bool | None) -> dict[str, str | bool]:
    """`feed_forward_proj` says it in one word ("gated-gelu"); files of other versions say it in two values."""
    kind, _, name = proj.rpartition("-")
    if kind not in ("", "gated"):
        raise ConfigError(
            f"Config value 'feed_forward_proj' wants 'gated-<activation>' or '<activation>', got {proj!r}."
        )
    said_act, said_gated = "gelu_new" if proj == "gated-gelu" else name, kind == "gated"
    act, gated = act or said_act, said_gated if gated is None else gated
    if (act, gated) == (said_act, said_gated):
        return {"dense_act_fn": act, "is_gated_act": gated}
    return {"dense_act_fn": act, "is_gated_act": gated, "feed_forward_proj": f"gated-{act}" if gated else act}


def initialize(model: T5EncoderModel, factor: float) -> None:
    """The published initialisation: it has the attention's scale in it."""
    if model.shared.weight.is_meta:
        return
    width, heads, head_width, hidden = (model.config[name] for name in ("d_model", "num_heads", "d_kv", "d_ff"))
    nn.init.normal_(model.shared.weight, std=factor)
    for module in model.modules():
        if isinstance(module, T5Attention):
            nn.init.normal_(module.q.weight, std=factor * (width * head_width) ** -0.5)
            nn.init.normal_(module.k.weight, std=factor * width**-0.5)
            nn.init.normal_(module.v.weight, std=factor * width**-0.5)
            nn.init.normal_(module.o.weight, std=factor * (heads * head_width) ** -0.5)
            if module.has_bias:
                nn.init.normal_(module.relative_attention_bias.weight, std=factor * width**-0.5)
        elif isinstance(module, RMSNorm):
            nn.init.constant_(module.weight, factor)
        elif isinstance(module, T5DenseActDense):
            nn.init.normal_(module.wi.weight, std=factor * width**-0.5)
            nn.init.normal_(module.wo.weight, std=factor * hidden**-0.5)
        elif isinstance(module, T5DenseGatedActDense):
            nn.init.normal_(module.wi_0.weight, std=factor * width**-0.5)
            nn.init.normal_(module.wi_1.weight, std=factor * width**-0.5)
            nn.init.normal_(module.wo.weight, std=factor * hidden**-0.5)
