"""Attention: one function that every model calls, the backends behind it, and the mixin of attention modules.

dispatch.py   `dispatch_attention_fn`: check the call, choose a backend, run it
backends.py   the registry: what each backend needs and what it cannot do
kernels.py    how each of them computes
parallel.py   one attention over several ranks: Ulysses, ring, both
plans.py      `SequencePlan`: how a model's tokens are shared out among ranks
module.py     `AttentionModuleMixin`: processors, fused projections, a backend of its own
published.py  `PublishedAttention`: what processors that were written for other libraries call on a module
"""

from .backends import AttentionBackend, available_backends, backend_names, get_backend, register_backend
from .dispatch import attention_backend, attention_replaced_by, dispatch_attention_fn
from .kernels import AttentionCall
from .module import AttentionModuleMixin, FusedLinear, ProcessorMixin, set_backend_on
from .parallel import RankGroup, SequenceParallel
from .plans import Cut, SequencePlan
from .published import PublishedAttention

__all__ = [
    "AttentionBackend",
    "AttentionCall",
    "AttentionModuleMixin",
    "Cut",
    "FusedLinear",
    "ProcessorMixin",
    "PublishedAttention",
    "RankGroup",
    "SequenceParallel",
    "SequencePlan",
    "attention_backend",
    "attention_replaced_by",
    "available_backends",
    "backend_names",
    "dispatch_attention_fn",
    "get_backend",
    "register_backend",
    "set_backend_on",
]
