"""Engines of others as a way to compute a model: compared before they are used, kept on disk, and back."""

import copy
import pickle

import pytest
import torch

from lockstep import UNet2DConditionModel
from lockstep.errors import BackendError, UnknownNameError, UnsupportedError
from lockstep.models import engines, tuning
from lockstep.models.examples import example_call

UNET = {
    "sample_size": 8,
    "block_out_channels": (16, 32),
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "layers_per_block": 1,
    "cross_attention_dim": 16,
    "attention_head_dim": 2,
    "norm_num_groups": 4,
}
pytestmark = pytest.mark.filterwarnings("ignore")  # converters of others warn of what they trace


class Echo:
    """Stands in for an engine of others: torch itself, spoilt by a factor."""

    def __init__(self, factor=1.0):
        self.factor, self.built, self.ran, self.refuses = factor, 0, 0, False

    def build(self, graph, call, level, folder):
        if self.refuses:
            raise RuntimeError("no such shape\nand much more")
        self.built += 1

        def run(tensors):
            self.ran += 1
            with torch.no_grad():
                return graph(*tensors) * self.factor

        return run


@pytest.fixture
def unet(tmp_path, monkeypatch):
    monkeypatch.setenv(engines.CACHE, str(tmp_path / "engines"))
    torch.manual_seed(0)
    return UNet2DConditionModel(**UNET).eval()


@pytest.fixture
def echo(monkeypatch):
    def make(factor=1.0):
        one = Echo(factor)
        monkeypatch.setitem(engines.ENGINES, "echo", engines.Engine("echo", "torch", ("exact",), one.build))
        return one

    return make


def distance(a, b):
    return float((a - b).norm() / b.norm())


@pytest.mark.slow
def test_openvino_computes_the_same_from_disk_too(unet, tmp_path):
    pytest.importorskip("openvino")
    call = example_call(unet)
    with torch.no_grad():
        exact = call(unet)
        unet.accelerate(engine="openvino")
        assert 0 < distance(call(unet), exact) < 1e-5
        assert unet.acceleration.name == "exact@openvino"
        assert "openvino" in str(unet.acceleration)
        (kept,) = (tmp_path / "engines").iterdir()
        made = (kept / "model.xml").stat().st_mtime_ns
        unet.accelerate("off")
        assert torch.equal(call(unet), exact)
        unet.accelerate(engine="openvino")
        assert (kept / "model.xml").stat().st_mtime_ns == made, "it is read, not made again"
        unet.save_pretrained(tmp_path / "saved")
        assert type(UNet2DConditionModel.from_pretrained(tmp_path / "saved")) is UNet2DConditionModel


def test_another_shape_is_another_graph_and_other_weights_are_torchs(unet, echo, caplog):
    one = echo()
    unet.accelerate(engine="echo")
    with torch.no_grad():
        example_call(unet)(unet)
        assert one.built == 1
        example_call(unet, batch=2)(unet)
        example_call(unet, batch=2)(unet)
        assert one.built == 2
        ran = one.ran
        unet.conv_in.weight.mul_(2.0)
        changed = example_call(unet)(unet)
        assert one.ran == ran
        assert "have changed" in caplog.text
        assert torch.equal(example_call(unet)(unet.accelerate("off")), changed)


def test_gradients_are_torchs_own(unet, echo):
    one = echo()
    unet.accelerate(engine="echo")
    ran = one.ran
    example_call(unet)(unet).sum().backward()
    assert one.ran == ran
    assert unet.conv_in.weight.grad.abs().sum() > 0


def test_an_engine_with_a_planted_error_is_refused(unet, echo):
    echo(1.0001)
    plain = type(unet)
    with pytest.raises(UnsupportedError, match="as exactly as 'exact'"):
        unet.accelerate(engine="echo")
    assert type(unet) is plain
    assert unet.acceleration is None


def test_auto_takes_the_fastest_that_passes_and_remembers(unet, echo, monkeypatch):
    echo(1.0001)
    monkeypatch.setattr(tuning, "ENGINES", {"echo": engines.ENGINES["echo"]})
    call = example_call(unet)
    found = tuning.tune(unet, "exact", call, None)
    assert found.engine == "own"
    assert "as exactly" in found.tried[1].refused
    one = echo()  # right by now, but what was found is remembered
    assert tuning.tune(unet, "exact", call, None) == found
    assert one.built == 0
    again = tuning.tune(unet, "exact", call, None, again=True)
    assert again.tried[1].seconds > 0
    assert unet.accelerate(engine="auto").acceleration.name.startswith("exact")


def test_what_cannot_be_is_told(unet, monkeypatch):
    with pytest.raises(UnknownNameError, match="openvino"):
        unet.accelerate(engine="openvine")
    with pytest.raises(UnsupportedError, match="levels"):
        unet.accelerate("high", engine="inductor")
    missing = engines.Engine("future", "no_such_package", ("exact",), None)
    monkeypatch.setitem(engines.ENGINES, "future", missing)
    with pytest.raises(BackendError, match="not installed"):
        unet.accelerate(engine="future")


def test_an_engine_that_crashes_takes_only_its_trial_along(tmp_path):
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    with pytest.raises(BackendError, match="signal 11"):
        engines._made("openvino", tmp_path / "graph", "model", lambda path: path.write_text("x"), crash)
    assert not list(tmp_path.iterdir())
    assert (
        engines._made("openvino", tmp_path / "graph", "model", lambda path: path.write_text("x"), "").read_text() == "x"
    )


def test_a_cache_that_cannot_be_made_is_told(unet, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(engines.CACHE, str(tmp_path / "file" / "engines"))
    with pytest.raises(BackendError, match=r"cannot be made \(Not a directory\). Set LOCKSTEP_ENGINES"):
        engines._made("openvino", engines.cache_folder() / "graph", "model", lambda path: None, "")
    with pytest.raises(BackendError, match="cannot be made"):
        tuning.tune(unet, "exact", example_call(unet), None)


def test_a_damaged_memory_of_tuning_is_measured_again(unet, echo, monkeypatch):
    echo()
    monkeypatch.setattr(tuning, "ENGINES", {"echo": engines.ENGINES["echo"]})
    tuning.tune(unet, "exact", example_call(unet), None)
    place = tuning._place(unet, "exact", None)
    place.write_text("{")
    assert {one.engine for one in tuning.tune(unet, "exact", example_call(unet), None).tried} == {"own", "echo"}


def test_a_call_that_cannot_be_converted_is_torchs_and_told_once(unet, echo, caplog):
    one = echo()
    unet.accelerate(engine="echo")
    one.refuses = True
    with torch.no_grad():
        for given in ((torch.randn(1, 4, 16, 16), torch.tensor(5), torch.randn(1, 7, 16)),
                      (torch.randn(0, 4, 16, 16), torch.tensor(5), torch.randn(0, 7, 16))):  # fmt: skip
            plain = copy.deepcopy(unet).accelerate("off")(*given).sample
            for _ in range(2):
                assert torch.equal(unet(*given).sample, plain)
    told = [line for line in caplog.messages if "has no graph" in line]
    assert len(told) == 2
    assert "[1, 7, 16] (no such shape): torch computes it" in told[0]
    assert isinstance(unet, UNet2DConditionModel)
    ran = one.ran
    with torch.no_grad():
        example_call(unet)(unet)
    assert one.ran == ran + 1


def test_copies_and_pickles_of_a_driven_model_are_driven_without_its_graphs(unet, echo):
    one = echo()
    unet.accelerate(engine="echo")
    call = example_call(unet)
    with torch.no_grad():
        said = call(unet)
        for again in (copy.deepcopy(unet), pickle.loads(pickle.dumps(unet)), copy.copy(unet)):
            assert again.acceleration.name == "exact@echo"
            assert not again._drive.graphs
            built = one.built
            assert torch.equal(call(again), said)
            assert one.built == built + 1
            assert type(again.accelerate("off")) is UNet2DConditionModel
        assert unet.acceleration.name == "exact@echo"
        unet.conv_in.weight.mul_(2.0)
        assert not torch.equal(call(copy.deepcopy(unet)), said)
        assert one.built == built + 1
