"""A side of a comparison that can be run again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import ParityError
from ..recording.replay import replay
from ..recording.targets import Target, as_written, find_target
from ..trace.reader import Trace
from .hypotheses.kept_state import copied
from .hypotheses.state import keeping_parts


@dataclass
class Live:
    """A model or pipeline that can be run again; `call` repeats the recorded run (a module needs none)."""

    target: Any
    call: Callable[[], Any] | None = None
    name: str | None = None
    begun: dict[str, dict[str, Any]] = field(default_factory=dict)  # attributes before the recorded run, by part
    build: Callable[[], tuple[Any, ...]] | None = None  # makes target, call and maybe name anew, as for `prove`
    parts: Target = field(init=False)

    def __post_init__(self) -> None:
        self.parts = find_target(self.target, self.name)

    def again(self) -> Live:
        """The side made anew."""
        if self.build is None:
            raise ParityError("this side cannot be made again: nothing says how it is built")
        target, call, *name = self.build()
        return Live(target, call, name[0] if name else self.name)

    def rename(self, trace: Trace) -> None:
        """The root name that the trace was recorded under."""
        roots = [path for path in trace.meta.get("modules", {}) if "." not in path]
        if self.name is None and len(self.parts.modules) == 1 and len(roots) == 1 and self.parts.pipeline is None:
            self.name = roots[0]
            self.parts = find_target(self.target, self.name)

    def run(self, trace: Trace) -> Any:
        if self.call is not None:
            return self.call()
        (root, module), *_ = self.parts.modules.items()
        return replay(trace, module, root)

    def weights(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by their paths in the trace."""
        return {
            f"{root}.{as_written(path)}": tensor.detach()
            for root, module in self.parts.modules.items()
            for path, tensor in [*module.named_parameters(), *module.named_buffers()]
        }


def state_of(target: Any, name: str | None = None) -> dict[str, dict[str, Any]]:
    """The attributes of everything that may keep something from run to run, as they are now."""
    parts = find_target(target, name)
    return {part: copied(vars(kept)) for part, kept in keeping_parts(parts).items() if hasattr(kept, "__dict__")}


def live_side(side: Any, trace: Trace) -> Live | None:
    """A model, a pipeline or a `Live` as the one that made this trace."""
    if side is None:
        return None
    live = side if isinstance(side, Live) else Live(side)
    live.rename(trace)
    return live
