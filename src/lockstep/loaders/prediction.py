"""What a denoiser predicts, where anything in its file tells: markers, metadata, or the spread of one norm."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from .header import Header
from .parts import Part
from .tell_tales import EDM_MARKS, V_PREDICTION_MARKS, ZERO_SNR_MARK

if TYPE_CHECKING:
    from .detect import Detection

V_NORM = "output_blocks.11.1.transformer_blocks.0.norm1.bias"
V_SPREAD = 0.09  # above this the norm belongs to a model of velocities


def find_prediction(header: Header, found: Detection) -> None:
    """What the denoiser predicts, where anything tells."""
    if "unet" not in found.components or found.best is None:
        return
    marks = [mark for mark in V_PREDICTION_MARKS if any(n == mark or n.endswith(f".{mark}") for n in header.tensors)]
    said = str(header.metadata.get("modelspec.prediction_type", ""))
    spread = _norm_spread(header, found.components["unet"]) if found.best.family == "sd2" else None
    if marks:
        found.prediction_type, why = "v_prediction", f"it holds the marker {marks[0]!r}"
    elif any(mark in header.tensors for mark in EDM_MARKS):
        why = "it holds EDM markers (Playground): give the scheduler yourself"
    elif said:
        found.prediction_type, why = (
            "v_prediction" if said.startswith("v") else "epsilon",
            f"its metadata says {said!r}",
        )
    elif found.best.family == "upscaler":
        found.prediction_type, why = "v_prediction", "x4 upscalers do"
    elif spread is not None:
        found.prediction_type = "v_prediction" if spread > V_SPREAD else "epsilon"
        why = f"the spread of one norm's bias is {spread:.3f} (above {V_SPREAD} in models of velocities)"
    elif found.best.family == "sd2":
        why = "nothing in the file tells: SD 2.x exists in both kinds, give prediction_type=…"
    else:
        found.prediction_type, why = "epsilon", "nothing in the file says otherwise"
    found.notes.append(f"prediction_type {found.prediction_type or 'unknown'}: {why}")
    if ZERO_SNR_MARK in header.tensors:
        found.notes.append("trained with zero terminal SNR (marker 'ztsnr'): rescale_betas_zero_snr")


def _norm_spread(header: Header, unet: Part) -> float | None:
    """The standard deviation of one small tensor; the only values that detection reads."""
    name = unet.prefix + V_NORM
    info = header.tensors.get(name)
    forms = {"F32": "f", "F16": "e", "BF16": "H"}
    if info is None or unet.config["in_channels"] != 4 or info.dtype not in forms or len(info.shape) != 1:
        return None
    with header.path.open("rb") as file:
        file.seek(info.start)
        raw = file.read(info.end - info.start)
    values = struct.unpack(f"<{info.shape[0]}{forms[info.dtype]}", raw)
    if info.dtype == "BF16":
        values = struct.unpack(f"<{len(values)}f", b"".join(struct.pack("<I", value << 16) for value in values))
    mean = sum(values) / max(len(values), 1)
    return (sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1)) ** 0.5
