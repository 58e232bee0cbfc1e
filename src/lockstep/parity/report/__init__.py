"""One comparison as a page, a terminal text, JSON or JUnit: data to parts, parts to either, so that they cannot disagree."""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "Report": "parts",
    "build": "parts",
    "to_json": "parts",
    "to_html": "html",
    "write_html": "html",
    "to_junit": "junit",
    "to_terminal": "terminal",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_EXPORTS[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
