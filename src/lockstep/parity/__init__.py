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

_ROOMS = {
    "errors": ["ParityError", "InvalidTrace", "RecordError", "AlignmentError", "FloorError", "TeacherForcingError"],
    "trace": ["Name", "Key", "Trace", "TraceWriter", "relative_l2"],
    "recording": ["record", "Recorder", "tap"],
    "floors": ["floor", "Floor"],
    "comparison": [
        "align_traces",
        "compare",
        "Thresholds",
        "Verdict",
        "Status",
        "Role",
        "NodeResult",
        "Comparison",
        "Cause",
        "Coverage",
        "Structure",
    ],
    "locate": ["inject", "local", "bisect", "local_errors", "gain_curve", "is_chaotic", "run_stages"],
    "causes": ["diagnose", "Live"],
}

__getattr__, __dir__ = lazy_names(__name__, _ROOMS)
__all__ = __dir__()
