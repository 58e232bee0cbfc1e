"""A run on disk (`ptrace/1`): what was computed, under which name, in which order; read and written with numpy alone.

names.py      `step|path|slot`: what identifies a value
container.py  the safetensors file, checked before it is believed
sketch.py     a value in 2 KB, good enough to compare by
reader.py     `Trace`
writer.py     `TraceWriter`
merging.py    the traces of several ranks as one
"""

from .names import Key, Name
from .reader import Entry, Trace
from .sketch import relative_l2
from .writer import TraceWriter

__all__ = ["Entry", "Key", "Name", "Trace", "TraceWriter", "relative_l2"]
