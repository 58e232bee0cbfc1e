"""What is done otherwise than a person may expect is said, once in a process: a line of the logger `lockstep`."""

from __future__ import annotations

import functools
import logging


@functools.cache
def say_once(message: str) -> None:
    """Tell it where warnings go (standard error, unless logging is set up otherwise)."""
    logging.getLogger("lockstep").warning(message)
