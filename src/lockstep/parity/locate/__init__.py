"""Where an error arises.

injection.py    teacher forcing: `inject` the reference's values
single_node.py  `local`: one node on the reference's inputs
bisection.py    `bisect`: the first bad step, then that step alone
gains.py        `gain_curve`: what every step does to the error
stages.py       `run_stages`: encode, decode and denoise, each by itself
"""

from .bisection import bisect
from .gains import StepGain, gain_curve, is_chaotic
from .injection import inject
from .single_node import local, local_errors
from .stages import run_stages

__all__ = ["StepGain", "bisect", "gain_curve", "inject", "is_chaotic", "local", "local_errors", "run_stages"]
