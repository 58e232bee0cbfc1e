"""A search that somebody wants to end from outside ends as with Ctrl-C: with the verdict and what it has."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ENDING = ("SIGTERM", "SIGXCPU")  # `timeout`, a scheduler of jobs, a soft limit of processor time


@contextmanager
def ending_orderly() -> Iterator[None]:
    """The first such signal is an interrupt; a second one does what it always does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what signals do
        return
    known = [number for name in ENDING if (number := getattr(signal, name, None)) is not None]
    before = {number: signal.getsignal(number) for number in known}

    def interrupt(number: int, frame: Any) -> None:
        _put_back(before)
        raise KeyboardInterrupt

    try:
        for number, handler in before.items():
            if handler in (signal.SIG_DFL, None):  # somebody else's handler stays
                signal.signal(number, interrupt)
        yield
    finally:
        _put_back(before)


def _put_back(before: dict[Any, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler if handler is not None else signal.SIG_DFL)
