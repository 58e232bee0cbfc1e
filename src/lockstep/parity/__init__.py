"""Parity: are two implementations the same, and if not, where does the first difference arise, and why.

Stands beside the library: knows torch, numpy and safetensors, and nothing of the rest of Lockstep. Reading and
comparing traces needs numpy alone; names are resolved on first use, so `import lockstep.parity` imports no torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "ParityError": "errors",
    "InvalidTrace": "errors",
    "RecordError": "errors",
    "AlignmentError": "errors",
    "FloorError": "errors",
    "InjectionError": "errors",
    "Name": "names",
    "Key": "names",
    "Trace": "trace",
    "TraceWriter": "writer",
    "Verdict": "results",
    "Status": "results",
    "Role": "results",
    "NodeResult": "results",
    "Comparison": "results",
    "Cause": "results",
    "Coverage": "results",
    "Structure": "results",
    "record": "recorder",
    "Recorder": "recorder",
    "tap": "recorder",
    "floor": "floors",
    "Floor": "floor_file",
    "align_traces": "align",
    "compare": "comparison",
    "Thresholds": "verdict",
    "relative_l2": "sketch",
    "inject": "injection",
    "local": "locate",
    "bisect": "locate",
    "local_errors": "locate",
    "gain_curve": "locate",
    "diagnose": "diagnosis",
    "Live": "diagnosis",
    "is_chaotic": "locate",
    "run_stages": "stages",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_EXPORTS[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
