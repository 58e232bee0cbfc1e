"""The packages that need a graphics card, by stand-ins with their published signatures that compute on the processor.

They show that layout, scale, causality and bias reach a package as it wants them; the packages' own kernels run only
where they are installed.
"""

import sys
import types

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from helpers import assert_close
from lockstep.attention import kernels


def stand_in(monkeypatch, name, **members):
    module = types.ModuleType(name)
    for key, value in members.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def by_torch(query, key, value, **kwargs):
    return scaled_dot_product_attention(*(x.transpose(1, 2) for x in (query, key, value)), **kwargs).transpose(1, 2)


def call(keys=9, **kwargs):
    query, key, value = torch.randn(2, 9, 4, 8), torch.randn(2, keys, 4, 8), torch.randn(2, keys, 4, 8)
    return kernels.AttentionCall(query, key, value, **kwargs)


@pytest.mark.parametrize("kwargs", [{}, {"scale": 0.3}, {"is_causal": True}])
def test_flash_attn(monkeypatch, kwargs):
    def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1)):
        return by_torch(q, k, v, dropout_p=dropout_p, scale=softmax_scale, is_causal=causal)

    stand_in(monkeypatch, "flash_attn", flash_attn_func=flash_attn_func)
    asked = call(**kwargs)
    assert_close(kernels.run_flash(asked), kernels.run_math(asked), 1e-6)


@pytest.mark.parametrize("kwargs", [{}, {"scale": 0.3}, {"is_causal": True}])
def test_sageattention(monkeypatch, kwargs):
    def sageattn(q, k, v, tensor_layout="HND", is_causal=False, sm_scale=None, return_lse=False):
        if tensor_layout == "HND":
            return scaled_dot_product_attention(q, k, v, is_causal=is_causal, scale=sm_scale)
        return by_torch(q, k, v, is_causal=is_causal, scale=sm_scale)

    stand_in(monkeypatch, "sageattention", sageattn=sageattn)
    asked = call(**kwargs)
    assert_close(kernels.run_sage(asked), kernels.run_math(asked), 1e-6)


@pytest.mark.parametrize("kwargs", [{}, {"scale": 0.3}, {"is_causal": True}, {"mask": "bool"}, {"mask": "bias"}])
def test_xformers(monkeypatch, kwargs):
    class LowerTriangularMask:
        pass

    def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None):
        if isinstance(attn_bias, LowerTriangularMask):
            return by_torch(query, key, value, is_causal=True, scale=scale)
        if attn_bias is not None:
            assert attn_bias.shape == (2, 4, 9, key.shape[1]), "the bias has to be given for every head and row"
            assert attn_bias.stride(2) % 8 == 0, "rows of the bias have to start at multiples of eight"
        return by_torch(query, key, value, attn_mask=attn_bias, dropout_p=p, scale=scale)

    members = {"LowerTriangularMask": LowerTriangularMask, "memory_efficient_attention": memory_efficient_attention}
    stand_in(monkeypatch, "xformers").ops = stand_in(monkeypatch, "xformers.ops", **members)
    kwargs = dict(kwargs)
    kind = kwargs.pop("mask", None)
    keep = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    keep[..., 5:] = False
    mask = {"bool": keep, "bias": torch.randn(1, 4, 9, 7)}.get(kind)
    asked = call(keys=9 if kind is None else 7, attn_mask=mask, **kwargs)
    assert_close(kernels.run_xformers(asked), kernels.run_math(asked), 1e-6)
