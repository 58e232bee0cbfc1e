"""The standalone TAESD files (madebyollin/taesd): two dumps of `nn.Sequential` (`0.weight`, `1.conv.0.weight`, …)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import NotFoundError, WeightsError
from ..models.autoencoders.autoencoder_tiny import AutoencoderTiny
from ..models.autoencoders.autoencoder_tiny_map import decoder_rows, encoder_rows, tiny_rows
from ..models.modeling import resolve_device, resolve_dtype
from ..models.weights import StoredTensor, open_weights
from .implied import tiny_config, tiny_layers
from .parts import Part
from .weight_map import WeightMap

LAYER = re.compile(r"(\d+)\.(conv\.[024]\.)?(weight|bias)")


def load_taesd(
    encoder_path: str | Path,
    decoder_path: str | Path,
    *,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str = "cpu",
) -> AutoencoderTiny:
    """An `AutoencoderTiny` from the two standalone files; the sizes are read off the tensors."""
    config, stored = open_halves(encoder_path, decoder_path)
    target = resolve_device(device)
    return AutoencoderTiny.from_stored(config, stored, dtype=resolve_dtype(dtype, target), device=target).eval()


def open_halves(encoder_path: str | Path, decoder_path: str | Path) -> tuple[dict[str, Any], dict[str, StoredTensor]]:
    """The config that the two standalone files imply, and their tensors as the model names them."""
    encoder, decoder = _open("encoder", encoder_path), _open("decoder", decoder_path)
    config = _infer_config(encoder, decoder)
    stored = WeightMap(encoder_rows(), "a TAESD encoder").to_ours(encoder)
    return config, stored | WeightMap(decoder_rows(config), "a TAESD decoder").to_ours(decoder)


def open_tiny(
    path: Path, part: Part, stored: Mapping[str, StoredTensor]
) -> tuple[dict[str, Any], dict[str, StoredTensor]]:
    """A tiny autoencoder of one file: published names, ComfyUI's prefixes, or a half beside the other half's file."""
    if part.gaps:
        names = {
            "encoder": path.with_name(path.name.replace("decoder", "encoder")),
            "decoder": path.with_name(path.name.replace("encoder", "decoder")),
        }
        other = next((one for one in names.values() if one != path and one.is_file()), None)
        if other is None:
            raise NotFoundError(
                f"{path} is half of a TAESD: it has no {part.gaps[0]}, and there is no such file beside it."
            )
        return open_halves(names["encoder"], names["decoder"])
    held = {name: stored[name] for name in part.shapes}
    if part.layout == "original":
        held = WeightMap(tiny_rows(part.config), "a TAESD").to_ours(held)
    return part.config, held


def _open(part: str, path: str | Path) -> dict[str, StoredTensor]:
    path = Path(path)
    if not path.is_file():
        raise NotFoundError(f"The TAESD {part} wants a safetensors file, but there is none at {path}.")
    tensors = open_weights([path])
    odd = [name for name in tensors if not LAYER.fullmatch(name)]
    if odd or not tensors:
        raise WeightsError(
            f"{path} is not a standalone TAESD {part}: wanted names such as '1.conv.0.weight', "
            f"got {odd[0] if odd else 'no tensor'!r}. "
            "A folder with config.json loads with AutoencoderTiny.from_pretrained."
        )
    return tensors


def _infer_config(encoder: Mapping[str, StoredTensor], decoder: Mapping[str, StoredTensor]) -> dict[str, Any]:
    """Sizes and depths of the network that these tensors came from."""
    encoder_layers, decoder_layers = tiny_layers(encoder), tiny_layers(decoder)
    if min(encoder_layers) != 0 or min(decoder_layers) != 1:
        got = f"an encoder that begins at {min(encoder_layers)} and a decoder that begins at {min(decoder_layers)}"
        raise WeightsError(
            f"TAESD wants an encoder file that begins at layer 0 and a decoder file that begins at layer 1, got {got}."
        )
    for tensors, layer in itertools.product((encoder, decoder), (min, max)):
        _check_convolution(tensors, f"{layer(tiny_layers(tensors))}.weight")
    return tiny_config(*({name: tensor.info.shape for name, tensor in part.items()} for part in (encoder, decoder)))


def _check_convolution(tensors: Mapping[str, StoredTensor], name: str) -> None:
    if name not in tensors or len(tensors[name].info.shape) != 4:
        raise WeightsError(f"A standalone TAESD file wants a convolution {name!r} with four axes; it is not there.")
