"""Quantised safetensors: scales beside the weights are multiplied in when one is read; what cannot be read is named."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

from ..errors import UnsupportedError, WeightsError
from ..models.weights import DTYPES, MadeTensor, MappedFiles, StoredTensor
from ..notes import say_once

FLOAT8 = ("F8_E4M3", "F8_E5M2")
SCALES = (".scale_weight", ".weight_scale")  # ComfyUI's older and newer spelling
INPUT_SCALES = (".scale_input", ".input_scale", ".output_scale")  # for arithmetic in fp8: not used here
MARKER = "scaled_fp8"
# ends of names that only other quantisations have
REFUSED = {
    ".quant_state.bitsandbytes__nf4": "bitsandbytes nf4",
    ".quant_state.bitsandbytes__fp4": "bitsandbytes fp4",
    ".SCB": "bitsandbytes int8",
    ".weight_scale_inv": "block-wise fp8",
    ".qweight": "SVDQuant or AWQ",
    ".wscales": "SVDQuant",
    ".scales": "MLX",
}


def dequantised(stored: Mapping[str, StoredTensor], opened: MappedFiles | None = None) -> dict[str, StoredTensor]:
    """The tensors without the scales, which are multiplied into the weights that they belong to."""
    _refuse_others(stored)
    _require_scales(stored)
    opened = opened or MappedFiles()
    plain: dict[str, StoredTensor] = {}
    for name, tensor in stored.items():
        if name.rpartition(".")[2] == MARKER or name.endswith((*SCALES, *INPUT_SCALES)):
            continue
        scale = _scale_of(name, tensor, stored)
        plain[name] = tensor if scale is None else _scaled(tensor, scale, opened)
    return plain


def _scale_of(name: str, tensor: StoredTensor, stored: Mapping[str, StoredTensor]) -> StoredTensor | None:
    if not name.endswith(".weight") or tensor.info.dtype not in FLOAT8:
        return None
    module = name.removesuffix(".weight")
    return next((stored[module + end] for end in SCALES if module + end in stored), None)


def _require_scales(stored: Mapping[str, StoredTensor]) -> None:
    """Refuse a weight without a scale whose like in other blocks have one: it would be some hundred times too large."""
    scaled: dict[str, set[bool]] = {}
    bare: dict[str, str] = {}
    for name, tensor in stored.items():
        if name.endswith(".weight") and tensor.info.dtype in FLOAT8 and len(tensor.info.shape) > 1:
            alike, has = re.sub(r"\d+", "#", name), _scale_of(name, tensor, stored) is not None
            scaled.setdefault(alike, set()).add(has)
            bare |= {} if has else {alike: name}
    for alike, kinds in scaled.items():
        if len(kinds) > 1:
            raise WeightsError(
                f"{stored[bare[alike]].path}: {bare[alike]!r} is fp8 and has no scale, though its like in other "
                "blocks have one: the file is damaged. Fetch or copy it again."
            )
    lone = [name for alike, name in bare.items() if True not in scaled[alike]]
    if lone and any(True in kinds for kinds in scaled.values()):
        some = ", ".join(repr(name) for name in lone[:3])
        say_once(
            f"{stored[lone[0]].path}: {len(lone)} kinds of fp8 weights have no scale and are read as they are: {some}."
        )


def _scaled(tensor: StoredTensor, scale: StoredTensor, opened: MappedFiles) -> StoredTensor:
    """The weight in fp32: its fp8 value times its scale (one number, or one for each row)."""

    def make() -> torch.Tensor:
        factor = opened.read(scale).float()
        factor = factor.reshape(-1, *(1,) * (len(tensor.info.shape) - 1)) if factor.numel() > 1 else factor.reshape(())
        return opened.read(tensor).float() * factor

    rows = tensor.info.shape[0] if tensor.info.shape else 1
    count = 1
    for n in scale.info.shape:
        count *= n
    if count not in (1, rows) or not DTYPES[scale.info.dtype].is_floating_point:
        raise UnsupportedError(
            f"{tensor.path}: a scale of shape {list(scale.info.shape)} for a weight of {list(tensor.info.shape)}; "
            "one number, or one for each row, can be read."
        )
    return MadeTensor.of(tensor.path, torch.empty(tensor.info.shape, dtype=torch.float32, device="meta"), make)


def _refuse_others(stored: Mapping[str, StoredTensor]) -> None:
    for name, tensor in stored.items():
        kind = next((kind for end, kind in REFUSED.items() if name.endswith(end)), None)
        if kind is not None:
            raise UnsupportedError(
                f"{tensor.path} is quantised as {kind} (tensor {name!r}), which is not read. Read are fp8 with or "
                "without scales, GGUF, and fp16, bf16 or fp32 files of the same model."
            )
