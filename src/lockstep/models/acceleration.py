"""The layers of a model computed by our own kernels, each tried on its own weights before; and back."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import _disable_current_modes

from .. import kernels
from ..attention import AttentionModuleMixin
from ..attention.kernels import OWN, OWN_BF16
from ..errors import UnsupportedError
from ..kernels import operators
from . import bf16_layers, fast_layers, fast_token_layers, fast_unet_blocks, kept_weights, remembered
from .autoencoders import parts
from .autoencoders.autoencoder_kl import ResnetBlock2D as AutoencoderResnet
from .autoencoders.autoencoder_kl import Upsample2D as AutoencoderUpsample
from .bf16_layers import BOUND, Choice
from .examples import Call
from .fast import Prepared
from .frugal import make_frugal
from .layers import GEGLU, ResnetBlock2D, TanhGELU, Upsample2D
from .remembered import LayerTrial
from .transformers.layers import AdaLayerNormContinuous, AdaLayerNormZero
from .transformers.transformer_flux import FluxSingleTransformerBlock
from .transformers.transformer_wan import FP32LayerNorm, WanTransformerBlock
from .unets.unet_2d_blocks import Attention, BasicTransformerBlock, CrossAttnUpBlock2D, Transformer2DModel, UpBlock2D

FAST: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: fast_layers.FastLinear,
    nn.Conv2d: fast_layers.FastConvolution,
    nn.GroupNorm: fast_layers.FastGroupNorm,
    GEGLU: fast_layers.FastGEGLU,
    ResnetBlock2D: fast_layers.FastResnetBlock2D,
    AutoencoderResnet: fast_layers.FastAutoencoderResnet,
    AutoencoderUpsample: fast_layers.FastAutoencoderUpsample,
    nn.LayerNorm: fast_token_layers.FastLayerNorm,
    FP32LayerNorm: fast_token_layers.FastFP32LayerNorm,
    nn.RMSNorm: fast_token_layers.FastRMSNorm,
    AdaLayerNormZero: fast_token_layers.FastAdaLayerNormZero,
    AdaLayerNormContinuous: fast_token_layers.FastAdaLayerNormContinuous,
    TanhGELU: fast_token_layers.FastTanhGELU,
    FluxSingleTransformerBlock: fast_token_layers.FastFluxSingleTransformerBlock,
    WanTransformerBlock: fast_token_layers.FastWanTransformerBlock,
    Upsample2D: fast_layers.FastUpsample2D,
    UpBlock2D: fast_unet_blocks.FastUpBlock2D,
    CrossAttnUpBlock2D: fast_unet_blocks.FastCrossAttnUpBlock2D,
    Attention: fast_unet_blocks.FastAttention,
    BasicTransformerBlock: fast_unet_blocks.FastBasicTransformerBlock,
    Transformer2DModel: fast_unet_blocks.FastTransformer2DModel,
}
LARGEST = 5e-6  # relative L2 to fp64 that a layer may have; ours have up to 3e-6, torch's up to 2e-6
PIXELS = 10  # rows and columns of the map that a convolution is tried on: two and a half tiles


@dataclass(frozen=True)
class Acceleration:
    """What was accelerated, and how exact it was found to be."""

    level: str
    layers: int
    error: float  # the largest relative L2 of a layer to the same in fp64
    torch_error: float  # and that of torch's own kernels on the same layers
    left: tuple[str, ...]  # layers that stay with torch, because their error was larger
    bf16: Choice | None = None  # which layers multiply in bf16, and what that does to the whole model

    @property
    def name(self) -> str:
        """What a manifest says of it: `exact`, `high=0.02`."""
        return self.level if self.bf16 is None else f"{self.level}={self.bf16.bound:g}"

    def __str__(self) -> str:
        if not self.layers:
            return f"{self.level}: torch computes all layers, our own kernels take fp32 on the processor"
        left = f"; left to torch: {', '.join(self.left)}" if self.left else ""
        errors = f"error of a layer at most {self.error:.1e}, of torch's {self.torch_error:.1e}"
        return f"{self.level}: {self.layers} layers by our own kernels ({errors}){left}{self._about_bf16()}"

    def _about_bf16(self) -> str:
        if self.bf16 is None:
            return ""
        chosen, kept = len(self.bf16.in_bf16), len(self.bf16.kept)
        whole = f"relative L2 of the whole model to fp32: {self.bf16.error:.1e}"
        most = f", the most sensitive {', '.join(self.bf16.kept[:3])}" if kept else ""
        return f"; {chosen} of them multiply in bf16, {kept} stay fp32{most} ({whole})"


def fast_class(plain: type[nn.Module]) -> type[nn.Module] | None:
    """The fast class of a layer's class; a subclass that follows the dtype of its input keeps its own way back."""
    if plain not in FAST and plain.__module__ == parts.__name__ and plain.__bases__[0] in FAST:
        fast = FAST[plain.__bases__[0]]
        FAST[plain] = type(fast.__name__, (fast, plain), {"__module__": fast.__module__})
    return FAST.get(plain)


def make_fast(
    model: nn.Module,
    level: str,
    call: Call | None = None,
    bound: float = BOUND,
    frugal: bool = False,
    remember: bool = False,
) -> Acceleration:
    """Give every layer that has one its fast class, if it is exact on the layer's weights; "high" goes on in bf16."""
    reason = kernels.why_not()
    if reason is not None:
        raise UnsupportedError(f"There are no kernels of our own here: {reason}.")
    make_plain(model)
    trial = remembered.tried(model, lambda: _trial(model))
    changed = _change_classes(model, trial.left)
    choice = _choice(model, call, bound, remember) if level == "high" and call is not None else None
    if frugal:
        make_frugal(model)
    else:
        _prepare(model)
    return Acceleration(level, changed, trial.error, trial.torch_error, trial.left, choice)


def _prepare(model: nn.Module) -> None:
    """Every layer's weights as the kernels read them: from the disk, where a large model's are kept, or made now."""
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, Prepared) and operators.takes(*(one.detach() for one in module.sources()))
    }
    if not kept_weights.adopt(model, layers):
        for layer in layers.values():
            layer.prepared()


def _trial(model: nn.Module) -> LayerTrial:
    """How exact the layers are, and which have to stay with torch."""
    errors = _tried(model)
    inexact = {kind for kind, (own, torchs) in errors.items() if not own <= max(LARGEST, 2 * torchs)}
    left = tuple(name for name, module in model.named_modules() if _kind(module) in inexact)
    kept = [found for kind, found in errors.items() if kind not in inexact]
    return LayerTrial(
        max((own for own, _ in kept), default=0.0), max((torchs for _, torchs in kept), default=0.0), left
    )


def _choice(model: nn.Module, call: Call, bound: float, remember: bool) -> Choice:
    """Which layers multiply in bf16; a choice by an example of our own is remembered."""
    choose = lambda: bf16_layers.choose(model, call, bound)  # noqa: E731
    return remembered.chosen(model, bound, call, choose) if remember else choose()


def _change_classes(model: nn.Module, left: tuple[str, ...]) -> int:
    """How many layers have their fast class now."""
    # projections that are computed with what bends them
    inside = {f"{name}.proj" for name, module in model.named_modules() if isinstance(module, (GEGLU, TanhGELU))}
    changed = 0
    for name, module in model.named_modules():
        fast = fast_class(type(module))
        if fast is not None and name not in inside:
            module._plain_class = type(module)
            module.__class__ = fast
            if name in left:
                module.by_torch = True
            changed += name not in left and _computed(module)
        if isinstance(module, AttentionModuleMixin) and getattr(module.processor, "_attention_backend", "") is None:
            module.set_attention_backend(OWN)
    return changed


def recounted(model: nn.Module, told: Acceleration) -> Acceleration:
    """The same with the layers that our kernels take now: weights may have another dtype or device since."""
    fast = (module for module in model.modules() if "_plain_class" in module.__dict__)
    return replace(told, layers=sum(_computed(module) for module in fast if not module.__dict__.get("by_torch")))


def _computed(module: nn.Module) -> bool:
    """Do our kernels take the weights of a layer, or of what is in it?"""
    return operators.takes(next((one.detach() for one in module.parameters()), None))


MADE = ("_prepared", "_text", "by_torch", "in_bf16", "frugal", "keeps")  # what a fast layer has of its own
State = list[tuple[nn.Module, type[nn.Module], dict[str, Any], Any]]


def state_of(model: nn.Module) -> State:
    """What acceleration has made of each module."""
    names = ("_plain_class", "_drive", *MADE)
    return [
        (
            module,
            type(module),
            {name: module.__dict__[name] for name in names if name in module.__dict__},
            _backend(module),
        )
        for module in model.modules()
    ]


def put_back(state: State) -> None:
    """Each module as it was then."""
    for module, kind, own, backend in state:
        module.__class__ = kind
        module.__dict__.update(own)
        if isinstance(module, AttentionModuleMixin) and _backend(module) != backend:
            module.set_attention_backend(backend)


def _backend(module: nn.Module) -> Any:
    return getattr(module.processor, "_attention_backend", "") if isinstance(module, AttentionModuleMixin) else ""


def _plain_of(module: nn.Module, plain: type[nn.Module]) -> type[nn.Module]:
    """The class without ours: a parametrization that came later has made one of its own of it, and keeps that."""
    kind = type(module)
    if not parametrize.is_parametrized(module) or kind in FAST.values():
        return plain
    own = {name: value for name, value in vars(kind).items() if name not in ("__dict__", "__weakref__")}
    return type(f"Parametrized{plain.__name__}", (plain,), own)


def make_plain(model: nn.Module) -> None:
    """Every layer as it was."""
    for module in model.modules():
        plain = module.__dict__.pop("_plain_class", None)
        if plain is not None:
            module.__class__ = _plain_of(module, plain)
            for made in MADE:
                module.__dict__.pop(made, None)
        if isinstance(module, AttentionModuleMixin) and getattr(module.processor, "_attention_backend", "") in (
            OWN,
            OWN_BF16,
        ):
            module.set_attention_backend(None)


Kind = tuple[object, ...]


def _kind(module: nn.Module) -> Kind:
    """Layers of one kind have one class and the same sizes."""
    return type(module), *(tuple(parameter.shape) for parameter in module.parameters(recurse=False))


@torch.no_grad()
@torch.autocast("cpu", enabled=False)
def _tried(model: nn.Module) -> dict[Kind, tuple[float, float]]:
    """Relative L2 to fp64 of one layer of each kind, by our kernel and by torch's; in no mode that hides either."""
    found: dict[Kind, tuple[float, float]] = {}
    with _disable_current_modes():
        _try_each(model, found)
    return found


def _try_each(model: nn.Module, found: dict[Kind, tuple[float, float]]) -> None:
    for module in model.modules():
        fast, kind = fast_class(type(module)), _kind(module)
        x = None if fast is None or kind in found else _example(module)
        if fast is None or x is None:
            continue
        own = copy.copy(module)  # shares the weights, not the class
        own.__class__ = fast
        exact = copy.deepcopy(module).double()(x.double())
        found[kind] = _distance(own(x), exact), _distance(module(x), exact)


def _example(module: nn.Module) -> torch.Tensor | None:
    """Noise that a layer takes; None for what is made of layers, or is no fp32 on the processor."""
    weight = getattr(module, "weight", None)
    if weight is None or weight.dtype != torch.float32 or not weight.is_cpu or not operators.lies_plainly(weight):
        return None
    random = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float32, device="cpu", generator=random)

    if isinstance(module, nn.Linear):
        return noise(16, module.in_features)
    if isinstance(module, nn.Conv2d):
        pixels = (max(PIXELS, size) for size in module.kernel_size)
        return noise(1, module.in_channels, *pixels)
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
        return noise(16, *module.normalized_shape)
    assert isinstance(module, nn.GroupNorm)
    return noise(1, module.num_channels, PIXELS, PIXELS)


def _distance(result: torch.Tensor, exact: torch.Tensor) -> float:
    return float((result.double() - exact).norm() / exact.norm().clamp_min(1e-30))
