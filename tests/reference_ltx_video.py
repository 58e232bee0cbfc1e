"""What LTX-Video's transformer is proven against: diffusers', tiny, every tensor random and seeded."""

import diffusers
import torch

from lockstep.kit.testing.closeness import randomized

CONFIG = {
    "in_channels": 8,
    "out_channels": 8,
    "num_attention_heads": 2,
    "attention_head_dim": 14,
    "cross_attention_dim": 28,
    "num_layers": 2,
    "caption_channels": 16,
}
GRID = {"num_frames": 2, "height": 3, "width": 4}


def reference_model():
    """The same at each call, so that both sides can make it."""
    torch.manual_seed(0)
    return randomized(diffusers.LTXVideoTransformer3DModel(**CONFIG))


def model_inputs():
    """Two videos whose first frame has no noise, and texts of two lengths."""
    generator = torch.Generator().manual_seed(1)
    noisy = torch.ones(2, 24)
    noisy[:, :12] = 0.0
    return {
        "hidden_states": torch.randn(2, 24, CONFIG["in_channels"], generator=generator),
        "encoder_hidden_states": torch.randn(2, 6, CONFIG["caption_channels"], generator=generator),
        "timestep": noisy * torch.tensor([[250.0], [900.0]]),
        "encoder_attention_mask": torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]], dtype=torch.bool),
        "rope_interpolation_scale": (8 / 25, 32, 32),
        **GRID,
    }


def build_model():
    """The model to watch, and a call that runs it: what `lockstep parity prove` and `lockstep port` take."""
    model, inputs = reference_model(), model_inputs()
    return model, torch.no_grad()(lambda: model(**inputs)[0])
