"""Where the models of a pipeline are and in what they compute."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any, Self

import torch

from ..blocks.params import ComponentSpec
from ..models.modeling import resolve_device
from .bounded import Bounded
from .offload import Offload
from .tree import TreeMixin

Place = str | int | torch.device


class PlacementMixin(TreeMixin):
    """Devices and dtypes of a pipeline's models."""

    _unloaded: dict[str, ComponentSpec]
    _load_options: dict[str, Any]
    _from_index: set[str]
    _offload: Offload | None
    _bounded: Bounded | None = None
    _lock: threading.RLock

    def given_models(self) -> dict[str, torch.nn.Module]:
        """The models that were given, instead of being loaded with the pipeline."""
        return {name: module for name, module in self._modules().items() if name not in self._from_index}

    @property
    def model_names(self) -> list[str]:
        """The components that are models, those that are not loaded yet included."""
        waiting = [name for name, spec in self._unloaded.items() if issubclass(spec.type_hint, torch.nn.Module)]
        return [name for name in self._specs if name in waiting or name in self._modules()]

    def _modules(self) -> dict[str, torch.nn.Module]:
        return {name: part for name, part in self._components.items() if isinstance(part, torch.nn.Module)}

    @property
    def device(self) -> torch.device:
        """Where the models compute."""
        if self._offload is not None:
            return self._offload.device
        return next((p.device for module in self._modules().values() for p in module.parameters()), torch.device("cpu"))

    _execution_device = device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the first model."""
        return next(
            (p.dtype for m in self._modules().values() for p in m.parameters() if p.is_floating_point()), torch.float32
        )

    def to(self, *where: Place | torch.dtype, device: Place | None = None, dtype: torch.dtype | None = None) -> Self:
        """Move and cast the models: `pipe.to("cuda")`, `pipe.to(torch.float16)`, `pipe.to("cuda", torch.float16)`."""
        for one in where:
            device, dtype = (device, one) if isinstance(one, torch.dtype) else (one, dtype)
        options: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
        options |= {} if device is None else {"device": resolve_device(device)}
        with self._lock:
            self._offload = None
            self._load_options |= options
            for module in self._modules().values():
                module.to(**options)
        return self

    def enable_model_cpu_offload(self, device: str | torch.device | None = None) -> Self:
        """Keep the models in main memory; each comes to the accelerator while a block uses it. Nothing without one."""
        self._offload = Offload.onto(None if device is None else resolve_device(device), self._components)
        return self

    def placed(
        self, names: Iterable[str], near: Callable[[], Iterable[str]]
    ) -> contextlib.AbstractContextManager[None]:
        """A context in which the named components are where they compute; those used `near` by need not leave."""
        keeper = self._offload or self._bounded
        return contextlib.nullcontext() if keeper is None else keeper.bring(names, near())
