"""An accelerated pipeline passes the same comparison with diffusers as the one that torch computes."""

import pytest

import lockstep
from lockstep import kernels
from lockstep.parity import Verdict, compare, floor, record
from parity import tiny
from parity.test_against_diffusers import ours

SAME = (Verdict.PASS, Verdict.NOISE)  # noise: above what rounding is supposed to do, within what it was measured to do
pytestmark = pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled here")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipelines")
    theirs = tiny.diffusers_pipeline()
    theirs.save_pretrained(folder / "weights")
    with record(theirs, folder / "theirs.trace", level="module", side="reference"):
        tiny.generate(theirs, steps=2)
    floor(theirs, folder / "theirs.trace", call=lambda: tiny.generate(theirs, steps=2), runs=("fp64", "ulp"))
    return folder / "theirs.trace", folder / "weights"


def compared(reference, ours):
    """With how far the reference is from itself when it rounds otherwise, as our kernels do."""
    return compare(reference, ours, floor=reference.with_suffix(".floor"))


@pytest.mark.parametrize("frugal", [False, True])
def test_exact_passes_as_torch_does(both, tmp_path, frugal):
    reference, weights = both
    pipe = lockstep.StableDiffusionPipeline.from_pretrained(weights)
    for model in (pipe.unet, pipe.vae):
        model.accelerate("exact", frugal=frugal)
    with record(pipe, tmp_path / "ours.trace", level="module"):
        ours(pipe)
    result = compared(reference, tmp_path / "ours.trace")
    assert result.verdict in SAME, result.sentence()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["onnxruntime", "openvino", "inductor"])
def test_engines_pass_as_torch_does(both, tmp_path, engine, monkeypatch):
    if engine != "inductor":
        pytest.importorskip(engine)
    monkeypatch.setenv("LOCKSTEP_ENGINES", str(tmp_path / "engines"))
    reference, weights = both
    pipe = lockstep.StableDiffusionPipeline.from_pretrained(weights)
    pipe.unet.accelerate("exact", engine=engine)
    with record(pipe, tmp_path / "ours.trace", level="module"):
        ours(pipe)
    result = compared(reference, tmp_path / "ours.trace")
    assert result.verdict in SAME, result.sentence()


def test_a_wrong_number_in_an_accelerated_layer_is_found(both, tmp_path):
    reference, weights = both
    pipe = lockstep.StableDiffusionPipeline.from_pretrained(weights)
    pipe.unet.down_blocks[0].resnets[0].norm1.eps = 1e-3
    pipe.unet.accelerate()
    with record(pipe, tmp_path / "ours.trace", level="module"):
        ours(pipe)
    result = compared(reference, tmp_path / "ours.trace")
    assert result.verdict is Verdict.BUG, result.sentence()
    assert result.first.site.startswith("unet.down_blocks.0.resnets.0"), result.sentence()
