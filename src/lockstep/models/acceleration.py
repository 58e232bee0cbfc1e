"""`accelerate`: the layers of a model computed by our own kernels, at torch's own error, and back."""

from __future__ import annotations

import functools

from torch import nn

from ..attention import AttentionModuleMixin
from . import fast_layers
from .autoencoders.autoencoder_kl import ResnetBlock2D as AutoencoderResnet
from .layers import GEGLU, ResnetBlock2D

FAST: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: fast_layers.FastLinear,
    nn.Conv2d: fast_layers.FastConvolution,
    nn.GroupNorm: fast_layers.FastGroupNorm,
    GEGLU: fast_layers.FastGEGLU,
    ResnetBlock2D: fast_layers.FastResnetBlock2D,
    AutoencoderResnet: fast_layers.FastAutoencoderResnet,
}
BACKEND = "lockstep"


@functools.cache
def fast_class(plain: type[nn.Module]) -> type[nn.Module] | None:
    """The fast class of a layer's class; a subclass that only changes dtypes keeps what it does as the way back."""
    for base, fast in FAST.items():
        if plain is base:
            return fast
        if plain.__bases__ == (base,) and plain.__module__ == "lockstep.models.autoencoders.parts":
            return type(f"{fast.__name__}", (fast, plain), {"__module__": fast.__module__})
    return None


def make_fast(model: nn.Module) -> int:
    """Change the class of every layer that has a fast one; how many there are."""
    changed = 0
    for module in model.modules():
        fast = fast_class(type(module))
        if fast is not None:
            module._plain_class = type(module)
            module.__class__ = fast
            changed += 1
        elif isinstance(module, AttentionModuleMixin) and getattr(module.processor, "_attention_backend", "") is None:
            module.set_attention_backend(BACKEND)
    return changed


def make_plain(model: nn.Module) -> None:
    """Every layer as it was."""
    for module in model.modules():
        plain = module.__dict__.pop("_plain_class", None)
        if plain is not None:
            module.__class__ = plain
            module.__dict__.pop("_prepared", None)
        elif isinstance(module, AttentionModuleMixin) and getattr(module.processor, "_attention_backend", "") == BACKEND:
            module.set_attention_backend(None)
