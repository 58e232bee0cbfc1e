"""The port's side of the proofs: the reference's weights, which have the same names, and the same inputs."""

import torch

import reference_z_image
from lockstep import ZImageTransformer2DModel


def port_model():
    """Our model with the weights of the reference."""
    model = ZImageTransformer2DModel(**reference_z_image.CONFIG).eval()
    model.load_state_dict(reference_z_image.reference_model().state_dict())
    return model


def build_model():
    """The model to watch, and a call that runs it."""
    model, inputs = port_model(), reference_z_image.model_inputs()
    return model, torch.no_grad()(lambda: torch.stack(model(*inputs)[0]))
