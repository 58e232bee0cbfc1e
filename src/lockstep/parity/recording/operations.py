"""Functional operations between modules, and every random draw, seen through a `TorchFunctionMode`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .capture import Capture
from .running_calls import RunningCalls
from .values import outputs


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


DrawHook = Callable[[int, torch.Tensor], torch.Tensor]


class Kind(Enum):
    """What a torch function is to the recorder."""

    SKIP = 0  # gives no values: getters, predicates, constant factories
    SAME_ORDER = 1  # the same elements in the same order
    DERIVED = 2  # a selection or reordering of elements
    CAST = 3
    RANDOM = 4
    VALUE = 5


_SAME_ORDER = _names(
    "view reshape flatten unflatten squeeze unsqueeze contiguous detach clone view_as reshape_as ravel alias "
    "requires_grad_ detach_ squeeze_ unsqueeze_ cpu cuda"
)
_DERIVED = _names(
    "permute transpose t chunk split tensor_split unbind narrow select __getitem__ expand expand_as movedim swapaxes "
    "swapdims moveaxis repeat repeat_interleave roll flip tile index_select gather broadcast_to unfold view_as_real "
    "view_as_complex mT T real imag take_along_dim split_with_sizes hsplit vsplit dsplit atleast_1d atleast_2d"
)
_VIEWS = _names("T mT H mH real imag")  # read as attributes
_CAST = _names("to type type_as float half double bfloat16 int long")
_RANDOM = _names(
    "rand randn randint randperm normal bernoulli multinomial poisson rand_like randn_like randint_like normal_ "
    "uniform_ random_ bernoulli_ exponential_ cauchy_ geometric_ log_normal_"
)
_DROPOUTS = _names("dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout")
_SKIP = _names(
    "__get__ __set__ zeros ones full empty tensor as_tensor zeros_like ones_like full_like empty_like new_zeros "
    "new_ones new_full new_empty new_tensor from_numpy numpy size dim numel item tolist is_floating_point is_complex "
    "stride storage_offset data_ptr element_size get_device is_contiguous __len__ __bool__ __float__ __int__ __index__ "
    "__repr__ __format__ __str__ __hash__ __contains__ __setitem__ __array__ __deepcopy__ __reduce_ex__ nelement "
    "untyped_storage is_same_size equal allclose isfinite isnan isinf any all is_pinned pin_memory share_memory_ "
    "record_stream backward register_hook zero_ fill_ copy_ set_ resize_ manual_seed get_rng_state set_rng_state "
    "__iter__ unsafe_chunk can_cast result_type promote_types is_tensor is_inference is_storage broadcast_shapes "
    "eq ne lt gt le ge __eq__ __ne__ __lt__ __gt__ __le__ __ge__ eye ndimension _has_compatible_shallow_copy_type"
)
_ALIASES = {
    "truediv": "div",
    "true_divide": "div",
    "divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "concat": "cat",
    "concatenate": "cat",
}


def operation_name(function: Any) -> str:
    """'add' for `torch.add`, `Tensor.__add__`, `__radd__`, `__iadd__` and `add_`."""
    name = getattr(function, "__name__", None) or type(function).__name__
    if name == "__get__":
        return _attribute(function)
    if name.startswith("__") and name.endswith("__") and len(name) > 4:
        name = name[2:-2]
        if name[:1] in "ri" and name[1:] in ("add", "sub", "mul", "truediv", "pow", "matmul", "div"):
            name = ("r" if name[0] == "r" and name[1:] in ("sub", "truediv", "pow", "div") else "") + name[1:]
    name = name.rstrip("_") if not name.startswith("_") else name
    return _ALIASES.get(name, name)


def _attribute(function: Any) -> str:
    """The attribute that a getter reads."""
    return str(getattr(getattr(function, "__self__", None), "__name__", "__get__"))


def kind_of(function: Any) -> Kind:
    name = getattr(function, "__name__", "")
    if name == "__get__":  # `x.mT` is a step like any other, `x.shape` is none
        return Kind.DERIVED if _attribute(function) in _VIEWS else Kind.SKIP
    if name in _SKIP or not name:
        return Kind.SKIP
    if name in _SAME_ORDER:
        return Kind.SAME_ORDER
    if name in _DERIVED:
        return Kind.DERIVED
    if name in _CAST:
        return Kind.CAST
    return Kind.RANDOM if name in _RANDOM else Kind.VALUE


def tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    for value in [*args, *kwargs.values()]:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, torch.Tensor))


class OperationMode(TorchFunctionMode):
    """Watches torch calls; changes nothing unless a `draw_hook` replaces random values on purpose."""

    def __init__(
        self, capture: Capture, frames: RunningCalls, operations: bool, draw_hook: DrawHook | None = None
    ) -> None:
        super().__init__()
        self._capture = capture
        self._frames = frames
        self._operations = operations
        self._draw_hook = draw_hook
        self._draws = 0
        self._kinds: dict[Any, Kind] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():  # a graph is being made: operations inside of it are fused away
            return func(*args, **kwargs)
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = kind_of(func)
        if kind is Kind.SKIP:
            return func(*args, **kwargs)
        if kind is Kind.RANDOM or (kind is Kind.VALUE and _is_dropout(func, args, kwargs)):
            return self._random(func, args, kwargs)
        if not self._operations or not self._frames.open_for_operations():
            return func(*args, **kwargs)
        return self._operation(kind, func, args, kwargs)

    def _operation(self, kind: Kind, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        sources = list(tensors_in(args, kwargs))
        # inputs are looked up before the call: an in-place operation changes the first one
        seqs = self._capture.sources(sources) if kind is Kind.VALUE else ()
        result = func(*args, **kwargs)
        if kind is Kind.CAST:
            same = isinstance(result, torch.Tensor) and bool(sources) and result.dtype == sources[0].dtype
            kind = Kind.SAME_ORDER if same else Kind.VALUE
        if kind is Kind.SAME_ORDER:
            if isinstance(result, torch.Tensor) and sources and result is not sources[0]:
                self._capture.view(result, sources[0])
        elif kind is Kind.DERIVED:
            for piece in result if isinstance(result, (list, tuple)) else [result]:
                if isinstance(piece, torch.Tensor):
                    self._capture.derived(piece, sources)
        else:
            self._value(func, result, args, kwargs, seqs)
        return result

    def _value(
        self, func: Any, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seqs: tuple[int, ...]
    ) -> None:
        found = [
            (slot, tensor) for slot, tensor in outputs(result) if tensor.dtype is not torch.bool and tensor.numel()
        ]
        if not found or not isinstance(result, (torch.Tensor, tuple, list)):
            return
        name = operation_name(func)
        path, frame = self._frames.operation_path(name)
        if self._capture.wants_full(path):
            for index, tensor in enumerate(tensors_in(args, kwargs)):
                self._capture.tensor(path, f"in.{index}", tensor, step=frame.step, call=frame.call, op=name)
        for slot, tensor in found:
            self._capture.tensor(
                path, slot, tensor, step=frame.step, call=frame.call, op=name, deps=seqs, meta=_settings(args, kwargs)
            )

    def _random(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        generator = kwargs.get("generator")
        meta = {
            "function": operation_name(func),
            "generator": "global" if generator is None else str(generator.device),
            "seed": int(torch.initial_seed() if generator is None else generator.initial_seed()),
            "state": _state_hash(torch.get_rng_state() if generator is None else generator.get_state()),
        }
        if generator is not None:
            meta["global_before"] = _state_hash(torch.get_rng_state())
        result = func(*args, **kwargs)
        if generator is not None:
            meta["global_after"] = _state_hash(torch.get_rng_state())
        if not isinstance(result, torch.Tensor):
            return result
        if self._draw_hook is not None:
            result = self._draw_hook(self._draws, result)
        self._draws += 1
        meta["where"] = self._frames.current_path()
        self._frames.random_draw(self._capture, result, meta)
        return result


def _is_dropout(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Dropout draws only while training; its default for `training` is True."""
    if getattr(func, "__name__", "") not in _DROPOUTS:
        return False
    probability = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
    return bool(kwargs.get("training", args[2] if len(args) > 2 else True)) and probability > 0


def _state_hash(state: torch.Tensor) -> str:
    return hashlib.sha256(state.numpy().tobytes()).hexdigest()[:16]


def _settings(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Numbers, flags and names that an operation was given: eps, scale, approximate, is_causal, dim."""
    positional = {str(i): v for i, v in enumerate(args) if isinstance(v, (bool, int, float, str))}
    named = {k: v for k, v in kwargs.items() if isinstance(v, (bool, int, float, str))}
    settings = {
        k: (v if not isinstance(v, float) or abs(v) < 1e300 else str(v)) for k, v in {**positional, **named}.items()
    }
    return {"settings": settings} if settings else {}
