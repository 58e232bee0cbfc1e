"""The tiny UNet in Flax: channels last, kernels HWIO and transposed. `python port_jax.py tiny.safetensors OUT`"""

import sys

import jax
import jax.numpy as jnp
from flax import linen as nn
from ptrace_jax import Trace
from safetensors.numpy import load_file


class FeedForward(nn.Module):
    @nn.compact
    def __call__(self, x):
        hidden = nn.Dense(64, name="fc1")(nn.LayerNorm(epsilon=1e-5, name="norm")(x))
        return x + nn.Dense(x.shape[-1], name="fc2")(nn.gelu(hidden, approximate=False))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, time):
        hidden = nn.swish(nn.GroupNorm(4, epsilon=1e-5, name="norm")(x))
        hidden = nn.Conv(x.shape[-1], (3, 3), padding=1, name="conv")(hidden)
        x = x + hidden + nn.Dense(x.shape[-1], name="time")(time)[:, None, None, :]
        tokens = x.reshape(x.shape[0], -1, x.shape[-1])
        normed = nn.LayerNorm(epsilon=1e-5, name="attn_norm")(tokens)
        q, k, v = (nn.Dense(x.shape[-1], use_bias=False, name=f"to_{part}")(normed) for part in "qkv")
        weights = nn.softmax(q @ k.transpose(0, 2, 1) * 0.25)
        tokens = tokens + nn.Dense(x.shape[-1], name="to_out")(weights @ v)
        return FeedForward(name="ff")(tokens).reshape(x.shape)


class UNet(nn.Module):
    @nn.compact
    def __call__(self, sample, timestep):
        angles = timestep[:, None] * jnp.exp(jnp.arange(8, dtype=jnp.float32) * -0.5)
        time = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=-1)
        skip = nn.Conv(8, (3, 3), padding=1, name="conv_in")(sample)
        x = Block(name="mid")(nn.Conv(16, (3, 3), strides=2, padding=1, name="down")(skip), time)
        x = nn.Conv(8, (3, 3), padding=1, name="up")(x.repeat(2, axis=1).repeat(2, axis=2))
        return nn.Conv(4, (3, 3), padding=1, name="conv_out")(jnp.concatenate([x, skip], axis=-1))


def flax_weights(tensors):
    """Published names and layouts to Flax's: kernels of convolutions HWIO, of dense layers transposed."""
    tree = {}
    for name, x in tensors.items():
        *path, last = name.split(".")
        if last == "weight":
            last = "kernel" if x.ndim > 1 else "scale"
            x = x.transpose(2, 3, 1, 0) if x.ndim == 4 else x.T
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = jnp.asarray(x)
    return tree


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    tensors, trace = load_file(sys.argv[1]), Trace()
    params = flax_weights({name: x for name, x in tensors.items() if "." in name})
    trace.parameters("flax", params)
    with trace.watch("flax"):
        UNet().apply({"params": params}, tensors["sample"].transpose(0, 2, 3, 1), tensors["timestep"])
    trace.save(sys.argv[2])
