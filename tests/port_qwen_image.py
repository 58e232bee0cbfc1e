"""The port's side of the proofs: the reference's weights, which have the same names, and the same inputs."""

import torch

import reference_qwen_image
from lockstep import QwenImageTransformer2DModel


def port_model():
    """Our model with the weights of the reference."""
    model = QwenImageTransformer2DModel(**reference_qwen_image.CONFIG).eval()
    model.load_state_dict(reference_qwen_image.reference_model().state_dict())
    return model


def build_model():
    """The model to watch, and a call that runs it."""
    model, inputs = port_model(), reference_qwen_image.model_inputs()
    return model, torch.no_grad()(lambda: model(**inputs)[0])
