"""The verdict: planted faults are found where they are, right programs are left alone."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity import Role, Status, Trace, TraceWriter, Verdict, compare, floor, record
from parity import tiny


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A recorded reference with its floor, and the model that made it."""
    folder = tmp_path_factory.mktemp("reference")
    model, x = tiny.transformer(), tiny.sample()
    with torch.no_grad(), record(model, folder / "ref.trace", level="module+ops", keep="full"):
        model(x, timestep=3.0)
    floor(model, folder / "ref.trace", runs=("fp64", "ulp", "ulp", "sdpa:math"))
    return folder


def run(model, folder, level="module+ops", **options):
    with torch.no_grad(), record(model, folder / "cand.trace", level=level, **options):
        model(tiny.sample().to(next(model.parameters()).dtype), timestep=3.0)
    return folder / "cand.trace"


def judge(reference, candidate, **options):
    return compare(reference / "ref.trace", candidate, floor=reference / "ref.floor", **options)


def test_the_same_model_passes(reference, tmp_path):
    result = judge(reference, run(tiny.transformer(), tmp_path))
    assert result.verdict is Verdict.PASS
    assert result.coverage.fraction == 1
    assert result.verdict.passes()
    assert "100.0%" in result.sentence()


def swap_gelu(model):
    model.blocks[1].ff.approximate = "tanh"


def change_eps(model):
    model.blocks[1].norm2.eps = 1e-6


def change_heads(model):
    model.blocks[1].attn.heads = 8


def drop_bias(model):
    nn.init.zeros_(model.blocks[1].attn.to_out.bias)


def transpose_weight(model):
    model.blocks[1].attn.to_q.weight.data = model.blocks[1].attn.to_q.weight.data.T.contiguous()


def swap_halves(model):
    weight = model.blocks[1].ff.proj.weight.data
    model.blocks[1].ff.proj.weight.data = torch.cat(weight.chunk(2)[::-1])


FAULTS = {
    swap_gelu: ("model.blocks.1.ff/gelu.0", "model.blocks.1.ff"),
    change_eps: ("model.blocks.1.norm2", "model.blocks.1.norm2"),
    change_heads: ("model.blocks.1.attn/scaled_dot_product_attention.0", "model.blocks.1.attn"),
    drop_bias: ("model.blocks.1.attn.to_out", "model.blocks.1.attn.to_out"),
    transpose_weight: ("model.blocks.1.attn.to_q", "model.blocks.1.attn.to_q"),
    swap_halves: ("model.blocks.1.ff.proj", "model.blocks.1.ff.proj"),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("level", ["module+ops", "module"])
@pytest.mark.parametrize("with_floor", [True, False])
def test_a_planted_fault_is_found_where_it_is(reference, tmp_path, fault, level, with_floor):
    model = tiny.transformer()
    fault(model)
    candidate = run(model, tmp_path, level)
    options = {"floor": reference / "ref.floor"} if with_floor else {}
    result = compare(reference / "ref.trace", candidate, **options)
    assert result.verdict is Verdict.BUG, result.sentence()
    operation, site = FAULTS[fault]
    assert result.first.site == site, result.sentence()
    if level == "module+ops":
        assert result.first.path == operation, result.sentence()
    assert not result.verdict.passes()
    assert len(result.origins) == 1, [o.describe() for o in result.origins]


def test_a_second_independent_fault_is_an_origin_too(tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return self.left(x) + self.right(x)

    good, bad = Two(), Two()
    with torch.no_grad():
        bad.left.weight[0] += 0.1
        bad.right.bias[3] -= 0.1
        for name, model in (("a", good), ("b", bad)):
            with record(model, tmp_path / f"{name}.trace"):
                model(tiny.sample())
    result = compare(tmp_path / "a.trace", tmp_path / "b.trace")
    assert [o.path for o in result.origins] == ["model.left", "model.right"]


def test_rounding_noise_is_no_bug(reference, tmp_path):
    """Another summation order in every matrix product, as another framework would have it."""
    model = tiny.transformer()

    class Chunked(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.weight, self.bias = linear.weight, linear.bias
            self.in_features, self.out_features = linear.in_features, linear.out_features

        def forward(self, input):
            parts = zip(input.split(3, -1), self.weight.split(3, 1), strict=True)
            total = sum(a @ w.T for a, w in parts)
            return total if self.bias is None else total + self.bias

    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Chunked(child))
    result = judge(reference, run(model, tmp_path))
    assert result.verdict in (Verdict.PASS, Verdict.NOISE), result.sentence()
    assert any(n.status is not Status.SAME for n in result.nodes)


def test_permuted_lanes_with_permuted_weights_are_equivalent(reference, tmp_path):
    """q and k in another lane order give the same attention: the difference heals inside the module."""
    model = tiny.transformer()
    attn = model.blocks[1].attn
    order = torch.arange(8).flip(0)
    for linear in (attn.to_q, attn.to_k):
        linear.weight.data = linear.weight.data.unflatten(0, (4, 8))[:, order].flatten(0, 1).contiguous()
    result = judge(reference, run(model, tmp_path))
    assert result.verdict in (Verdict.PASS, Verdict.NOISE), result.sentence()
    assert {n.path for n in result.nodes if n.role is Role.HEALED} >= {
        "model.blocks.1.attn.to_q",
        "model.blocks.1.attn.to_k",
    }
    assert {w["kind"] for w in result.weights} == {"permuted"}


def test_other_algebra_between_modules_is_equivalent(tmp_path):
    class Guided(nn.Module):
        def __init__(self, expanded):
            super().__init__()
            torch.manual_seed(0)
            self.net, self.end, self.expanded = nn.Linear(8, 8), nn.Linear(8, 8), expanded

        def forward(self, x):
            u, c = self.net(x), self.net(-x)
            return self.end(5.0 * c - 4.0 * u if self.expanded else u + 5.0 * (c - u))

    x = tiny.sample()
    for name, expanded in (("a", False), ("b", True)):
        model = Guided(expanded)
        with torch.no_grad(), record(model, tmp_path / f"{name}.trace", level="module+ops"):
            model(x)
        if name == "a":
            floor(model, tmp_path / "a.trace")
    result = compare(tmp_path / "a.trace", tmp_path / "b.trace", floor=tmp_path / "a.floor")
    assert result.verdict in (Verdict.PASS, Verdict.NOISE), result.sentence()


def test_half_precision_never_passes(tmp_path):
    model = tiny.transformer().to(torch.bfloat16)
    a, b = tmp_path / "a", tmp_path / "b"
    result = compare(run(model, a), run(model, b))
    assert result.verdict is Verdict.NOISE
    assert "float32" in result.reasons[0]
    assert result.verdict.passes()
    assert not result.verdict.passes(strict=True)


def test_a_fault_in_half_precision_is_seen_above_its_floor(tmp_path):
    model = tiny.transformer().to(torch.bfloat16)
    a = run(model, tmp_path / "a")
    floor(model, a, runs=("fp64", "ulp", "ulp"), path=tmp_path / "a.floor")
    swap_halves(model)
    result = compare(a, run(model, tmp_path / "b"), floor=tmp_path / "a.floor")
    assert result.verdict is Verdict.BUG
    assert result.first.path == "model.blocks.1.ff.proj"


def test_without_a_floor_unexplained_differences_are_inconclusive(tmp_path):
    model = tiny.transformer()
    a = run(model, tmp_path / "a")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 2e-5 * torch.randn(parameter.shape))
    with torch.no_grad(), record(model, tmp_path / "b.trace", weights=False):
        model(tiny.sample(), timestep=3.0)
    result = compare(a, tmp_path / "b.trace")
    assert result.verdict in (Verdict.INCONCLUSIVE, Verdict.BUG)
    assert result.verdict is not Verdict.PASS


def test_other_weights_are_invalid(reference, tmp_path):
    result = judge(reference, run(tiny.transformer(seed=5), tmp_path))
    assert result.verdict is Verdict.INVALID
    assert "different weights" in result.reasons[0]
    assert not result.verdict.passes()


def test_other_inputs_are_invalid(tmp_path):
    model = tiny.transformer()
    a = run(model, tmp_path / "a", inputs={"seed": 1, "prompt": "a cat"})
    b = run(model, tmp_path / "b", inputs={"seed": 2, "prompt": "a cat"})
    result = compare(a, b)
    assert result.verdict is Verdict.INVALID
    assert "seed was 1 and 2" in result.reasons[0]


def write(path, *values, dtype=np.float32):
    with TraceWriter(path) as writer:
        for index, (name, slot, value) in enumerate(values):
            writer.put(
                "-",
                name,
                slot,
                np.asarray(value).astype(dtype) if dtype else np.asarray(value),
                op="Linear" if index else "",
            )
    return path


def test_structural_differences(tmp_path):
    base = np.random.default_rng(0).standard_normal((4, 6))
    nan = base.copy()
    nan[1, 2] = np.nan
    a = write(tmp_path / "a.trace", ("m", "in.x", base), ("m", "out", base))
    for value, words in ((base[:, :5], "shape"), (nan, "NaN")):
        result = compare(a, write(tmp_path / "b.trace", ("m", "in.x", base), ("m", "out", value)))
        assert result.verdict is Verdict.BUG
        assert words in result.first.problem
    ids = np.arange(8)
    a = write(tmp_path / "a.trace", ("m", "in.input_ids", ids), ("m", "out", base), dtype=None)
    b = write(tmp_path / "b.trace", ("m", "in.input_ids", ids + (ids == 3)), ("m", "out", base), dtype=None)
    assert compare(a, b).first.problem == "integers differ"


def test_a_timestep_that_was_rounded(tmp_path):
    out = np.random.default_rng(0).standard_normal((4, 6))
    a = write(tmp_path / "a.trace", ("m", "in.timestep", [745.3]), ("m", "out", out))
    b = write(tmp_path / "b.trace", ("m", "in.timestep", [745.0]), ("m", "out", out))
    result = compare(a, b)
    assert result.verdict is not Verdict.PASS
    same = write(tmp_path / "c.trace", ("m", "in.timestep", np.array([745])), ("m", "out", out), dtype=None)
    whole = write(tmp_path / "d.trace", ("m", "in.timestep", np.array([745.0])), ("m", "out", out), dtype=None)
    assert compare(same, whole).verdict is Verdict.PASS  # an integer and a float of the same value


def test_a_run_that_died_has_a_verdict_of_its_own(reference, tmp_path):
    model = tiny.transformer()
    del model.blocks[2].ff.out
    with pytest.raises(AttributeError):
        run(model, tmp_path)
    result = judge(reference, tmp_path / "cand.trace")
    assert result.verdict is Verdict.RAISED
    assert "the candidate ended with AttributeError" in result.reasons[0]
    assert "tiny.py" in result.reasons[0] or "module.py" in result.reasons[0]
    assert "AttributeError" in result.first.problem
    assert result.first.path == "model.blocks.2.ff.out"


def test_a_comparison_that_did_not_see_the_result_does_not_pass(reference, tmp_path):
    model = tiny.transformer()
    candidate = run(model, tmp_path, keep={"model": "none", "model.head": "none"})
    result = judge(reference, candidate)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.coverage.fraction < 1
    assert "-|model.head|out" in result.coverage.missing


def test_structure_of_the_first_difference(reference, tmp_path):
    model = tiny.transformer()
    swap_halves(model)
    result = judge(reference, run(model, tmp_path, keep="full"))
    structure = result.first.structure
    assert structure.transform == "halfswap:2"
    assert structure.transform_r2 > 0.4  # the bias was not swapped, so not all of it
    assert structure.structured
    scaled = tiny.transformer()
    scaled.blocks[1].norm1.weight.data *= 1.5
    scaled.blocks[1].norm1.bias.data += 0.25
    structure = judge(reference, run(scaled, tmp_path, keep="full")).first.structure
    assert (structure.gain, structure.offset) == pytest.approx((1.5, 0.25), rel=1e-4)
    assert structure.affine_r2 > 0.999


def test_axes_and_bits_of_a_difference(tmp_path):
    a = np.random.default_rng(0).standard_normal((2, 16, 64)).astype(np.float32)
    b = a.copy()
    b[:, 1:, 5] += 0.1
    first = write(tmp_path / "a.trace", ("m", "in.x", a[:1]), ("m", "out", a))
    structure = compare(first, write(tmp_path / "b.trace", ("m", "in.x", a[:1]), ("m", "out", b))).first.structure
    channel = next(axis for axis in structure.axes if axis.axis == 2)
    assert (channel.top_index, channel.concentration) == (5, pytest.approx(64))
    assert structure.first_position_exact == 1
    rounded = torch.from_numpy(a).to(torch.bfloat16).float().numpy()
    result = compare(first, write(tmp_path / "c.trace", ("m", "in.x", a[:1]), ("m", "out", rounded)))
    assert result.first.structure.low_bits_zero == pytest.approx((0, 1), abs=1e-3)


def test_the_result_is_plain_data(reference, tmp_path):
    model = tiny.transformer()
    swap_gelu(model)
    result = judge(reference, run(model, tmp_path))
    data = json.loads(json.dumps(result.to_json(), default=str))
    assert data["verdict"] == "BUG"
    assert data["first"]["key"] == "-|model.blocks.1.ff/gelu.0|out"
    assert data["coverage"]["fraction"] == 1
    assert result.node("-|model|out").bad


def test_attributes_in_force_are_compared(reference, tmp_path):
    model = tiny.transformer()
    change_eps(model)
    result = judge(reference, run(model, tmp_path))
    assert result.attributes == [{"path": "model.blocks.1.norm2", "name": "eps", "a": 1e-5, "b": 1e-6}]


def test_the_whole_pipeline_and_a_fault_in_it(tmp_path):
    pipe = tiny.diffusers_pipeline()
    for name in "ab":
        with record(pipe, tmp_path / f"{name}.trace", level="module+ops"):
            tiny.generate(pipe, steps=1)
    result = compare(tmp_path / "a.trace", tmp_path / "b.trace")
    assert result.verdict is Verdict.PASS
    assert result.coverage.fraction == 1
    pipe.unet.mid_block.attentions[0].transformer_blocks[0].ff.net[0].gelu = lambda gate: F.gelu(
        gate, approximate="tanh"
    )
    with record(pipe, tmp_path / "c.trace", level="module+ops"):
        tiny.generate(pipe, steps=1)
    result = compare(tmp_path / "a.trace", tmp_path / "c.trace")
    assert result.verdict is Verdict.BUG
    assert result.first.path == "unet.mid_block.attentions.0.transformer_blocks.0.ff.net.0/gelu.0"
    assert result.first.step == "denoise:00"
    assert Trace.open(tmp_path / "c.trace").complete


def test_weights_in_a_temporary_place_are_mentioned(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "gone"))
    model = tiny.transformer()
    model.name_or_path = str(tmp_path / "gone" / "weights")
    a = run(model, tmp_path)
    result = compare(a, a)
    assert result.verdict is Verdict.PASS
    assert any("temporary place" in reason for reason in result.reasons)


def test_a_difference_with_a_direction_is_no_rounding(tmp_path):
    """Another epsilon moves a norm by less than rounding may, but every element the same way;
    noise of that size passes."""
    x = 1.7 * torch.randn(2, 8, 6, 6, generator=torch.Generator().manual_seed(3))
    model = torch.nn.Sequential(torch.nn.GroupNorm(4, 8, eps=1e-5)).eval()
    traces = {}
    for name, eps, noise in (("a", 1e-5, 0.0), ("b", 1e-6, 0.0), ("c", 1e-5, 1e-6)):
        model[0].eps = eps
        draw = torch.randn(x.shape, generator=torch.Generator().manual_seed(4))
        handle = model[0].register_forward_hook(lambda m, a, r, n=noise, d=draw: r + n * d if n else r)
        with torch.no_grad(), record(model, tmp_path / f"{name}.trace"):
            model(x)
        handle.remove()
        traces[name] = tmp_path / f"{name}.trace"
    model[0].eps = 1e-5
    measured = floor(model, traces["a"])
    other = compare(traces["a"], traces["b"], floor=measured)
    assert (other.verdict, other.first.path) == ("BUG", "model.0")
    assert other.first.error < 8 * other.first.prior
    noisy = compare(traces["a"], traces["c"], floor=measured)
    assert noisy.verdict == "PASS"
    assert noisy.node("-|model.0|out").error > 0.5 * other.first.error


class Places(nn.Module):
    """A table without weights."""

    def __init__(self, theta, axes):
        super().__init__()
        self.theta, self.axes = theta, axes

    def forward(self, x):
        return x * self.theta ** -torch.linspace(0, 1, sum(self.axes))


def test_settings_of_a_module_without_weights_are_compared_under_another_name(tmp_path):
    layer = nn.Linear(6, 6)
    for side, (name, theta) in {"a": ("table", 100.0), "b": ("places", 1000.0)}.items():
        model = nn.Sequential()
        model.add_module(name, Places(theta, (2, 4)))
        model.add_module("layer", layer)
        with torch.no_grad(), record(model, tmp_path / f"{side}.trace", name="model"):
            model(torch.ones(2, 6))
    result = compare(tmp_path / "a.trace", tmp_path / "b.trace")
    assert result.attributes == [{"path": "model.table", "name": "theta", "a": 100.0, "b": 1000.0}]
