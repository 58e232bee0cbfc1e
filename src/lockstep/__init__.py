"""Lockstep runs, ports and proves diffusion models.

Public names are resolved on first use, so that `import lockstep` stays instant and imports no torch.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# public name -> module that defines it
_WHERE: dict[str, str] = {}
_WHERE |= dict.fromkeys(["ConfigMixin", "FrozenDict", "register_to_config"], "configuration")
_WHERE |= dict.fromkeys(["ModelMixin"], "models.modeling")

__all__ = ["__version__", *sorted(_WHERE)]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as problem:
        if problem.name != f"{__name__}.{name}":
            raise
    from .errors import did_you_mean

    raise AttributeError(f"lockstep has no {name!r}{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
