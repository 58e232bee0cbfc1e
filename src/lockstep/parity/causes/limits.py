"""An end to a run that takes much longer than it should."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TooLong(BaseException):
    """Raised in the thread that runs for too long; no code of a model takes it for an error of its own."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """`TooLong` in this thread after so many seconds."""
    thread, lock, done = threading.get_ident(), threading.Lock(), False

    def end() -> None:
        with lock:
            if not done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TooLong))

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            done = True
        timer.cancel()
