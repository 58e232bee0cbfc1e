"""The registry of attention backends: what each one needs from the machine and what it cannot do."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch.nn.attention import SDPBackend

from ..errors import BackendError, UnknownNameError
from ..extensions import brought, brought_names
from . import kernels
from .kernels import AttentionCall, WithLse, records_gradient

Tensor = torch.Tensor
HALF = frozenset({torch.float16, torch.bfloat16})
CUDA = frozenset({"cuda"})


@dataclass(frozen=True)
class AttentionBackend:
    """A way to compute attention, with what it needs from the machine and from the call."""

    name: str
    run: Callable[[AttentionCall], Tensor]
    about: str
    needs_package: str | None = None
    device_types: frozenset[str] | None = None  # None: any
    dtypes: frozenset[torch.dtype] | None = None  # None: any
    max_head_dim: int | None = None
    takes_mask: bool = True
    takes_mask_gradient: bool = True
    takes_dropout: bool = True
    takes_gqa: bool = True
    takes_gradient: bool = True
    takes_other_value_width: bool = True
    takes_causal_rectangle: bool = True  # causal with more keys than queries, or fewer
    also: Callable[[AttentionCall], str | None] | None = None  # a further reason to refuse a call
    run_with_lse: WithLse | None = None  # what a ring over several ranks merges by
    lacks: Callable[[], str | None] | None = None  # a further reason why this machine cannot run it

    def missing(self) -> str | None:
        """Why this backend cannot run on this machine at all, or None."""
        if self.needs_package is not None and importlib.util.find_spec(self.needs_package) is None:
            return f"the package {self.needs_package!r} is not installed"
        if self.device_types == CUDA and not torch.cuda.is_available():
            return "it needs a CUDA device and this machine has none"
        return self.lacks() if self.lacks is not None else None

    def unsuited(self, call: AttentionCall) -> str | None:
        """Why this backend cannot do this call, or None."""
        query, mask = call.query, call.attn_mask
        if self.device_types is not None and query.device.type not in self.device_types:
            return f"it runs on {', '.join(sorted(self.device_types))}, the tensors are on {query.device.type}"
        if self.dtypes is not None and query.dtype not in self.dtypes:
            return f"it computes in {dtype_names(self.dtypes)}, the tensors are {dtype_names({query.dtype})}"
        if self.max_head_dim is not None and query.shape[3] > self.max_head_dim:
            return f"its heads are at most {self.max_head_dim} wide, these are {query.shape[3]}"
        if not self.takes_other_value_width and query.shape[3] != call.value.shape[3]:
            return f"it wants values as wide as keys, these are {call.value.shape[3]} and {query.shape[3]}"
        if not self.takes_mask and mask is not None:
            return "it cannot apply a mask"
        if not self.takes_mask_gradient and records_gradient(mask):
            return "it has no gradient for the mask, and one is being recorded"
        if not self.takes_dropout and call.dropout_p > 0.0:
            return f"it cannot apply dropout (dropout_p={call.dropout_p})"
        if not self.takes_gqa and call.enable_gqa:
            return "it cannot share key heads among query heads (enable_gqa)"
        if not self.takes_causal_rectangle and call.is_causal and query.shape[1] != call.key.shape[1]:
            return f"its causal attention wants as many keys as queries, got {call.key.shape[1]} and {query.shape[1]}"
        if not self.takes_gradient and records_gradient(call.query, call.key, call.value):
            return "it has no gradient, and one is being recorded"
        return self.also(call) if self.also is not None else None


def dtype_names(dtypes: frozenset[torch.dtype] | set[torch.dtype]) -> str:
    return ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))


def flex_refuses(call: AttentionCall) -> str | None:
    """FlexAttention on a processor computes forwards only."""
    if call.query.device.type == "cpu" and records_gradient(call.query, call.key, call.value):
        return "on a processor it has no gradient, and one is being recorded"
    return None


def native_flash_refuses(call: AttentionCall) -> str | None:
    """What differs between torch's flash kernels for the processor and for CUDA."""
    if call.query.device.type == "cpu":
        return f"on a processor it cannot apply dropout (dropout_p={call.dropout_p})" if call.dropout_p > 0.0 else None
    if call.attn_mask is not None:
        return "on CUDA it cannot apply a mask"
    return None if call.query.dtype in HALF else f"on CUDA it computes in {dtype_names(HALF)}"


_REGISTRY: dict[str, AttentionBackend] = {}
_ALIASES: dict[str, str] = {}
_USABLE: set[str] = set()  # names that this machine was found able to run; looking for a package once is enough


def register_backend(backend: AttentionBackend, aliases: tuple[str, ...] = ()) -> AttentionBackend:
    """Add a backend under its name; a name that is taken is refused."""
    for name in (backend.name, *aliases):
        if name in _REGISTRY or name in _ALIASES:
            raise BackendError(f"An attention backend named {name!r} is registered already. Choose another name.")
    _REGISTRY[backend.name] = backend
    _ALIASES.update(dict.fromkeys(aliases, backend.name))
    return backend


def backend_names() -> list[str]:
    """Every registered name, installed or not, and those that installed packages bring."""
    return sorted({*_REGISTRY, *brought_names("attention backend")})


def available_backends() -> list[str]:
    """The names that can run on this machine."""
    return [name for name in backend_names() if (backend := _known(name)) is not None and backend.missing() is None]


def get_backend(name: str) -> AttentionBackend:
    """The backend of that name or alias, if this machine can run it."""
    backend = _known(name) if isinstance(name, str) else None
    if backend is None:
        raise UnknownNameError("attention backend", name, backend_names())
    if backend.name not in _USABLE:
        reason = backend.missing()
        if reason is not None:
            here = ", ".join(available_backends())
            raise BackendError(f"Attention backend {name!r} cannot be used: {reason}. Available here: {here}.")
        _USABLE.add(backend.name)
    return backend


def _known(name: str) -> AttentionBackend | None:
    """The backend of that name or alias; one that a package brings is registered when it is first asked for."""
    own = _REGISTRY.get(_ALIASES.get(name, name))
    if own is not None:
        return own
    found: AttentionBackend | None = brought("attention backend", name, AttentionBackend)
    return None if found is None else register_backend(found)


register_backend(
    AttentionBackend("native", kernels.run_native, "torch's own choice of kernel", run_with_lse=kernels.native_with_lse)
)
register_backend(
    AttentionBackend(
        kernels.OWN,
        kernels.run_own,
        "our own kernel for the processor where it fits, torch's elsewhere",
        run_with_lse=kernels.native_with_lse,
        lacks=kernels.why_not_own,
    )
)
register_backend(
    AttentionBackend(
        kernels.OWN_BF16,
        kernels.run_own_in_bf16,
        "the same with products in bf16, where the processor has them",
        lacks=kernels.why_not_own_bf16,
    )
)
register_backend(
    AttentionBackend(
        "native_math",
        kernels.run_math,
        "the definition, with all scores in memory",
        run_with_lse=kernels.math_with_lse,
    ),
    aliases=("_native_math",),
)
register_backend(
    AttentionBackend(
        "native_flash",
        kernels.run_native_flash,
        "torch's flash kernel",
        device_types=frozenset({"cpu", "cuda"}),
        takes_mask_gradient=False,
        takes_gqa=False,
        takes_other_value_width=False,
        also=native_flash_refuses,
        run_with_lse=kernels.native_with_lse,
    ),
    aliases=("_native_flash",),
)
register_backend(
    AttentionBackend(
        "native_efficient", kernels.run_torch_kernel(SDPBackend.EFFICIENT_ATTENTION),
        "torch's memory-efficient CUDA kernel", device_types=CUDA, takes_gqa=False,
    ),
    aliases=("_native_efficient",),
)  # fmt: skip
register_backend(
    AttentionBackend(
        "native_cudnn", kernels.run_torch_kernel(SDPBackend.CUDNN_ATTENTION), "cuDNN's kernel by torch",
        device_types=CUDA, dtypes=HALF, max_head_dim=128,
    ),
    aliases=("_native_cudnn",),
)  # fmt: skip
register_backend(
    AttentionBackend("chunked", kernels.run_chunked, "the definition for some rows at a time: bounded memory")
)
register_backend(
    AttentionBackend(
        "flex",
        kernels.run_flex,
        "torch's FlexAttention, compiled",
        takes_dropout=False,
        takes_mask_gradient=False,
        also=flex_refuses,
    )
)
FLASH = register_backend(
    AttentionBackend(
        "flash",
        kernels.run_flash,
        "the flash-attn package",
        needs_package="flash_attn",
        device_types=CUDA,
        dtypes=HALF,
        max_head_dim=256,
        takes_mask=False,
        takes_other_value_width=False,
        takes_causal_rectangle=False,
    )
)
register_backend(
    replace(
        FLASH,
        name="sage",
        run=kernels.run_sage,
        about="the sageattention package: 8-bit scores",
        needs_package="sageattention",
        max_head_dim=128,
        takes_dropout=False,
        takes_gradient=False,
    )
)
register_backend(
    AttentionBackend(
        "xformers",
        kernels.run_xformers,
        "the xformers package",
        needs_package="xformers",
        device_types=CUDA,
        takes_gqa=False,
        takes_causal_rectangle=False,
    )
)
