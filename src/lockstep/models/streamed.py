"""A model whose blocks come to an accelerator one after the other, each while the one before it computes.

The weights stay in main memory (pinned, where the device can copy from there by itself); a stream of its own brings the
next block. Streams and events are those that torch has for any accelerator; without them a block is brought when it is
called. It was tested on the processor and on `meta`, and has not been measured on an accelerator.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..errors import UnsupportedError
from .device_speed import repeated_blocks

Tensor = torch.Tensor


def has_streams(device: torch.device) -> bool:
    """Is the device the accelerator of this machine, which copies while it computes?"""
    there = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return there is not None and there.type == device.type and device.type != "mps"


@dataclass(frozen=True)
class Place:
    """A parameter or buffer of a layer, as it is in main memory."""

    layer: nn.Module
    name: str
    own: Tensor

    @classmethod
    def all_of(cls, module: nn.Module, pinned: bool) -> list[Place]:
        """Those of a module and of all that is in it."""
        found = []
        for layer in module.modules():
            for kept in (layer._parameters, layer._buffers):
                for name, own in kept.items():
                    if own is None:
                        continue
                    if pinned and not own.is_pinned():
                        own.data = own.data.pin_memory()
                    found.append(cls(layer, name, own))
        return found

    def copy(self, device: torch.device, non_blocking: bool) -> None:
        """Let the layer have a copy on a device."""
        there = self.own.detach().to(device, non_blocking=non_blocking)
        if isinstance(self.own, nn.Parameter):
            self.layer._parameters[self.name] = nn.Parameter(there, requires_grad=False)
        else:
            self.layer._buffers[self.name] = there

    def back(self) -> None:
        """Let it have its own again."""
        kept = self.layer._parameters if isinstance(self.own, nn.Parameter) else self.layer._buffers
        kept[self.name] = self.own  # type: ignore[assignment]


class Streamed:
    """Knows which blocks are on the device. What is in no block goes there at once, and stays until it is stopped."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self.blocks, self.device = repeated_blocks(model), device
        if not self.blocks:
            raise UnsupportedError(f"{type(model).__name__} has no blocks that repeat; move it as a whole.")
        self.streams = has_streams(device)
        self.stream: Any = torch.Stream(device) if self.streams else None
        self.places = [Place.all_of(block, pinned=self.streams) for block in self.blocks]
        inside = {id(place.layer) for places in self.places for place in places}
        self.rest = [place for place in Place.all_of(model, pinned=False) if id(place.layer) not in inside]
        for place in self.rest:
            place.copy(device, non_blocking=False)
        self.there: dict[int, Any] = {}  # block -> the event after which it is there
        self.hooks = [hook for number, block in enumerate(self.blocks) for hook in self._hooks(number, block)]

    def _hooks(self, number: int, block: nn.Module) -> list[Any]:
        def before(*_: Any) -> None:
            self.bring(number)
            self.wait(number)
            if self.streams:
                self.bring((number + 1) % len(self.blocks))

        def after(*_: Any) -> None:
            self.send_back(number)

        return [block.register_forward_pre_hook(before), block.register_forward_hook(after, always_call=True)]

    def bring(self, number: int) -> None:
        """Begin to copy a block; with a stream, while the device computes something else."""
        if number in self.there:
            return
        with self.stream if self.streams else contextlib.nullcontext():
            for place in self.places[number]:
                place.copy(self.device, non_blocking=self.streams)
        self.there[number] = self.stream.record_event() if self.streams else None

    def wait(self, number: int) -> None:
        """Let what is computed from now on wait for the block; its memory is not used again before that is done."""
        if not self.streams:
            return
        now: Any = torch.accelerator.current_stream(self.device)
        now.wait_event(self.there[number])
        for tensor in (*self.blocks[number].parameters(), *self.blocks[number].buffers()):
            tensor.data.record_stream(now)

    def send_back(self, number: int) -> None:
        """The weights have not changed: those in main memory are taken again, and the copy is let go of."""
        self.there.pop(number, None)
        for place in self.places[number]:
            place.back()

    def stop(self) -> None:
        """Everything is in main memory, and no hook is left."""
        for hook in self.hooks:
            hook.remove()
        for number in range(len(self.blocks)):
            self.send_back(number)
        for place in self.rest:
            place.back()
