"""The operations of numpy, JAX and MLX under one set of names, and how each of them wants its kernels."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = Any
NEEDS = {"numpy": (), "jax": ("jax",), "mlx": ("mlx",)}


def is_installed(port: str) -> bool:
    return all(importlib.util.find_spec(package) is not None for package in NEEDS[port])


class Numpy:
    """Arrays of numpy; kernels of convolutions HWIO."""

    kernel_axes = (2, 3, 1, 0)
    numbers: Any = np

    def array(self, values: Any, dtype: Any = np.float32) -> Array:
        return self.numbers.asarray(np.asarray(values, dtype))

    def concatenate(self, parts: list[Array], axis: int) -> Array:
        return self.numbers.concatenate(parts, axis)

    def repeat(self, x: Array, times: int, axis: int) -> Array:
        return self.numbers.repeat(x, times, axis)

    def transpose(self, x: Array, axes: tuple[int, ...]) -> Array:
        return self.numbers.transpose(x, axes)

    def mean(self, x: Array, axes: tuple[int, ...]) -> Array:
        return self.numbers.mean(x, axis=axes, keepdims=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.numbers, name)  # cos, sin, exp, sqrt

    def softmax(self, x: Array) -> Array:
        powers = self.exp(x - self.numbers.max(x, axis=-1, keepdims=True))
        return powers / self.numbers.sum(powers, axis=-1, keepdims=True)

    def gelu(self, x: Array, tanh: bool) -> Array:
        if tanh:
            return 0.5 * x * (1 + self.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
        return 0.5 * x * (1 + self.erf(x / np.float32(math.sqrt(2))))

    def erf(self, x: Array) -> Array:
        return np.vectorize(math.erf, otypes=[np.float32])(x)

    def conv(self, x: Array, kernel: Array, stride: int) -> Array:
        edge = kernel.shape[0] // 2
        padded = np.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[:2], (1, 2))[:, ::stride, ::stride]
        return np.einsum("bhwikl,klio->bhwo", windows, kernel, optimize=True).astype(np.float32)


class Jax(Numpy):
    """Arrays of JAX; kernels of convolutions HWIO, as in Flax."""

    def __init__(self) -> None:
        import jax

        jax.config.update("jax_platforms", "cpu")
        self.jax, self.numbers = jax, jax.numpy

    def erf(self, x: Array) -> Array:
        return self.jax.lax.erf(x)

    def conv(self, x: Array, kernel: Array, stride: int) -> Array:
        edge = kernel.shape[0] // 2
        return self.jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), [(edge, edge)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )


class Mlx(Numpy):
    """Arrays of MLX; kernels of convolutions OHWI."""

    kernel_axes = (0, 2, 3, 1)

    def __init__(self) -> None:
        import mlx.core as mx

        mx.set_default_device(mx.cpu)
        self.numbers = mx

    def array(self, values: Any, dtype: Any = np.float32) -> Array:
        return self.numbers.array(np.asarray(values, dtype))

    def erf(self, x: Array) -> Array:
        return self.numbers.erf(x)

    def conv(self, x: Array, kernel: Array, stride: int) -> Array:
        return self.numbers.conv2d(x, kernel, stride=stride, padding=kernel.shape[1] // 2)


BACKENDS = {"numpy": Numpy, "jax": Jax, "mlx": Mlx}


def ported(weights: Mapping[str, np.ndarray], ops: Numpy) -> dict[str, Array]:
    """The published weights by the port's names, each as its framework wants it; the gated projection in two."""
    found: dict[str, Array] = {}
    for name, values in weights.items():
        path, _, kind = name.rpartition(".")
        if kind == "weight":
            kind = "scale" if values.ndim == 1 else "kernel"
        if kind == "kernel":
            values = values.transpose(ops.kernel_axes) if values.ndim == 4 else values.T
        if path.endswith("ff.net.0.proj"):
            for part, half in zip(("value", "gate"), np.split(values, 2, axis=-1), strict=True):
                found[f"{path.removesuffix('net.0.proj')}{part}.{kind}"] = ops.array(half)
        else:
            found[f"{path}.{kind}"] = ops.array(np.ascontiguousarray(values))
    return found
