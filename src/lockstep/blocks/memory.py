"""How much memory there is, so that what cannot fit is refused before anything runs."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from ..errors import MachineError

MEMINFO, LIMIT, USED = (
    Path("/proc/meminfo"),
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory.current"),
)
LESS = "Ask for less: fewer pictures at once, or smaller ones."
PER_SAMPLE = 8192  # bytes that a sample takes before it has any pixels: its generator, and its places in lists


def free_bytes(device: torch.device) -> int | None:
    """What a device has left; None where it does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type != "cpu":
        return None
    known = [_of_machine(), _of_container()]
    return min((found for found in known if found is not None), default=None)


def _of_machine() -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return sum(int(lines[name].split()[0]) for name in ("MemAvailable", "SwapFree")) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_container() -> int | None:
    try:
        return int(LIMIT.read_text()) - int(USED.read_text())
    except (OSError, ValueError):  # no limit reads "max"
        return None


def require(needed: int, device: torch.device, what: str, instead: str = LESS) -> None:
    """Refuse what takes more than there is, and say what to do instead."""
    free = free_bytes(device)
    if free is not None and needed > free:
        raise MachineError(
            f"{what} would take at least {readable(needed)} of memory, and {device} has {readable(free)} free. "
            f"{instead}"
        )


def readable(count: int) -> str:
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:,.0f} {unit}"
        count //= 1000
    raise AssertionError
