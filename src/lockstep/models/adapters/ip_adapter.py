"""IP-Adapter (arXiv:2308.06721) in a UNet: beside the text, every cross-attention attends to the tokens of pictures.

Axes: B batch, N pictures of an adapter, L tokens, D width, Y rows, X columns. A picture's tokens are BNLD, a mask 1NYX.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import torch
from torch import nn
from torch.nn import functional as F

from ...configuration import FrozenDict
from ...errors import InputError, UnknownNameError, UnsupportedError, WeightsError
from ...notes import say_once
from ..modeling import ModelMixin
from ..unets.unet_2d_blocks import Attention, AttnProcessor, BasicTransformerBlock
from .image_projections import MultiIPAdapterImageProjection

Tensor = torch.Tensor
Weight = float | list[float]  # of an adapter in one attention; a list has one for each of its masked pictures
Scale = Weight | dict[str, Any]  # a dict has one for each part of the UNet: {"up": {"block_0": [0.0, 1.0, 0.0]}}
Masks = Sequence[Tensor | None] | Tensor | None  # for each adapter
MASKS = "ip_adapter_masks"  # as a key of cross_attention_kwargs


@dataclass
class IPAdapter:
    """An adapter to put into a UNet."""

    projection: nn.Module
    weights: list[tuple[Tensor, Tensor]]  # to_k and to_v for each cross-attention: way down, way up, middle
    source: dict[str, Any] = field(default_factory=dict)  # the file, for the manifest
    lora: dict[tuple[int, str], Tensor] = field(default_factory=dict)  # (attention, name in it): comes with FaceID


class IPAdapterAttnProcessor(nn.Module, AttnProcessor):
    """Attention to the text, and to each adapter's pictures with keys and values of their own; the sum of all."""

    def __init__(self, weights: Sequence[tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.to_k_ip = nn.ModuleList(linear(key) for key, _ in weights)
        self.to_v_ip = nn.ModuleList(linear(value) for _, value in weights)
        self.scale: list[Weight] = [1.0] * len(weights)

    def forward(
        self,
        attn: Attention,
        hidden_states: Tensor,
        encoder_hidden_states: tuple[Tensor, list[Tensor]],
        attention_mask: Tensor | None = None,
        ip_adapter_masks: Masks = None,
    ) -> Tensor:
        text, pictures = encoder_hidden_states
        query, key, value = attn.project(hidden_states, text)
        mixed = self.attend(attn, query, key, value, attention_mask)
        masks = per_adapter(ip_adapter_masks, len(pictures))
        for tokens, scale, mask, to_k, to_v in zip(
            pictures, self.scale, masks, self.to_k_ip, self.to_v_ip, strict=True
        ):
            scales = scale if isinstance(scale, list) else [scale] * (1 if mask is None else mask.shape[1])
            if not any(scales):
                continue
            if mask is None:
                together = tokens.flatten(1, 2)
                mixed = mixed + scales[0] * self.attend(attn, query, to_k(together), to_v(together))
                continue
            for number, weight in enumerate(scales):
                picture = tokens[:, number]
                seen = self.attend(attn, query, to_k(picture), to_v(picture))
                mixed = mixed + weight * (seen * mask_of_tokens(mask[:, number], query.shape[1]).to(query))
        return attn.to_out[0](mixed)


class IPAdapterMixin(ModelMixin):
    """What a UNet can do with IP-Adapters. Their projections take the published place, `encoder_hid_proj`."""

    encoder_hid_proj: nn.Module | None
    text_encoder_hid_proj: nn.Module | None = None  # what stood there before
    ip_adapters: tuple[dict[str, Any], ...] = ()  # the files of those in use
    ip_adapter_scale: Scale | list[Scale] = 1.0

    @property
    def image_projections(self) -> MultiIPAdapterImageProjection | None:
        """The projections of the adapters in use."""
        found = self.encoder_hid_proj
        return found if isinstance(found, MultiIPAdapterImageProjection) else None

    @property
    def config(self) -> FrozenDict:
        """What the UNet was built with; with adapters, it says that pictures are projected."""
        own = self._config
        return own if not self.ip_adapters else FrozenDict({**own, "encoder_hid_dim_type": "ip_image_proj"})

    def attentions(self) -> dict[str, Attention]:
        """All attentions by path, in the order in which adapter files number them: down, up, middle."""
        named = {path: module for path, module in self.named_modules() if isinstance(module, Attention)}
        order = ("down_blocks.", "up_blocks.", "mid_block.")
        return {path: named[path] for start in order for path in named if path.startswith(start)}

    def cross_attentions(self) -> dict[str, Attention]:
        """Those to the text."""
        return {path: module for path, module in self.attentions().items() if path.endswith("attn2")}

    def lora_of(self, adapter: IPAdapter) -> dict[str, Tensor]:
        """The LoRA that comes with an adapter, its layers named as this UNet's."""
        paths = list(self.attentions())
        beyond = [number for number, _ in adapter.lora if number >= len(paths)]
        if beyond:
            name = adapter.source.get("file", "The IP-Adapter")
            raise WeightsError(f"{name} has a LoRA for attention {beyond[0]}, this UNet has {len(paths)} attentions.")
        return {f"{paths[number]}.{name}": tensor for (number, name), tensor in adapter.lora.items()}

    def set_ip_adapters(self, adapters: Sequence[IPAdapter]) -> None:
        """Use these adapters, in place of others; all of them fit, or nothing changes."""
        attentions = self.cross_attentions()
        if any(isinstance(module, BasicTransformerBlock) and module.only_cross_attention for module in self.modules()):
            raise UnsupportedError(f"IP-Adapters cannot be used on a {type(self).__name__} with only_cross_attention.")
        for adapter in adapters:
            check_weights(adapter, attentions)
        self.unset_ip_adapters()
        like = next(self.parameters())
        projections = MultiIPAdapterImageProjection([adapter.projection for adapter in adapters]).to(like)
        self.text_encoder_hid_proj, self.encoder_hid_proj = self.encoder_hid_proj, projections
        for number, attention in enumerate(attentions.values()):
            own = attention.processor
            made = IPAdapterAttnProcessor([adapter.weights[number] for adapter in adapters]).to(like)
            made._attention_backend = getattr(own, "_attention_backend", None)
            attention.set_processor(made)
            attention.processor_before = (own,)  # no submodule, even where it is a module
        self.ip_adapters = tuple(adapter.source for adapter in adapters)
        self.ip_adapter_scale = 1.0
        self.train(self.training)

    def unset_ip_adapters(self) -> None:
        """The UNet as it was without adapters."""
        if self.image_projections is None:
            return
        for attention in self.cross_attentions().values():
            if isinstance(attention.processor, IPAdapterAttnProcessor):
                attention.set_processor(*attention.processor_before)
        self.encoder_hid_proj, self.text_encoder_hid_proj = self.text_encoder_hid_proj, None
        self.ip_adapters, self.ip_adapter_scale = (), 1.0

    def set_ip_adapter_scale(self, scale: Scale | list[Scale]) -> None:
        """How strongly each adapter acts: a number, or a dict by part of the UNet; a list has one for each adapter."""
        count = len(self.ip_adapters)
        if not count:
            raise InputError("set_ip_adapter_scale needs an IP-Adapter: load one with pipe.load_ip_adapter(…).")
        scales = list(scale) if isinstance(scale, list) else [scale] * count
        if len(scales) != count:
            raise InputError(f"set_ip_adapter_scale wants a scale for each of {count} IP-Adapters, got {scale!r}.")
        attentions = self.cross_attentions()
        tables = [scale_by_attention(one, list(attentions)) for one in scales]
        for path, attention in attentions.items():
            if isinstance(attention.processor, IPAdapterAttnProcessor):
                attention.processor.scale = [table[path] for table in tables]
        self.ip_adapter_scale = copy.deepcopy(scale)

    def weights_to_save(self) -> dict[str, Tensor]:
        """The UNet's own tensors: adapters have files of their own."""
        tensors = super().weights_to_save()
        if self.image_projections is None:
            return tensors
        say_once("save_pretrained leaves IP-Adapters out: load them again from their own files.")
        own = {name: t for name, t in tensors.items() if not re.search(r"_ip\.\d|^encoder_hid_proj\.", name)}
        return {name.replace("text_encoder_hid_proj.", "encoder_hid_proj."): tensor for name, tensor in own.items()}

    def split_conditions(self, added: Mapping[str, Any] | None) -> tuple[dict[str, Any] | None, list[Tensor] | None]:
        """`added_cond_kwargs` without the encodings of pictures, and these where there are adapters to read them."""
        if self.image_projections is None:
            return None if added is None else dict(added), None
        rest = dict(added or {})
        encodings = rest.pop("image_embeds", [])
        return rest or None, [encodings[:, None]] if isinstance(encodings, Tensor) else list(encodings)

    def check_pictures(
        self, encodings: list[Tensor] | None, sample: Tensor, processor_kwargs: Mapping[str, Any] | None
    ) -> None:
        """Encodings, and masks where there are any, that fit the adapters and the sample."""
        projections = self.image_projections
        if projections is None or encodings is None:
            return
        if not encodings:
            raise InputError(
                f"{type(self).__name__} has {projections.num_ip_adapters} IP-Adapters in it and was given no picture: "
                "give added_cond_kwargs={'image_embeds': […]}, or take them out with unload_ip_adapter."
            )
        projections.check(encodings, len(sample))
        size = (sample.shape[2], sample.shape[3])
        self.check_masks((processor_kwargs or {}).get(MASKS), [one.shape[1] for one in encodings], size)

    def check_masks(self, masks: Masks, pictures: Sequence[int], size: tuple[int, int] | None) -> None:
        """A mask for each adapter and picture, of the proportions of the picture to make."""
        for index, (mask, count) in enumerate(zip(per_adapter(masks, len(pictures)), pictures, strict=True)):
            if mask is None:
                self._check_single_scale(index)
                continue
            if not isinstance(mask, Tensor) or mask.ndim != 4 or mask.shape[:2] != (1, count):
                got = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
                raise InputError(
                    f"{MASKS}: mask {index} has to be (1, {count}, height, width), one for each picture of the "
                    f"adapter, got {got}. IPAdapterMaskProcessor makes them."
                )
            rows, columns = size or mask.shape[2:]
            if mask.shape[2] * columns != mask.shape[3] * rows:
                raise InputError(
                    f"{MASKS}: mask {index} is {mask.shape[2]}×{mask.shape[3]}, which has not the proportions of the "
                    f"picture ({rows}:{columns} in height and width). Make it with "
                    "IPAdapterMaskProcessor().preprocess(masks, height=…, width=…)."
                )
            self._check_scales(index, count)

    def _scales(self, index: int) -> list[Weight]:
        processors = [attention.processor for attention in self.cross_attentions().values()]
        return [one.scale[index] for one in processors if isinstance(one, IPAdapterAttnProcessor)]

    def _check_single_scale(self, index: int) -> None:
        if any(isinstance(scale, list) for scale in self._scales(index)):
            raise InputError(
                f"IP-Adapter {index} has a scale for each of its pictures, which acts only with masks: give "
                f"cross_attention_kwargs={{{MASKS!r}: …}}, or one scale."
            )

    def _check_scales(self, index: int, pictures: int) -> None:
        counts = {len(scale) for scale in self._scales(index) if isinstance(scale, list)}
        if counts - {pictures}:
            raise InputError(f"IP-Adapter {index} has {counts.pop()} scales for {pictures} pictures.")


def linear(weight: Tensor) -> nn.Linear:
    """A layer without bias with these weights."""
    with torch.device("meta"):
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight = nn.Parameter(weight, requires_grad=False)
    return layer


def per_adapter(masks: Any, count: int) -> list[Any]:
    """A mask, or None, for each adapter; a tensor of (adapters, 1, height, width) is an older form."""
    if masks is None:
        return [None] * count
    listed = list(masks.unsqueeze(1)) if isinstance(masks, Tensor) else masks
    if not isinstance(listed, (list, tuple)) or len(listed) != count:
        got = len(listed) if isinstance(listed, (list, tuple)) else type(masks).__name__
        raise InputError(f"{MASKS} wants a list with a mask for each of {count} IP-Adapters, got {got}.")
    return list(listed)


def mask_of_tokens(mask: Tensor, tokens: int) -> Tensor:
    """A mask (1, rows, columns) at the size of a token grid, as (1, tokens, 1)."""
    rows = int(math.sqrt(tokens / (mask.shape[2] / mask.shape[1])))
    rows += int(tokens % rows != 0)
    small = F.interpolate(mask[None].float(), size=(rows, tokens // rows), mode="bicubic").flatten(2)[0]
    return F.pad(small, (0, tokens - small.shape[1]))[:, :, None]  # odd sizes leave the grid short, or too long


def check_weights(adapter: IPAdapter, attentions: Mapping[str, Attention]) -> None:
    """Keys and values for every attention to the text, of its widths."""
    name = adapter.source.get("file", "The IP-Adapter")
    advice = "It was made for another family of UNets (SD 1.x, 2.x and XL each have their own)."
    if len(adapter.weights) != len(attentions):
        raise WeightsError(
            f"{name} has layers for {len(adapter.weights)} cross-attentions, this UNet has {len(attentions)}. {advice}"
        )
    for (path, attention), pair in zip(attentions.items(), adapter.weights, strict=True):
        wanted = (attention.inner_dim, attention.cross_attention_dim)
        for weight in pair:
            if tuple(weight.shape) != wanted:
                raise WeightsError(f"{name}: {path} of this UNet wants {wanted}, got {tuple(weight.shape)}. {advice}")


# ---- scales ----


def scale_by_attention(scale: Any, paths: Sequence[str]) -> dict[str, Weight]:
    """The weight of one adapter in each attention; what a dict does not name is 0 (InstantStyle, arXiv:2404.02733)."""
    if not isinstance(scale, dict):
        return dict.fromkeys(paths, checked(scale))
    known = {part for path in paths for part in [path.partition("_block")[0]]}
    for part in scale:
        if part not in known:
            raise UnknownNameError("part of the UNet in an IP-Adapter's scale", part, sorted(known))
    table: dict[str, Weight] = {}
    for part in known:
        own = [path for path in paths if path.startswith(f"{part}_block")]
        table |= scale_in_part(part, scale.get(part, 0.0), own)
    return table


def scale_in_part(part: str, scale: Any, paths: Sequence[str]) -> dict[str, Weight]:
    """The same for the way down, the middle or the way up."""
    if part == "mid":
        only = scale[0] if isinstance(scale, list) and len(scale) == 1 else scale
        return dict.fromkeys(paths, checked(only, single=True))
    blocks: dict[str, list[str]] = {}  # block_2 -> its attentions
    for path in paths:
        blocks.setdefault(f"block_{path.split('.')[1]}", []).append(path)
    for name in scale if isinstance(scale, dict) else ():
        if name not in blocks:
            raise UnknownNameError(f"block of {part!r} in an IP-Adapter's scale", name, blocks)
    table: dict[str, Weight] = {}
    for name, own in blocks.items():
        transformers = list(dict.fromkeys(path.split(".")[3] for path in own))
        given = scale.get(name, 0.0) if isinstance(scale, dict) else scale
        values = given if isinstance(given, list) else [given]
        values = values * len(transformers) if len(values) == 1 else values
        if len(values) != len(transformers):
            raise InputError(
                f"An IP-Adapter's scale wants one number for {part}.{name}, or one for each of its "
                f"{len(transformers)} transformers, got {given!r}."
            )
        weights = dict(zip(transformers, values, strict=True))
        table |= {path: checked(weights[path.split(".")[3]]) for path in own}
    return table


def checked(scale: Any, single: bool = False) -> Weight:
    """A finite number, or a list with one for each masked picture."""
    if is_number(scale):
        return float(scale)
    if not single and isinstance(scale, (list, tuple)) and scale and all(is_number(one) for one in scale):
        return [float(one) for one in scale]
    raise InputError(
        f"An IP-Adapter's scale is a finite number, or a list with one for each masked picture: {scale!r}."
    )


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
