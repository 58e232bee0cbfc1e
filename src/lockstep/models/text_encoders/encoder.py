"""What the text encoders share: transformers' file names and config keys, activations, and the check of token ids."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from ...attention import ProcessorMixin, dispatch_attention_fn
from ...configuration import ConfigMixin
from ...errors import ConfigError, InputError
from ..modeling import ModelMixin


def quick_gelu(x: torch.Tensor) -> torch.Tensor:
    """The sigmoid approximation of GELU that the first CLIP models were trained with (arXiv:1606.08415)."""
    return x * torch.sigmoid(1.702 * x)


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    """The tanh approximation of GELU (arXiv:1606.08415)."""
    return F.gelu(x, approximate="tanh")


def gelu_new(x: torch.Tensor) -> torch.Tensor:
    """The same, operation by operation: in half precision each rounds, and the published T5 outputs have it so."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "quick_gelu": quick_gelu,
    "gelu": F.gelu,
    "gelu_new": gelu_new,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
}


def activation(name: str, key: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """The activation that the config value `key` names."""
    if name not in ACTIVATIONS:
        raise ConfigError(f"Config value {key!r} wants one of {', '.join(sorted(ACTIVATIONS))}; got {name!r}.")
    return ACTIVATIONS[name]


def embedding(count: int, width: int) -> nn.Embedding:
    """A table without values yet: those that torch draws on `meta` would cost a second of imports at every load."""
    return nn.Embedding(count, width, _weight=torch.empty(count, width))


class RMSNorm(nn.Module):
    """Root mean square norm (arXiv:1910.07467), computed in fp32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean_square = x.float().pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(mean_square + self.eps)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            x = x.to(self.weight.dtype)
        return self.weight * x


def causal_mask(attention_mask_BL: torch.Tensor | None) -> torch.Tensor | None:
    """Which token sees which, when some are padding (without padding the attention is simply told to be causal)."""
    if attention_mask_BL is None:
        return None
    length = attention_mask_BL.shape[1]
    causal_LL = torch.ones(length, length, dtype=torch.bool, device=attention_mask_BL.device).tril()
    return causal_LL & attention_mask_BL.bool()[:, None, None, :]


class TextAttnProcessor(ProcessorMixin):
    """What the attention of the text encoders has in common; a model says with which mask and scale it mixes."""

    def mix(
        self, attn: Any, projected: tuple[torch.Tensor, ...], mask: torch.Tensor | None, **how: Any
    ) -> torch.Tensor:
        """Every query's mix of the values, BLD; `projected` are query, key and value."""
        query, key, value = (part.unflatten(-1, (attn.heads, -1)) for part in projected)
        return self.attend(attn, query, key, value, mask, **how)

    def attend(
        self, attn: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
        **how: Any,
    ) -> torch.Tensor:  # fmt: skip
        """The same for what is divided into heads already, BLHK."""
        mixed_BLHK = dispatch_attention_fn(
            query, key, value, attn_mask=mask, dropout_p=attn.dropout if attn.training else 0.0,
            backend=self._attention_backend, parallel_config=self._parallel_config, **how,
        )  # fmt: skip
        return mixed_BLHK.flatten(2)


class TransformersModel(ModelMixin, ConfigMixin):
    """A model in files that transformers reads and writes."""

    weights_name = "model.safetensors"
    model_type: ClassVar[str]
    # Written anew on save: a stale class or dtype in the file would make another library load the weights wrongly.
    ignored_config_keys = frozenset({"architectures", "model_type", "dtype", "torch_dtype"})

    @classmethod
    def class_name_in_config(cls) -> dict[str, Any]:
        return {"architectures": [cls.__name__], "model_type": cls.model_type}

    def config_to_json(self) -> str:
        values = json.loads(super().config_to_json())
        dtype = next(self.parameters()).dtype
        return json.dumps({**values, "dtype": str(dtype).removeprefix("torch.")}, indent=2, sort_keys=True) + "\n"


class TextEncoder(TransformersModel):
    """Token ids to hidden states."""

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of token vectors."""
        raise NotImplementedError

    @torch.no_grad()
    def resize_token_embeddings(self, new_num_tokens: int | None = None) -> nn.Embedding:
        """So many rows in the table, those that are new at the mean of the old ones; without a number as it is."""
        table = self.get_input_embeddings()
        if new_num_tokens is None or new_num_tokens == table.num_embeddings:
            return table
        if new_num_tokens < 1:
            raise InputError(f"A table of tokens wants at least one row, got {new_num_tokens}.")
        old = table.weight
        more = old.mean(0, keepdim=True).expand(max(new_num_tokens - len(old), 0), -1)
        table.weight = nn.Parameter(torch.cat([old[:new_num_tokens], more]), requires_grad=old.requires_grad)
        table.num_embeddings = new_num_tokens
        self.register_to_config(vocab_size=new_num_tokens)
        return table

    def check_tokens(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None, max_length: int | None = None
    ) -> None:
        """Refuse token ids that the table does not have, sequences that the positions do not reach, and other masks."""
        owner, vocab_size = type(self).__name__, self.get_input_embeddings().num_embeddings
        if not isinstance(input_ids, torch.Tensor) or input_ids.dtype not in (torch.int64, torch.int32):
            got = input_ids.dtype if isinstance(input_ids, torch.Tensor) else type(input_ids).__name__
            raise InputError(
                f"{owner} wants input_ids as a tensor of int64 or int32, got {got}. Tokenize the text first."
            )
        if input_ids.ndim != 2 or input_ids.shape[1] == 0:
            raise InputError(f"{owner} wants input_ids of shape (batch, tokens), got {tuple(input_ids.shape)}.")
        if attention_mask is not None and getattr(attention_mask, "shape", None) != input_ids.shape:
            wrong = tuple(attention_mask.shape) if hasattr(attention_mask, "shape") else type(attention_mask).__name__
            raise InputError(
                f"{owner} wants an attention_mask of the shape of input_ids {tuple(input_ids.shape)}, got {wrong}."
            )
        if max_length is not None and input_ids.shape[1] > max_length:
            raise InputError(
                f"{owner} takes at most {max_length} tokens (max_position_embeddings), got {input_ids.shape[1]}. "
                f"Tokenize with truncation=True, max_length={max_length}, or encode the text in parts."
            )
        if torch.compiler.is_compiling() or input_ids.device.type == "meta" or input_ids.numel() == 0:
            return  # the values cannot be looked at there
        low, high = (int(bound) for bound in torch.aminmax(input_ids))
        if low < 0 or high >= vocab_size:
            raise InputError(
                f"{owner} has a vocabulary of {vocab_size} tokens (ids 0 to {vocab_size - 1}), "
                f"got id {low if low < 0 else high}. "
                "The tokenizer belongs to another model, or tokens were added to it without widening the embedding."
            )
