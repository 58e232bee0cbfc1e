"""CLIP's vision transformer (arXiv:2103.00020): pictures to vectors in the space that they share with texts.

Axes: B batch, C channels, S side in pixels, L patches and the class token before them, D width. A tensor without suffix
is BLD; any other shape is in the name. Tensor names are the published ones (`vision_model.…`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from ...configuration import register_to_config
from ...errors import InputError
from ...outputs import Output, output_or_tuple
from ..modeling import check_divisible, check_sizes
from ..text_encoders.clip import CLIPEncoder
from ..text_encoders.encoder import TransformersModel, embedding

SIZES = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_channels", "image_size",
    "patch_size", "projection_dim",
)  # fmt: skip
PARTS = r"(embeddings|pre_layrnorm|encoder|post_layernorm)"


@dataclass(kw_only=True)
class CLIPVisionModelOutput(Output):
    """`hidden_states` are the embeddings and then each layer's output; the pooled one is the class token's."""

    image_embeds: torch.Tensor | None = None
    last_hidden_state: torch.Tensor
    pooler_output: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


class CLIPVisionEmbeddings(nn.Module):
    """A vector for each patch, the class token before them, and learned position vectors."""

    def __init__(self, width: int, channels: int, image_size: int, patch_size: int) -> None:
        super().__init__()
        self.class_embedding = nn.Parameter(torch.zeros(width))
        self.patch_embedding = nn.Conv2d(channels, width, kernel_size=patch_size, stride=patch_size, bias=False)
        self.position_embedding = embedding((image_size // patch_size) ** 2 + 1, width)

    def forward(self, pixels_BCSS: torch.Tensor) -> torch.Tensor:
        patches = self.patch_embedding(pixels_BCSS).flatten(2).transpose(1, 2)
        first = self.class_embedding.expand(len(pixels_BCSS), 1, -1)
        return torch.cat([first, patches], dim=1) + self.position_embedding.weight


class CLIPVisionTransformer(nn.Module):
    """Embeddings, a norm, layers in which every token sees every other, and the class token's norm."""

    def __init__(
        self, width: int, channels: int, image_size: int, patch_size: int, num_layers: int, hidden: int, heads: int,
        hidden_act: str, eps: float, dropout: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.embeddings = CLIPVisionEmbeddings(width, channels, image_size, patch_size)
        self.pre_layrnorm = nn.LayerNorm(width, eps=eps)  # the published name is misspelt
        self.encoder = CLIPEncoder(num_layers, width, hidden, heads, hidden_act, eps, dropout)
        self.post_layernorm = nn.LayerNorm(width, eps=eps)

    def forward(self, pixels_BCSS: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        embedded = self.pre_layrnorm(self.embeddings(pixels_BCSS))
        length = embedded.shape[1]
        everything_11LL = torch.ones(1, 1, length, length, dtype=torch.bool, device=embedded.device)
        states = self.encoder(embedded, everything_11LL)
        return self.post_layernorm(states[-1][:, 0]), states


class CLIPVisionModel(TransformersModel):
    """CLIP's vision transformer without a head (arXiv:2103.00020)."""

    model_type = "clip_vision_model"
    index_library = "transformers"
    ignored_tensors = (r"position_ids$",)
    tensor_renames = ((rf"^{PARTS}\.", r"vision_model.\1."),)  # as transformers 5 names them

    @register_to_config
    def __init__(
        self, *, hidden_size: int = 768, intermediate_size: int = 3072, projection_dim: int = 512,
        num_hidden_layers: int = 12, num_attention_heads: int = 12, num_channels: int = 3, image_size: int = 224,
        patch_size: int = 32, hidden_act: str = "quick_gelu", layer_norm_eps: float = 1e-5,
        attention_dropout: float = 0.0, initializer_range: float = 0.02, initializer_factor: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__()
        owner = type(self).__name__
        check_sizes(owner, self.config, *SIZES)
        check_divisible(owner, "hidden_size", hidden_size, "num_attention_heads", num_attention_heads)
        self.vision_model = CLIPVisionTransformer(
            hidden_size, num_channels, image_size, patch_size, num_hidden_layers, intermediate_size,
            num_attention_heads, hidden_act, layer_norm_eps, attention_dropout,
        )  # fmt: skip
        self.build_head(hidden_size, projection_dim)

    def build_head(self, width: int, projection_dim: int) -> None:
        """Make what comes after the transformer: here nothing."""

    def head(self, pooled: torch.Tensor) -> dict[str, torch.Tensor]:
        """The output that belongs to the whole picture: here the class token's state, as it is."""
        return {"pooler_output": pooled}

    @output_or_tuple
    def forward(
        self, pixel_values: torch.Tensor, output_hidden_states: bool = False, return_dict: bool = True
    ) -> CLIPVisionModelOutput | tuple[torch.Tensor | tuple[torch.Tensor, ...], ...]:
        """Hidden states of every patch, and what the head makes of the class token."""
        side, channels = self.config["image_size"], self.config["num_channels"]
        if tuple(pixel_values.shape[1:]) != (channels, side, side):
            raise InputError(
                f"{type(self).__name__} wants pixel_values of shape (batch, {channels}, {side}, {side}), got "
                f"{tuple(pixel_values.shape)}. CLIPImageProcessor makes them."
            )
        pooled, states = self.vision_model(pixel_values.to(self.dtype))
        output = CLIPVisionModelOutput(
            **self.head(pooled), last_hidden_state=states[-1], hidden_states=states if output_hidden_states else None
        )
        return output if return_dict else output.to_tuple()


class CLIPVisionModelWithProjection(CLIPVisionModel):
    """CLIP's vision transformer with the linear map into the space that text and images share (arXiv:2103.00020)."""

    visual_projection: nn.Linear

    def build_head(self, width: int, projection_dim: int) -> None:
        self.visual_projection = nn.Linear(width, projection_dim, bias=False)

    def head(self, pooled: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"image_embeds": self.visual_projection(pooled)}
