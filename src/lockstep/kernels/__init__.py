"""Kernels of our own for the processor: linear layers, gated linear layers, 3x3 convolutions, group norm, attention.

`native/` is C++ that is compiled at installation, once for each set of instructions; `library` loads the best one that
the processor has and tries it out before anything uses it; `operators` are the same as torch operators. All of them
take fp32 and are as exact as torch's own. Where there is no library, `library()` is None and `why_not()` says why.
"""

from ..memory import keep_freed_memory
from . import calls, operators
from .library import describe, found, library, why_not

__all__ = ["calls", "describe", "found", "keep_freed_memory", "library", "operators", "why_not"]
