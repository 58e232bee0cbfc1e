"""CLIP's text transformer (arXiv:2103.00020): what Stable Diffusion 1.x, 2.x and XL read their prompts with.

Axes: B batch, L tokens, D width, H heads, K = D / H. A tensor without suffix is BLD; any other shape is in the name.
Tensor names are the published ones (`text_model.…`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from ...attention import AttentionModuleMixin
from ...configuration import register_to_config
from ...errors import ConfigError, InputError
from ...outputs import Output, output_or_tuple
from ..modeling import check_divisible, check_sizes, checkpointed
from .encoder import TextAttnProcessor, TextEncoder, activation, causal_mask, embedding

SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "max_position_embeddings", "projection_dim",
)  # fmt: skip


@dataclass(kw_only=True)
class CLIPTextModelOutput(Output):
    """`hidden_states` are the embeddings and then each layer's output, before the final norm."""

    text_embeds: torch.Tensor | None = None
    last_hidden_state: torch.Tensor
    pooler_output: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


class CLIPTextEmbeddings(nn.Module):
    """Token vectors plus learned position vectors."""

    def __init__(self, vocab_size: int, width: int, max_positions: int) -> None:
        super().__init__()
        self.token_embedding = embedding(vocab_size, width)
        self.position_embedding = embedding(max_positions, width)

    def forward(self, input_ids_BL: torch.Tensor, position_ids_BL: torch.Tensor | None) -> torch.Tensor:
        if position_ids_BL is None:
            position_ids_BL = torch.arange(input_ids_BL.shape[1], device=input_ids_BL.device)[None]
        return self.token_embedding(input_ids_BL) + self.position_embedding(position_ids_BL)


class CLIPAttnProcessor(TextAttnProcessor):
    """Plain attention: everything to the left (and the token itself), as far as the mask lets."""

    def __call__(self, attn: CLIPAttention, x: torch.Tensor, mask_B1LL: torch.Tensor | None) -> torch.Tensor:
        qkv = attn.to_qkv(x) if attn.fused_projections else (attn.q_proj(x), attn.k_proj(x), attn.v_proj(x))
        return attn.out_proj(self.mix(attn, qkv, mask_B1LL, is_causal=mask_B1LL is None))


class CLIPAttention(nn.Module, AttentionModuleMixin):
    """Causal self-attention with biased projections."""

    _default_processor_cls = CLIPAttnProcessor
    _available_processors = (CLIPAttnProcessor,)
    _projection_names = ("q_proj", "k_proj", "v_proj")
    to_qkv: nn.Module  # the three in one, while they are fused

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)
        self.set_processor(CLIPAttnProcessor())

    def forward(self, x: torch.Tensor, mask_B1LL: torch.Tensor | None) -> torch.Tensor:
        return self.processor(self, x, mask_B1LL)


class CLIPMLP(nn.Module):
    """Widen, bend, narrow."""

    def __init__(self, width: int, hidden: int, hidden_act: str) -> None:
        super().__init__()
        self.activation_fn = activation(hidden_act, "hidden_act")
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.activation_fn(self.fc1(x)))


class CLIPEncoderLayer(nn.Module):
    """Attention and MLP, each after its norm and added to what came in."""

    def __init__(self, width: int, hidden: int, heads: int, hidden_act: str, eps: float, dropout: float) -> None:
        super().__init__()
        self.self_attn = CLIPAttention(width, heads, dropout)
        self.layer_norm1 = nn.LayerNorm(width, eps=eps)
        self.mlp = CLIPMLP(width, hidden, hidden_act)
        self.layer_norm2 = nn.LayerNorm(width, eps=eps)

    def forward(self, x: torch.Tensor, mask_B1LL: torch.Tensor | None) -> torch.Tensor:
        x = x + self.self_attn(self.layer_norm1(x), mask_B1LL)
        return x + self.mlp(self.layer_norm2(x))


class CLIPEncoder(nn.Module):
    """The stack of layers; returns what went in and what came out of each."""

    gradient_checkpointing = False

    def __init__(self, num_layers: int, *layer_config: int | str | float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(CLIPEncoderLayer(*layer_config) for _ in range(num_layers))  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor, mask_B1LL: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        states = [x]
        for layer in self.layers:
            states.append(checkpointed(self, layer, states[-1], mask_B1LL))
        return tuple(states)


class CLIPTextTransformer(nn.Module):
    """Embeddings, layers, final norm, and the state of the token that ends the text."""

    def __init__(
        self, vocab_size: int, width: int, max_positions: int, num_layers: int, hidden: int, heads: int,
        hidden_act: str, eps: float, dropout: float, eos_token_id: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.eos_token_id, self.vocab_size = eos_token_id, vocab_size
        self.embeddings = CLIPTextEmbeddings(vocab_size, width, max_positions)
        self.encoder = CLIPEncoder(num_layers, width, hidden, heads, hidden_act, eps, dropout)
        self.final_layer_norm = nn.LayerNorm(width, eps=eps)

    def forward(
        self, input_ids_BL: torch.Tensor, attention_mask_BL: torch.Tensor | None, position_ids_BL: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]:
        embedded = self.embeddings(input_ids_BL, position_ids_BL)
        states = self.encoder(embedded, causal_mask(attention_mask_BL))
        last = self.final_layer_norm(states[-1])
        return last, self.pool(last, input_ids_BL), states

    def pool(self, last: torch.Tensor, input_ids_BL: torch.Tensor) -> torch.Tensor:
        """The state at the first end-of-text token."""
        if self.eos_token_id == 2:  # the old configs name a wrong id; the end of text is the highest id of the row
            published_BL = input_ids_BL.where(
                input_ids_BL < self.vocab_size, 0
            )  # words that were added later lie above
            position_B = published_BL.to(torch.int).argmax(dim=-1)
        else:
            position_B = (input_ids_BL == self.eos_token_id).to(torch.int).argmax(dim=-1)
        rows_B = torch.arange(last.shape[0], device=last.device)
        return last[rows_B, position_B.to(last.device)]


class CLIPTextModel(TextEncoder):
    """CLIP's text transformer without a head (arXiv:2103.00020)."""

    model_type = "clip_text_model"
    ignored_tensors = (r"position_ids$",)
    tensor_renames = ((r"^(embeddings|encoder|final_layer_norm)\.", r"text_model.\1."),)  # as transformers 5 names them

    @register_to_config
    def __init__(
        self, *, vocab_size: int = 49408, hidden_size: int = 512, intermediate_size: int = 2048,
        projection_dim: int | None = 512, num_hidden_layers: int = 12, num_attention_heads: int = 8,
        max_position_embeddings: int = 77, hidden_act: str = "quick_gelu", layer_norm_eps: float = 1e-5,
        attention_dropout: float = 0.0, initializer_range: float = 0.02, initializer_factor: float = 1.0,
        pad_token_id: int | None = 1, bos_token_id: int | None = 49406, eos_token_id: int = 49407,
    ) -> None:  # fmt: skip
        super().__init__()
        owner = type(self).__name__
        check_sizes(owner, self.config, *SIZES)
        check_divisible(owner, "hidden_size", hidden_size, "num_attention_heads", num_attention_heads)
        self.text_model = CLIPTextTransformer(
            vocab_size, hidden_size, max_position_embeddings, num_hidden_layers, intermediate_size,
            num_attention_heads, hidden_act, layer_norm_eps, attention_dropout, eos_token_id,
        )  # fmt: skip
        initialize(self.text_model, hidden_size, num_hidden_layers, initializer_factor)
        self.build_head(hidden_size, projection_dim, initializer_factor)

    def build_head(self, width: int, projection_dim: int | None, factor: float) -> None:
        """Make what comes after the transformer: here nothing."""

    def head(self, pooled: torch.Tensor) -> dict[str, torch.Tensor]:
        """The output that belongs to the whole text: here the state at its end, as it is."""
        return {"pooler_output": pooled}

    def get_input_embeddings(self) -> nn.Embedding:
        return self.text_model.embeddings.token_embedding

    @output_or_tuple
    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        output_hidden_states: bool = False,
        return_dict: bool = True,
    ) -> CLIPTextModelOutput | tuple[torch.Tensor | tuple[torch.Tensor, ...], ...]:
        """Hidden states of every token, and what the head makes of the one at the end of the text."""
        self.check_inputs(input_ids, attention_mask, position_ids)
        last, pooled, states = self.text_model(input_ids, attention_mask, position_ids)
        output = CLIPTextModelOutput(
            **self.head(pooled), last_hidden_state=last, hidden_states=states if output_hidden_states else None
        )
        return output if return_dict else output.to_tuple()

    def check_inputs(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None, position_ids: torch.Tensor | None
    ) -> None:
        most = self.text_model.embeddings.position_embedding.num_embeddings
        self.check_tokens(input_ids, attention_mask, most)
        if position_ids is None or torch.compiler.is_compiling() or position_ids.device.type == "meta":
            return
        low, high = (int(bound) for bound in torch.aminmax(position_ids))
        if low < 0 or high >= most or position_ids.shape[-1] != input_ids.shape[1]:
            raise InputError(
                f"{type(self).__name__} wants position_ids from 0 to {most - 1}, one for each of {input_ids.shape[1]} "
                f"tokens, got {low} to {high} in shape {tuple(position_ids.shape)}."
            )


class CLIPTextModelWithProjection(CLIPTextModel):
    """CLIP's text transformer with the linear map into the space that text and images share (arXiv:2103.00020)."""

    text_projection: nn.Linear

    def build_head(self, width: int, projection_dim: int | None, factor: float) -> None:
        if projection_dim is None:
            raise ConfigError("CLIPTextModelWithProjection: config value 'projection_dim' wants int, got None.")
        self.text_projection = nn.Linear(width, projection_dim, bias=False)
        if not self.text_projection.weight.is_meta:
            nn.init.normal_(self.text_projection.weight, std=factor * width**-0.5)

    def head(self, pooled: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"text_embeds": self.text_projection(pooled)}


def initialize(transformer: CLIPTextTransformer, width: int, num_layers: int, factor: float) -> None:
    """The published initialisation: residual branches start smaller the deeper the stack is (arXiv:2103.00020, 2.5)."""
    if transformer.final_layer_norm.weight.is_meta:
        return
    residual = width**-0.5 * (2 * num_layers) ** -0.5
    for module in transformer.modules():
        if isinstance(module, CLIPTextEmbeddings):
            nn.init.normal_(module.token_embedding.weight, std=0.02 * factor)
            nn.init.normal_(module.position_embedding.weight, std=0.02 * factor)
        elif isinstance(module, CLIPAttention):
            for projection in (module.q_proj, module.k_proj, module.v_proj):
                nn.init.normal_(projection.weight, std=residual * factor)
            nn.init.normal_(module.out_proj.weight, std=width**-0.5 * factor)
        elif isinstance(module, CLIPMLP):
            nn.init.normal_(module.fc1.weight, std=(2 * width) ** -0.5 * factor)
            nn.init.normal_(module.fc2.weight, std=residual * factor)
        elif isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
