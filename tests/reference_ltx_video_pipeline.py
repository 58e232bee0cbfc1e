"""What LTX-Video's pipeline is proven against: diffusers' on a tiny folder."""

import tempfile
from pathlib import Path

import diffusers
import torch

from pipelines import tiny_ltx_video

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
SEED = 7


def loaded(kind):
    """A tiny pipeline of either side, with the same weights; what is loaded stays, though the folder goes."""
    with tempfile.TemporaryDirectory() as folder:
        pipe = kind.from_pretrained(tiny_ltx_video.save_ltx(Path(folder)))
    pipe.set_progress_bar_config(disable=True)
    return pipe


def build():
    """The pipeline to watch, and a call that runs it: what `lockstep parity stages` takes."""
    pipe = loaded(diffusers.LTXPipeline)
    return pipe, lambda: pipe(**ARGUMENTS, generator=torch.Generator().manual_seed(SEED))
