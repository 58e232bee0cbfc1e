"""A bound on the memory of the process: models that are not in use let go of what they prepared where room is short."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .. import memory
from ..errors import InputError
from ..models import frugal
from ..models.accelerated import Accelerated
from ..models.weights import size_text
from ..notes import say_once

# for what a call takes on top, until one was seen: at 512 x 512 pixels the decoder of SD 1.5 takes 0.9 GB, its UNet 0.2
ROOM, ROOM_OF_PIXELS = 5 * 10**8, 10**9
OF_WEIGHTS = 4  # times its weights: a small model makes small pictures
MARGIN = 1.05  # memory that threads, libraries and the allocator take without being asked


def room_of(model: Accelerated) -> int:
    """What a call of a model may take on top; an autoencoder has maps of the size of the picture."""
    most = ROOM_OF_PIXELS if hasattr(model, "decode") else ROOM
    return min(most, OF_WEIGHTS * sum(weight.nbytes for weight in model.parameters()))


class Bounded:
    """Knows what may be in memory. Blocks declare what they use, so no model needs a hook."""

    def __init__(self, most: int, components: Mapping[str, Any]) -> None:
        self.most, self._components = most, components
        self._taken: dict[str, int] = {}  # model -> the most that a call took on top
        self._lock = threading.Lock()
        self.peak = 0  # of the runs so far

    def models(self) -> dict[str, Accelerated]:
        """Those that prepare something."""
        return {name: one for name, one in self._components.items() if isinstance(one, Accelerated)}

    def check(self) -> None:
        """Refuse what cannot be, before anything is changed; what is prepared now will be let go of."""
        models = self.models().values()
        own = max(0, memory.resident() - sum(frugal.prepared(model) for model in models))
        least = own + max((frugal.weights(model) + room_of(model) for model in models), default=0)
        if least > self.most * MARGIN:
            raise InputError(
                f"max_memory is {size_text(self.most)}; the largest of these models and a call of it take "
                f"{size_text(least)}. Give that much, or smaller models."
            )

    def share(self) -> None:
        """Spend what is left beside weights and calls on transformed weights."""
        models = self.models().values()
        taken = memory.resident() + sum(frugal.to_come(model) for model in models)
        frugal.keep_within(models, self.most - taken - max((room_of(model) for model in models), default=0))

    @contextlib.contextmanager
    def bring(self, names: Iterable[str], keep: Iterable[str]) -> Iterator[None]:
        """Room for the named models; others let go of what they have, those that are used near last."""
        models = self.models()
        wanted = [name for name in names if name in models]
        if not wanted:
            yield
            return
        with self._lock:
            self._make_room(models, wanted, set(keep))
            before = memory.resident() + sum(frugal.to_come(models[name]) for name in wanted)
            self.peak = max(self.peak, memory.peak())
            memory.forget_peak()
        yield
        with self._lock:
            highest = memory.peak()
            self.peak = max(self.peak, highest)
            for name in wanted:
                self._taken[name] = max(self._taken.get(name, 0), highest - before)

    def _make_room(self, models: Mapping[str, Accelerated], wanted: list[str], near: set[str]) -> None:
        room = max(self._taken.get(name, room_of(models[name])) for name in wanted)
        need = room + sum(frugal.to_come(models[name]) for name in wanted)
        others = sorted((name for name in models if name not in wanted), key=lambda name: name in near)
        for name in others:
            if memory.resident() + need <= self.most:
                return
            frugal.let_go(models[name])
        if memory.resident() + need > self.most * MARGIN:
            say_once(f"{', '.join(wanted)}: a call may take more than max_memory, {size_text(self.most)}.")
