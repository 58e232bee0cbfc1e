"""The port's own lines written otherwise, one at a time, until the whole run agrees: the cause is what was changed.

Where no hypothesis about operations stands, the language itself is looked at: numbers of Python and numpy, indices,
arguments, the order of statements. Nothing here knows about diffusion.

sources.py    the files of the port, their syntax trees, and functions that run another code for a while
executed.py   which lines run, what they make, and whether the reference has it
suspects.py   the lines in the order in which they are looked at
constants.py  what the reference's code and settings hold
spots.py      a place in a syntax tree and what may stand there instead
numbers.py, operators.py, names.py, calls.py, forms.py, statements.py   what porters write for each other
rewrites.py   all of these for one statement
results.py    what a run gives, beside the reference's
kept.py       what lines may leave behind, given back
search.py     all of it for one comparison
"""

from .search import Depth, repaired_line

__all__ = ["Depth", "repaired_line"]
