"""Weight maps: the mechanism, its documentation, and each family's table against the reference's converter."""

import re
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from lockstep.errors import ConfigError, UnknownNameError, WeightsError
from lockstep.loaders.operations import OPERATIONS, parse, run
from lockstep.loaders.weight_map import WeightMap
from lockstep.models.weights import MappedFiles, open_weights

PAGE = Path(__file__).resolve().parents[2] / "docs" / "weight-maps.md"


def test_every_operation_is_on_the_page():
    headings = re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for heading in headings for name in heading.split(", ")} == set(OPERATIONS)


@pytest.mark.parametrize(
    ("operation", "shape"),
    [
        ("split", (12, 4)), ("split 1 3", (12, 4)), ("transpose", (3, 5)), ("permute 2 0 1", (2, 3, 4)),
        ("interleave 3", (12, 2)), ("regroup 2 3", (12, 2)), ("swap_scale_shift", (6,)), ("squeeze", (3, 4, 1, 1)),
        ("regroup 2 3 | split", (12, 2)), ("transpose | split", (4, 12)), ("squeeze 1 | split", (6, 4, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
def test_an_operation_undoes_itself_bit_for_bit_and_knows_its_shapes(operation, shape, dtype):
    steps, count = parse(operation), 2 if "1 3" in operation else 3 if "split" in operation else 1
    before = torch.randn(shape).to(dtype)
    after = run(steps, [before], count, backwards=False)
    (again,) = run(steps, after, 1, backwards=True)
    assert torch.equal(again.contiguous().view(torch.uint8), before.view(torch.uint8))
    on_meta = run(steps, [before.to("meta")], count, backwards=False)
    assert [t.shape for t in on_meta] == [t.shape for t in after]


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_regrouping_any_sizes(heads, parts, width):
    before = torch.arange(heads * parts * width)
    steps = parse(f"regroup {heads} {parts}")
    (after,) = run(steps, [before], 1, backwards=False)
    assert torch.equal(after.view(parts, heads, width), before.view(heads, parts, width).transpose(0, 1))
    assert torch.equal(run(steps, [after], 1, backwards=True)[0], before)


@pytest.mark.parametrize(
    ("operation", "shape", "words"),
    [
        ("split", (10, 2), "10 rows"), ("transpose", (2, 3, 4), r"\[2, 3, 4\]"),
        ("permute 1 0", (2, 3, 4), "wants 2 axes"),
        ("interleave 4", (6, 2), "4 heads"), ("regroup 2 2", (6,), "2 groups of 2"),
        ("swap_scale_shift", (3,), "3 rows"),
        ("squeeze", (2, 3, 3, 3), "kernel of one"), ("split 1 2", (9, 2), "3 parts"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_the_names(operation, shape, words):
    targets = ("x.0", "x.1", "x.2") if "split" in operation else ("x",)
    move = WeightMap([("from.here", targets, operation)]).find("from.here")
    with pytest.raises(WeightsError, match=f"from.here.*{words}"):
        move.apply([torch.zeros(shape)])


def test_a_table_with_a_mistake_is_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'transpose'"):
        WeightMap([("a", "b", "transposed")])
    with pytest.raises(ConfigError, match="same placeholders"):
        WeightMap([("a.{i}", "b.{j}")])
    with pytest.raises(ConfigError, match="no operation"):
        WeightMap([("a", ("b", "c"))])
    with pytest.raises(ConfigError, match="claim 'a.weight'"):
        WeightMap([("a.{}", "b.{}"), ("a.{x}", "c.{x}")]).find("a.weight")
    with pytest.raises(ConfigError, match="whole"):
        WeightMap([("a", ("b", "c"), "split 1.5 2")])


def test_whole_parts_of_names_are_matched():
    weight_map = WeightMap([("norm2.{}", "norm3.{}"), ("norm3.{}", "norm2.{}"), ("a.{i}.b", "c.{i}")])
    assert weight_map.find("norm2.bias").targets == ("norm3.bias",)
    assert weight_map.find("xnorm2.bias") is None
    assert weight_map.find("norm2.x.bias") is None
    assert weight_map.find("a.1.2.b") is None


@pytest.fixture
def stored(tmp_path):
    tensors = {
        "qkv.weight": torch.randn(6, 2),
        "qkv.bias": torch.randn(6),
        "p": torch.randn(2, 3),
        "noise": torch.ones(1),
    }
    save_file(tensors, tmp_path / "file.safetensors")
    return tensors, open_weights([tmp_path / "file.safetensors"])


ROWS = [("qkv.{}", ("q.{}", "k.{}", "v.{}"), "split"), ("p", "p.weight", "transpose"), ("noise", (), "drop")]


def test_tensors_are_read_when_they_are_asked_for(stored, monkeypatch):
    tensors, found = stored
    reads = []
    real = MappedFiles.read
    monkeypatch.setattr(MappedFiles, "read", lambda self, tensor, *rest: reads.append(1) or real(self, tensor, *rest))
    ours = WeightMap(ROWS).to_ours(found)
    assert not reads
    assert {name: tensor.info.shape for name, tensor in ours.items()} == {
        "q.weight": (2, 2), "k.weight": (2, 2), "v.weight": (2, 2), "q.bias": (2,), "k.bias": (2,), "v.bias": (2,),
        "p.weight": (3, 2),
    }  # fmt: skip
    values = {name: tensor.make() for name, tensor in ours.items()}
    assert len(reads) == 3  # each source once
    assert torch.equal(values["k.weight"], tensors["qkv.weight"][2:4])
    assert torch.equal(ours["k.weight"].make(), values["k.weight"])  # and again where it is asked for again
    again = WeightMap(ROWS).to_theirs(ours)
    assert {name: tuple(t.info.shape) for name, t in again.items()} == {
        "qkv.weight": (6, 2),
        "qkv.bias": (6,),
        "p": (2, 3),
    }
    for name, tensor in again.items():
        assert torch.equal(tensor.make(), tensors[name]), name


def test_a_map_is_total_or_an_error_that_lists_what_is_left(stored):
    _, found = stored
    with pytest.raises(WeightsError, match=r"leaves 2 tensors that it has no row for: .*'noise', 'p'|'p', 'noise'"):
        WeightMap(ROWS[:1], "x").to_ours(found)
    ours = WeightMap(ROWS).to_ours(found)
    with pytest.raises(
        WeightsError, match=r"leaves 2 tensors whose companions are missing: '.\.weight' wants 'v.weight'"
    ):
        WeightMap(ROWS).to_theirs({name: tensor for name, tensor in ours.items() if name != "v.weight"})
    with pytest.raises(WeightsError, match="would both become 'z'"):
        WeightMap([("p", "z", "accept"), ("noise", "z", "accept"), *ROWS[:1]]).to_ours(found)
