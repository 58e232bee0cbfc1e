"""What Qwen-Image's pipeline is proven against: diffusers' on a tiny folder."""

import diffusers

from pipelines import tiny_qwen_image
from pipelines.two_sides import TwoSides

ARGUMENTS = {
    "prompt": ["a photo of a red cat"],
    "num_inference_steps": 6,
    "height": 24,
    "width": 40,
    "output_type": "pt",
}
SIDES = TwoSides(tiny_qwen_image.save_qwen_image, ARGUMENTS)


def build():
    return SIDES.built(diffusers.QwenImagePipeline)
