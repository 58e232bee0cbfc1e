"""The port's side of the stages: the same folder, prompt, seed and number of steps."""

import torch

import reference_z_image_pipeline as reference
from lockstep import ZImagePipeline


def pipeline():
    """A tiny pipeline with the weights of the reference."""
    return reference.loaded(ZImagePipeline)


def build():
    """The pipeline to watch, and a call that runs it."""
    pipe = pipeline()
    return pipe, lambda: pipe(**reference.ARGUMENTS, generator=torch.Generator().manual_seed(reference.SEED))
