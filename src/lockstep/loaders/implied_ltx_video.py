"""The configs that the shapes of LTX-Video's models imply, in the layout of their makers and in the published one."""

from __future__ import annotations

import math
import re
from typing import Any

from .implied import Shapes, numbers

NAMES = {
    "original": {"x": "patchify_proj.weight", "resnets": "res_blocks", "time": "last_time_embedder"},
    "published": {"x": "proj_in.weight", "resnets": "resnets", "time": "time_embedder"},
}
HEADS = 32  # of every published one; no tensor tells
NEW = "LTXVideo095DownBlock3D"
STRIDES = {2: "temporal", 4: "spatial", 8: "spatiotemporal"}  # by how many neighbours become channels
Part = tuple[str, str]  # resnets, resnet or sampler, and where it is


def ltx_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """Sizes of a transformer of LTX-Video."""
    if any("audio_" in name for name in shapes):
        raise KeyError("LTX-2, its next of kin, makes sound, too")
    width, read = shapes[NAMES[layout]["x"]]
    heads = {"num_attention_heads": HEADS, "attention_head_dim": width // HEADS} if width % HEADS == 0 else {}
    return {
        **heads,
        "in_channels": read,
        "out_channels": shapes["proj_out.weight"][0],
        "cross_attention_dim": width,
        "num_layers": len(numbers(shapes, r"^transformer_blocks\.(\d+)\.")),
        "caption_channels": shapes["caption_projection.linear_1.weight"][1],
        "norm_elementwise_affine": "transformer_blocks.0.norm1.weight" in shapes,
    }


def ltx_autoencoder_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """Sizes of LTX-Video's autoencoder: what is counted in its encoder and its decoder tells the blocks."""
    if "decoder.mid_block.resnets.0.norm1.weight" in shapes:
        raise KeyError("another autoencoder of videos")
    pixels, latents = shapes["encoder.conv_in.conv.weight"][1], shapes["decoder.conv_in.conv.weight"][1]
    patch = math.isqrt(pixels // 3)
    timed = f"decoder.{NAMES[layout]['time']}.timestep_embedder.linear_1.weight" in shapes
    encoder = _encoder(shapes, _parts(shapes, layout, "encoder"), layout)
    if encoder["down_block_types"][0] == NEW:
        if not timed:
            raise KeyError("LTX-2's, whose decoder is told no time")
        halved = [kind for kind in encoder["downsample_type"] if kind != "conv"]
        encoder["spatial_compression_ratio"] = patch * 2 ** sum(kind != "temporal" for kind in halved)
        encoder["temporal_compression_ratio"] = 2 ** sum(kind != "spatial" for kind in halved)
    return {
        "latent_channels": latents,
        "patch_size": patch,
        "timestep_conditioning": timed,
        **encoder,
        **_decoder(shapes, _parts(shapes, layout, "decoder"), layout),
    }


def _parts(shapes: Shapes, layout: str, side: str) -> list[Part]:
    """The parts of a side in the order in which they run."""
    listed = f"{side}.{'down' if side == 'encoder' else 'up'}_blocks"
    counted = [f"{listed}.{n}" for n in numbers(shapes, rf"^{re.escape(listed)}\.(\d+)\.")]
    if layout == "original":
        return [(_kind(shapes, at), at) for at in counted]
    inside = ("", ".downsamplers.0", ".conv_out") if side == "encoder" else (".conv_in", ".upsamplers.0", "")
    places = [f"{at}{end}" for at in counted for end in inside]
    middle = [("resnets", f"{side}.mid_block")]
    found = [(_kind(shapes, at), at) for at in places if any(name.startswith(f"{at}.") for name in shapes)]
    return [*found, *middle] if side == "encoder" else [*middle, *found]


def _kind(shapes: Shapes, at: str) -> str:
    if f"{at}.conv1.conv.weight" in shapes:
        return "resnet"
    sampler = any(f"{at}.{name}.weight" in shapes for name in ("conv", "conv.conv"))
    return "sampler" if sampler else "resnets"


def _resnets(shapes: Shapes, at: str, layout: str) -> tuple[int, int, bool]:
    """How many residual blocks stand at a place, their width, and whether noise is added in them."""
    start = f"{at}.{NAMES[layout]['resnets']}"
    count = len(numbers(shapes, rf"^{re.escape(start)}\.(\d+)\."))
    return count, shapes[f"{start}.0.conv1.conv.weight"][0], f"{start}.0.per_channel_scale1" in shapes


def _encoder(shapes: Shapes, parts: list[Part], layout: str) -> dict[str, Any]:
    groups = [_resnets(shapes, at, layout) for kind, at in parts if kind == "resnets"]
    widths = [width for _, width, _ in groups]
    halves, kinds = [False] * (len(groups) - 1), ["conv"] * (len(groups) - 1)
    block = -1
    for kind, at in parts:
        block += kind == "resnets"
        if kind == "sampler":
            halves[block] = True
            gathers = shapes.get(f"{at}.conv.conv.weight")
            kinds[block] = "conv" if gathers is None else STRIDES[widths[block + 1] // gathers[0]]
    is_new = any(kind != "conv" for kind in kinds)
    return {
        "block_out_channels": widths if is_new else widths[:-1],
        "down_block_types": [NEW if is_new else "LTXVideoDownBlock3D"] * len(halves),
        "layers_per_block": [count for count, _, _ in groups],
        "spatio_temporal_scaling": halves,
        "downsample_type": kinds,
    }


def _decoder(shapes: Shapes, parts: list[Part], layout: str) -> dict[str, Any]:
    groups = [_resnets(shapes, at, layout) for kind, at in parts if kind == "resnets"]
    grows, factors = [False] * (len(groups) - 1), [1] * (len(groups) - 1)
    block = -1
    for kind, at in parts:
        block += kind == "resnets"
        if kind == "sampler":
            made, read = shapes[f"{at}.conv.conv.weight"][:2]
            grows[block], factors[block] = True, 8 * read // made
    widths = [width * factor for (_, width, _), factor in zip(groups[1:], factors, strict=True)]
    return {
        "decoder_block_out_channels": widths[::-1],
        "decoder_layers_per_block": [count for count, _, _ in groups][::-1],
        "decoder_spatio_temporal_scaling": grows[::-1],
        "decoder_inject_noise": [noisy for _, _, noisy in groups][::-1],
        "upsample_residual": [factor > 1 for factor in factors][::-1],  # no tensor tells; so are the published ones
        "upsample_factor": factors[::-1],
    }
