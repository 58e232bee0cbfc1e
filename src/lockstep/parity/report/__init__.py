"""One comparison as a page, a terminal text, JSON or JUnit: data to parts, parts to either, so that they cannot
disagree."""

from __future__ import annotations

from ..lazy import lazy_names

_ROOMS = {
    "parts": ["Report", "build", "to_json"],
    "html": ["to_html", "write_html"],
    "junit": ["to_junit"],
    "terminal": ["to_terminal"],
}

__getattr__, __dir__ = lazy_names(__name__, _ROOMS)
__all__ = __dir__()
