"""`AttentionModuleMixin`: processors, fused projections, a backend per module and per model."""

import copy

import pytest
import torch
from torch import nn

from helpers import assert_close
from lockstep.attention import AttentionModuleMixin, dispatch_attention_fn, set_backend_on
from lockstep.errors import BackendError, InputError, UnknownNameError, UnsupportedError


class Processor:
    _attention_backend = None

    def __call__(self, attn, hidden, context=None, strength=1.0):
        source = hidden if context is None else context
        if not attn.fused_projections:
            query, key, value = attn.to_q(hidden), attn.to_k(source), attn.to_v(source)
        elif attn.is_cross_attention:
            query, (key, value) = attn.to_q(hidden), attn.to_kv(source)
        else:
            query, key, value = attn.to_qkv(hidden)
        split = [x.unflatten(-1, (2, -1)) for x in (query, key, value)]
        return strength * dispatch_attention_fn(*split, backend=self._attention_backend).flatten(2)


class Small(nn.Module, AttentionModuleMixin):
    _default_processor_cls = Processor

    def __init__(self, context=None, bias=True, processor=None):
        super().__init__()
        self.is_cross_attention = context is not None
        self.to_q = nn.Linear(8, 8, bias=bias)
        self.to_k = nn.Linear(context or 8, 8, bias=bias)
        self.to_v = nn.Linear(context or 8, 8, bias=bias)
        self.set_processor(processor)

    def forward(self, hidden, context=None):
        return self.processor(self, hidden, context)


def test_default_processor_keywords_and_refusals():
    attn = Small()
    assert isinstance(attn.get_processor(), Processor)
    assert attn.processor_keywords == {"context", "strength"}
    attn.set_processor(lambda attn, hidden, **anything: hidden)
    assert attn.processor_keywords is None
    with pytest.raises(InputError, match="callable"):
        attn.set_processor(3)
    attn._default_processor_cls = None
    with pytest.raises(UnsupportedError, match="no default"):
        attn.set_processor()


def test_a_module_as_processor_can_be_replaced_by_a_plain_one():
    class Learned(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, attn, hidden, context=None):
            return self.scale * hidden

    attn = Small(processor=Learned())
    assert "processor.scale" in attn.state_dict()
    assert attn.processor_keywords == {"context"}
    attn.set_processor(Processor())
    assert "processor.scale" not in attn.state_dict()
    assert attn(torch.randn(1, 3, 8)).shape == (1, 3, 8)


@pytest.mark.parametrize("context", [None, 6])
@pytest.mark.parametrize("bias", [True, False])
def test_fusing_changes_neither_numbers_nor_names(context, bias):
    attn = Small(context, bias).eval()
    hidden, other = torch.randn(2, 5, 8), None if context is None else torch.randn(2, 4, context)
    before = copy.deepcopy(attn.state_dict())
    wanted = attn(hidden, other)
    attn.fuse_projections()
    attn.fuse_projections()
    assert hasattr(attn, "to_kv" if context else "to_qkv")
    assert not hasattr(attn, "to_k")
    assert_close(attn(hidden, other), wanted, 1e-6)
    assert {n: t.tolist() for n, t in attn.state_dict().items()} == {n: t.tolist() for n, t in before.items()}
    attn.load_state_dict({name: 2 * tensor for name, tensor in before.items()})
    attn.unfuse_projections()
    attn.unfuse_projections()
    assert not attn.fused_projections
    for name, tensor in attn.state_dict().items():
        assert torch.equal(tensor, 2 * before[name])
    attn.load_state_dict(before)
    assert torch.equal(attn(hidden, other), wanted)
    assert set(attn.state_dict()) == set(before)


def test_a_fused_module_trains_and_copies():
    attn = Small()
    attn.to_q.weight.requires_grad_(False)
    attn.to_k.weight.requires_grad_(False)
    attn.to_v.weight.requires_grad_(False)
    attn.fuse_projections()
    twin = copy.deepcopy(attn)
    assert not twin.to_qkv.joined.weight.requires_grad
    attn(torch.randn(1, 3, 8)).sum().backward()
    assert attn.to_qkv.joined.bias.grad is not None
    assert set(twin.state_dict()) == set(Small().state_dict())


def test_what_is_not_a_plain_linear_is_not_fused():
    class Adapted(nn.Linear):
        pass

    attn = Small()
    attn.to_k = Adapted(8, 8)
    with pytest.raises(UnsupportedError, match="Linear, Adapted, Linear"):
        attn.fuse_projections()
    assert hasattr(attn, "to_q")
    attn._fusable_classes = (nn.Linear, Adapted)
    attn.fuse_projections()
    assert attn.fused_projections


def test_backend_of_a_module_goes_before_what_surrounds_it_and_is_not_shared():
    shared = Processor()
    one, other = Small(processor=shared), Small(processor=shared)
    one.set_attention_backend("native_math")
    assert one.processor._attention_backend == "native_math"
    assert other.processor._attention_backend is None
    assert shared._attention_backend is None
    one.set_attention_backend(None)
    assert one.processor._attention_backend is None
    with pytest.raises(UnknownNameError):
        one.set_attention_backend("nonsense")
    one.set_processor(lambda attn, hidden, context=None: hidden)
    with pytest.raises(UnsupportedError, match="would have no effect"):
        one.set_attention_backend("chunked")


def test_a_model_takes_a_backend_as_a_whole_or_not_at_all():
    model = nn.Sequential(Small(), Small())
    set_backend_on(model, "chunked")
    assert [attn.processor._attention_backend for attn in model] == ["chunked", "chunked"]
    model[1].set_processor(lambda attn, hidden, context=None: hidden)
    with pytest.raises(UnsupportedError, match="Nothing was changed"):
        set_backend_on(model, "native_math")
    assert model[0].processor._attention_backend == "chunked"
    with pytest.raises(UnsupportedError, match="no attention"):
        set_backend_on(nn.Linear(1, 1), "chunked")
    if not torch.cuda.is_available():
        with pytest.raises(BackendError):
            set_backend_on(model, "native_cudnn")
