"""The same result in another arrangement is no difference, and a difference stays one: axes, batches, fused layers."""

import numpy as np
import pytest
import torch
from torch import nn

from lockstep.parity import Trace, TraceWriter, Verdict, compare, record
from parity import tiny


def write(path, *values, full=True):
    with TraceWriter(path) as writer:
        for step, where, slot, array in values:
            writer.put(step, where, slot, array, full=full)
    return path


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


MAPS = [draw(2, 8, 4, 6, seed=seed) for seed in range(3)]
ARRANGED = {
    "channels last": lambda x: x.transpose(0, 2, 3, 1),
    "channels last, as tokens": lambda x: x.transpose(0, 2, 3, 1).reshape(2, 24, 8),
    "batch last": lambda x: x.transpose(1, 2, 3, 0),
}


def traces(folder, change, kept="b", last=1.0):
    ours = [("-", f"m.{i}", "out", x) for i, x in enumerate(MAPS)]
    theirs = [("-", f"m.{i}", "out", np.ascontiguousarray(change(x))) for i, x in enumerate(MAPS)]
    theirs[2] = (*theirs[2][:3], theirs[2][3] * np.float32(last))
    end = MAPS[0].reshape(2, -1)
    return (
        write(folder / "a.trace", *ours, ("-", "m", "out", end), full=kept == "a"),
        write(folder / "b.trace", *theirs, ("-", "m", "out", end * np.float32(last)), full=kept == "b"),
    )


@pytest.mark.parametrize("kept", ["a", "b"])
@pytest.mark.parametrize("kind", ARRANGED)
def test_other_axes_are_recognised_from_the_values_and_told(kind, kept, tmp_path):
    result = compare(*traces(tmp_path, ARRANGED[kind], kept))
    assert result.verdict is Verdict.PASS
    assert result.coverage.fraction == 1
    assert any("arranged otherwise" in reason for reason in result.reasons)
    assert all("axes" in node.arranged for node in result.nodes[:3])


@pytest.mark.parametrize("kept", ["a", "b"])
@pytest.mark.parametrize("kind", ARRANGED)
def test_a_fault_in_another_arrangement_is_a_bug_with_its_own_error(kind, kept, tmp_path):
    result = compare(*traces(tmp_path, ARRANGED[kind], kept, last=1.01))
    assert result.verdict is Verdict.BUG
    assert result.first.key.path == "m.2"
    assert result.first.error == pytest.approx(0.01, rel=0.2)


def test_axes_of_one_length_are_recognised_where_others_were(tmp_path):
    square = draw(1, 8, 8, 8, seed=9)
    ours = [("-", "m.0", "out", MAPS[0]), ("-", "m.1", "out", square)]
    theirs = [(*value[:3], np.ascontiguousarray(value[3].transpose(0, 2, 3, 1))) for value in ours]
    end = ("-", "m", "out", draw(4))
    result = compare(write(tmp_path / "a.trace", *ours, end), write(tmp_path / "b.trace", *theirs, end))
    assert result.verdict is Verdict.PASS


def test_an_order_that_the_values_do_not_have_is_still_a_difference(tmp_path):
    scrambled = [("-", "m", "out", np.ascontiguousarray(MAPS[0]).reshape(2, 4, 6, 8))]
    result = compare(write(tmp_path / "a.trace", ("-", "m", "out", MAPS[0])), write(tmp_path / "b.trace", *scrambled))
    assert result.verdict is Verdict.BUG
    assert "shape" in result.first.problem


def test_without_the_numbers_other_axes_are_told_and_not_judged(tmp_path):
    a, b = traces(tmp_path, ARRANGED["channels last"], kept="")
    result = compare(a, b)
    assert result.verdict is Verdict.PASS  # the end was compared
    assert len(result.unmeasured) == 3
    assert any("--keep full" in reason for reason in result.reasons)


# Batches


class Guided(nn.Module):
    """One step of guidance: both predictions in one call, in two calls, or every row twice."""

    def __init__(self, way, fault=1.0):
        super().__init__()
        self.unet, self.way, self.fault = tiny.transformer(), way, fault

    def forward(self, sample):
        rows = torch.cat([sample, 0.5 * sample])
        if self.way == "one call":
            uncond, cond = self.unet(rows, 3.0).chunk(2)
        elif self.way == "two calls":
            uncond, cond = self.unet(rows[:1], 3.0), self.unet(rows[1:], 3.0)
        elif self.way == "two calls, the other way round":
            cond, uncond = self.unet(rows[1:], 3.0), self.unet(rows[:1], 3.0)
        else:
            uncond, cond = self.unet(torch.cat([rows, rows]), 3.0)[:2].chunk(2)
        return uncond + 7.5 * self.fault * (cond - uncond)


WAYS = ["one call", "two calls", "two calls, the other way round", "copies"]


def recorded(model, path, keep):
    with torch.no_grad(), record(model, path, keep=keep):
        model(tiny.sample(batch=1))
    return path


@pytest.mark.parametrize("keep", ["full", "sketch"])
@pytest.mark.parametrize("second", WAYS)
@pytest.mark.parametrize("first", WAYS[:2])
def test_another_batching_with_the_same_result_is_no_bug(first, second, keep, tmp_path):
    a = recorded(Guided(first), tmp_path / "a.trace", "sketch")
    result = compare(a, recorded(Guided(second), tmp_path / "b.trace", keep))
    assert result.verdict in (Verdict.PASS, Verdict.NOISE, Verdict.INCONCLUSIVE), result.sentence()
    assert not [node for node in result.nodes if node.bad]
    if keep == "full":
        assert result.coverage.fraction > 0.9
        assert not result.unmeasured


@pytest.mark.parametrize("second", WAYS[1:])
def test_a_fault_behind_another_batching_is_found_where_it_is(second, tmp_path):
    a = recorded(Guided("one call"), tmp_path / "a.trace", "sketch")
    faulty = Guided(second)
    with torch.no_grad():
        faulty.unet.blocks[1].norm2.eps = 1e-3
    result = compare(a, recorded(faulty, tmp_path / "b.trace", "full"))
    assert result.verdict is Verdict.BUG
    assert result.first.key.path.endswith("blocks.1.norm2")


def test_branches_of_a_step_are_rows_of_one_call(tmp_path):
    rows = draw(2, 4, 8)
    a = write(tmp_path / "a.trace", ("denoise:00", "unet", "out", rows), ("denoise:00", "@latents", "out", rows[:1]))
    b = write(
        tmp_path / "b.trace",
        ("denoise:00.uncond", "unet", "out", rows[:1]),
        ("denoise:00.cond", "unet", "out", rows[1:]),
        ("denoise:00", "@latents", "out", rows[:1]),
    )
    for pair in ((a, b), (b, a)):
        result = compare(*pair)
        assert result.verdict is Verdict.PASS
        assert result.coverage.fraction == 1, pair


class Denoiser(nn.Module):
    """One layer that is used twice in each call, once on a vector and twice on a map."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.act = nn.Linear(8, 8), nn.Linear(8, 8), nn.SiLU()

    def forward(self, x, t):
        told = self.act(torch.sin(t.float() * torch.arange(1.0, 9.0)).expand(len(x), 8))
        return self.last(self.act(self.first(self.act(x)) + told[:, None]))


class Twice(nn.Module):
    def __init__(self, way):
        super().__init__()
        torch.manual_seed(0)
        self.net, self.way = Denoiser(), way

    def forward(self, x):
        if self.way == "two calls":
            uncond, cond = self.net(x, torch.tensor(3)), self.net(0.5 * x, torch.tensor(3))
        elif self.way == "one call":
            uncond, cond = self.net(torch.cat([x, 0.5 * x]), torch.full((2 * len(x),), 3)[:, None]).chunk(2)
        else:
            cond, uncond = self.net(torch.cat([0.5 * x, x]), torch.full((2 * len(x),), 3)[:, None]).chunk(2)
        return uncond + 4 * (cond - uncond)


@pytest.mark.parametrize("ways", [("two calls", "one call"), ("one call", "two calls"), ("two calls", "exchanged")])
def test_layers_that_a_call_uses_several_times_are_put_side_by_side_call_by_call(ways, tmp_path):
    for way, name in zip(ways, "ab", strict=True):
        with torch.no_grad(), record(model := Twice(way), tmp_path / name, keep="full"):
            model(torch.from_numpy(draw(2, 5, 8)))
    result = compare(tmp_path / "a", tmp_path / "b")
    assert result.verdict in (Verdict.PASS, Verdict.NOISE), result.sentence()
    assert max(node.error or 0.0 for node in result.nodes if not node.key.is_operation) < 1e-5
    assert {node.key.call for node in result.nodes if node.key.path.endswith(".act")} >= {0, 1, 2}


@pytest.mark.parametrize("times", [((), (4,)), ((4,), ()), ((1,), (2, 1))])
def test_one_number_for_all_rows_is_that_number(times, tmp_path):
    mine, theirs = (np.full(shape, 801) for shape in times)
    end = ("denoise:00", "unet", "out", draw(4, 8))
    a = write(tmp_path / "a.trace", ("denoise:00", "unet", "in.timestep", mine), end)
    result = compare(a, write(tmp_path / "b.trace", ("denoise:00", "unet", "in.timestep", theirs), end))
    assert result.verdict is Verdict.PASS, result.sentence()
    assert result.nodes[0].error == 0
    other = write(tmp_path / "c.trace", ("denoise:00", "unet", "in.timestep", theirs - 1), end)
    assert compare(a, other).nodes[0].problem == "integers differ"


def test_numbers_that_differ_from_row_to_row_are_not_one(tmp_path):
    end = ("denoise:00", "unet", "out", draw(4, 8))
    a = write(tmp_path / "a.trace", ("denoise:00", "unet", "in.timestep", np.array(3)), end)
    b = write(tmp_path / "b.trace", ("denoise:00", "unet", "in.timestep", np.array([[3, 3], [3, 4]])), end)
    assert "shape" in compare(a, b).nodes[0].problem


def test_rows_that_fit_nowhere_take_no_longer_than_rows_that_fit(tmp_path, monkeypatch):
    from lockstep.parity.comparison import layout

    a = write(tmp_path / "a.trace", *((f"d:{i:02}", "net", "out", draw(2, 8, seed=i)) for i in range(40)))
    b = [(f"d:{i:02}", "net", "out", draw(4, 8, seed=100 + i)) for i in range(40)]
    sketched = []
    monkeypatch.setattr(layout, "sketch", lambda values: sketched.append(1) or np.zeros(256))
    compare(a, write(tmp_path / "b.trace", *b))
    assert 0 < len(sketched) <= 40 * 4


# Fused and split layers


class Fused(nn.Module):
    def __init__(self, original, order=(0, 1, 2)):
        super().__init__()
        parts = [original.to_q, original.to_k, original.to_v]
        self.heads, self.order = original.heads, order
        self.qkv = nn.Linear(32, 96, bias=False)
        self.qkv.weight.data = torch.cat([parts[i].weight for i in order]).detach()
        self.proj_out = original.to_out

    def forward(self, tokens):
        given = self.qkv(tokens).chunk(3, -1)
        q, k, v = (given[self.order.index(i)].unflatten(-1, (self.heads, -1)).transpose(1, 2) for i in range(3))
        return self.proj_out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def traces_of(models, folder):
    """The traces of two models on the same tokens."""
    paths = folder / "a.trace", folder / "b.trace"
    for model, path in zip(models, paths, strict=True):
        with torch.no_grad(), record(model, path, keep="full"):
            model(tiny.sample())
    return paths


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("turned", [False, True])
def test_fused_and_split_layers_are_compared_by_slice(order, turned, tmp_path):
    split, fused = tiny.transformer(), tiny.transformer()
    for block in fused.blocks:
        block.attn = Fused(block.attn, order)
    models = (fused, split) if turned else (split, fused)
    paths = traces_of(models, tmp_path)
    result = compare(*paths)
    assert result.verdict in (Verdict.PASS, Verdict.INCONCLUSIVE), result.sentence()
    by_slice = [node for node in result.nodes if node.arranged]
    assert len(by_slice) == (3 if turned else 9)
    assert not any(node.bad for node in by_slice)


class FusedByHead(Fused):
    """Rows of the weight: head 0 (q k v), head 1 (q k v), and so on."""

    def __init__(self, original):
        super().__init__(original)
        rows = self.qkv.weight.unflatten(0, (3, self.heads, -1)).transpose(0, 1)
        self.qkv.weight.data = rows.flatten(0, 2).detach()

    def forward(self, tokens):
        q, k, v = self.qkv(tokens).unflatten(-1, (self.heads, 3, -1)).permute(3, 0, 2, 1, 4)
        return self.proj_out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("turned", [False, True])
def test_a_fault_behind_layers_that_are_fused_head_by_head_is_found_where_it_is(turned, tmp_path):
    split, fused = tiny.transformer(), tiny.transformer()
    for block in fused.blocks:
        block.attn = FusedByHead(block.attn)
    models = (fused, split) if turned else (split, fused)
    paths = traces_of(models, tmp_path)
    right = compare(*paths)
    assert not [node for node in right.nodes if node.bad], right.sentence()
    assert any("groups" in node.arranged for node in right.nodes)
    models[1].blocks[0].norm2.eps = 1e-3
    with torch.no_grad(), record(models[1], paths[1], keep="full"):
        models[1](tiny.sample())
    assert compare(*paths).first.key.path.endswith("blocks.0.norm2")


# Pairs by sequence, and weights of a single file


def test_a_sequence_alone_does_not_pair_other_kinds_of_layers(tmp_path):
    for name, op in (("a", "LayerNorm"), ("b", "Linear")):
        with TraceWriter(tmp_path / f"{name}.trace") as writer:
            writer.put("-", f"m.{name}", "out", draw(2, 8, seed=ord(name)), op=op)
            writer.put("-", "m", "out", draw(2, 8))
    result = compare(tmp_path / "a.trace", tmp_path / "b.trace")
    assert result.verdict is Verdict.PASS
    assert result.coverage.missing == ["-|m.a|out"]


def test_weights_in_a_single_file_are_compared_from_their_data(tmp_path):
    from safetensors.numpy import save_file

    weights = {f"m.{i}.weight": draw(8, 8, seed=i) for i in range(4)}
    out = draw(2, 8, seed=7)

    def file(name, change=lambda x: x, rename=lambda n: n):
        values = {f"{i:06d}|-|{rename(n)}|param": change(x) for i, (n, x) in enumerate(weights.items())}
        save_file({**values, "000100|-|m|out": out}, tmp_path / name)
        return tmp_path / name

    a = file("a.safetensors")
    assert compare(a, file("b.safetensors")).verdict is Verdict.PASS
    turned = file("c.safetensors", lambda x: np.ascontiguousarray(x.T), lambda n: n.replace("m.", "layers_"))
    result = compare(a, turned)
    assert result.verdict is Verdict.PASS
    assert {w["kind"] for w in result.weights} == {"permuted"}  # square: transposed and permuted look alike
    other = compare(a, file("d.safetensors", lambda x: x + 1))
    assert other.verdict is Verdict.INVALID
    assert "4 of 4 parameters differ" in other.reasons[0]
    assert Trace.open(a).params["m.0.weight"].stats is None


def test_equal_extents_are_read_as_everything_else_lies(tmp_path):
    """A map as wide as it has channels shows no other order by its shape: the right port passes, and what is wrong by
    little is told by its own error."""
    maps = [draw(2, 8, 4, 6, seed=1), draw(2, 6, 6, 6, seed=2), draw(2, 6, 6, 6, seed=3)]
    for last, verdict in ((1.0, Verdict.PASS), (1.001, Verdict.BUG)):
        theirs = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) for x in maps]
        theirs[2] = theirs[2] * np.float32(last)
        ends = [maps[0].reshape(2, -1) * np.float32(f) for f in (1.0, last)]
        a, b = (
            write(tmp_path / f"{n}.trace", *[("-", f"m.{i}", "out", x) for i, x in enumerate(v)], ("-", "m", "out", e))
            for n, v, e in (("a", maps, ends[0]), ("b", theirs, ends[1]))
        )
        result = compare(a, b)
        assert result.verdict is verdict, result.sentence()
        assert all((node.error or 0) < 0.01 for node in result.nodes)
