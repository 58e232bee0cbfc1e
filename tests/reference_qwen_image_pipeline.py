"""What Qwen-Image's pipeline is proven against: diffusers' on a tiny folder."""

import tempfile
from pathlib import Path

import diffusers
import torch

from pipelines import tiny_qwen_image

ARGUMENTS = {
    "prompt": ["a photo of a red cat"],
    "num_inference_steps": 6,
    "height": 24,
    "width": 40,
    "output_type": "pt",
}
SEED = 7


def loaded(kind):
    """A tiny pipeline of either side, with the same weights; what is loaded stays, though the folder goes."""
    with tempfile.TemporaryDirectory() as folder:
        pipe = kind.from_pretrained(tiny_qwen_image.save_qwen_image(Path(folder)))
    pipe.set_progress_bar_config(disable=True)
    return pipe


def build():
    """The pipeline to watch, and a call that runs it: what `lockstep parity stages` takes."""
    pipe = loaded(diffusers.QwenImagePipeline)
    return pipe, lambda: pipe(**ARGUMENTS, generator=torch.Generator().manual_seed(SEED))
