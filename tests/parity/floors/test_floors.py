"""The floor: measured on the reference, per value, and everything given back afterwards."""

import numpy as np
import pytest
import torch
from torch import nn

from lockstep import parity as px
from lockstep.parity import Floor, FloorError, InvalidTrace, Trace, floor, record
from lockstep.parity.floors.file import summarize
from lockstep.parity.floors.measure import one_ulp
from parity import tiny


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("floor")
    model, x = tiny.transformer(), tiny.sample()
    with torch.no_grad(), record(model, folder / "ref.trace", level="module+ops"):
        model(x, timestep=3.0)
    return model, folder / "ref.trace"


@pytest.mark.parametrize("run", ["fp64", "ulp", "sdpa:math"])
def test_every_variation_moves_the_result_by_about_rounding(recorded, tmp_path, run):
    model, trace = recorded
    measured = floor(model, trace, runs=[run], path=tmp_path / "f.floor")
    error = measured.errors["-|model|out"][0]
    assert 1e-9 < error < 5e-6
    assert measured.runs == [run]


@pytest.mark.parametrize("run", ["rerun", "threads:1", "batch"])
def test_variations_that_may_change_nothing(recorded, tmp_path, run):
    model, trace = recorded
    measured = floor(model, trace, runs=[run], path=tmp_path / "f.floor")
    assert measured.errors["-|model|out"][0] < 5e-6
    assert len(measured.errors) > 40


def test_float64_is_the_truth(recorded, tmp_path):
    """The measured error is that of float32 against a model that is float64 throughout."""
    model, trace = recorded
    measured = floor(model, trace, runs=["fp64"], path=tmp_path / "f.floor")
    with torch.no_grad():
        bare = model(tiny.sample(), timestep=3.0).double()
        golden = tiny.transformer().double()(tiny.sample().double(), timestep=3.0)
    true = float((bare - golden).norm() / golden.norm())
    assert measured.errors["-|model|out"][0] == pytest.approx(true, rel=0.2)


def test_everything_is_given_back(recorded, tmp_path):
    model, trace = recorded
    before = {name: (p.data_ptr(), p.dtype) for name, p in model.named_parameters()}
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    floor(model, trace, runs=["fp64", "ulp", "threads:1", "batch"], path=tmp_path / "f.floor")
    assert {name: (p.data_ptr(), p.dtype) for name, p in model.named_parameters()} == before
    assert (torch.get_num_threads(), torch.get_default_dtype()) == (threads, dtype)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_one_ulp_is_one_unit_in_the_last_place(dtype):
    x = torch.tensor([1.0, -1.0, 0.0, 3.5, float("inf"), float("nan")], dtype=dtype)
    moved = one_ulp(x, torch.Generator().manual_seed(0))
    relative = ((moved - x)[:2].abs().double() / torch.finfo(dtype).eps).tolist()
    assert all(0.5 <= r <= 1 for r in relative)
    assert moved[2] == 0
    assert moved[3] != x[3]
    assert torch.isinf(moved[4])
    assert torch.isnan(moved[5])
    both = one_ulp(torch.ones(1000, dtype=dtype), torch.Generator().manual_seed(0))
    assert 0.4 < (both > 1).double().mean() < 0.6


def test_noise_of_the_recorded_run_is_used_in_float64(tmp_path):
    """randn in float64 draws other numbers: the golden run must get the recorded ones."""

    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, x):
            return self.linear(x + torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(3)))

    model = Noisy()
    with record(model, tmp_path / "r.trace"):
        model(torch.ones(300, 16))
    measured = floor(model, tmp_path / "r.trace", runs=["fp64", "ulp"])
    assert measured.errors["-|@rng|rng"][0] == 0
    assert max(measured.errors["-|model|out"]) < 1e-6
    assert (tmp_path / "r.floor").exists()


def test_a_run_that_draws_other_noise_is_refused(tmp_path):
    class Noisy(nn.Module):
        def forward(self, x, generator=None):
            return x + torch.randn(x.shape, generator=generator)

    model, shared = Noisy(), torch.Generator().manual_seed(0)
    with record(model, tmp_path / "r.trace"):
        model(torch.ones(3000), shared)
    with pytest.raises(FloorError, match="other random numbers"):
        floor(model, tmp_path / "r.trace", runs=["rerun"], call=lambda: model(torch.ones(3000), shared))


def test_a_pipeline_has_a_floor(tmp_path):
    pipe = tiny.diffusers_pipeline()
    with record(pipe, tmp_path / "p.trace", stop_at="denoise:00"):
        tiny.generate(pipe)
    with pytest.raises(FloorError, match="call="):
        floor(pipe, tmp_path / "p.trace")
    measured = floor(pipe, tmp_path / "p.trace", runs=["fp64", "ulp"], call=lambda: tiny.generate(pipe))
    value = measured.value("denoise:00|unet|out")
    assert 1e-8 < value.f < 1e-4
    assert value.k == 2
    assert measured.value("denoise:00|unet.time_proj|out").f > 1e-8  # float32 angles against float64 ones
    assert next(pipe.unet.parameters()).dtype is torch.float32


def test_times_that_are_moved_are_no_draws_of_the_run(tmp_path):
    class Pipe:
        def __init__(self):
            self.encoder = nn.Linear(4, 4)

        @torch.no_grad()
        def __call__(self):
            generator, text = torch.Generator().manual_seed(0), self.encoder(torch.ones(2, 4) / 3)
            return sum(text + torch.randn(2, 4, generator=generator) for _ in range(3))

    pipe = Pipe()
    with record(pipe, tmp_path / "p.trace") as recorder:
        recorder.result(pipe())
    measured = floor(pipe, tmp_path / "p.trace", runs=["ulp"], call=pipe)
    assert 0 < measured.value("-|@pipeline|out").f < 1e-5


def test_unknown_runs_are_refused(recorded, tmp_path):
    model, trace = recorded
    with pytest.raises(FloorError, match="unknown run"):
        floor(model, trace, runs=["fp128"], path=tmp_path / "f")


def test_the_file(tmp_path):
    measured = Floor(["ulp"], {"-|a|out": [1e-6]})
    measured.save(tmp_path / "f.floor")
    assert Floor.load(tmp_path / "f.floor").value("-|a|out").f == pytest.approx(1e-6)
    for text in (
        "",
        "[]",
        '{"schema":"pfloor/1"}',
        '{"schema":"pfloor/1","runs":[],"errors":{"a":[-1]}}',
        '{"schema":"pfloor/1","runs":[],"errors":{"a":["x"]}}',
    ):
        (tmp_path / "f.floor").write_text(text)
        with pytest.raises(InvalidTrace):
            Floor.load(tmp_path / "f.floor")
    with pytest.raises(InvalidTrace, match="cannot be read"):
        Floor.load(tmp_path / "absent.floor")


def test_the_summary_leaves_out_runs_that_changed_nothing():
    value = summarize([0.0, 1e-6, 4e-6])
    assert value.f == pytest.approx(2e-6)
    assert value.s == pytest.approx(np.log(4) / np.sqrt(2))
    assert value.k == 2
    assert summarize([0.0, 0.0]).f == 0


def test_the_floor_of_a_trace_that_holds_no_inputs(tmp_path):
    model = tiny.transformer()
    with record(model, tmp_path / "r.trace", keep={"*": "sketch"}):
        model(tiny.sample(tokens=200))
    assert Trace.open(tmp_path / "r.trace").get("-|model|in.sample").has_data
    assert floor(model, tmp_path / "r.trace", runs=["rerun"]).errors["-|model|out"] == [0.0]


def test_the_run_in_float64_does_not_hold_the_model_twice(tmp_path):
    """Weights are raised one at a time, where they are used."""
    model = tiny.transformer()
    held, widths = [], []

    def watch(module, args, result):
        with torch._C.DisableTorchFunction():  # what they are, not what the model is told
            held.append({p.dtype for p in model.parameters()})
        widths.append(result.dtype)

    with torch.no_grad(), record(model, tmp_path / "ref.trace"):
        model(tiny.sample(), 3.0)
    model.head.register_forward_hook(watch)
    measured = floor(model, tmp_path / "ref.trace", runs=["fp64"], call=lambda: model(tiny.sample(), 3.0))
    assert held == [{torch.float32}]
    assert widths == [torch.float64]
    assert 0 < measured.value("-|model|out").f < 1e-6


def test_a_model_that_asks_for_the_dtype_of_its_weights_is_told_what_it_computes_in(tmp_path):
    class Strict(torch.nn.Linear):
        def forward(self, x):
            assert x.dtype == self.weight.dtype, "convert one"
            return super().forward(x)

    model, x = Strict(8, 8), torch.randn(2, 8)
    with torch.no_grad(), record(model, tmp_path / "t.trace"):
        model(x)
    assert floor(model, tmp_path / "t.trace", runs=("fp64",), call=lambda: model(x)).runs
    assert model.weight.dtype == torch.float32


class Stepped:
    """A loop whose times are differences: the last one has few digits of its own."""

    def __init__(self, dtype):
        self.dtype = dtype
        torch.manual_seed(0)
        self.unet = Timed().eval()

    def __call__(self):
        times = 1 - torch.linspace(0, 1, 5, dtype=self.dtype) * torch.tensor(1 - 0.0013, dtype=self.dtype)
        x = torch.ones(1, 4)
        for time in times.float():
            x = x - 0.1 * self.unet(x, time.reshape(1))
        return x


class Timed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(1, 4), torch.nn.Linear(4, 4)

    def forward(self, x, timestep):
        return self.last(x + self.first(timestep[:, None]))


def test_the_times_of_a_loop_move_by_a_last_bit_of_the_largest(tmp_path):
    runs = {}
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        pipeline = Stepped(dtype)
        runs[name] = (pipeline, torch.no_grad()(pipeline))
        with px.record(pipeline, tmp_path / f"{name}.trace"):
            runs[name][1]()
    floor = px.floor(runs["float32"][0], tmp_path / "float32.trace", call=runs["float32"][1])
    result = px.compare(tmp_path / "float32.trace", tmp_path / "float64.trace", floor=floor)
    assert result.verdict in ("PASS", "NOISE"), result.sentence()
    last = max(max(errors) for key, errors in floor.errors.items() if "in.timestep" in key)
    assert 1e-6 < last < 1e-3
