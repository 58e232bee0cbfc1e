"""What IP-Adapters (arXiv:2308.06721) make of a picture's CLIP encoding: tokens that a UNet attends to beside the text.

Axes: B batch, N pictures, L tokens, D width, H heads, K = 64. A plain adapter reads one vector per picture (BD), FaceID
that of a face recogniser (BD or B1D), the others CLIP's hidden states (BLD); tokens are BLD. Tensor names are the
published ones.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from ...attention import dispatch_attention_fn
from ...errors import InputError

Tensor = torch.Tensor
HEAD_WIDTH = 64


class ImageProjection(nn.Module):
    """One vector per picture to a few tokens."""

    reads_hidden_states = False

    def __init__(self, image_embed_dim: int, cross_attention_dim: int, num_image_text_embeds: int = 4) -> None:
        super().__init__()
        self.num_image_text_embeds = num_image_text_embeds
        self.image_embeds = nn.Linear(image_embed_dim, num_image_text_embeds * cross_attention_dim)
        self.norm = nn.LayerNorm(cross_attention_dim)

    @property
    def width(self) -> int:
        """How wide the encoding is that it reads."""
        return self.image_embeds.in_features

    def forward(self, image_embeds: Tensor) -> Tensor:
        tokens = self.image_embeds(image_embeds).unflatten(-1, (self.num_image_text_embeds, -1))
        return self.norm(tokens)


class GELU(nn.Module):
    """A projection and the exact GELU."""

    def __init__(self, width: int, hidden: int, bias: bool) -> None:
        super().__init__()
        self.proj = nn.Linear(width, hidden, bias=bias)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return F.gelu(self.proj(hidden_states))


class FeedForward(nn.Module):
    """Projection, GELU, projection; the published files number them 0 and 2."""

    def __init__(self, width: int, hidden: int, outgoing: int, bias: bool) -> None:
        super().__init__()
        self.net = nn.ModuleList([GELU(width, hidden, bias), nn.Identity(), nn.Linear(hidden, outgoing, bias=bias)])

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.net[2](self.net[0](hidden_states))


class IPAdapterFullImageProjection(nn.Module):
    """Every hidden state of CLIP to a token of its own (full face)."""

    reads_hidden_states = True

    def __init__(self, image_embed_dim: int, cross_attention_dim: int) -> None:
        super().__init__()
        self.ff = FeedForward(image_embed_dim, image_embed_dim, cross_attention_dim, bias=True)
        self.norm = nn.LayerNorm(cross_attention_dim)

    @property
    def width(self) -> int:
        return typing.cast(GELU, self.ff.net[0]).proj.in_features

    def forward(self, image_embeds: Tensor) -> Tensor:
        return self.norm(self.ff(image_embeds))


class IPAdapterFaceIDImageProjection(nn.Module):
    """The vector that a face recogniser has for a face, to a few tokens (FaceID)."""

    reads_hidden_states = False
    reads_faces = True

    def __init__(self, image_embed_dim: int, cross_attention_dim: int, hidden: int, num_tokens: int) -> None:
        super().__init__()
        self.num_tokens = num_tokens
        self.ff = FeedForward(image_embed_dim, hidden, cross_attention_dim * num_tokens, bias=True)
        self.norm = nn.LayerNorm(cross_attention_dim)

    @property
    def width(self) -> int:
        return typing.cast(GELU, self.ff.net[0]).proj.in_features

    def forward(self, image_embeds: Tensor) -> Tensor:
        return self.norm(self.ff(image_embeds).reshape(len(image_embeds), self.num_tokens, -1))


class ResamplerAttention(nn.Module):
    """Learned queries attend to CLIP's hidden states and to themselves."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        inner = heads * HEAD_WIDTH
        self.heads = heads
        self.to_q = nn.Linear(width, inner, bias=False)
        self.to_k = nn.Linear(width, inner, bias=False)
        self.to_v = nn.Linear(width, inner, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(inner, width, bias=False)])

    def forward(self, queries: Tensor, source: Tensor) -> Tensor:
        query_BLHK, key_BLHK, value_BLHK = (
            projected.unflatten(-1, (self.heads, -1))
            for projected in (self.to_q(queries), self.to_k(source), self.to_v(source))
        )
        return self.to_out[0](dispatch_attention_fn(query_BLHK, key_BLHK, value_BLHK).flatten(2))


class IPAdapterPlusImageProjectionBlock(nn.Module):
    """Attention and feed-forward, each added."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.ln0 = nn.LayerNorm(width)
        self.ln1 = nn.LayerNorm(width)
        self.attn = ResamplerAttention(width, heads)
        self.ff = nn.Sequential(nn.LayerNorm(width), FeedForward(width, hidden, width, bias=False))

    def forward(self, picture: Tensor, latents: Tensor) -> Tensor:
        queries = self.ln1(latents)
        source = torch.cat([self.ln0(picture), queries], dim=1)
        latents = latents + self.attn(queries, source)
        return latents + self.ff(latents)


class IPAdapterPlusImageProjection(nn.Module):
    """The resampler of IP-Adapter Plus: learned queries become the tokens (Perceiver, arXiv:2103.03206)."""

    reads_hidden_states = True

    def __init__(
        self,
        embed_dims: int,
        output_dims: int,
        hidden_dims: int,
        depth: int,
        heads: int,
        num_queries: int,
        ffn_dims: int,
    ) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.zeros(1, num_queries, hidden_dims))
        self.proj_in = nn.Linear(embed_dims, hidden_dims)
        self.proj_out = nn.Linear(hidden_dims, output_dims)
        self.norm_out = nn.LayerNorm(output_dims)
        self.layers = nn.ModuleList(
            IPAdapterPlusImageProjectionBlock(hidden_dims, heads, ffn_dims) for _ in range(depth)
        )

    @property
    def width(self) -> int:
        return self.proj_in.in_features

    def forward(self, image_embeds: Tensor) -> Tensor:
        latents = self.latents.expand(len(image_embeds), -1, -1)
        picture = self.proj_in(image_embeds)
        for layer in self.layers:
            latents = layer(picture, latents)
        return self.norm_out(self.proj_out(latents))


def reads_faces(projection: nn.Module) -> bool:
    """Whether it reads what a face recogniser makes of a picture, and not CLIP."""
    return bool(getattr(projection, "reads_faces", False))


class MultiIPAdapterImageProjection(nn.Module):
    """The projections of all IP-Adapters of a UNet, each on its own pictures."""

    def __init__(self, projections: Sequence[nn.Module]) -> None:
        super().__init__()
        self.image_projection_layers = nn.ModuleList(projections)

    @property
    def num_ip_adapters(self) -> int:
        return len(self.image_projection_layers)

    def forward(self, image_embeds: Sequence[Tensor]) -> list[Tensor]:
        """Encodings of (batch, pictures, …) to tokens of (batch, pictures, tokens, width), adapter by adapter."""
        pairs = zip(image_embeds, self.image_projection_layers, strict=True)
        return [project(encoding.flatten(0, 1)).unflatten(0, encoding.shape[:2]) for encoding, project in pairs]

    def check(self, image_embeds: Sequence[Tensor], batch: int | None = None) -> None:
        """An encoding for each adapter, of the width and the kind that it reads."""
        if len(image_embeds) != self.num_ip_adapters:
            raise InputError(
                f"There are {self.num_ip_adapters} IP-Adapters, so image_embeds wants as many tensors, got "
                f"{len(image_embeds)}."
            )
        for index, (encoding, project) in enumerate(zip(image_embeds, self.image_projection_layers, strict=True)):
            shape = tuple(encoding.shape) if isinstance(encoding, Tensor) else (type(encoding).__name__,)
            face = reads_faces(project) and len(shape) == 4 and shape[2] == 1
            between = ["1"] if face else ["tokens"] if project.reads_hidden_states else []
            axes = ("batch", "pictures", *between, "width")
            if len(shape) != len(axes) or shape[-1] != project.width or batch not in (None, shape[0]):
                wanted = ", ".join([str(batch or "batch"), *axes[1:-1], str(project.width)])
                raise InputError(
                    f"image_embeds: tensor {index} has to be ({wanted}) for {type(project).__name__}, got {shape}. "
                    "Is the image encoder the one that belongs to the adapter?"
                )
