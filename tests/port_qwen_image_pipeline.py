"""The port's side of the stages: the same folder, prompt, seed and number of steps."""

import torch

import reference_qwen_image_pipeline as reference
from lockstep import QwenImagePipeline


def pipeline():
    """A tiny pipeline with the weights of the reference."""
    return reference.loaded(QwenImagePipeline)


def build():
    """The pipeline to watch, and a call that runs it."""
    pipe = pipeline()
    return pipe, lambda: pipe(**reference.ARGUMENTS, generator=torch.Generator().manual_seed(reference.SEED))
