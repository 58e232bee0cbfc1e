"""A pipeline by Lockstep's own kernels: the same picture, told in the manifest, and back."""

import numpy as np
import pytest
import torch

from lockstep import DiffusionPipeline, kernels
from lockstep.errors import UnknownNameError

pytestmark = pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled here")
CALL = {"prompt": "a red heart", "seed": 3, "num_inference_steps": 4, "output_type": "np"}


@pytest.fixture
def pipe():
    pipe = DiffusionPipeline.from_pretrained("lockstep/emoji", dtype="float32")
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_the_picture_is_the_same_within_rounding(pipe):
    plain = pipe(**CALL).images
    result = pipe.accelerate()(**CALL)
    assert 0 < np.abs(result.images - plain).max() < 1e-3
    assert result.manifest["accelerated"]["unet"] == "exact"
    assert np.array_equal(pipe.accelerate("off")(**CALL).images, plain)
    assert pipe.accelerated() == {}


def test_one_component_alone(pipe):
    pipe.accelerate(components=["vae"])
    assert pipe.accelerated() == {"vae": "exact"}
    with pytest.raises(UnknownNameError, match="unet"):
        pipe.accelerate(components=["unett"])


def test_models_that_are_loaded_later_are_accelerated_then():
    pipe = DiffusionPipeline.from_pretrained("lockstep/emoji", load=False, dtype=torch.float32).accelerate()
    assert pipe.accelerated() == {}
    assert pipe.unet.acceleration.level == "exact"
