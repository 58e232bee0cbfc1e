"""A pipeline by Lockstep's own kernels: the same picture, told in the manifest, and back."""

import numpy as np
import pytest
import torch

from lockstep import DiffusionPipeline, kernels
from lockstep.errors import InputError, UnknownNameError
from lockstep.models import frugal
from lockstep.pipelines import bounded

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


def prepared(model):
    return sum(layer.is_prepared for layer in frugal.layers_of(model))


def test_within_a_bound_models_that_are_not_in_use_let_go(pipe, monkeypatch):
    plain = pipe(**CALL).images
    level = 10**9
    monkeypatch.setattr(bounded.memory, "resident", lambda: level)
    pipe.accelerate(max_memory="20GB")
    assert np.abs(pipe(**CALL).images - plain).max() < 1e-3
    assert all(prepared(one) for one in (pipe.vae, pipe.unet, pipe.text_encoder))  # there is room
    monkeypatch.setattr(bounded, "room_of", lambda model: 0)
    pipe.accelerate(max_memory=level + 10**8)
    result = pipe(**CALL)
    assert prepared(pipe.unet)
    level += 10**9  # as if something had grown
    assert np.array_equal(pipe(**CALL).images, result.images)
    assert [bool(prepared(one)) for one in (pipe.vae, pipe.unet, pipe.text_encoder)] == [True, False, False]
    assert pipe.peak_memory() > 0


def test_a_bound_that_cannot_be_held_is_refused(pipe):
    with pytest.raises(InputError, match="the largest of these models"):
        pipe.accelerate(max_memory="100MB")
    for wrong in ({"level": "high"}, {"components": ["vae"]}, {"engine": "inductor"}):
        with pytest.raises(InputError, match="max_memory"):
            pipe.accelerate(**wrong, max_memory="20GB")
    with pytest.raises(InputError, match="5 apples"):
        pipe.accelerate(max_memory="5 apples")


def test_a_small_model_fits_into_a_small_bound(pipe):
    """What a call may take on top is no constant: a model of some megabytes does not take a gigabyte."""
    pipe.accelerate(max_memory=bounded.memory.resident() + 5 * 10**8)
    assert pipe(**CALL).images is not None


def test_the_manifest_says_exact_within_a_bound(pipe):
    result = pipe.accelerate("fast", max_memory="20GB")(**CALL)
    assert result.manifest["accelerated"]["unet"] == "exact"  # to choose layers for bf16 would take memory
    assert pipe.speed_defaults == {"foretell": 0.012}
    assert pipe.accelerate()._bounded is None


@pytest.mark.skipif(not getattr(kernels.library(), "bf16", False), reason="no kernels for bf16 here")
def test_high_is_measured_by_the_text_of_the_pipelines_own_encoder_whoever_is_loaded_first(pipe):
    chosen = pipe.accelerate("high", bound=0.01).unet.acceleration.bf16
    assert len(chosen.in_bf16) > 150  # by noise as its text, to which its attention is chaotic, there are 75
    later = DiffusionPipeline.from_pretrained("lockstep/emoji", load=False, dtype=torch.float32).accelerate(
        "high", bound=0.01
    )
    assert later.unet.acceleration.bf16 == chosen


@pytest.mark.skipif(not getattr(kernels.library(), "bf16", False), reason="no kernels for bf16 here")
def test_where_the_whole_is_over_the_bound_fewer_layers_are_tried_and_not_none(pipe):
    """The UNet alone, which reads noise."""
    found = [
        len(pipe.unet.accelerate("high", bound=bound).acceleration.bf16.in_bf16) for bound in (0.004, 0.006, 0.012)
    ]
    assert 0 < found[0] <= found[1] <= found[2]


def test_weights_that_our_kernels_do_not_take_are_told_once_and_not_claimed_to_be_exact(pipe, caplog):
    told = pipe.accelerate()(**CALL).manifest
    assert told["kernels"] == kernels.library().name
    before = dict(told.record)
    caplog.clear()
    result = pipe.to(torch.bfloat16).accelerate("exact", max_memory="20GB")(**CALL)
    assert pipe.accelerated() == {}
    assert not {"accelerated", "kernels"} & set(result.manifest.record)
    assert [line for line in caplog.messages if "Weights are bfloat16" in line] == caplog.messages[:1]
    from lockstep.cli.replay import differences

    assert f"kernels was {kernels.library().name}, is neon" in differences(before, {**before, "kernels": "neon"})
