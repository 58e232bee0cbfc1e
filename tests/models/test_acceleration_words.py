"""What `accelerate` cannot take is refused in words that say whose it is, and leaves the model as torch computes it."""

import sys

import pytest
import torch

from lockstep import DiffusionPipeline, UNet2DConditionModel, kernels
from lockstep.errors import BackendError, InputError, UnknownNameError
from lockstep.models import accelerated, engines, fast_layers, kept_weights
from lockstep.models.examples import example_call
from lockstep.models.weights import parse_size, size_text

pytestmark = pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled here")


@pytest.fixture(scope="module")
def pipe():
    return DiffusionPipeline.from_pretrained("lockstep/emoji", dtype="float32")


@pytest.fixture
def unet():
    torch.manual_seed(0)
    return UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(16, 32),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=16,
        attention_head_dim=2,
        norm_num_groups=4,
    ).eval()


def test_a_component_may_be_named_by_a_plain_text(pipe):
    pipe.accelerate("off").accelerate("exact", "unet")
    assert list(pipe.accelerated()) == ["unet"]
    with pytest.raises(UnknownNameError, match="'unett': did you mean 'unet'"):
        pipe.accelerate("exact", "unett")
    pipe.accelerate("off")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"level": "fast"}, r"a whole run: pipe.accelerate\('fast'\)"),
        ({"frugal": "yes"}, "'frugal' wants True or False, got 'yes'"),
        ({"level": "off", "frugal": True}, "'off' has nothing prepared"),
        ({"max_memory": "1GB"}, r"belongs to a pipeline: .* A model has frugal=True"),
        ({"level": "high", "example": 3}, "wants a function"),
    ],
)
def test_what_a_model_does_not_take(unet, given, said):
    with pytest.raises(InputError, match=said):
        unet.accelerate(**given)


def test_an_example_has_to_return_a_tensor(unet, monkeypatch):
    if accelerated.why_not_high() is not None:
        pytest.skip("no bf16 here")
    with pytest.raises(InputError, match=r"returns a tensor.*returned NoneType"):
        unet.accelerate("high", example=lambda model: None)
    assert unet.acceleration is None
    assert not any(isinstance(one, fast_layers.Prepared) for one in unet.modules())


def test_a_bound_of_fast_with_memory_goes_without_kernels_too(pipe, monkeypatch):
    monkeypatch.setattr(accelerated, "why_not", lambda: "none here")
    assert pipe.accelerate("fast", max_memory="100GB").accelerated() == {}
    pipe.accelerate("off")


def test_sizes_say_whose_they_are(pipe, monkeypatch):
    with pytest.raises(InputError, match="'max_memory' wants a number of bytes.*'banana'"):
        pipe.accelerate(max_memory="banana")
    for wrong in ("banana", "-1GB"):
        monkeypatch.setenv("LOCKSTEP_PREPARED", wrong)
        with pytest.raises(InputError, match=f"LOCKSTEP_PREPARED .*'{wrong}'"):
            kept_weights.most_kept()


def test_a_number_with_a_point_is_hardly_one_of_bytes_and_terabytes_are_a_size(pipe, monkeypatch):
    for wrong in (1.5, 6.0):
        with pytest.raises(InputError, match=f"'max_memory' wants a number of bytes.*got {wrong}"):
            pipe.accelerate(max_memory=wrong)
    assert [parse_size(size) for size in ("6TB", "1 TiB", 1e9, 12)] == [6 * 10**12, 2**40, 10**9, 12]
    monkeypatch.setenv("LOCKSTEP_PREPARED", "0")
    assert kept_weights.most_kept() == 0


def test_a_small_bound_is_told_in_its_unit(pipe):
    with pytest.raises(InputError, match=r"max_memory is 1\.0 MB; .* take \d+\.\d"):
        pipe.accelerate(max_memory="1MB")
    pipe.accelerate("off")
    assert [size_text(size) for size in (5e9, 2_500_000, 7000, 12)] == ["5.00 GB", "2.5 MB", "7 kB", "12 bytes"]


def test_a_device_that_is_none_is_told_in_one_sentence(unet):
    for device in (3, "cuda:77", "xx"):
        with pytest.raises(InputError) as told:
            unet.stream_blocks(device)
        assert not str(told.value).endswith("..")


def test_an_engine_that_crashes_is_named_with_what_to_do(monkeypatch):
    assert sys.platform != "win32"
    with pytest.raises(BackendError, match=r"'openvino' crashed .*signal 11.*--upgrade openvino.*engine='own'"):
        engines._survive("openvino", "import os; os.kill(os.getpid(), 11)")


def test_the_nearest_name_is_meant_and_names_with_commas_are_kept_apart():
    assert "did you mean 'avx2'?" in str(UnknownNameError("set", "avx1", ["avx2", "avx512"]))
    told = str(UnknownNameError("side", "foo", ["lockstep, exact", "lockstep"]))
    assert told.endswith("Known: 'lockstep'; 'lockstep, exact'.")


def kinds(unet):
    return [type(module) for module in unet.modules()]


@pytest.mark.parametrize("before", ["off", "exact", "high"])
@pytest.mark.parametrize("wrong", ["raises", "detached", "nothing"])
def test_an_example_that_fails_leaves_the_model_as_it_was(unet, before, wrong):
    if accelerated.why_not_high() is not None:
        pytest.skip("no bf16 here")
    call = example_call(unet)
    examples = {
        "raises": lambda model: 1 / 0,
        "detached": lambda model: call(model).detach(),
        "nothing": lambda model: None,
    }
    told = {
        "raises": (ZeroDivisionError, "division"),
        "detached": (InputError, "no gradient.*detach"),
        "nothing": (InputError, "returned NoneType"),
    }
    unet.accelerate(before)
    with torch.no_grad():
        said, was, classes = call(unet), str(unet.acceleration), kinds(unet)
        with pytest.raises(told[wrong][0], match=told[wrong][1]):
            unet.accelerate("high", example=examples[wrong])
        assert torch.equal(call(unet), said)
    assert (str(unet.acceleration), kinds(unet)) == (was, classes)


def test_a_refused_bound_leaves_the_pipeline_as_it_was(pipe):
    for level in ("off", "high"):
        pipe.accelerate(level)
        was = pipe.accelerated(), kinds(pipe.unet)
        for wrong in ({"max_memory": "100MB"}, {"level": "fast", "max_memory": "100MB"}, {"max_memory": "x"}):
            with pytest.raises(InputError, match="max_memory"):
                pipe.accelerate(**wrong)
            assert (pipe.accelerated(), kinds(pipe.unet), pipe._bounded) == (*was, None)
    pipe.accelerate("off")


@pytest.mark.parametrize("wrong", [1, [1], 2.5])
def test_components_are_names(pipe, wrong):
    with pytest.raises(InputError, match="'components' wants the name"):
        pipe.accelerate("exact", wrong)
