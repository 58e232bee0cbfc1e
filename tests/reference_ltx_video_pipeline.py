"""What LTX-Video's pipeline is proven against: diffusers' on a tiny folder."""

import diffusers

from pipelines import tiny_ltx_video
from pipelines.two_sides import TwoSides

ARGUMENTS = {
    "prompt": "a photo of a red cat",
    "num_inference_steps": 6,
    "guidance_scale": 1.0,  # guided, theirs has the negative prompt first and ours the prompt
    "max_sequence_length": 12,
    "height": 64,
    "width": 96,
    "num_frames": 9,
    "output_type": "pt",
}
SIDES = TwoSides(tiny_ltx_video.save_ltx, ARGUMENTS)


def build():
    return SIDES.built(diffusers.LTXPipeline)
