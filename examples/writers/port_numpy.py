"""The tiny UNet in numpy: channels last, one projection for query, key and value.

`python port_numpy.py tiny.safetensors OUT`
"""

import math
import sys

import numpy as np
from ptrace_numpy import Trace
from safetensors.numpy import load_file

w, trace = load_file(sys.argv[1]), Trace()


def conv(path, x, stride=1):
    """x is NHWC, the kernel HWIO."""
    kernel, bias = w[f"{path}.weight"].transpose(2, 3, 1, 0), w[f"{path}.bias"]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::stride, ::stride]
    trace.put(f"net.{path}.kernel", "param", kernel)
    trace.put(f"net.{path}.bias", "param", bias)
    return put(path, np.einsum("nyxcij,ijco->nyxo", windows, kernel, optimize=True) + bias)


def linear(path, x, kernel=None, bias=None):
    kernel = w[f"{path}.weight"].T if kernel is None else kernel
    bias = w.get(f"{path}.bias") if bias is None else bias
    trace.put(f"net.{path}.kernel", "param", kernel)
    if bias is not None:
        trace.put(f"net.{path}.bias", "param", bias)
    return put(path, x @ kernel + (0 if bias is None else bias))


def normed(path, x, axes, shape, eps=1e-5):
    grouped = x.reshape(shape)
    centred = grouped - grouped.mean(axes, keepdims=True)
    result = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + np.float32(eps))
    trace.put(f"net.{path}.scale", "param", w[f"{path}.weight"])
    trace.put(f"net.{path}.bias", "param", w[f"{path}.bias"])
    return put(path, result.reshape(x.shape) * w[f"{path}.weight"] + w[f"{path}.bias"])


def put(path, x):
    trace.put(f"net.{path}", "out", x)
    return x


def gelu(x):
    return x * (1 + np.vectorize(math.erf, otypes=[np.float32])(x / np.float32(math.sqrt(2)))) * np.float32(0.5)


def block(x, time):
    n, h, wide, c = x.shape
    hidden = normed("mid.norm", x, (1, 3), (n, h * wide, 4, c // 4))
    hidden = conv("mid.conv", hidden / (1 + np.exp(-hidden)))
    x = x + hidden + linear("mid.time", time)[:, None, None, :]
    tokens = x.reshape(n, h * wide, c)
    qkv = np.concatenate([w[f"mid.to_{part}.weight"] for part in "qkv"]).T
    q, k, v = np.split(linear("mid.qkv", normed("mid.attn_norm", tokens, -1, tokens.shape), qkv), 3, axis=-1)
    scores = q @ k.transpose(0, 2, 1) * np.float32(0.25)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    tokens = tokens + linear("mid.to_out", scores / scores.sum(-1, keepdims=True) @ v)
    hidden = linear("mid.ff.fc1", normed("mid.ff.norm", tokens, -1, tokens.shape))
    tokens = put("mid.ff", tokens + linear("mid.ff.fc2", gelu(hidden)))
    return put("mid", tokens.reshape(n, h, wide, c))


def unet(sample, timestep):
    angles = timestep[:, None] * np.exp(np.arange(8, dtype=np.float32) * np.float32(-0.5))
    time = np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)
    skip = conv("conv_in", sample)
    x = block(conv("down", skip, stride=2), time)
    x = conv("up", x.repeat(2, axis=1).repeat(2, axis=2))
    return conv("conv_out", np.concatenate([x, skip], axis=-1))


trace.put("net", "in.sample", w["sample"].transpose(0, 2, 3, 1))
trace.put("net", "out", unet(w["sample"].transpose(0, 2, 3, 1), w["timestep"]))
trace.save(sys.argv[2])
