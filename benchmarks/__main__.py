"""`make bench`: every benchmark that runs in minutes, one after the other."""

from __future__ import annotations

from .machine import console

from . import cold_start, generation  # isort: skip

if __name__ == "__main__":
    for module in (cold_start, generation):
        console.rule((module.__doc__ or "").splitlines()[0])
        module.main()
