"""What Z-Image's pipeline is proven against: diffusers' on a tiny folder."""

import diffusers

from pipelines import tiny_z_image
from pipelines.two_sides import TwoSides

ARGUMENTS = {
    "prompt": ["a photo of a red cat"],
    "num_inference_steps": 6,
    "guidance_scale": 0.0,  # guided, theirs lists the prompt first and ours last, and no list is sorted
    "max_sequence_length": 20,  # which both texts fill: the reference pads shorter ones to a length, the port does not
    "height": 24,
    "width": 40,
    "output_type": "pt",
}
SIDES = TwoSides(tiny_z_image.save_z_image, ARGUMENTS)


def build():
    return SIDES.built(diffusers.ZImagePipeline)
