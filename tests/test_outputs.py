"""Outputs read as attributes, as a dictionary and as a tuple, as they do elsewhere."""

import copy
import pickle
from dataclasses import dataclass

import pytest
import torch

from lockstep.errors import UnsupportedError
from lockstep.outputs import Output


@dataclass
class Pair(Output):
    sample: torch.Tensor
    extra: int | None = None


def test_an_output_is_a_dictionary_without_its_empty_fields():
    value = torch.ones(2)
    out = Pair(value)
    assert isinstance(out, dict)
    assert list(out) == list(out.keys()) == ["sample"]
    assert len(out) == 1
    assert out["sample"] is out[0] is out.sample is out.get("sample") is out.to_tuple()[0] is out.values()[0]
    assert dict(out)["sample"] is value
    assert dict(**out).keys() == {"sample"}
    assert out.items()[0][1] is value
    assert "sample" in out
    assert "extra" not in out
    assert out.get("extra", 3) == 3
    with pytest.raises(KeyError):
        out["extra"]
    (only,) = out.to_tuple()
    assert only is value
    assert list(Pair(value, 2)) == ["sample", "extra"]
    assert Pair(value, 2)[1] == 2


def test_a_value_is_replaced_under_all_its_names_and_none_is_added_or_taken():
    out = Pair(torch.ones(2))
    out["sample"] = torch.zeros(2)
    assert out.sample.sum() == 0
    assert out[0] is out.sample
    for change in (lambda: out.pop("sample"), lambda: out.update(sample=1), out.clear, lambda: out.setdefault("a", 1)):
        with pytest.raises(UnsupportedError):
            change()
    with pytest.raises(KeyError):
        out["other"] = 1


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda out: pickle.loads(pickle.dumps(out))])
def test_copies_are_outputs(again):
    out = again(Pair(torch.ones(2), 5))
    assert type(out) is Pair
    assert out.extra == 5
    assert torch.equal(out.sample, torch.ones(2))
