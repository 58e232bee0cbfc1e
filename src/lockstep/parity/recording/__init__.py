"""A model or pipeline watched while it runs, without an edit, and run again on what was recorded.

targets.py       what can be watched in an object         recorder.py      `record`: one recording
values.py        arguments and results as flat slots      capture.py       a tensor to a line of the trace
patching.py      methods watched and given back           sketch_torch.py  sketches where the tensor is
looping.py       which step is running                    effective.py     the settings that are in force
running_calls.py which call is running                    replay.py        a module on its recorded inputs
operations.py    operations and random draws              node_alone.py    how to record one node in full
"""

from .recorder import Recorder, record, tap

__all__ = ["Recorder", "record", "tap"]
