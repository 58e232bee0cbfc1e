"""Layers that compute by our own kernels where these can, and as they are written elsewhere.

A layer becomes fast by changing its class to one of these, and back: parameters, names, hooks and files stay as they
are. Weights are prepared once, and again when somebody has changed them. Feature maps have their channels last.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..kernels import calls, found, operators
from .autoencoders.autoencoder_kl import ResnetBlock2D as AutoencoderResnet
from .autoencoders.autoencoder_kl import Upsample2D as AutoencoderUpsample
from .fast import Fast, Prepared, watched
from .layers import GEGLU, ResnetBlock2D, Upsample2D

Tensor = torch.Tensor

STORED = 420_000  # in times out channels up to which a convolution's transformed weights are kept: 4 x their size
STORED_NARROW, NARROW = 1_300_000, 640  # the same for results of so few channels, whose maps are large
STORED_POINTS = "winograd, stored"  # how a convolution was prepared whose transformed weights are kept
LARGE = 4 << 20  # numbers of one image's map above which it is convolved in bands
STORED_BF16 = 4 * STORED  # half as large each, and to make them costs twice as much of a convolution in bf16


class FastLinear(Prepared, nn.Linear):
    """A linear layer, with what is added to its result."""

    def prepare(self) -> Tensor:
        return calls.pack_linear(found(), self.weight, self.in_bf16)

    def forward(self, input: Tensor, residual: Tensor | None = None, gelu: bool = False) -> Tensor:
        """`gelu` bends the result by the approximation of GELU, before the residual."""
        bias = self.bias
        if not self.takes(input, bias, residual) or input.shape[-1] != self.in_features:
            result = super().forward(input)
            result = F.gelu(result, approximate="tanh") if gelu else result
            return result if residual is None else result + residual
        packed, layer = self.current()
        return operators.linear(input, packed, bias, residual, self.out_features, gelu, layer)


class FastConvolution(Prepared, nn.Conv2d):
    """A convolution: 3x3 by Winograd's way, else as a linear layer of pixels or patches; a bias an image, a residual.

    Torch has those that dilate or are in groups, and those of few results.
    """

    keeps = True  # may transformed weights be kept, where they are small enough?

    def kind(self) -> str:
        """Which of our kernels computes it, if one does."""
        plain = self.groups == 1 and self.dilation == (1, 1) and self.padding_mode == "zeros"
        lanes, sizes = found().lanes, (self.kernel_size, self.stride, self.padding)
        if plain and sizes == ((3, 3), (1, 1), (1, 1)) and self.in_channels % lanes == self.out_channels % lanes == 0:
            return "winograd"
        if plain and sizes == ((1, 1), (1, 1), (0, 0)):
            return "linear"
        square = all(len(set(size)) == 1 and isinstance(size[0], int) for size in sizes)  # a padding may be a word
        return "patches" if plain and square and self.out_channels >= lanes else ""

    def settings(self) -> tuple[Any, ...]:
        sizes = self.kernel_size, self.stride, self.padding, self.dilation, self.groups
        return self.in_bf16, self.padding_mode, sizes

    @property
    def stored(self) -> bool:
        """Are its transformed weights kept, instead of being made while it computes?"""
        most = STORED_BF16 if self.in_bf16 else STORED_NARROW if self.out_channels <= NARROW else STORED
        return self.keeps and self.in_channels * self.out_channels <= most

    def size(self) -> int:
        return super().size() * (4 if self.kind() == "winograd" and self.stored else 1)

    def prepare(self) -> tuple[str, Tensor]:
        kind = self.kind()
        if kind == "winograd":
            packed = calls.pack_convolution(found(), self.weight, self.stored, self.in_bf16)
            return STORED_POINTS if self.stored else kind, packed
        if kind == "linear":
            return kind, calls.pack_linear(found(), self.weight.flatten(1), self.in_bf16)
        if kind == "patches":
            return kind, calls.pack_patches(found(), self.weight, self.in_bf16)
        return kind, calls.channels_last(self.weight)

    def forward(self, input: Tensor, image_bias: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
        own = self.bias
        fits = input.ndim == 4 and input.shape[1] == self.in_channels and self.takes(input, own, image_bias, residual)
        if not fits:
            return added(super().forward(input), image_bias, residual)
        (kind, weight), layer = self.current()
        if kind in ("winograd", STORED_POINTS):
            bias = own if image_bias is None else image_bias if own is None else own + image_bias
            stored = kind == STORED_POINTS
            return operators.convolution(input, weight, bias, residual, self.out_channels, stored, layer)
        if kind == "linear":
            pixels = calls.channels_last(input).permute(0, 2, 3, 1)
            last = None if residual is None else calls.channels_last(residual).permute(0, 2, 3, 1)
            result = operators.linear(pixels, weight, own, last, self.out_channels, False, layer).permute(0, 3, 1, 2)
            return added(result, image_bias, None)
        if kind == "patches" and min(input.shape[2:]) + 2 * int(self.padding[0]) >= self.kernel_size[0]:
            sizes = self.out_channels, self.kernel_size[0], self.stride[0], int(self.padding[0])
            return added(operators.patches(input, weight, own, *sizes, layer), image_bias, residual)
        if kind == "patches" or layer:  # torch refuses it in words; a compiled model reads the weights themselves
            return added(super().forward(input), image_bias, residual)
        return added(self._conv_forward(calls.channels_last(input), weight, own), image_bias, residual)


def large(map: Tensor) -> bool:
    """Is a feature map so large that it is worth while to make what a convolution reads of it in bands?"""
    return map.shape[1] * map.shape[2] * map.shape[3] > LARGE


def normed(norm: Any, conv: Any, map: Tensor, residual: Tensor | None = None) -> Tensor:
    """The convolution of SiLU of the norm of a map, and a residual; of a large map without the one between them."""
    fits = norm.scales and norm.takes(map, norm.weight, norm.bias) and conv.takes(map, conv.bias, residual)
    if not fits or not large(map) or conv.kind() != "winograd":
        return conv(norm(map, silu=True), None, residual)
    (kind, packed), layer = conv.current()
    of_norm = norm.num_groups, norm.weight, norm.bias, norm.eps
    stored = kind == STORED_POINTS
    return operators.normed_convolution(map, *of_norm, packed, conv.bias, residual, conv.out_channels, stored, layer)


def added(result: Tensor, image_bias: Tensor | None, residual: Tensor | None) -> Tensor:
    """The result with a bias for each image and a residual."""
    if image_bias is not None:
        result = result + image_bias[:, :, None, None]
    return result if residual is None else result + residual


def again(*tensors: Tensor) -> int:
    """How often the samples of a batch come again, in the same order: both branches of a guidance begin alike."""
    batch = tensors[0].shape[0]
    if torch.compiler.is_compiling() or not all(operators.takes(one) and dense(one) for one in tensors):
        return 1

    def repeat(every: int) -> bool:
        return all(len(one) == batch and calls.same(found(), one[:-every], one[every:]) for one in tensors)

    return next((batch // every for every in range(1, batch) if batch % every == 0 and repeat(every)), 1)


def dense(tensor: Tensor) -> bool:
    """Do its samples lie one behind the other, without gaps?"""
    return tensor.is_contiguous() or (tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last))


class FastGroupNorm(Fast, nn.GroupNorm):
    """A group norm of a feature map; scaled and shifted for each image, with SiLU behind it, where asked for."""

    @property
    def scales(self) -> bool:
        """Has it a weight and a bias, whatever it says of itself?"""
        return self.weight is not None and self.bias is not None

    def forward(self, input: Tensor, silu: bool = False, changes: tuple[Tensor, Tensor] | None = None) -> Tensor:
        weight: Tensor = self.weight
        bias: Tensor = self.bias
        fits = input.ndim == 4 and self.scales and self.takes(input, weight, bias, *(changes or ()))
        if not fits or self.num_channels % found().lanes or input.shape[1] != self.num_channels:
            if torch.is_grad_enabled() and not input.requires_grad:
                input = input.contiguous()  # torch crashes where channels are last and the weights alone have gradients
            result = super().forward(input)
            if changes is not None:
                result = result * (1 + changes[0][:, :, None, None]) + changes[1][:, :, None, None]
            return F.silu(result) if silu else result
        if changes is not None:
            weight, bias = weight * (1 + changes[0]), bias * (1 + changes[0]) + changes[1]
        return operators.group_norm(input, self.num_groups, weight, bias, self.eps, silu)


class FastGEGLU(Prepared, GEGLU):
    """A gated projection whose gate is applied before anything is written."""

    def sources(self) -> tuple[Tensor, ...]:
        return self.proj.weight, self.proj.bias

    def prepare(self) -> tuple[Tensor, Tensor]:
        own = found()
        packed = calls.pack_linear(own, calls.interleaved(own, self.proj.weight), self.in_bf16)
        return packed, calls.interleaved(own, self.proj.bias)

    def forward(self, hidden_states: Tensor) -> Tensor:
        proj = self.proj
        if watched(proj) or not self.takes(hidden_states) or hidden_states.shape[-1] != proj.in_features:
            return super().forward(hidden_states)
        (packed, bias), layer = self.current()
        return operators.geglu(hidden_states, packed, bias, self.width, layer)

    def has_own(self) -> bool:
        proj: Any = self.proj
        return type(proj) is nn.Linear and proj.bias is not None and not self.width % found().lanes  # no adapter around

    @property
    def width(self) -> int:
        return self.proj.out_features // 2


def in_parts(resnet: nn.Module) -> bool:
    """Is a resnet made of our own layers, with SiLU, and would nobody notice who computes some of them at once?"""
    parts: dict[str, Any] = resnet._modules
    convolutions = parts["conv1"], parts["conv2"], parts.get("conv_shortcut") or parts["conv1"]
    own = all(isinstance(one, FastConvolution) for one in convolutions)
    own = own and isinstance(parts["norm1"], FastGroupNorm) and isinstance(parts["norm2"], FastGroupNorm)
    return own and type(parts["nonlinearity"]) is nn.SiLU and not watched(*parts.values())


class FastResnetBlock2D(ResnetBlock2D):
    """A resnet of the UNet: norms with their activation, the time embedding as a bias, the shortcut as a residual."""

    def forward(self, hidden_states: Tensor, temb: Tensor | None = None) -> Tensor:
        plain = self.output_scale_factor == 1.0 and not self.training and in_parts(self)
        if not plain:
            return super().forward(hidden_states, temb)
        times = 1 if temb is None else again(hidden_states, temb)
        if times == 1 or temb is None:
            return self.computed(hidden_states, temb)
        count = len(hidden_states) // times
        return torch.cat([self.computed(hidden_states[:count], temb[:count])] * times)

    def computed(self, hidden_states: Tensor, temb: Tensor | None) -> Tensor:
        """As published, with as few maps written as can be."""
        shortcut = hidden_states if self.conv_shortcut is None else self.conv_shortcut(hidden_states)
        time = None
        if self.time_emb_proj is not None and temb is not None:
            time = self.time_emb_proj(F.silu(temb))
        if time is not None and self.time_scale_shift == "scale_shift":
            scale, shift = time.chunk(2, dim=1)
            hidden_states = self.conv1(self.norm1(hidden_states, silu=True))
            hidden_states = self.norm2(hidden_states, silu=True, changes=(scale, shift))
        else:
            hidden_states = self.norm2(self.conv1(self.norm1(hidden_states, silu=True), time), silu=True)
        return self.conv2(hidden_states, None, shortcut)


class FastAutoencoderResnet(AutoencoderResnet):
    """A resnet of the autoencoder: norms with their activation, the shortcut added by a convolution."""

    def forward(self, hidden: Tensor) -> Tensor:
        if not in_parts(self):
            return super().forward(hidden)
        if large(hidden):  # as few maps at a time as can be
            residual = hidden if self.conv_shortcut is None else None
            result = normed(self.norm2, self.conv2, normed(self.norm1, self.conv1, hidden), residual)
            return result if self.conv_shortcut is None else self.conv_shortcut(hidden, None, result)
        shortcut = hidden if self.conv_shortcut is None else self.conv_shortcut(hidden)
        return self.conv2(self.norm2(self.conv1(self.norm1(hidden, silu=True)), silu=True), None, shortcut)


def doubles(conv: Any, map: Tensor) -> bool:
    """Can this convolution read a map as one of twice the size, without anybody who watches it noticing?"""
    fits = isinstance(conv, FastConvolution) and not watched(conv) and map.shape[1] == conv.in_channels
    return fits and conv.takes(map, conv.bias) and conv.kind() == "winograd"


def doubled(conv: Any, map: Tensor) -> Tensor:
    """The convolution of a map of twice the size, which is never made."""
    (kind, packed), layer = conv.current()
    return operators.doubled_convolution(map, packed, conv.bias, conv.out_channels, kind == STORED_POINTS, layer)


class FastAutoencoderUpsample(AutoencoderUpsample):
    """Twice the size, and a convolution, at once."""

    def forward(self, hidden: Tensor) -> Tensor:
        return doubled(self.conv, hidden) if doubles(self.conv, hidden) else super().forward(hidden)


class FastUpsample2D(Upsample2D):
    """The same in the UNet, unless another size than twice is asked for."""

    def forward(self, hidden_states: Tensor, output_size: tuple[int, int] | None = None) -> Tensor:
        twice = (2 * hidden_states.shape[2], 2 * hidden_states.shape[3])
        if tuple(output_size or twice) != twice or not doubles(self.conv, hidden_states):
            return super().forward(hidden_states, output_size)
        return doubled(self.conv, hidden_states)
