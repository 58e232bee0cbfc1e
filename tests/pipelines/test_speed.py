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


def test_high_is_told_with_its_bound_and_stays_close(pipe):
    plain = pipe(**CALL).images
    own = kernels.library()
    result = pipe.accelerate("high", bound=0.01)(**CALL)
    told = result.manifest["accelerated"]["unet"]
    if not own.bf16:
        assert told == "exact"
        return
    assert told == "high=0.01"
    assert 1e-4 < np.abs(result.images - plain).mean() < 0.02
    assert pipe.unet.acceleration.bf16.error <= 0.01
    assert np.array_equal(pipe.accelerate("off")(**CALL).images, plain)
