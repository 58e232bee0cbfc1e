"""Recording: everything is there, nothing changes, everything is given back."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity import RecordError, Trace, compare, record, tap
from lockstep.parity.recording.values import tensor_bytes
from parity import tiny


def keys(trace):
    return [str(entry.key) for entry in trace.entries]


@pytest.fixture(scope="module")
def pipeline():
    return tiny.diffusers_pipeline()


@pytest.mark.parametrize("level", ["module", "module+ops"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_recording_changes_no_bit(tmp_path, level, mode):
    model, x = tiny.transformer(), tiny.sample()
    with mode():
        bare = model(x, timestep=3.0)
        with record(model, tmp_path / "r.trace", level=level, keep="full"):
            recorded = model(x, timestep=3.0)
    assert torch.equal(bare, recorded)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("level", ["module", "module+ops"])
def test_fused_layers_keep_their_kernel(tmp_path, level):
    """These layers leave their fused path when a child has a hook, which gives other bits."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.Sequential(nn.Linear(8, 32), nn.TransformerEncoder(layer, 2)).eval()
    x = tiny.sample()
    with torch.no_grad():
        bare = model(x)
        with record(model, tmp_path / "r.trace", level=level):
            recorded = model(x)
    assert torch.equal(bare, recorded)
    assert "-|model.1|out" in keys(Trace.open(tmp_path / "r.trace"))
    assert "forward" not in vars(model[1])


def test_modules_operations_inputs_and_dependencies(tmp_path):
    model, x = tiny.transformer(depth=1), tiny.sample()
    with record(model, tmp_path / "r.trace", level="module+ops"):
        out = model(x, timestep=3.0)
    trace = Trace.open(tmp_path / "r.trace")
    names = keys(trace)
    for wanted in ("-|model|in.sample", "-|model|in.timestep", "-|model.blocks.0.attn.to_q|in.input", "-|model|out",
                   "-|model.blocks.0.attn/scaled_dot_product_attention.0|out", "-|model.blocks.0.ff/gelu.0|out",
                   "-|model.blocks.0.ff/mul.0|out", "-|model.blocks.0/add.1|out"):  # fmt: skip
        assert wanted in names
    assert trace.get("-|model|out").stats.l2 == pytest.approx(out.double().norm().item())
    gelu = trace.get("-|model.blocks.0.ff/gelu.0|out")
    assert gelu.deps == (trace.get("-|model.blocks.0.ff.proj|out").seq,)  # through the chunk in between
    assert gelu.meta["settings"] == {"approximate": "none"}
    assert trace.get("-|model.blocks.0.ff.out|in.input").same == trace.get("-|model.blocks.0.ff/mul.0|out").seq
    assert trace.meta["modules"]["model.norm"]["attrs"]["eps"] == 1e-5
    assert trace.meta["modules"]["model.blocks.0.attn"]["attrs"]["heads"] == 4
    weight = trace.params["model.head.weight"]
    assert weight.stats.l2 == pytest.approx(model.head.weight.double().norm().item())


def test_a_changed_tensor_is_not_taken_for_the_same(tmp_path):
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Identity(), nn.Identity()

        def forward(self, x):
            y = self.a(x * 1)
            y += 1
            return self.b(y)

    for mode in (torch.no_grad, torch.inference_mode):
        model = InPlace()
        with mode(), record(model, tmp_path / "r.trace", level="module+ops"):
            model(torch.arange(2000.0))
        trace = Trace.open(tmp_path / "r.trace")
        before, after = trace.get("-|model.a|out"), trace.get("-|model.b|in.input")
        assert trace.stats(after).mean == pytest.approx(trace.stats(before).mean + 1)


def test_keep_by_pattern(tmp_path):
    model, x = tiny.transformer(), tiny.sample(tokens=200)
    keep = {"*": "sketch", "model.blocks.1*": "full", "model.blocks.2*": "none"}
    with record(model, tmp_path / "r.trace", keep=keep):
        model(x)
    trace = Trace.open(tmp_path / "r.trace")
    assert not trace.get("-|model.blocks.0|out").has_data
    assert trace.get("-|model.blocks.1|out").has_data
    assert trace.get("-|model.blocks.2|out") is None
    assert trace.get("-|model|in.sample").has_data  # what a replay needs is always whole
    with pytest.raises(RecordError, match="keep"):
        record(model, tmp_path / "x.trace", keep="everything")


def test_stop_at_a_module_leaves_early(tmp_path):
    model, x = tiny.transformer(), tiny.sample()
    reached = []
    model.blocks[2].register_forward_pre_hook(lambda *_: reached.append(1))
    with record(model, tmp_path / "r.trace", stop_at="model.blocks.0") as recorder:
        model(x)
    assert recorder.stopped == "model.blocks.0"
    assert not reached
    assert Trace.open(tmp_path / "r.trace").complete


def test_random_draws_are_recorded_whole_with_their_generator(tmp_path):
    class Noisy(nn.Module):
        def forward(self, x, generator):
            return x + torch.randn(x.shape, generator=generator) + torch.rand_like(x)

    generator = torch.Generator().manual_seed(5)
    torch.manual_seed(11)
    model = Noisy()
    with record(model, tmp_path / "r.trace"):
        model(torch.zeros(4000), generator)
    draws = Trace.open(tmp_path / "r.trace").find(slot="rng")
    assert [d.meta["function"] for d in draws] == ["randn", "rand_like"]
    assert [(d.meta["generator"], d.meta["seed"]) for d in draws] == [("cpu", 5), ("global", 11)]
    assert draws[0].meta["global_before"] == draws[0].meta["global_after"]
    wanted = torch.randn(4000, generator=torch.Generator().manual_seed(5))
    assert np.array_equal(Trace.open(tmp_path / "r.trace").array(draws[0]), wanted.numpy())


def test_dropout_is_a_draw_only_while_training(tmp_path):
    model = nn.Sequential(nn.Dropout(0.5))
    for training, count in ((True, 1), (False, 0)):
        model.train(training)
        with record(model, tmp_path / "r.trace"):
            model(torch.ones(100))
        assert len(Trace.open(tmp_path / "r.trace").find(slot="rng")) == count


def test_taps(tmp_path):
    model, x = tiny.transformer(depth=1), tiny.sample()
    tap("outside", x)  # nothing records: nothing happens
    with record(model, tmp_path / "r.trace") as recorder:
        y = model(x)
        tap("mine", y)
        recorder.tap("@yours", y * 2, step="denoise:03")
    trace = Trace.open(tmp_path / "r.trace")
    assert trace.get("-|@mine|out").same == trace.get("-|model|out").same
    assert trace.get("denoise:03|@yours|out") is not None


def test_an_exception_ends_the_trace_and_the_hooks(tmp_path):
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)

        def forward(self, x):
            x = self.first(x)
            return self.transformer(x)

    model = Wrong()
    with pytest.raises(AttributeError), record(model, tmp_path / "r.trace"):
        model(torch.ones(2, 4))
    trace = Trace.open(tmp_path / "r.trace")
    assert trace.exception["type"] == "AttributeError"
    assert "-|model.first|out" in keys(trace)
    assert not any(m._forward_hooks for m in model.modules())


def test_shared_modules_and_repeated_calls_are_numbered(tmp_path):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.alias = self.layer

        def forward(self, x):
            return self.alias(self.layer(x))

    model = Twice()
    with record(model, tmp_path / "r.trace"):
        model(torch.ones(2, 4))
    assert [k for k in keys(Trace.open(tmp_path / "r.trace")) if k.endswith("out")] == [
        "-|model.layer|out", "-|model.layer#1|out", "-|model|out",
    ]  # fmt: skip


def test_a_whole_pipeline_without_editing_it(pipeline, tmp_path):
    classes = type(pipeline), type(pipeline.scheduler)
    bare = tiny.generate(pipeline)
    with record(pipeline, tmp_path / "r.trace", level="module+ops"):
        recorded = tiny.generate(pipeline)
    assert torch.equal(bare, recorded)
    assert (type(pipeline), type(pipeline.scheduler)) == classes
    assert "decode" not in vars(pipeline.vae)
    trace = Trace.open(tmp_path / "r.trace")
    assert trace.steps == ["-", "denoise:00", "denoise:01", "denoise:02"]
    for wanted in ("-|text_encoder|in.input_ids", "-|@scheduler.timesteps|out", "-|@rng|rng",
        "denoise:01|unet|in.sample",
                   "denoise:02|@scheduler.step|in.model_output", "denoise:02|@scheduler.step|out", "-|vae.decode|in.z",
                   "-|@pipeline|out", "denoise:00|@pipeline/mul.0|out"):  # fmt: skip
        assert trace.get(wanted) is not None, wanted
    assert trace.meta["call"]["prompt"] == "a cat"
    assert trace.meta["call"]["generator"]["seed"] == 7
    assert trace.meta["config"]["unet"]["cross_attention_dim"] == 32
    assert trace.meta["schedules"][0]["config"]["beta_schedule"] == "scaled_linear"


@pytest.mark.parametrize(
    ("stop", "last"), [("denoise:01", "denoise:01"), ("after_step_0", "denoise:00"), ("preloop", "denoise:00")]
)
def test_stop_in_the_loop(pipeline, tmp_path, stop, last):
    with record(pipeline, tmp_path / "r.trace", stop_at=stop) as recorder:
        tiny.generate(pipeline, steps=5)
    assert recorder.stopped is not None
    trace = Trace.open(tmp_path / "r.trace")
    assert trace.steps[-1] == last
    # before the loop everything that it consumes is there, and nothing of it has run
    assert trace.get("denoise:00|unet|in.encoder_hidden_states") is not None
    assert (trace.get("denoise:00|unet|out") is None) == (stop == "preloop")


def test_chosen_steps_alone(pipeline, tmp_path):
    with record(pipeline, tmp_path / "r.trace", steps=[1]):
        tiny.generate(pipeline)
    assert Trace.open(tmp_path / "r.trace").steps == ["-", "denoise:01"]


def test_a_scheduler_that_the_pipeline_copies_is_watched_too(tmp_path):
    class Scheduler:
        def set_timesteps(self, count):
            self.timesteps = torch.arange(count, 0, -1)

        def step(self, model_output, timestep, sample):
            self.last = model_output
            return (sample - model_output,)

    class Pipeline:
        def __init__(self):
            self.unet, self.scheduler = tiny.transformer(depth=1), Scheduler()

        def __call__(self, x):
            scheduler = copy.deepcopy(self.scheduler)
            scheduler.set_timesteps(2)
            for t in scheduler.timesteps:
                (x,) = scheduler.step(self.unet(x, t), t, x)
            return x

    pipe = Pipeline()
    with torch.no_grad():
        bare = pipe(tiny.sample())
        with record(pipe, tmp_path / "r.trace"):
            recorded = pipe(tiny.sample())
    assert torch.equal(bare, recorded)
    assert not hasattr(pipe.scheduler, "last")  # the copy was stepped, not the original
    trace = Trace.open(tmp_path / "r.trace")
    assert trace.steps == ["-", "denoise:00", "denoise:01"]
    assert trace.get("denoise:01|@scheduler.step|out") is not None


def test_two_recorders_at_once_see_the_same(tmp_path):
    model, x = tiny.transformer(), tiny.sample()
    with (
        record(model, tmp_path / "a.trace", level="module+ops"),
        record(model, tmp_path / "b.trace", level="module+ops"),
    ):
        model(x)
    assert keys(Trace.open(tmp_path / "a.trace")) == keys(Trace.open(tmp_path / "b.trace"))


def test_callback_of_a_pipeline(pipeline, tmp_path):
    with record(pipeline, tmp_path / "r.trace") as recorder:
        tiny.generate(pipeline, callback_on_step_end=recorder.callback)
    trace = Trace.open(tmp_path / "r.trace")
    assert len(trace.find(path="@latents")) == 3


def test_what_cannot_be_recorded_is_said(tmp_path):
    with pytest.raises(RecordError, match="nothing to record"):
        record(object(), tmp_path / "r.trace")
    with pytest.raises(RecordError, match="level"):
        record(tiny.transformer(), tmp_path / "r.trace", level="ops")
    with pytest.raises(RecordError, match="steps"):
        record(tiny.transformer(), tmp_path / "r.trace", steps="some")


def test_operations_of_a_leaf_that_somebody_wrote(tmp_path):
    class Positions(nn.Module):
        def forward(self, t):
            return torch.cat([torch.cos(t), torch.sin(t)], dim=-1)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.positions, self.act = Positions(), nn.SiLU()

        def forward(self, t):
            return F.relu(self.act(self.positions(t)))

    model = Model()
    with record(model, tmp_path / "r.trace", level="module+ops"):
        model(torch.randn(3, 4))
    names = keys(Trace.open(tmp_path / "r.trace"))
    assert "-|model.positions/cos.0|out" in names
    assert not any(name.startswith("-|model.act/") for name in names)


def test_the_bytes_of_a_value_that_was_spread_out():
    for value in (torch.tensor(7), torch.tensor([1.5], dtype=torch.bfloat16), torch.tensor([[3.0]])):
        spread = value.reshape(1).expand(1) if value.ndim < 2 else value.expand(1, 1)
        assert tensor_bytes(spread.as_strided(spread.shape, (0,) * spread.ndim)) == tensor_bytes(value)
    assert tensor_bytes(torch.tensor([1, 2]).expand(2, 2)) == tensor_bytes(torch.tensor([1, 2, 1, 2]))


def test_a_module_may_be_called_anything(tmp_path):
    """Signs that mean something in a trace's names are others there; values and weights keep belonging together."""
    model = nn.ModuleDict({"blk|0": nn.Linear(4, 4), "a/b#1": nn.Linear(4, 4)})
    model.register_parameter("in|scale", nn.Parameter(torch.rand(4)))
    model.forward = lambda x: model["a/b#1"](model["blk|0"](x) * getattr(model, "in|scale"))
    x = torch.randn(2, 4)
    for name in ("one", "other"):
        with record(model, tmp_path / f"{name}.trace", level="module+ops"):
            model(x)
    result = compare(tmp_path / "one.trace", tmp_path / "other.trace")
    assert (result.verdict, result.coverage.fraction) == ("PASS", 1.0), result.sentence()
    assert {"model.blk¦0", "model.a~b♯1"} <= {node.key.path for node in result.nodes}


class Asks:
    """Answers to any name with an error of its own, as a model with its settings does."""

    def __getattr__(self, name):
        raise KeyError(name)


def test_an_object_with_names_of_its_own_goes_through(tmp_path):
    model = nn.Linear(4, 4)
    model.forward = lambda x, settings: F.linear(x, model.weight)
    with record(model, tmp_path / "r.trace"):
        model(torch.randn(2, 4), Asks())
    assert "-|model|out" in keys(Trace.open(tmp_path / "r.trace"))
