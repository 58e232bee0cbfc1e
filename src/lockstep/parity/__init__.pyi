"""Written by `python -m lockstep.blocks.stubs`; do not edit."""
# ruff: noqa
# fmt: off
# mypy: disable-error-code="override"

from . import causes as causes
from . import comparison as comparison
from . import errors as errors
from . import floors as floors
from . import locate as locate
from . import recording as recording
from . import trace as trace
from .errors import AlignmentError as AlignmentError
from .comparison.results import Cause as Cause
from .comparison.results import Comparison as Comparison
from .comparison.results import Coverage as Coverage
from .floors.file import Floor as Floor
from .errors import FloorError as FloorError
from .errors import InvalidTrace as InvalidTrace
from .trace.names import Key as Key
from .causes.live import Live as Live
from .trace.names import Name as Name
from .comparison.results import NodeResult as NodeResult
from .errors import ParityError as ParityError
from .errors import RecordError as RecordError
from .recording.recorder import Recorder as Recorder
from .comparison.results import Role as Role
from .comparison.results import Status as Status
from .comparison.results import Structure as Structure
from .errors import TeacherForcingError as TeacherForcingError
from .comparison.verdict import Thresholds as Thresholds
from .trace.reader import Trace as Trace
from .trace.writer import TraceWriter as TraceWriter
from .comparison.results import Verdict as Verdict
from .comparison.align import align_traces as align_traces
from .locate.bisection import bisect as bisect
from .comparison.answer import compare as compare
from .causes.diagnosis import diagnose as diagnose
from .floors.measure import floor as floor
from .locate.gains import gain_curve as gain_curve
from .locate.injection import inject as inject
from .locate.gains import is_chaotic as is_chaotic
from .locate.single_node import local as local
from .locate.single_node import local_errors as local_errors
from .recording.recorder import record as record
from .trace.sketch import relative_l2 as relative_l2
from .locate.stages import run_stages as run_stages
from .recording.recorder import tap as tap

__all__ = [
    "AlignmentError", "Cause", "Comparison", "Coverage", "Floor", "FloorError", "InvalidTrace", "Key", "Live", "Name",
    "NodeResult", "ParityError", "RecordError", "Recorder", "Role", "Status", "Structure", "TeacherForcingError",
    "Thresholds", "Trace", "TraceWriter", "Verdict", "align_traces", "bisect", "compare", "diagnose", "floor",
    "gain_curve", "inject", "is_chaotic", "local", "local_errors", "record", "relative_l2", "run_stages", "tap"
]
