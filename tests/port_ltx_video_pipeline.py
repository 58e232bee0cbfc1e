"""The port's side of the stages: the same folder, prompt, seed and number of steps."""

from lockstep import LTXPipeline
from reference_ltx_video_pipeline import SIDES


def pipeline():
    return SIDES.loaded(LTXPipeline)


def build():
    return SIDES.built(LTXPipeline)
