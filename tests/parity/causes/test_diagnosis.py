"""Causes are named with their proof: on live models, on either side, and from recorded values alone."""

from __future__ import annotations

import copy
import types
from contextlib import ExitStack

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lockstep import parity as px
from lockstep.parity.causes.diagnosis import Live, diagnose
from lockstep.parity.causes.remembered import Remembered
from lockstep.parity.causes.value_tests import draw_findings, schedule_findings, value_findings
from lockstep.parity.trace.writer import TraceWriter
from parity import tiny


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diagnosis")
    model = tiny.transformer()
    recorded(model, folder / "a.trace")
    return model, folder / "a.trace", px.floor(model, folder / "a.trace")


def recorded(model, path, **options):
    with torch.no_grad(), px.record(model, path, level="module+ops", **options):
        model(tiny.sample(), 10.0)
    return path


def diagnosed(reference, plant, path, side="reference", **options):
    model, trace, floor = reference
    candidate = copy.deepcopy(model)
    plant(candidate)
    result = px.compare(trace, recorded(candidate, path), floor=floor)
    live = {"reference": model, "candidate": candidate}
    diagnose(result, **{side: live[side]}, floor=floor, **options)
    return result


def forward(owner, function):
    owner.forward = types.MethodType(function, owner)


def tanh_gelu(m):
    def changed(self, x):
        hidden, gate = self.proj(x).chunk(2, dim=-1)
        return self.out(hidden * F.gelu(gate, approximate="tanh"))

    forward(m.blocks[1].ff, changed)


def gate_first(m):
    def changed(self, x):
        gate, hidden = self.proj(x).chunk(2, dim=-1)
        return self.out(hidden * F.gelu(gate))

    forward(m.blocks[1].ff, changed)


def other_scale(m):
    def changed(self, x):
        q, k, v = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.to_q, self.to_k, self.to_v))
        return self.to_out(F.scaled_dot_product_attention(q, k, v, scale=0.2).transpose(1, 2).flatten(2))

    forward(m.blocks[0].attn, changed)


def norm_behind(m):
    def changed(self, x):
        x = self.norm1(x + self.attn(x))
        return x + self.ff(self.norm2(x))

    forward(m.blocks[1], changed)


def transposed(m):
    m.blocks[0].attn.to_q.weight.data = m.blocks[0].attn.to_q.weight.data.t().contiguous()


def other_eps(m):
    m.blocks[1].norm1.eps = 1e-6


def halved(m):
    def changed(self, x):
        return (x + self.attn(self.norm1(x))) + 0.5 * self.ff(self.norm2(x + self.attn(self.norm1(x))))

    forward(m.blocks[1], changed)


def block_twice(m):
    inner = m.blocks[1].ff.forward
    m.blocks[1].ff.forward = lambda x: inner(inner(x))


FAULTS = {
    "gelu_variant": (tanh_gelu, "model.blocks.1.ff/gelu.0"),
    "norm_eps": (other_eps, "model.blocks.1.norm1"),
    "split_order": (gate_first, "model.blocks.1.ff/gelu.0"),
    "attention_scale": (other_scale, "model.blocks.0.attn/scaled_dot_product_attention.0"),
    "norm_placement": (norm_behind, "model.blocks.1.norm1"),
    "transposed_weight": (transposed, "model.blocks.0.attn.to_q"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_where_it_is_and_named(reference, tmp_path, name):
    plant, path = FAULTS[name]
    result = diagnosed(reference, plant, tmp_path / "b.trace", limit=1)
    assert result.verdict == "BUG"
    assert result.first.path == path
    cause = result.causes[0]
    assert cause.name == name
    assert cause.residual_after <= result.first.prior < cause.residual_before
    assert f"to {cause.residual_after:.2g}" in cause.why


@pytest.mark.parametrize(("plant", "name"), [(halved, "scale"), (block_twice, "call_twice")])
def test_a_number_or_a_call_too_many(reference, tmp_path, plant, name):
    result = diagnosed(reference, plant, tmp_path / "b.trace", limit=1)
    assert (result.verdict, result.causes[0].name) == ("BUG", name)
    assert result.causes[0].evidence["accepted"]


def test_what_a_child_computed_is_not_computed_again(reference):
    model = reference[0]
    x = tiny.sample()
    calls = []
    handle = model.register_forward_hook(lambda *_: calls.append("called"))
    inner = model.forward
    model.forward = lambda *a: calls.append("run") or inner(*a)
    try:
        remembered = Remembered({"model": model})
        results = []
        for given, writing in ((x, True), (x, False), (x + 1, False)):
            with torch.no_grad(), ExitStack() as stack:
                remembered.in_force(stack, writing)
                results.append(model(given, 10.0))
    finally:
        handle.remove()
        del model.forward
    assert calls == ["run", "called", "called", "run", "called"]
    first, second, third = (r if isinstance(r, torch.Tensor) else r[0] for r in results)
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_random_results_are_not_remembered():
    noise = torch.nn.Dropout(0.5)
    remembered = Remembered({"noise": noise})
    seen = []
    for writing in (True, False):
        with ExitStack() as stack:
            remembered.in_force(stack, writing)
            seen.append(noise(torch.ones(64)))
    assert not torch.equal(*seen)


@pytest.mark.parametrize("name", ["gelu_variant", "norm_eps", "split_order", "attention_scale", "transposed_weight"])
def test_it_is_found_by_changing_the_candidate_too(reference, tmp_path, name):
    result = diagnosed(reference, FAULTS[name][0], tmp_path / "b.trace", side="candidate", limit=1)
    assert result.causes[0].name == name


def test_a_second_cause_is_looked_for_behind_the_first(reference, tmp_path):
    def both(m):
        transposed(m)
        tanh_gelu(m)

    result = diagnosed(reference, both, tmp_path / "b.trace")
    proven = [c.name for c in result.causes if "with it" in c.evidence]
    assert proven == ["transposed_weight", "gelu_variant"]
    assert result.causes[1].evidence["with it"].startswith("PASS")


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_setting_that_differs_everywhere_is_one_cause(reference, tmp_path, side):
    def every_norm(m):
        for block in m.blocks:
            block.norm1.eps = block.norm2.eps = 1e-6

    result = diagnosed(reference, every_norm, tmp_path / "b.trace", side=side)
    assert [c.name for c in result.causes] == ["norm_eps"]
    assert f"in all {2 * len(reference[0].blocks)} such places" in result.causes[0].fix
    assert result.explained.verdict == "PASS"


def test_the_models_are_as_they_were(reference, tmp_path):
    model = reference[0]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    identities = {name: id(p) for name, p in model.named_parameters()}
    diagnosed(reference, transposed, tmp_path / "b.trace", limit=1)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert {name: id(p) for name, p in model.named_parameters()} == identities
    assert model.blocks[0].norm1.eps == 1e-5
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_nothing_is_named_without_proof(reference, tmp_path):
    """A change that no hypothesis describes gets no accepted cause."""

    def strange(m):
        def changed(self, x):
            return self.out(torch.sin(3 * self.proj(x).chunk(2, dim=-1)[0] ** 2))

        forward(m.blocks[2].ff, changed)

    result = diagnosed(reference, strange, tmp_path / "b.trace", limit=1, evaluations=300)
    assert result.verdict == "BUG"
    assert not [c for c in result.causes if c.evidence.get("accepted")]


def test_equal_models_have_no_cause(reference, tmp_path):
    result = diagnosed(reference, lambda m: None, tmp_path / "b.trace")
    assert result.verdict == "PASS"
    assert result.causes == []


def test_a_foreign_trace_of_block_outputs_alone(reference, tmp_path):
    """Numpy writes what another framework computed; the activation inside its blocks is found by running ours again."""
    other = copy.deepcopy(reference[0])
    for block in other.blocks:
        block.ff.approximate = "tanh"
    seen = {}
    for index, block in enumerate(other.blocks):
        block.register_forward_hook(lambda m, a, r, i=index: seen.update({i: r.numpy()}))
    with torch.no_grad():
        out = other(tiny.sample(), 10.0)
    with TraceWriter(tmp_path / "foreign.trace") as writer:
        writer.put("-", "model", "in.sample", tiny.sample().numpy())
        for index, values in seen.items():
            writer.put("-", f"model.blocks.{index}", "out", values)
        writer.put("-", "model", "out", out.numpy())
    result = px.compare(tmp_path / "foreign.trace", reference[1], floor=reference[2])
    assert result.first.path == "model.blocks.0"
    diagnose(result, candidate=Live(reference[0]), floor=reference[2])
    assert [c.name for c in result.causes if c.evidence["accepted"]] == ["gelu_variant"]
    assert result.causes[0].evidence["everywhere"]
    assert result.causes[0].evidence["with it"].startswith("PASS")
    assert result.causes[0].residual_before > 10 * result.causes[0].residual_after


def normal(*shape, seed=0):
    return np.random.Generator(np.random.PCG64(seed)).standard_normal(shape).astype(np.float32)


def best(findings):
    return min(findings, key=lambda f: (f.residual > 1e-6, f.rank, f.residual))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("half_swap", lambda x: np.roll(x, 16, -1)),
        ("scale", lambda x: x * np.float32(0.18215)),
        ("channel_order", lambda x: x[:, ::-1]),
        ("value_range", lambda x: x / 2 + np.float32(0.5)),
        ("precision", lambda x: (x.view(np.uint32) & 0xFFFF0000).view(np.float32)),
        ("patch_noise", lambda x: x[..., ::2, ::2].repeat(2, -1).repeat(2, -2)),
        ("permutation", lambda x: x[..., np.random.Generator(np.random.PCG64(1)).permutation(32)]),
    ],
)
def test_recorded_values_alone(name, change):
    x = normal(2, 3, 32, 32)
    if name == "precision":  # so that cutting off is rounding
        x = (x.view(np.uint32) & 0xFFFF7FFF).view(np.float32)
    found = best(value_findings(x, np.ascontiguousarray(change(x))))
    assert found.residual <= 1e-6
    assert found.name in (name, "reversed") if name == "channel_order" else found.name == name


def test_unrelated_values_have_no_explanation():
    assert all(f.residual > 0.1 for f in value_findings(normal(2, 3, 16, 16), normal(2, 3, 16, 16, seed=1)))


def test_two_scalars_prove_nothing():
    assert value_findings(np.float32([2.0]), np.float32([3.0])) == []


def test_draws():
    stream = normal(4096)
    assert best(draw_findings(stream[:1024], stream[64 : 64 + 1024], [])).name == "random_offset"
    assert best(draw_findings(stream[:1024], normal(1024, seed=2), [])).name == "random_stream"
    later = [stream[1024:2048]]
    assert best(draw_findings(stream[:1024], stream[1024:2048], later)).name == "random_offset"


def test_schedules():
    times = np.arange(0, 1000, 50)[::-1].astype(np.int64)
    assert best(schedule_findings("timesteps", times + 1, times)).name == "timestep_offset"
    assert best(schedule_findings("timesteps", times, times[::-1])).name == "schedule_reversed"
    fine = times + 0.37
    assert best(schedule_findings("timesteps", fine, np.trunc(fine))).name == "timestep_dtype"
