"""The tiny UNet in MLX: channels last, kernels OHWI. `python port_mlx.py tiny.safetensors OUT`"""

import sys

import mlx.core as mx
import mlx.nn as nn
from ptrace_mlx import Trace


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln, self.linear1, self.linear2 = nn.LayerNorm(width, eps=1e-5), nn.Linear(width, 64), nn.Linear(64, width)

    def __call__(self, x):
        return x + self.linear2(nn.gelu(self.linear1(self.ln(x))))


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.group_norm = nn.GroupNorm(4, width, eps=1e-5, pytorch_compatible=True)
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.time_proj = nn.Linear(16, width)
        self.attn_norm = nn.LayerNorm(width, eps=1e-5)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out, self.mlp = nn.Linear(width, width), FeedForward(width)

    def __call__(self, x, time):
        x = x + self.conv(nn.silu(self.group_norm(x))) + self.time_proj(time)[:, None, None, :]
        tokens = x.reshape(x.shape[0], -1, x.shape[-1])
        normed = self.attn_norm(tokens)
        scores = self.query(normed) @ self.key(normed).transpose(0, 2, 1) * 0.25
        tokens = tokens + self.out(mx.softmax(scores, axis=-1) @ self.value(normed))
        return self.mlp(tokens).reshape(x.shape)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.halve = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.middle, self.double = Block(), nn.Conv2d(16, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 4, 3, padding=1)

    def __call__(self, sample, timestep):
        angles = timestep[:, None] * mx.exp(mx.arange(8) * -0.5)
        time = mx.concatenate([mx.cos(angles), mx.sin(angles)], axis=-1)
        skip = self.conv1(sample)
        x = self.middle(self.halve(skip), time)
        x = self.double(mx.repeat(mx.repeat(x, 2, axis=1), 2, axis=2))
        return self.conv2(mx.concatenate([x, skip], axis=-1))


NAMES = {
    "conv_in.": "conv1.", "down.": "halve.", "mid.": "middle.", "up.": "double.", "conv_out.": "conv2.",
    ".ff.norm.": ".mlp.ln.", ".ff.fc1.": ".mlp.linear1.", ".ff.fc2.": ".mlp.linear2.", ".norm.": ".group_norm.",
    ".time.": ".time_proj.", ".to_q.": ".query.", ".to_k.": ".key.", ".to_v.": ".value.", ".to_out.": ".out.",
}  # fmt: skip


def mlx_weights(tensors):
    """Published names and layouts to this model's: kernels OHWI."""
    weights = []
    for name, x in tensors.items():
        if "." in name:
            for old, new in NAMES.items():
                name = name.replace(old, new)
            weights.append((name, x.transpose(0, 2, 3, 1) if x.ndim == 4 else x))
    return weights


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    tensors, model, trace = mx.load(sys.argv[1]), UNet(), Trace()
    model.load_weights(mlx_weights(tensors))
    trace.watch("mlx", model)
    model(tensors["sample"].transpose(0, 2, 3, 1), tensors["timestep"])
    trace.save(sys.argv[2])
