"""How much a reference differs from itself: what a right port may differ by, value by value.

file.py     `Floor`: read and written with numpy alone
measure.py  `floor`: the reference run again in float64, with last bits moved, on other kernels
"""

from ..lazy import lazy_names

_ROOMS = {
    "file": ["Floor"],
    "measure": ["floor"],
}

__getattr__, __dir__ = lazy_names(__name__, _ROOMS)
__all__ = __dir__()
