"""What Qwen-Image's transformer is proven against: diffusers', tiny, every tensor random and seeded."""

import diffusers
import torch

from lockstep.kit.testing.closeness import randomized
from pipelines.tiny_qwen_image import TRANSFORMER as CONFIG


def reference_model():
    """The same at each call, so that both sides can make it."""
    torch.manual_seed(0)
    return randomized(diffusers.QwenImageTransformer2DModel(**CONFIG))


def model_inputs():
    """A picture that is made and one that is edited, for two samples with texts of two lengths."""
    generator = torch.Generator().manual_seed(1)
    return {
        "hidden_states": torch.randn(2, 4 * 3 + 2 * 3, CONFIG["in_channels"], generator=generator),
        "encoder_hidden_states": torch.randn(2, 6, CONFIG["joint_attention_dim"], generator=generator),
        "encoder_hidden_states_mask": torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]),
        "timestep": torch.tensor([0.25, 0.9]),
        "img_shapes": [[(1, 4, 3), (1, 2, 3)]] * 2,
    }


def build_model():
    """The model to watch, and a call that runs it: what `lockstep parity prove` and `lockstep port` take."""
    model, inputs = reference_model(), model_inputs()
    return model, torch.no_grad()(lambda: model(**inputs)[0])
