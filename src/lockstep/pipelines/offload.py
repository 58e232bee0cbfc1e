"""Models in main memory, each brought to the accelerator while a block uses it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch


class Offload:
    """Knows which models are on the accelerator. Blocks declare what they use, so no model needs a hook."""

    def __init__(self, device: torch.device, components: Mapping[str, Any]) -> None:
        self.device, self._components = device, components
        self._there: set[str] = set()
        self._lock = threading.RLock()  # one block at a time: two runs must not push each other's models out
        for component in components.values():
            if isinstance(component, torch.nn.Module):
                component.to("cpu")

    @classmethod
    def onto(cls, device: str | torch.device | None, components: Mapping[str, Any]) -> Offload | None:
        """Offload for this device, else the accelerator of this machine; None where they stay in main memory anyway."""
        if device is None and torch.accelerator.is_available():
            device = torch.accelerator.current_accelerator()
        target = torch.device(device or "cpu")
        return None if target.type == "cpu" else cls(target, components)

    @contextlib.contextmanager
    def bring(self, names: Iterable[str], keep: Iterable[str]) -> Iterator[None]:
        """The named models on the accelerator; those that nothing near needs go back to main memory."""
        with self._lock:
            wanted = {name for name in names if isinstance(self._components.get(name), torch.nn.Module)}
            for name in self._there - wanted - set(keep) if wanted else ():
                self._components[name].to("cpu")
                self._there.discard(name)
            for name in wanted:
                self._components[name].to(self.device)
                self._there.add(name)
            yield
