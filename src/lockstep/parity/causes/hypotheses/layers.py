"""What other implementations do in norms, activations, linear layers and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from ..edits import Call, Edit, NotApplicable, Site
from ..examples import Example, edit

Sites = frozenset[Site]
EPS = (1e-6, 1e-5, 1e-8, 1e-3, 1e-4, 1e-7, 1e-12, 1e-2, 0.0)
NORMS = {"group_norm", "layer_norm", "rms_norm", "batch_norm", "instance_norm"}
CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "GELU (erf)": lambda x: F.gelu(x),
    "GELU (tanh)": lambda x: F.gelu(x, approximate="tanh"),
    "quick GELU": lambda x: x * torch.sigmoid(1.702 * x),
    "SiLU": F.silu,
    "ReLU": F.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "Mish": F.mish,
    "ELU": F.elu,
    "leaky ReLU": F.leaky_relu,
    "softplus": F.softplus,
    "ReLU squared": lambda x: F.relu(x) ** 2,
    "ReLU6": F.relu6,
    "hard swish": F.hardswish,
}
_OPERATIONS = {"gelu", "silu", "relu", "sigmoid", "tanh", "mish", "elu", "leaky_relu", "softplus", "relu6", "hardswish"}
_GELUS = {"GELU (erf)", "GELU (tanh)", "quick GELU"}


def activation_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op not in _OPERATIONS:
        return
    before = _current_activation(example)
    for name, function in ACTIVATIONS.items():
        if name != before:
            cause = "gelu_variant" if name in _GELUS and before in _GELUS else "activation"
            yield edit(cause, f"{name} instead of {before}", sites, lambda call, f=function: f(call.args[0]), rank=2)
    yield edit("activation", f"no activation instead of {before}", sites, lambda call: call.args[0], rank=3)
    yield edit("call_twice", f"{before} applied twice", sites, twice, rank=2)


def twice(call: Call) -> Any:
    """The operation once more on its own result."""
    result = call.run()
    if not isinstance(result, torch.Tensor) or result.shape != call.args[0].shape:
        raise NotApplicable("not an operation that can be done on its own result")
    return call.function(result, *call.args[1:], **call.kwargs)


def _current_activation(example: Example) -> str:
    if example.op == "gelu":
        return "GELU (tanh)" if example.settings.get("approximate") == "tanh" else "GELU (erf)"
    names = {
        "silu": "SiLU",
        "relu": "ReLU",
        "mish": "Mish",
        "elu": "ELU",
        "leaky_relu": "leaky ReLU",
        "relu6": "ReLU6",
        "hardswish": "hard swish",
    }
    return names.get(example.op, example.op)


def norm_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op not in NORMS:
        return
    eps = example.settings.get("eps")
    if eps is None:  # `rms_norm` takes the machine's epsilon then
        eps = torch.finfo(torch.float32).eps if example.op == "rms_norm" else 1e-5
    for value in EPS:
        if value != eps:
            yield norm_eps(sites, eps, value)
    if example.op == "group_norm":
        channels, groups = example.tensors["input"][1], example.settings["num_groups"]
        for count in [d for d in range(1, channels + 1) if channels % d == 0 and d != groups]:
            yield edit(
                "norm_groups",
                f"{count} groups instead of {groups}",
                sites,
                lambda call, g=count: call.given(num_groups=g),
                rank=2,
            )
        yield edit("norm_kind", "layer norm over channels instead of group norm", sites, _channel_layer_norm, rank=3)
        yield edit(
            "norm_kind", "groups of strided channels instead of neighbouring ones", sites, _strided_groups, rank=3
        )
    yield edit("call_twice", "norm applied twice", sites, twice, rank=3)
    for axes in _other_axes(example):
        words = f"statistics over axes {', '.join(map(str, axes))}"
        yield edit("reduced_axes", words, sites, lambda call, a=axes: _normed_over(call, a), rank=3)
    if "weight" in example.tensors:
        without = {"weight": None, **({"bias": None} if example.op != "rms_norm" else {})}
        words = f"without {' and '.join(without)}"
        yield edit("norm_affine", words, sites, lambda call, given=without: call.given(**given), rank=3)
        if "bias" in without:
            yield edit(
                "norm_affine",
                "without weight",
                sites,
                lambda call: call.given(weight=torch.ones_like(call.named["weight"])),
                rank=3,
            )
        yield edit(
            "norm_affine",
            "weight + 1 as scale",
            sites,
            lambda call: call.given(weight=call.named["weight"] + 1),
            rank=3,
        )
    if "bias" in example.tensors:
        yield edit("missing_bias", "norm without its bias", sites, lambda call: call.given(bias=None), rank=3)
    if example.op == "layer_norm":
        yield edit(
            "norm_kind", "RMS norm (mean not subtracted) instead of layer norm", sites, _rms_of_layer_norm, rank=3
        )
        yield edit("norm_estimator", "variance divided by n - 1", sites, _unbiased_layer_norm, rank=3)
    if example.op == "group_norm":
        yield edit("norm_estimator", "variance divided by n - 1", sites, _unbiased_group_norm, rank=3)
    if example.op == "rms_norm":
        yield edit(
            "norm_kind", "layer norm (mean subtracted) instead of RMS norm", sites, lambda c: _layer_of_rms(c), rank=3
        )


def _other_axes(example: Example) -> list[tuple[int, ...]]:
    """Sets of axes behind the first one that a mean and a variance may have been taken over instead."""
    rank = len(example.shape)
    axes = range(1, rank)
    found = [(a,) for a in axes] + [tuple(a for a in axes if a != left) for left in axes] + [tuple(axes)]
    now = tuple(range(rank - len(example.settings.get("normalized_shape") or ()), rank))
    return [a for a in dict.fromkeys(found) if a and (example.op == "group_norm" or a != now)]


def _normed_over(call: Call, axes: tuple[int, ...]) -> torch.Tensor:
    """The same norm with its statistics over other axes; weight and bias stay where they were."""
    given = call.named
    x, eps = given["input"], given.get("eps") or 1e-5
    centred = x if call.op == "rms_norm" else x - x.mean(axes, keepdim=True)
    plain = centred * (centred.pow(2).mean(axes, keepdim=True) + eps).rsqrt()
    return _affine(plain, given) if call.op == "group_norm" else _finish(plain, given)


def norm_eps(sites: Sites, before: float, value: float) -> Edit:
    return edit(
        "norm_eps", f"eps {value:.3g} instead of {before:.3g}", sites, lambda call: call.given(eps=value), rank=1,
        parameter=value, refit=lambda v: norm_eps(sites, before, v),
    )  # fmt: skip


def _channel_layer_norm(call: Call) -> torch.Tensor:
    given = call.named
    x = given["input"].movedim(1, -1)
    return F.layer_norm(x, x.shape[-1:], given.get("weight"), given.get("bias"), given.get("eps", 1e-5)).movedim(-1, 1)


def _strided_groups(call: Call) -> torch.Tensor:
    given = call.named
    x, groups = given["input"], given["num_groups"]
    order = torch.arange(x.shape[1]).view(-1, groups).t().reshape(-1)
    plain = F.group_norm(x[:, order], groups, eps=given.get("eps", 1e-5))[:, order.argsort()]
    return _affine(plain, given)


def _affine(x: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    shape = (1, -1) + (1,) * (x.ndim - 2)
    if given.get("weight") is not None:
        x = x * given["weight"].view(shape)
    return x + given["bias"].view(shape) if given.get("bias") is not None else x


def _unbiased_group_norm(call: Call) -> torch.Tensor:
    given = call.named
    x, groups = given["input"], given["num_groups"]
    parts = x.reshape(x.shape[0], groups, -1)
    variance = parts.var(-1, keepdim=True, unbiased=True)
    plain = ((parts - parts.mean(-1, keepdim=True)) / (variance + given.get("eps", 1e-5)).sqrt()).view_as(x)
    return _affine(plain, given)


def _layer_axes(call: Call) -> tuple[dict[str, Any], list[int]]:
    given = call.named
    return given, list(range(-len(given["normalized_shape"]), 0))


def _finish(x: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    x = x * given["weight"] if given.get("weight") is not None else x
    return x + given["bias"] if given.get("bias") is not None else x


def _rms_of_layer_norm(call: Call) -> torch.Tensor:
    given, axes = _layer_axes(call)
    x = given["input"]
    return _finish(x * (x.pow(2).mean(axes, keepdim=True) + given.get("eps", 1e-5)).rsqrt(), given)


def _unbiased_layer_norm(call: Call) -> torch.Tensor:
    given, axes = _layer_axes(call)
    x = given["input"]
    variance = x.var(axes, keepdim=True, unbiased=True)
    return _finish((x - x.mean(axes, keepdim=True)) * (variance + given.get("eps", 1e-5)).rsqrt(), given)


def _layer_of_rms(call: Call) -> torch.Tensor:
    given = call.named
    return F.layer_norm(given["input"], given["normalized_shape"], given.get("weight"), None, given.get("eps") or 1e-6)


def linear_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op not in ("linear", "matmul", "mm", "bmm", "addmm"):
        return
    if example.op != "linear":
        return
    rows, columns = example.tensors["weight"]
    if "bias" in example.tensors:
        yield edit("missing_bias", "linear layer without its bias", sites, lambda call: call.given(bias=None), rank=1)
        yield edit("double_bias", "bias added twice", sites, _bias_twice, rank=4)
    if rows == columns:
        yield edit(
            "transposed_weight",
            "weight transposed",
            sites,
            lambda call: call.given(weight=call.named["weight"].t()),
            rank=1,
        )
    yield edit(
        "scrambled_weight",
        "weight read in the other memory order (reshaped instead of transposed)",
        sites,
        _scrambled,
        rank=4,
    )
    yield from _reordered_inputs(columns, sites)


def _bias_twice(call: Call) -> Any:
    if call.named.get("bias") is None:
        raise NotApplicable("no bias here")
    return call.run() + call.named["bias"]


def _scrambled(call: Call) -> Any:
    weight = call.named["weight"]
    return call.given(weight=weight.t().reshape(weight.shape))


def _reordered_inputs(columns: int, sites: Sites) -> Iterator[Edit]:
    for parts in (2, 3, 4):
        if columns % parts == 0 and columns > parts:
            yield edit(
                "input_order", f"input features in reversed order of their {parts} parts", sites,
                lambda call, n=parts: call.given(input=torch.cat(call.named["input"].chunk(n, -1)[::-1], -1)), rank=4,
            )  # fmt: skip


def convolution_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op not in CONVOLUTIONS:
        return
    weight = example.tensors["weight"]
    if "bias" in example.tensors:
        yield edit("missing_bias", "convolution without its bias", sites, lambda call: call.given(bias=None), rank=1)
    if weight[0] == weight[1]:
        yield _transposed("in and out channels", 0, 1, sites)
    if len(weight) == 4 and max(weight[2:]) > 1:
        if weight[2] == weight[3]:
            yield _transposed("height and width", 2, 3, sites)
        words = "kernel mirrored (convolution instead of correlation)"
        yield edit("flipped_kernel", words, sites, _weight(lambda w: w.flip(2, 3)), rank=2)
    yield from _padding_edits(example, sites)


def _transposed(axes: str, a: int, b: int, sites: Sites) -> Edit:
    return edit("transposed_weight", f"kernel with {axes} swapped", sites, _weight(lambda w: w.transpose(a, b)), rank=1)


def _weight(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Call], Any]:
    return lambda call: call.given(weight=change(call.named["weight"]))


def _padding_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    padding = example.settings.get("padding", 0)
    amounts = (padding,) if isinstance(padding, int) else padding
    if isinstance(padding, str) or len(example.shape) != 4:
        return
    stride = example.settings.get("stride", 1)
    if any(amounts):
        both = tuple(p for p in reversed(tuple(amounts) * (2 // len(amounts))) for _ in range(2))
        for mode in ("reflect", "replicate", "circular"):
            yield edit(
                "padding_mode",
                f"{mode} padding instead of zeros",
                sites,
                lambda c, m=mode, p=both: _padded(c, p, m),
                rank=1,
            )
        for name, sides in (("right and below only", (0, 1, 0, 1)), ("left and above only", (1, 0, 1, 0))):
            yield edit(
                "padding_sides",
                f"padding {name}",
                sites,
                lambda c, s=sides, p=both: _padded(c, tuple(x * 2 * y for x, y in zip(s, p, strict=True)), "constant"),
                rank=2,
            )
            yield edit(
                "padding_sides",
                f"padding {name}, one pixel",
                sites,
                lambda c, s=sides: _padded(c, s, "constant"),
                rank=2,
            )
    if stride not in (1, (1, 1)):
        yield from _stride_edits(sites)
    if not any(amounts) and stride not in (1, (1, 1)):
        yield edit(
            "padding_sides",
            "the input padded left and above instead of right and below",
            sites,
            _shifted_padding,
            rank=2,
        )


def _stride_edits(sites: Sites) -> Iterator[Edit]:
    """Every pixel computed, then other ones taken."""

    def dense(call: Call) -> tuple[torch.Tensor, tuple[int, int]]:
        stride = call.named["stride"]
        return call.given(stride=1), (stride, stride) if isinstance(stride, int) else tuple(stride)

    def picked(call: Call, row: int, column: int) -> torch.Tensor:
        x, (down, right) = dense(call)
        return x[:, :, row::down, column::right]

    def pooled(call: Call, pool: Any) -> torch.Tensor:
        x, stride = dense(call)
        return pool(x, stride)

    for row, column in ((1, 1), (0, 1), (1, 0)):
        words = f"pixels taken from row {row} and column {column} on"
        yield edit("stride", words, sites, lambda c, r=row, k=column: picked(c, r, k), rank=3)
    for words, pool in (("average", F.avg_pool2d), ("maximum", F.max_pool2d)):
        yield edit(
            "stride", f"{words} of the pixels instead of a stride", sites, lambda c, p=pool: pooled(c, p), rank=3
        )


def _padded(call: Call, sides: tuple[int, ...], mode: str) -> Any:
    return call.given(input=F.pad(call.named["input"], sides, mode=mode), padding=0)


def _shifted_padding(call: Call) -> Any:
    return call.given(input=torch.roll(call.named["input"], (1, 1), (2, 3)))


def embedding_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op != "embedding":
        return
    for shift in (1, -1):

        def shifted(call: Call, by: int = shift) -> Any:
            names = call.named
            table = names["weight"]
            return call.given(input=(names["input"] + by).clamp(0, table.shape[0] - 1))

        yield edit("index_offset", f"index {shift:+d} in the embedding table", sites, shifted, rank=2)
