"""The port's side of the proofs: the reference's weights, which have the same names, and the same inputs."""

import torch

import reference_ltx_video
from lockstep import LTXVideoTransformer3DModel


def port_model():
    """Our model with the weights of the reference."""
    model = LTXVideoTransformer3DModel(**reference_ltx_video.CONFIG).eval()
    model.load_state_dict(reference_ltx_video.reference_model().state_dict())
    return model


def build_model():
    """The model to watch, and a call that runs it."""
    model, inputs = port_model(), reference_ltx_video.model_inputs()
    return model, torch.no_grad()(lambda: model(**inputs)[0])
