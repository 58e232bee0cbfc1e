"""The port's side of the stages: the same folder, prompt, seed and number of steps."""

from lockstep import QwenImagePipeline
from reference_qwen_image_pipeline import SIDES


def pipeline():
    return SIDES.loaded(QwenImagePipeline)


def build():
    return SIDES.built(QwenImagePipeline)
