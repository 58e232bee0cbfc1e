"""What Z-Image's pipeline is proven against: diffusers' on a tiny folder."""

import copy
import tempfile
from pathlib import Path

import diffusers
import torch

from pipelines import tiny_z_image

ARGUMENTS = {
    "prompt": ["a photo of a red cat"],
    "num_inference_steps": 6,
    "guidance_scale": 0.0,  # guided, theirs lists the prompt first and ours last, and no list is sorted
    "max_sequence_length": 20,  # which both texts fill: the reference pads shorter ones to a length, the port does not
    "height": 24,
    "width": 40,
    "output_type": "pt",
}
SEED = 7


def loaded(kind):
    """A tiny pipeline of either side, with the same weights; what is loaded stays, though the folder goes."""
    with tempfile.TemporaryDirectory() as folder:
        pipe = kind.from_pretrained(tiny_z_image.save_z_image(Path(folder)))
    pipe.set_progress_bar_config(disable=True)
    return pipe


def build():
    """The pipeline to watch, and a call that runs it: what `lockstep parity stages` takes."""
    pipe = loaded(diffusers.ZImagePipeline)

    def call():
        arguments = copy.deepcopy(ARGUMENTS)  # it writes into lists
        return pipe(**arguments, generator=torch.Generator().manual_seed(SEED))

    return pipe, call
