"""The UNet of Stable Diffusion without a framework: functions of arrays, channels last, in the operations of a backend.

Written as ports in JAX, MLX and numpy are: it has its own names, its kernels lie as its framework wants them, and what
the reference fuses (the two halves of the gated feed-forward) is split here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # of the backend
HEADS, GROUPS = 4, 8


@dataclass(frozen=True)
class Choices:
    """Every place where a port may decide otherwise than the reference."""

    transformer_eps: float = 1e-6
    resnet_eps: float = 1e-5
    tanh_gelu: bool = False
    sine_first: bool = False
    scale_power: float = -0.5  # of a head's width, in the attention
    gate_first: bool = False
    skip_first: bool = False
    feed_forward_residual: bool = True
    silu_before_time: bool = True


# What others published: the reference library's Flax UNet and the MLX example have these.
PUBLISHED = {
    "jax": Choices(transformer_eps=1e-5, tanh_gelu=True),
    "mlx": Choices(transformer_eps=1e-5),
    "numpy": Choices(),
}
# name -> (the fault, what it may be called)
PLANTED: dict[str, tuple[Choices, tuple[str, ...]]] = {
    "sine first": (Choices(sine_first=True), ("flip_sin_to_cos", "half_swap", "concat_order", "input_order")),
    "scale 1 / width": (Choices(scale_power=-1.0), ("attention_scale",)),
    "gate and value exchanged": (Choices(gate_first=True), ("split_order",)),
    "skip before the input": (Choices(skip_first=True), ("concat_order",)),
    "feed-forward without residual": (Choices(feed_forward_residual=False), ("left_out",)),
    # the projection is given what was not activated: one may call that the wrong operand
    "no SiLU before the time": (Choices(silu_before_time=False), ("activation", "left_out", "wrong_operand")),
}


class UNet:
    """One forward pass over weights by their published names; every layer's result is handed to `note`."""

    def __init__(
        self, ops: Any, weights: Mapping[str, Array], choices: Choices, note: Callable[[str, Array], Array]
    ) -> None:
        self.ops, self.weights, self.choices, self.note = ops, weights, choices, note

    def __call__(self, sample: Array, timestep: Array, context: Array) -> Array:
        time = self.time(timestep)
        x = self.conv("conv_in", sample)
        skips = [x]
        for index, attends in ((0, True), (1, False)):
            x = self.resnet(f"down_blocks.{index}.resnets.0", x, time)
            if attends:
                x = self.transformer(f"down_blocks.{index}.attentions.0", x, context)
            skips.append(x)
            if index == 0:
                x = self.conv("down_blocks.0.downsamplers.0.conv", x, stride=2)
                skips.append(x)
        x = self.resnet("mid_block.resnets.0", x, time)
        x = self.transformer("mid_block.attentions.0", x, context)
        x = self.resnet("mid_block.resnets.1", x, time)
        for index, attends in ((0, False), (1, True)):
            for layer in (0, 1):
                parts = [x, skips.pop()]
                joined = self.ops.concatenate(parts[::-1] if self.choices.skip_first else parts, -1)
                x = self.resnet(f"up_blocks.{index}.resnets.{layer}", joined, time)
                if attends:
                    x = self.transformer(f"up_blocks.{index}.attentions.{layer}", x, context)
            if index == 0:
                doubled = self.ops.repeat(self.ops.repeat(x, 2, 1), 2, 2)
                x = self.conv("up_blocks.0.upsamplers.0.conv", doubled)
        x = self.silu(self.group_norm("conv_norm_out", x, self.choices.resnet_eps))
        return self.conv("conv_out", x)

    def time(self, timestep: Array) -> Array:
        half = self.weights["time_embedding.linear_1.kernel"].shape[0] // 2
        angles = timestep[:, None] * self.ops.array(np.exp(-math.log(10000) * np.arange(half) / half), np.float32)[None]
        parts = [self.ops.cos(angles), self.ops.sin(angles)]
        joined = self.ops.concatenate(parts[::-1] if self.choices.sine_first else parts, -1)
        return self.dense("time_embedding.linear_2", self.silu(self.dense("time_embedding.linear_1", joined)))

    def resnet(self, path: str, x: Array, time: Array) -> Array:
        eps = self.choices.resnet_eps
        hidden = self.conv(f"{path}.conv1", self.silu(self.group_norm(f"{path}.norm1", x, eps)))
        shift = self.silu(time) if self.choices.silu_before_time else time
        hidden = hidden + self.dense(f"{path}.time_emb_proj", shift)[:, None, None, :]
        hidden = self.conv(f"{path}.conv2", self.silu(self.group_norm(f"{path}.norm2", hidden, eps)))
        if f"{path}.conv_shortcut.kernel" in self.weights:
            x = self.conv(f"{path}.conv_shortcut", x)
        return self.note(path, x + hidden)

    def transformer(self, path: str, x: Array, context: Array) -> Array:
        hidden = self.group_norm(f"{path}.norm", x, self.choices.transformer_eps)
        hidden = self.conv(f"{path}.proj_in", hidden)
        tokens = hidden.reshape(hidden.shape[0], -1, hidden.shape[-1])
        block = f"{path}.transformer_blocks.0"
        normed = self.layer_norm(f"{block}.norm1", tokens)
        tokens = tokens + self.attention(f"{block}.attn1", normed, normed)
        normed = self.layer_norm(f"{block}.norm2", tokens)
        tokens = tokens + self.attention(f"{block}.attn2", normed, context)
        fed = self.feed_forward(f"{block}.ff", self.layer_norm(f"{block}.norm3", tokens))
        tokens = self.note(block, tokens + fed if self.choices.feed_forward_residual else fed)
        hidden = self.conv(f"{path}.proj_out", tokens.reshape(hidden.shape))
        return self.note(path, x + hidden)

    def attention(self, path: str, x: Array, context: Array) -> Array:
        query, key, value = (
            self.heads(self.dense(f"{path}.to_{name}", given))
            for name, given in (("q", x), ("k", context), ("v", context))
        )
        scores = query @ self.ops.transpose(key, (0, 1, 3, 2)) * query.shape[-1] ** self.choices.scale_power
        mixed = self.ops.transpose(self.ops.softmax(scores) @ value, (0, 2, 1, 3))
        return self.dense(f"{path}.to_out.0", mixed.reshape(*mixed.shape[:2], -1))

    def heads(self, x: Array) -> Array:
        return self.ops.transpose(x.reshape(*x.shape[:2], HEADS, -1), (0, 2, 1, 3))

    def feed_forward(self, path: str, x: Array) -> Array:
        value, gate = self.dense(f"{path}.value", x), self.dense(f"{path}.gate", x)
        if self.choices.gate_first:
            value, gate = gate, value
        return self.dense(f"{path}.net.2", value * self.ops.gelu(gate, self.choices.tanh_gelu))

    def silu(self, x: Array) -> Array:
        return x / (1 + self.ops.exp(-x))

    def dense(self, path: str, x: Array) -> Array:
        y = x @ self.weights[f"{path}.kernel"]
        bias = self.weights.get(f"{path}.bias")
        return self.note(path, y if bias is None else y + bias)

    def conv(self, path: str, x: Array, stride: int = 1) -> Array:
        return self.note(path, self.ops.conv(x, self.weights[f"{path}.kernel"], stride) + self.weights[f"{path}.bias"])

    def group_norm(self, path: str, x: Array, eps: float) -> Array:
        grouped = x.reshape(x.shape[0], -1, GROUPS, x.shape[-1] // GROUPS)
        return self.affine(path, self.normed(grouped, (1, 3), eps).reshape(x.shape))

    def layer_norm(self, path: str, x: Array) -> Array:
        return self.affine(path, self.normed(x, (-1,), 1e-5))

    def normed(self, x: Array, axes: tuple[int, ...], eps: float) -> Array:
        centred = x - self.ops.mean(x, axes)
        return centred / self.ops.sqrt(self.ops.mean(centred * centred, axes) + eps)

    def affine(self, path: str, x: Array) -> Array:
        return self.note(path, x * self.weights[f"{path}.scale"] + self.weights[f"{path}.bias"])
