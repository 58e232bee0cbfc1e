"""Switches on all attentions of a model at once: processors, backends, fused projections, and names from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from .. import attention
from ..errors import InputError, UnknownNameError, UnsupportedError
from ..notes import say_once


class AttentionSwitches(nn.Module):
    """What `ModelMixin` can do with the attentions inside."""

    def set_attention_backend(self, backend: str) -> None:
        """Compute every attention of this model with the named backend."""
        attention.set_backend_on(self, backend)

    def reset_attention_backend(self) -> None:
        """Back to what `attention_backend(...)` or the default says."""
        attention.set_backend_on(self, None)

    def enable_xformers_memory_efficient_attention(self, attention_op: object = None) -> None:
        """Compute every attention with xformers, if it is installed and can."""
        if attention_op is not None:
            raise UnsupportedError("attention_op cannot be chosen: the backend 'xformers' takes the one that fits.")
        self.set_attention_backend("xformers")

    def disable_xformers_memory_efficient_attention(self) -> None:
        self.reset_attention_backend()

    def set_attention_slice(self, slice_size: str | int | list[int] | None = "auto") -> None:
        """Accepted, and without effect: attention is never computed as one matrix of all scores here."""
        heads: list[Any] = [m.sliceable_head_dim for m in self.modules() if hasattr(m, "sliceable_head_dim")]
        sizes = slice_size if isinstance(slice_size, list) else [slice_size] * len(heads)
        if len(sizes) != len(heads):
            raise InputError(f"set_attention_slice got {len(sizes)} sizes for {len(heads)} attentions.")
        for most, size in zip(heads, sizes, strict=True):
            if isinstance(size, int) and not 0 < size <= most:
                raise InputError(f"A slice is of 1 to {most} heads, got {size}.")
        say_once("set_attention_slice changes nothing: the kernels bound the memory of attention themselves.")

    def fuse_qkv_projections(self) -> None:
        """Compute query, key and value of each self-attention with one matrix."""
        self._each_attention("fuse_projections")

    def unfuse_qkv_projections(self) -> None:
        self._each_attention("unfuse_projections")

    def _each_attention(self, method: str) -> None:
        able = list(self._attentions().values())
        if not able:
            raise UnsupportedError(f"{type(self).__name__} has no attention to do {method!r} on.")
        for module in able:
            getattr(module, method)()

    def _attentions(self) -> dict[str, Any]:
        """By path, those of a middle block last: scripts number them so, and files of adapters do."""
        found = {path: m for path, m in self.named_modules() if isinstance(m, attention.AttentionModuleMixin)}
        return dict(sorted(found.items(), key=lambda pair: pair[0].startswith("mid_block.")))

    @property
    def attn_processors(self) -> dict[str, Any]:
        """Every attention's processor, by path."""
        return {f"{path}.processor": module.processor for path, module in self._attentions().items()}

    def set_attn_processor(self, processor: Callable[..., Any] | dict[str, Callable[..., Any]]) -> None:
        """Give one processor to every attention, or each its own by path (a dict as `attn_processors` returns it)."""
        able = {f"{path}.processor": module for path, module in self._attentions().items()}
        chosen = processor if isinstance(processor, dict) else dict.fromkeys(able, processor)
        if set(chosen) != set(able):
            odd = sorted(set(chosen) ^ set(able))
            raise InputError(
                f"A dict of processors was passed, but the number of processors {len(chosen)} or their names do not "
                f"match the number of attention layers: {len(able)}; {len(odd)} names differ, first {odd[0]!r}."
            )
        for name, module in able.items():
            module.set_processor(chosen[name])

    def set_default_attn_processor(self) -> None:
        """Give every attention the processor that it was made with."""
        for module in self._attentions().values():
            module.set_processor(None)

    def check_processor_kwargs(self, argument: str, kwargs: Mapping[str, Any] | None) -> None:
        """Every key has to be one that an attention processor takes: nothing is dropped."""
        if not kwargs:
            return
        owner, keywords = type(self).__name__, [module.processor_keywords for module in self._attentions().values()]
        known = {key for taken in keywords for key in taken or ()}
        for key in () if None in keywords else kwargs:
            if key == "scale" and key not in known:
                raise InputError(
                    f"{owner}: {argument}['scale'] has no effect here. Set the weight of a LoRA with "
                    "`set_adapters(names, weights)`, before the call."
                )
            if key not in known:
                raise UnknownNameError(f"{argument} key for {owner}", key, known)
