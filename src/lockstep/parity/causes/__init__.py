"""Why the first difference arises: hypotheses tried on the live models, each with its proof.

diagnosis.py       `diagnose`: from a comparison to its causes
search.py          which part is run again, with which hypotheses, in which order
calls.py           which recorded call a value belongs to
goals.py           what a hypothesis has to reproduce
probe.py           one module run again with one thing changed; pipeline_probe.py: the code between modules
edits.py           one thing changed, and given back; examples.py: what is there to change
flow.py            which step takes what which other step gave
in_place.py        what is written into while somebody still needs it
remembered.py      what need not be run again
limits.py          an end to a run that takes far too long
hypotheses/        what other implementations do differently
rounding.py        causes of what lies inside the floor
recorded.py, value_tests.py   what the recorded values prove by themselves
observed/          what both live sides compute, step by step, side by side
repairs/           the port's own lines written otherwise, until the whole run agrees
"""

from .diagnosis import diagnose
from .live import Live

__all__ = ["Live", "diagnose"]
