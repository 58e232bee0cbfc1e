"""Parity: are two implementations the same, and if not, where does the first difference arise, and why.

Rooms, in the order of the way of the data; each imports only from those before it:

trace/        what a run computed, on disk: names, container, sketches; read and written with numpy alone
recording/    a model watched while it runs, unedited: `record`
floors/       how much a reference differs from itself: `floor`
comparison/   two traces to one verdict: `compare`
locate/       where it starts: `bisect`, `local`, `inject`, `gain_curve`
causes/       why: hypotheses tried on the live models: `diagnose`
report/       the answer as a page, a terminal text, JSON or JUnit: `build`

A room has a noun where a function has the verb: `parity.record` is the function, whatever has been imported.

Stands beside the library: knows torch, numpy and safetensors, and nothing of the rest of Lockstep. Reading and
comparing traces needs numpy alone; names are resolved on first use, so `import lockstep.parity` imports no torch.
"""

from __future__ import annotations

from .lazy import lazy_names

_HOMES = {
    "ParityError": "errors",
    "InvalidTrace": "errors",
    "RecordError": "errors",
    "AlignmentError": "errors",
    "FloorError": "errors",
    "TeacherForcingError": "errors",
    "Name": "trace",
    "Key": "trace",
    "Trace": "trace",
    "TraceWriter": "trace",
    "relative_l2": "trace",
    "record": "recording",
    "Recorder": "recording",
    "tap": "recording",
    "floor": "floors",
    "Floor": "floors",
    "align_traces": "comparison",
    "compare": "comparison",
    "Thresholds": "comparison",
    "Verdict": "comparison",
    "Status": "comparison",
    "Role": "comparison",
    "NodeResult": "comparison",
    "Comparison": "comparison",
    "Cause": "comparison",
    "Coverage": "comparison",
    "Structure": "comparison",
    "inject": "locate",
    "local": "locate",
    "bisect": "locate",
    "local_errors": "locate",
    "gain_curve": "locate",
    "is_chaotic": "locate",
    "run_stages": "locate",
    "diagnose": "causes",
    "Live": "causes",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
