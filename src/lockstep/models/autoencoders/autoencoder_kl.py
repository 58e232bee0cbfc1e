"""The variational autoencoder of latent diffusion models (arXiv:2112.10752, section 3.1): SD, SDXL, FLUX.1.

Axes: N batch, C channels, H and W pixels, h and w latent positions, L = h * w positions as tokens.
A tensor without suffix is NCHW at the resolution of its block; any other shape is in the name.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...attention import AttentionModuleMixin, PublishedAttention, dispatch_attention_fn
from ...configuration import ConfigMixin, register_to_config
from ...errors import ConfigError, InputError
from ...outputs import Output, output_or_tuple
from ..layers import get_activation
from ..modeling import ModelMixin, check_divisible, check_sizes, checkpointed
from ..weights import StoredTensor
from .parts import (
    AutoencoderMixin,
    Conv2d,
    DecoderOutput,
    GroupNorm,
    Linear,
    Tiles,
    check_latents,
    check_pixels,
    compute_dtype,
    in_tiles,
    reconstructed,
)

NORM_EPS = 1e-6
DOWN_BLOCKS = ("DownEncoderBlock2D", "AttnDownEncoderBlock2D")
UP_BLOCKS = ("UpDecoderBlock2D", "AttnUpDecoderBlock2D")
ATTENTION_PROJECTION = re.compile(r"attentions\.\d+\.(to_q|to_k|to_v|to_out\.0)\.weight$")


@dataclass(frozen=True)
class Body:
    """What encoder and decoder have in common: the width of each resolution, how many residual blocks, and of what."""

    widths: tuple[int, ...]
    layers: int
    groups: int
    act_fn: str
    mid_attends: bool

    def resnet(self, in_channels: int, out_channels: int) -> ResnetBlock2D:
        return ResnetBlock2D(in_channels, out_channels, self.groups, self.act_fn)


class AttnProcessor:
    """Positions attend to all positions, as one sequence of tokens, around a shortcut."""

    _attention_backend: str | None = None

    def __call__(self, attn: Attention, hidden: Tensor) -> Tensor:
        hidden_NLC = attn.group_norm(hidden).flatten(2).transpose(1, 2)
        if attn.fused_projections:
            query, key, value = attn.to_qkv(hidden_NLC)
        else:
            query, key, value = attn.to_q(hidden_NLC), attn.to_k(hidden_NLC), attn.to_v(hidden_NLC)
        query, key, value = (x.unflatten(-1, (attn.heads, -1)) for x in (query, key, value))
        mixed = dispatch_attention_fn(query, key, value, backend=self._attention_backend).flatten(2)
        # The first summand decides the memory layout of what follows; this one is channels last, as in the reference.
        return attn.to_out[0](mixed).transpose(1, 2).unflatten(2, hidden.shape[-2:]) + hidden


class Attention(nn.Module, AttentionModuleMixin, PublishedAttention):
    """Self-attention over the positions of a feature map, around a shortcut; one head as wide as the map."""

    _default_processor_cls = AttnProcessor
    _available_processors = (AttnProcessor,)
    _fusable_classes = (Linear,)
    residual_connection = True
    to_qkv: Callable[[Tensor], tuple[Tensor, ...]]  # while the projections are fused

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.group_norm = GroupNorm(groups, channels, eps=NORM_EPS)
        self.to_q = Linear(channels, channels)
        self.to_k = Linear(channels, channels)
        self.to_v = Linear(channels, channels)
        self.to_out = nn.ModuleList([Linear(channels, channels), nn.Identity()])
        self.describe_widths(channels, channels, heads=1)
        self.set_processor(AttnProcessor())

    def forward(self, hidden: Tensor) -> Tensor:
        return self.processor(self, hidden)


class ResnetBlock2D(nn.Module):
    """Two normalised convolutions around a shortcut (a 1x1 convolution where the width changes)."""

    def __init__(self, in_channels: int, out_channels: int, groups: int, act_fn: str) -> None:
        super().__init__()
        self.norm1 = GroupNorm(groups, in_channels, eps=NORM_EPS)
        self.conv1 = Conv2d(in_channels, out_channels, 3, padding=1)
        self.norm2 = GroupNorm(groups, out_channels, eps=NORM_EPS)
        self.conv2 = Conv2d(out_channels, out_channels, 3, padding=1)
        self.nonlinearity = get_activation(act_fn)
        self.conv_shortcut = Conv2d(in_channels, out_channels, 1) if in_channels != out_channels else None

    def forward(self, hidden: Tensor) -> Tensor:
        residual = self.conv1(self.nonlinearity(self.norm1(hidden)))
        residual = self.conv2(self.nonlinearity(self.norm2(residual)))
        if self.conv_shortcut is not None:
            hidden = self.conv_shortcut(hidden)
        return hidden + residual


class Downsample2D(nn.Module):
    """Halves the map; the padding is on the right and below only."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = Conv2d(channels, channels, 3, stride=2)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.conv(F.pad(hidden, (0, 1, 0, 1)))


class Upsample2D(nn.Module):
    """Doubles the map: nearest neighbours, then a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = Conv2d(channels, channels, 3, padding=1)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.conv(F.interpolate(hidden, scale_factor=2.0, mode="nearest"))


class ResnetStack(nn.Module):
    """Residual blocks, in one variant each with an attention after it, then another resolution, except in the last."""

    samplers: ClassVar[tuple[str, type[nn.Module]]]  # the published name of the list, and what is in it

    def __init__(
        self, in_channels: int, out_channels: int, layers: int, body: Body, attends: bool, is_last: bool
    ) -> None:
        super().__init__()
        widths = [in_channels] + [out_channels] * (layers - 1)
        self.resnets = nn.ModuleList(body.resnet(width, out_channels) for width in widths)
        attentions = (Attention(out_channels, body.groups) for _ in range(layers))
        self.attentions = nn.ModuleList(attentions) if attends else None
        name, sampler = self.samplers
        setattr(self, name, None if is_last else nn.ModuleList([sampler(out_channels)]))

    def forward(self, hidden: Tensor) -> Tensor:
        for index, resnet in enumerate(self.resnets):
            hidden = resnet(hidden)
            if self.attentions is not None:
                hidden = self.attentions[index](hidden)
        samplers = getattr(self, self.samplers[0])
        return hidden if samplers is None else samplers[0](hidden)


class DownEncoderBlock2D(ResnetStack):
    """Half the resolution at its end."""

    samplers = ("downsamplers", Downsample2D)


class UpDecoderBlock2D(ResnetStack):
    """Twice the resolution at its end."""

    samplers = ("upsamplers", Upsample2D)


class UNetMidBlock2D(nn.Module):
    """Two residual blocks at the lowest resolution, with an attention between them where the config asks for it."""

    gradient_checkpointing = False

    def __init__(self, channels: int, body: Body) -> None:
        super().__init__()
        before = body.resnet(channels, channels)
        self.attentions = nn.ModuleList([Attention(channels, body.groups)] if body.mid_attends else [])
        self.resnets = nn.ModuleList([before, body.resnet(channels, channels)])

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = checkpointed(self, self.resnets[0], hidden)
        for attention in self.attentions:
            hidden = attention(hidden)
        return checkpointed(self, self.resnets[1], hidden)


class Encoder(nn.Module):
    """Pictures to the mean and log variance of their latents."""

    gradient_checkpointing = False

    def __init__(self, in_channels: int, out_channels: int, block_types: tuple[str, ...], body: Body) -> None:
        super().__init__()
        widths = body.widths
        self.conv_in = Conv2d(in_channels, widths[0], 3, padding=1)
        self.down_blocks = nn.ModuleList()
        for index, (kind, width) in enumerate(zip(block_types, widths, strict=True)):
            before = widths[max(index - 1, 0)]
            attends, is_last = kind == "AttnDownEncoderBlock2D", index == len(widths) - 1
            self.down_blocks.append(DownEncoderBlock2D(before, width, body.layers, body, attends, is_last))
        self.mid_block = UNetMidBlock2D(widths[-1], body)
        self.conv_norm_out = GroupNorm(body.groups, widths[-1], eps=NORM_EPS)
        self.conv_act = nn.SiLU()  # whatever act_fn is
        self.conv_out = Conv2d(widths[-1], out_channels, 3, padding=1)

    def forward(self, pixels: Tensor) -> Tensor:
        hidden = self.conv_in(pixels)
        for block in self.down_blocks:
            hidden = checkpointed(self, block, hidden)
        hidden = self.mid_block(hidden)
        return self.conv_out(self.conv_act(self.conv_norm_out(hidden)))


class Decoder(nn.Module):
    """Latents to pictures; one residual block more per resolution than the encoder has."""

    gradient_checkpointing = False

    def __init__(self, in_channels: int, out_channels: int, block_types: tuple[str, ...], body: Body) -> None:
        super().__init__()
        upward = tuple(reversed(body.widths))
        self.conv_in = Conv2d(in_channels, upward[0], 3, padding=1)
        self.mid_block = UNetMidBlock2D(upward[0], body)
        self.up_blocks = nn.ModuleList()
        for index, (kind, width) in enumerate(zip(block_types, upward, strict=True)):
            before = upward[max(index - 1, 0)]
            attends, is_last = kind == "AttnUpDecoderBlock2D", index == len(upward) - 1
            self.up_blocks.append(UpDecoderBlock2D(before, width, body.layers + 1, body, attends, is_last))
        self.conv_norm_out = GroupNorm(body.groups, upward[-1], eps=NORM_EPS)
        self.conv_act = nn.SiLU()  # whatever act_fn is
        self.conv_out = Conv2d(upward[-1], out_channels, 3, padding=1)

    def forward(self, latents: Tensor) -> Tensor:
        hidden = self.conv_in(latents)
        hidden = self.mid_block(hidden)
        for block in self.up_blocks:
            hidden = checkpointed(self, block, hidden)
        return self.conv_out(self.conv_act(self.conv_norm_out(hidden)))


class DiagonalGaussianDistribution:
    """The latents that a picture may have come from: independent normals, one per position and channel."""

    def __init__(self, parameters: Tensor, deterministic: bool = False) -> None:
        self.parameters = parameters
        self.deterministic = deterministic
        self.mean, log_variance = parameters.chunk(2, dim=1)
        self.logvar = log_variance.clamp(-30.0, 20.0)
        self.std = torch.zeros_like(self.mean) if deterministic else torch.exp(0.5 * self.logvar)
        self.var = torch.zeros_like(self.mean) if deterministic else torch.exp(self.logvar)

    def sample(self, generator: torch.Generator | list[torch.Generator] | None = None) -> Tensor:
        """One draw; a list has a generator for each picture, so that a picture's draw does not depend on its batch."""
        return self.mean + self.std * self._noise(generator)

    def mode(self) -> Tensor:
        return self.mean

    def kl(self, other: DiagonalGaussianDistribution | None = None) -> Tensor:
        """Divergence from another distribution, or from the standard normal, for each picture."""
        if self.deterministic:
            return self.mean.new_zeros(1)
        if other is None:
            return 0.5 * (self.mean.square() + self.var - 1.0 - self.logvar).sum(dim=(1, 2, 3))
        apart = (self.mean - other.mean).square() / other.var + self.var / other.var
        return 0.5 * (apart - 1.0 - self.logvar + other.logvar).sum(dim=(1, 2, 3))

    def nll(self, sample: Tensor, dims: tuple[int, ...] = (1, 2, 3)) -> Tensor:
        """Negative log likelihood of some latents."""
        if self.deterministic:
            return self.mean.new_zeros(1)
        return 0.5 * (math.log(2 * math.pi) + self.logvar + (sample - self.mean).square() / self.var).sum(dim=dims)

    def _noise(self, generator: torch.Generator | list[torch.Generator] | None) -> Tensor:
        if generator is None or isinstance(generator, torch.Generator):
            return _normal(tuple(self.mean.shape), generator, self.mean)
        if not isinstance(generator, (list, tuple)) or not all(isinstance(one, torch.Generator) for one in generator):
            raise InputError(f"A generator is a torch.Generator or a list of them, got {generator!r}.")
        if len(generator) != self.mean.shape[0]:
            raise InputError(
                f"A list of generators wants one for each picture: {self.mean.shape[0]} wanted, {len(generator)} given."
            )
        one = (1, *self.mean.shape[1:])
        return torch.cat([_normal(one, each, self.mean) for each in generator])


def _normal(shape: tuple[int, ...], generator: torch.Generator | None, like: Tensor) -> Tensor:
    """Normal noise drawn where the generator lives, so that a seed does not depend on the model's device."""
    device = like.device if generator is None else generator.device
    return torch.randn(shape, generator=generator, device=device, dtype=like.dtype).to(like.device)


@dataclass
class AutoencoderKLOutput(Output):
    """The posterior of the latents."""

    latent_dist: DiagonalGaussianDistribution


class AutoencoderKL(ModelMixin, AutoencoderMixin, ConfigMixin):
    """Pictures in [-1, 1] to latents and back (Kingma and Welling, arXiv:1312.6114, as used in arXiv:2112.10752)."""

    _supports_gradient_checkpointing = True

    # The first published files call the projections of the attention by the names of its original implementation.
    tensor_renames = (
        (r"(attentions\.\d+)\.query\.", r"\1.to_q."),
        (r"(attentions\.\d+)\.key\.", r"\1.to_k."),
        (r"(attentions\.\d+)\.value\.", r"\1.to_v."),
        (r"(attentions\.\d+)\.proj_attn\.", r"\1.to_out.0."),
    )

    @register_to_config
    def __init__(
        self, in_channels: int = 3, out_channels: int = 3,
        down_block_types: tuple[str, ...] = ("DownEncoderBlock2D",),
        up_block_types: tuple[str, ...] = ("UpDecoderBlock2D",), block_out_channels: tuple[int, ...] = (64,),
        layers_per_block: int = 1, act_fn: str = "silu", latent_channels: int = 4, norm_num_groups: int = 32,
        sample_size: int | tuple[int, ...] = 32, scaling_factor: float = 0.18215, shift_factor: float | None = None,
        latents_mean: tuple[float, ...] | None = None, latents_std: tuple[float, ...] | None = None,
        force_upcast: bool = True, use_quant_conv: bool = True, use_post_quant_conv: bool = True,
        mid_block_add_attention: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_config(self.config)
        body = Body(block_out_channels, layers_per_block, norm_num_groups, act_fn, mid_block_add_attention)
        self.encoder = Encoder(in_channels, 2 * latent_channels, down_block_types, body)
        self.decoder = Decoder(latent_channels, out_channels, up_block_types, body)
        self.quant_conv = Conv2d(2 * latent_channels, 2 * latent_channels, 1) if use_quant_conv else None
        self.post_quant_conv = Conv2d(latent_channels, latent_channels, 1) if use_post_quant_conv else None
        self.tile_sample_min_size = sample_size if isinstance(sample_size, int) else sample_size[0]
        self.tile_latent_min_size = self.tile_sample_min_size // self.spatial_scale_factor
        self.tile_overlap_factor = 0.25

    @property
    def spatial_scale_factor(self) -> int:
        """Every block but the last halves the sides."""
        return 2 ** (len(self.config.block_out_channels) - 1)

    @classmethod
    def stored_tensors(cls, stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
        """The tensors of a file under our names; projections that were stored as 1x1 convolutions become matrices."""
        return {name: _as_matrix(name, tensor) for name, tensor in super().stored_tensors(stored).items()}

    @output_or_tuple
    def encode(self, x: Tensor, return_dict: bool = True) -> AutoencoderKLOutput | tuple[DiagonalGaussianDistribution]:
        """Pictures to the posterior of their latents."""
        check_pixels("AutoencoderKL", x, self.config.in_channels, self.spatial_scale_factor)
        x = x.to(compute_dtype(self.dtype, self.config.force_upcast))
        posterior = DiagonalGaussianDistribution(self._by_slice(self._encode, x))
        return AutoencoderKLOutput(latent_dist=posterior) if return_dict else (posterior,)

    @output_or_tuple
    def decode(
        self, z: Tensor, return_dict: bool = True, generator: torch.Generator | None = None
    ) -> DecoderOutput | tuple[Tensor]:
        """Latents to pictures; nothing is drawn, `generator` is there for the common signature."""
        check_latents("AutoencoderKL", z, self.config.latent_channels)
        z = z.to(compute_dtype(self.dtype, self.config.force_upcast))
        sample = self._by_slice(self._decode, z)
        return DecoderOutput(sample=sample) if return_dict else (sample,)

    forward = reconstructed

    def _encode(self, pixels: Tensor) -> Tensor:
        if self.use_tiling and max(pixels.shape[-2:]) > self.tile_sample_min_size:
            return self._tiled(self._encode_tile, pixels, self.tile_sample_min_size, self.tile_latent_min_size)
        return self._encode_tile(pixels)

    def _encode_tile(self, pixels: Tensor) -> Tensor:
        moments = self.encoder(pixels)
        return moments if self.quant_conv is None else self.quant_conv(moments)

    def _decode(self, latents: Tensor) -> Tensor:
        if self.use_tiling and max(latents.shape[-2:]) > self.tile_latent_min_size:
            return self._tiled(self._decode_tile, latents, self.tile_latent_min_size, self.tile_sample_min_size)
        return self._decode_tile(latents)

    def _decode_tile(self, latents: Tensor) -> Tensor:
        return self.decoder(latents if self.post_quant_conv is None else self.post_quant_conv(latents))

    def _tiled(self, run: Callable[[Tensor], Tensor], whole: Tensor, size_in: int, size_out: int) -> Tensor:
        """Run on overlapping square tiles that are blended together."""
        blend = int(size_out * self.tile_overlap_factor)
        stride = int(size_in * (1 - self.tile_overlap_factor))
        tiles = Tiles((size_in, size_in), (stride, stride), (size_out - blend, size_out - blend), (blend, blend))
        return in_tiles(lambda tile, _: run(tile), whole, tiles, self._tile_ranks)


def _as_matrix(name: str, tensor: StoredTensor) -> StoredTensor:
    shape = tensor.info.shape
    if len(shape) == 4 and shape[2:] == (1, 1) and ATTENTION_PROJECTION.search(name):
        return dataclasses.replace(tensor, info=dataclasses.replace(tensor.info, shape=shape[:2]))
    return tensor


def _check_config(config: Mapping[str, Any]) -> None:
    """Refuse values that cannot work together."""
    owner, widths, groups = "AutoencoderKL", config["block_out_channels"], config["norm_num_groups"]
    for name, known in (("down_block_types", DOWN_BLOCKS), ("up_block_types", UP_BLOCKS)):
        if not widths or len(config[name]) != len(widths):
            raise ConfigError(
                f"{owner}: {name} wants one type for each of block_out_channels {list(widths)}, "
                f"got {list(config[name])}."
            )
        unknown = [kind for kind in config[name] if kind not in known]
        if unknown:
            raise ConfigError(f"{owner}: {name} wants types out of {', '.join(known)}, got {unknown[0]!r}.")
    check_sizes(
        owner, config, "in_channels", "out_channels", "latent_channels", "block_out_channels", "layers_per_block"
    )
    check_sizes(owner, config, "sample_size", "norm_num_groups")
    for width in widths:
        check_divisible(owner, "each of block_out_channels", width, "norm_num_groups", groups)
    if config["sample_size"] in ([], ()):
        raise ConfigError(
            f"{owner}: sample_size wants a size in pixels, or a list of height and width, got an empty list."
        )
    for name in ("latents_mean", "latents_std"):
        values = config[name]
        if values is not None and len(values) != config["latent_channels"]:
            raise ConfigError(
                f"{owner}: {name} wants one value for each of {config['latent_channels']} latent_channels, "
                f"got {len(values)}."
            )
    if (config["latents_mean"] is None) != (config["latents_std"] is None):
        raise ConfigError(f"{owner}: latents_mean and latents_std want to be given together, got only one of them.")
