"""What Z-Image's transformer is proven against: diffusers', tiny, every tensor random and seeded."""

import diffusers
import torch

from lockstep.kit.testing.closeness import randomized

CONFIG = {
    "in_channels": 4,
    "dim": 24,
    "n_layers": 2,
    "n_refiner_layers": 1,
    "n_heads": 2,
    "n_kv_heads": 2,
    "cap_feat_dim": 16,
    "axes_dims": (4, 4, 4),
    "axes_lens": (600, 64, 64),
}


def reference_model():
    """The same at each call, so that both sides can make it."""
    torch.manual_seed(0)
    return randomized(diffusers.ZImageTransformer2DModel(**CONFIG))


def model_inputs():
    """Two pictures of one size, times, and texts of two lengths."""
    generator = torch.Generator().manual_seed(1)
    pictures = list(torch.randn(2, CONFIG["in_channels"], 1, 8, 6, generator=generator))
    texts = [torch.randn(length, CONFIG["cap_feat_dim"], generator=generator) for length in (5, 40)]
    return pictures, torch.tensor([0.25, 0.9]), texts


def build_model():
    """The model to watch, and a call that runs it: what `lockstep parity prove` and `lockstep port` take."""
    model, inputs = reference_model(), model_inputs()
    return model, torch.no_grad()(lambda: torch.stack(model(*inputs)[0]))
