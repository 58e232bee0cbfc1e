"""What glibc does with memory that is freed, for a process that makes pictures."""

from __future__ import annotations

import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # names of mallopt's parameters, from malloc.h
LARGE = 2**30


def keep_freed_memory() -> bool:
    """Keep freed buffers for the next ones instead of giving them back: large results cost no page faults then.

    It is for the whole process, so a command does it, not the library; False where there is no glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(what, LARGE) == 1 for what in (MMAP_THRESHOLD, TRIM_THRESHOLD))
