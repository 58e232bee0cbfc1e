"""The port's side of the stages: the same folder, prompt, seed and number of steps."""

import torch

import reference_ltx_video_pipeline as reference
from lockstep import LTXPipeline


def pipeline():
    """A tiny pipeline with the weights of the reference."""
    return reference.loaded(LTXPipeline)


def build():
    """The pipeline to watch, and a call that runs it."""
    pipe = pipeline()
    return pipe, lambda: pipe(**reference.ARGUMENTS, generator=torch.Generator().manual_seed(reference.SEED))
