"""IP-Adapter files: recognised by their tensors, mapped to a projection and to keys and values for attentions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from .. import files
from ..errors import FileFormatError, InputError, LockstepError, NotFoundError, UnsupportedError, WeightsError
from ..models.adapters.image_projections import (
    ImageProjection,
    IPAdapterFaceIDImageProjection,
    IPAdapterFullImageProjection,
    IPAdapterPlusImageProjection,
)
from ..models.adapters.ip_adapter import IPAdapter
from ..models.adapters.ip_adapter_map import FACE, FULL, LORA, PLAIN, PLUS, ip_adapter_rows, projection_config
from ..models.weights import MappedFiles, StoredTensor, check_tensors, in_memory
from .checkpoint import SECTIONS, open_checkpoint, open_header
from .detect import Guess, detect, named_family
from .weight_map import WeightMap

PROJECTIONS: dict[str, type[nn.Module]] = {
    PLAIN: ImageProjection,
    FULL: IPAdapterFullImageProjection,
    PLUS: IPAdapterPlusImageProjection,
    FACE: IPAdapterFaceIDImageProjection,
}
FAMILY = "ip_adapter"


def find_ip_adapter(
    name_or_path: str | Path,
    weight_name: str | None = None,
    subfolder: str | None = None,
    **hub: Unpack[files.HubArguments],
) -> Path:
    """The file itself, or the named one in a folder or on the hub."""
    if isinstance(name_or_path, (str, Path)) and Path(name_or_path).is_file():
        return Path(name_or_path)
    if weight_name is None:
        raise InputError(
            f"load_ip_adapter wants a file, or the folder or hub id with its weight_name, got {name_or_path!r} alone."
        )
    return files.resolve_file(name_or_path, weight_name, subfolder=subfolder or None, **hub)


def read_ip_adapter(path: Path, allow_pickle: bool = False) -> IPAdapter:
    """The adapter of a file, its tensors checked."""
    header = open_header(path, allow_pickle)
    guess = detect(header).best
    stored = open_checkpoint(path, allow_pickle)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return made_adapter(str(path), guess, stored, {"file": str(path), "sha256": digest})


def adapter_in_memory(sections: Mapping[str, Mapping[str, Tensor]]) -> IPAdapter:
    """The adapter of tensors that are read already, in the two sections of a file."""
    tensors = {
        f"{section}.{name}": tensor for section in SECTIONS for name, tensor in dict(sections.get(section, {})).items()
    }
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    guess = named_family(shapes)
    return made_adapter("The dict", guess, in_memory(tensors, Path("memory")), {})


def made_adapter(
    name: str, guess: Guess | None, stored: Mapping[str, StoredTensor], source: dict[str, Any]
) -> IPAdapter:
    """An adapter from its stored tensors, once it is known to be one."""
    if guess is None or guess.family != FAMILY:
        what = "no IP-Adapter" if guess is None else f"{guess}, no IP-Adapter"
        raise FileFormatError(
            f"{name} is {what}: an IP-Adapter has tensors 'image_proj.…' and 'ip_adapter.1.to_k_ip…'."
        )
    if guess.variant not in PROJECTIONS:
        raise UnsupportedError(
            f"{name} is {guess}, which reads the vectors of a face recogniser beside CLIP's; plain, plus, full-face "
            "and FaceID adapters are offered."
        )
    shapes = {key: tensor.info.shape for key, tensor in stored.items()}
    opened = MappedFiles()
    lora = {key: tensor for key, tensor in stored.items() if LORA.fullmatch(key)}
    stored = {key: tensor for key, tensor in stored.items() if key not in lora}
    empty = [key for key, shape in shapes.items() if 0 in shape]
    if empty:
        raise WeightsError(f"{name} is {guess}, but {empty[0]!r} is empty.")
    try:
        config = projection_config(guess.variant, shapes)
        ours = WeightMap(ip_adapter_rows(guess.variant, shapes), str(guess)).to_ours(stored, opened)
    except (KeyError, ValueError, IndexError, ZeroDivisionError) as problem:
        if isinstance(problem, LockstepError):
            raise
        raise WeightsError(f"{name} is {guess}, but incomplete or of odd shapes ({problem}).") from None
    projection = made_projection(guess.variant, config, ours, opened)
    count = len({key.split(".")[1] for key in ours if key.startswith("attentions.")})
    pairs = []
    for place in range(count):
        keys = [f"attentions.{place}.{part}.weight" for part in ("to_k_ip", "to_v_ip")]
        missing = [key for key in keys if key not in ours]
        if missing:
            raise WeightsError(f"{name} is {guess}, but incomplete: it has no {missing[0]!r}.")
        key, value = (opened.read(ours[key]) for key in keys)
        pairs.append((key, value))
    check_finite(
        name, {**dict(projection.named_parameters()), **{f"attentions.{k}": p[0] for k, p in enumerate(pairs)}}
    )
    layers = {(int(match[1]), match[2]): opened.read(lora[key]) for key in lora if (match := LORA.fullmatch(key))}
    return IPAdapter(projection, pairs, source, layers)


def made_projection(
    kind: str, config: Mapping[str, int], ours: Mapping[str, StoredTensor], opened: MappedFiles
) -> nn.Module:
    """The projection with the file's values."""
    with torch.device("meta"):
        projection = PROJECTIONS[kind](**config)
    own = {key.removeprefix("projection."): one for key, one in ours.items() if key.startswith("projection.")}
    check_tensors(type(projection).__name__, projection.state_dict(), own)
    projection.load_state_dict({key: opened.read(tensor) for key, tensor in own.items()}, assign=True)
    return projection.requires_grad_(False)


def check_finite(name: str, tensors: Mapping[str, Tensor]) -> None:
    for key, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise WeightsError(f"{name}: {key!r} holds NaN or Inf.")


def encoder_place(subfolder: str | None, image_encoder_folder: str) -> str:
    """Where the image encoder is, seen from the adapter's source: a bare name stands in the subfolder."""
    inside = "/" not in image_encoder_folder and subfolder
    return f"{subfolder}/{image_encoder_folder}" if inside else image_encoder_folder


def require_encoder_folder(source: str | Path, place: str, **hub: Unpack[files.HubArguments]) -> Path:
    """The folder of the image encoder, or a sentence about doing without."""
    try:
        return files.resolve_folder(source, subfolder=place, patterns=[f"{place}/*"], **hub)
    except NotFoundError as problem:
        raise NotFoundError(
            f"The image encoder of the IP-Adapter is not in {place!r} of {str(source)!r}: {problem} Say where it is: "
            "image_encoder_folder=…, or give it to the pipeline: image_encoder=…; with image_encoder_folder=None the "
            "pipeline takes ready 'ip_adapter_image_embeds' alone."
        ) from None
