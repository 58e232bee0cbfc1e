"""What a run holds after each of its blocks: a look for those who watch, the numbers where a request wants a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ...blocks.wiring import NUMBER
from .edits import summary

MOST_BYTES = 256 * 2**20  # of one trace; what comes later is left out, and the job's notes say so


class Boundaries:
    """The values that each block of one run has made, by the path of the block."""

    def __init__(self, run: Any, keeps: bool) -> None:
        self.run, self.keeps, self.left_out = run, keeps, 0
        self._makes = {
            visit.place.path: visit.makes for visit in run.plan.flow.visits if visit.place.block.kind == "leaf"
        }
        self._kept: dict[str, torch.Tensor] = {}
        self._bytes = 0

    def made(self, path: str) -> dict[str, Any]:
        """What the block at a path (with the numbers of steps in it) has made."""
        names = self._makes.get(NUMBER.sub("", path), ())
        return {name: self.run.state.get(name) for name in names if name in self.run.state}

    def looks(self, path: str) -> dict[str, Any]:
        return summary(self.made(path))

    def note(self, path: str) -> None:
        """Keep the numbers that a block has just made, if a trace is wanted."""
        if not self.keeps:
            return
        for name, value in self.made(path).items():
            if isinstance(value, torch.Tensor) and value.numel():
                self._keep(path, name, value)

    def _keep(self, path: str, name: str, value: torch.Tensor) -> None:
        plain = value.detach().to("cpu", torch.float32 if value.is_floating_point() else value.dtype)
        if self._bytes + plain.nbytes > MOST_BYTES:
            self.left_out += 1
            return
        self._bytes += plain.nbytes
        where = f"{len(self._kept):06d}|{step_of(path)}|{NUMBER.sub('', path)}|out.{name}"
        self._kept[where] = plain.clone(memory_format=torch.contiguous_format)

    def write(self, path: Path) -> None:
        """The trace as a file, which `lockstep parity diff` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(self._kept or {"000000|-|nothing|out": torch.zeros(1)}, path)


def step_of(path: str) -> str:
    """`denoise:003` for `denoise.003.step`, `-` outside of loops."""
    parts, found = path.split("."), []
    for k, part in enumerate(parts):
        if part.isdigit() and k:
            found.append(f"{parts[k - 1]}:{part}")
    return "/".join(found) or "-"
