"""Attention with scores of any size: equal ones, rising ones, whole numbers, hidden keys, and what is no number."""

import pytest
import torch

from lockstep import kernels
from lockstep.kernels import built, calls, trial
from lockstep.kernels.library import BF16, BY_CAPABILITY, Library, _built, multiplies_bf16

own = kernels.library()
pytestmark = pytest.mark.skipif(own is None, reason="no kernels were compiled here")
NAMES = BY_CAPABILITY.get(torch.backends.cpu.get_cpu_capability(), ())
LIBRARIES = [Library(path) for path in _built(tuple(name for name in NAMES if name != BF16 or multiplies_bf16()))]
WAYS = [(library, bf16) for library in LIBRARIES for bf16 in ((False, True) if library.bf16 else (False,))]
every = pytest.mark.parametrize(("library", "bf16"), WAYS, ids=[f"{one.name}-{bf16}" for one, bf16 in WAYS])
TOKENS, WIDTH = 200, 16


def scores(value, count=TOKENS):
    """Queries of ones, and keys whose scores are `value` (or each its own) with a scale of 1/4."""
    values = torch.as_tensor(value).expand(count)
    return torch.ones(1, 50, 2, WIDTH), (values / 4).view(1, -1, 1, 1).expand(1, count, 2, WIDTH).contiguous()


def apart(library, bf16, query, key, bias=None, scale=0.25):
    """Relative L2 to fp64."""
    value = torch.randn(key.shape, generator=torch.Generator().manual_seed(0)).bfloat16().float()
    result = calls.attention(library, query, key, value, bias, scale, bf16)
    exact = torch.einsum("bqhd,bkhd->bhqk", query.double(), key.double()) * scale
    exact = exact if bias is None else exact + bias.double()[:, None, None]
    exact = torch.einsum("bhqk,bkhd->bqhd", exact.softmax(-1), value.double())
    return float((result.double() - exact).norm() / exact.norm())


@every
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("value", [1.0, 100.0, 1e5, 1e7, 1e8, 1e10, 1e20, 1e30, 1e37])
def test_equal_scores_are_equal_however_large(library, bf16, value, sign):
    assert apart(library, bf16, *scores(sign * value)) < (2e-4 if bf16 else 4e-7)


@every
@pytest.mark.parametrize("step", [1.0, -1.0, 64.0, 2.0**20, -(2.0**90)])
def test_scores_that_rise_and_fall(library, bf16, step):
    assert apart(library, bf16, *scores(torch.arange(TOKENS) * step)) < (5e-3 if bf16 else 3e-7)


@every
@pytest.mark.parametrize("large", [2.0**30, 2.0**60, 2.0**110])
@pytest.mark.parametrize("hidden", [False, True])
def test_whole_numbers_times_something_large_with_and_without_hidden_keys(library, bf16, large, hidden):
    random = torch.Generator().manual_seed(1)
    query = torch.randint(-3, 4, (2, 61, 2, WIDTH), generator=random).float()
    key = torch.randint(-3, 4, (2, TOKENS, 2, WIDTH), generator=random) * large
    bias = torch.zeros(2, TOKENS) if hidden else None
    if bias is not None:
        bias[0, :30], bias[1, ::3], bias[1, 90:] = -torch.inf, torch.finfo(torch.float32).min, -torch.inf
    assert apart(library, bf16, query, key, bias) < (5e-3 if bf16 else 3e-7)
    assert apart(library, bf16, query, key, bias, -0.25) < (5e-3 if bf16 else 3e-7)


@every
def test_hidden_keys_and_infinities(library, bf16):
    query, key = scores(1.0)
    value = torch.randn(key.shape)
    attend = lambda k, bias=None: calls.attention(library, query, k, value, bias, 0.25, bf16)  # noqa: E731
    assert not attend(key, torch.full((1, TOKENS), -torch.inf)).any()  # no key at all: zeros
    assert apart(library, bf16, query, key, torch.full((1, TOKENS), torch.finfo(torch.float32).min)) < 2e-4
    assert apart(library, bf16, query, key, torch.full((1, TOKENS), 3e38)) < 2e-4
    one = key.clone()
    one[0, 7] = -torch.inf
    rest = [torch.cat([whole[:, :7], whole[:, 8:]], 1) for whole in (key, value)]
    shown = calls.attention(library, query, *rest, None, 0.25, bf16)
    assert (attend(one) - shown).norm() < (1e-2 if bf16 else 1e-6) * shown.norm()
    for number in (torch.inf, torch.nan):
        one[0, 7] = number
        assert attend(one).isnan().all()


def test_a_build_that_is_wrong_on_large_scores_is_refused(monkeypatch):
    """And it is not asked for larger ones, from which it may not return."""
    asked, right = [], calls.attention

    def spoilt(library, query, key, *rest):
        asked.append(float(key.abs().max()))
        return right(library, query, key, *rest) * (1.00001 if asked[-1] > 1000 else 1)

    monkeypatch.setattr(calls, "attention", spoilt)
    assert trial.wrong_results(own)[0] == "attention"
    assert 1e3 < max(asked) < 1e6


def test_a_library_that_was_just_compiled_is_tried_on_large_scores(monkeypatch):
    class Spoilt(built.Tried):
        def run(self, name, kinds, *arguments):
            answer = super().run(name, kinds, *arguments)
            if name == "attention" and max(arguments[1]) > 1e4:
                arguments[4][7] += 0.01
            return answer

    assert built.wrong(built.results(Spoilt(str(own.path)))) == ["attention"]
    assert built.wrong(built.extremes(Spoilt(str(own.path)))) == ["attention"]
    assert not built.wrong(built.extremes(built.Tried(str(own.path))))
