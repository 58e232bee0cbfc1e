"""The memory of this process: how much it is, what glibc does with what is freed, and weights that leave it."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import torch

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # names of mallopt's parameters, from malloc.h
LARGE = 2**30
PAGE_OUT = 21  # madvise: what is on disk, or can be, leaves memory; what is in no file stays
STATUS, REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def keep_freed_memory() -> bool:
    """Keep freed buffers for the next ones instead of giving them back: large results cost no page faults then.

    It is for the whole process, so a command does it, not the library; False where there is no glibc.
    """
    return _thresholds(LARGE, LARGE)


def give_back_freed_memory() -> bool:
    """Give every freed buffer of a MiB or more back at once; for the whole process, too."""
    return _thresholds(2**20, 2**20)


def trim() -> None:
    """Give back what glibc has kept."""
    trimmed = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trimmed is not None:
        trimmed(0)


def _thresholds(mapped: int, trimmed: int) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    wanted = (MMAP_THRESHOLD, mapped), (TRIM_THRESHOLD, trimmed)
    return mallopt is not None and all(mallopt(what, size) == 1 for what, size in wanted)


def page_out(tensor: torch.Tensor) -> None:
    """Let whole pages of a tensor that a file holds leave memory; who reads them has them read again.

    Pages that somebody has written to are in no file, and stay.
    """
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    if advise is None or tensor.device.type != "cpu" or not tensor.is_contiguous():
        return
    first, last = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    first, last = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE, last // mmap.PAGESIZE * mmap.PAGESIZE
    if first < last:
        advise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), PAGE_OUT)


def resident() -> int:
    """Memory of this process now, in bytes; 0 where the system does not say."""
    return _status("VmRSS")


def peak() -> int:
    """The most since the process began, or since `forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Count the most from now on, where the system can."""
    try:
        REFERENCES.write_text("5")
    except OSError:
        return


def _status(name: str) -> int:
    for line in STATUS.read_text().splitlines() if STATUS.exists() else ():
        words = line.split()
        if words[0] == f"{name}:":
            return int(words[1]) * 1024
    return 0
