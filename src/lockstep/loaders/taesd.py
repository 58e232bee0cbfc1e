"""The standalone TAESD files (madebyollin/taesd): two dumps of `nn.Sequential` (`0.weight`, `1.conv.0.weight`, …)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import NotFoundError, WeightsError
from ..models.autoencoders.autoencoder_tiny import AutoencoderTiny
from ..models.autoencoders.autoencoder_tiny_map import decoder_rows, encoder_rows
from ..models.modeling import resolve_device, resolve_dtype
from ..models.weights import StoredTensor, open_weights
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
    encoder = _open("encoder", encoder_path)
    decoder = _open("decoder", decoder_path)
    config = _infer_config(encoder, decoder)
    stored = WeightMap(encoder_rows(), "a TAESD encoder").to_ours(encoder)
    stored |= WeightMap(decoder_rows(config), "a TAESD decoder").to_ours(decoder)
    target = resolve_device(device)
    return AutoencoderTiny.from_stored(config, stored, dtype=resolve_dtype(dtype, target), device=target).eval()


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
    encoder_layers, decoder_layers = _layers(encoder), _layers(decoder)
    if min(encoder_layers) != 0 or min(decoder_layers) != 1:
        got = f"an encoder that begins at {min(encoder_layers)} and a decoder that begins at {min(decoder_layers)}"
        raise WeightsError(
            f"TAESD wants an encoder file that begins at layer 0 and a decoder file that begins at layer 1, got {got}."
        )
    width, in_channels = _shape(encoder, f"{min(encoder_layers)}.weight")[:2]
    decoder_width, latent_channels = _shape(decoder, f"{min(decoder_layers)}.weight")[:2]
    # A stage begins with a plain convolution in the encoder, and ends with one in the decoder.
    encoder_blocks = _runs_of_blocks(encoder_layers)[1:]
    decoder_blocks = _runs_of_blocks(decoder_layers)[1:]
    return {
        "in_channels": in_channels,
        "out_channels": _shape(decoder, f"{max(decoder_layers)}.weight")[0],
        "latent_channels": latent_channels,
        "num_encoder_blocks": encoder_blocks,
        "num_decoder_blocks": decoder_blocks,
        "encoder_block_out_channels": [width] * len(encoder_blocks),
        "decoder_block_out_channels": [decoder_width] * len(decoder_blocks),
    }


def _shape(tensors: Mapping[str, StoredTensor], name: str) -> tuple[int, ...]:
    if name not in tensors or len(tensors[name].info.shape) != 4:
        raise WeightsError(f"A standalone TAESD file wants a convolution {name!r} with four axes; it is not there.")
    return tensors[name].info.shape


def _layers(tensors: Mapping[str, StoredTensor]) -> dict[int, bool]:
    """Index of each layer that has weights -> whether it is a residual block."""
    return {int(name.split(".")[0]): ".conv." in name for name in tensors}


def _runs_of_blocks(layers: Mapping[int, bool]) -> list[int]:
    """How many residual blocks stand before each plain convolution."""
    runs = [0]
    for index in sorted(layers):
        if layers[index]:
            runs[-1] += 1
        else:
            runs.append(0)
    return runs[:-1]
