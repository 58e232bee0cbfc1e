"""One comparison as a page, a terminal text, JSON or JUnit: data to parts, parts to either, so that they cannot
disagree."""

from __future__ import annotations

from ..lazy import lazy_names

_HOMES = {
    "Report": "parts",
    "build": "parts",
    "to_json": "parts",
    "to_html": "html",
    "write_html": "html",
    "to_junit": "junit",
    "to_terminal": "terminal",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
