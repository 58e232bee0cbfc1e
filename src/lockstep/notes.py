"""Notes on what is accepted and changes nothing: each is logged once in a process."""

from __future__ import annotations

import functools
import logging


@functools.cache
def note_once(logger: logging.Logger, text: str) -> None:
    """Log a line at level WARNING the first time that it is said."""
    logger.warning(text)
