"""The port's side of the stages: the same folder, prompt, seed and number of steps."""

from lockstep import ZImagePipeline
from reference_z_image_pipeline import SIDES


def pipeline():
    return SIDES.loaded(ZImagePipeline)


def build():
    return SIDES.built(ZImagePipeline)
