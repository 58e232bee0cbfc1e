"""The configs that the shapes of a file imply: layers, channels, widths; what no shape tells is left to the family.

Works on names and shapes alone, in the original (LDM, SGM) and in the published (diffusers) layout.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Shapes = Mapping[str, tuple[int, ...]]
RESNET_OUTPUTS = ("in_layers.2.weight", "out_layers.3.weight")  # either of them tells how wide a resnet is


@dataclass
class Level:
    """One resolution of a UNet: its channels, and the number of transformer layers behind each resnet."""

    channels: int = 0
    depths: list[int] = field(default_factory=list)

    @property
    def attends(self) -> bool:
        return any(self.depths)

    def depth(self) -> int | tuple[int, ...]:
        return self.depths[0] if len(set(self.depths)) == 1 else tuple(self.depths)


def numbers(names: Iterable[str], pattern: str) -> list[int]:
    """The numbers that stand at the group of a pattern, in order."""
    regex = re.compile(pattern)
    return sorted({int(match[1]) for name in names if (match := regex.match(name))})


def depth_of(names: Iterable[str], place: str) -> int:
    """How many transformer layers stand at a place."""
    return len(numbers(names, re.escape(place) + r"\.transformer_blocks\.(\d+)\."))


class Grouped:
    """Names by their first parts, so that a question about one block looks at that block alone."""

    def __init__(self, shapes: Shapes, parts: int) -> None:
        self.groups: dict[str, list[str]] = {}
        for name in shapes:
            self.groups.setdefault(".".join(name.split(".")[:parts]), []).append(name)

    def __getitem__(self, place: str) -> list[str]:
        return self.groups.get(place, [])


def original_levels(shapes: Shapes, blocks: str) -> list[Level]:
    """The levels of `input_blocks` or `output_blocks`, in the order of the file."""
    grouped, levels = Grouped(shapes, 2), [Level()]
    for number in numbers(shapes, rf"{blocks}\.(\d+)\."):
        place = f"{blocks}.{number}"
        names = grouped[place]
        if f"{place}.0.op.weight" in shapes:
            levels.append(Level())
            continue
        if not any(name.startswith(f"{place}.0.in_layers.") for name in names):
            continue  # the first convolution
        found = [shapes[f"{place}.0.{end}"] for end in RESNET_OUTPUTS if f"{place}.0.{end}" in shapes]
        levels[-1].channels = found[0][0] if found else 0
        levels[-1].depths.append(depth_of(names, f"{place}.1"))
        if any(name.endswith((".1.conv.weight", ".2.conv.weight")) and name.count(".") == 4 for name in names):
            levels.append(Level())
    return levels


def published_levels(shapes: Shapes, blocks: str) -> list[Level]:
    """The levels of `down_blocks` or `up_blocks`."""
    levels, grouped = [], Grouped(shapes, 2)
    for block in numbers(shapes, rf"{blocks}\.(\d+)\."):
        place, level = f"{blocks}.{block}", Level()
        names = grouped[place]
        for layer in numbers(names, rf"{blocks}\.\d+\.resnets\.(\d+)\."):
            level.channels = shapes.get(f"{place}.resnets.{layer}.conv1.weight", (0,))[0]
            level.depths.append(depth_of(names, f"{place}.attentions.{layer}"))
        levels.append(level)
    return levels


def one_or_list(values: list[Any]) -> Any:
    return values[0] if len(set(values)) == 1 else tuple(values)


def unet_config(shapes: Shapes, layout: str, controlnet: bool = False) -> dict[str, Any]:
    """What the shapes say about a UNet or a ControlNet."""
    original = layout == "original"
    levels: Callable[[Shapes, str], list[Level]] = original_levels if original else published_levels
    down = levels(shapes, "input_blocks" if original else "down_blocks")
    up = [] if controlnet else levels(shapes, "output_blocks" if original else "up_blocks")
    middle = "middle_block.1" if original else "mid_block.attentions.0"
    mid_depth = depth_of((name for name in shapes if name.startswith(middle)), middle)
    names = {"in": "input_blocks.0.0", "out": "out.2", "time": "time_embed.0"}
    if not original:
        names = {"in": "conv_in", "out": "conv_out", "time": "time_embedding.linear_1"}
    entry, time = shapes.get(f"{names['in']}.weight", (0, 0, 3, 3)), shapes.get(f"{names['time']}.weight", (0, 0))
    config: dict[str, Any] = {
        "in_channels": entry[1],
        "block_out_channels": tuple(level.channels for level in down),
        "layers_per_block": one_or_list([len(level.depths) for level in down]),
        "down_block_types": tuple("CrossAttnDownBlock2D" if level.attends else "DownBlock2D" for level in down),
        "cross_attention_dim": _text_width(shapes),
        "use_linear_projection": any(
            name.endswith(".proj_in.weight") and len(shape) == 2 for name, shape in shapes.items()
        ),
    }
    if not mid_depth:
        config["mid_block_type"] = "UNetMidBlock2D"
    config |= _depths(down, up, mid_depth)
    if not controlnet:
        config["out_channels"] = shapes.get(f"{names['out']}.weight", (0,))[0]
        config["up_block_types"] = tuple("CrossAttnUpBlock2D" if level.attends else "UpBlock2D" for level in up)
    if entry[0] and time[0] != 4 * entry[0]:
        config["time_embedding_dim"] = time[0]
    return config | _labels(shapes, original)


def _text_width(shapes: Shapes) -> int | None:
    widths = {shape[1] for name, shape in shapes.items() if name.endswith(".attn2.to_k.weight") and len(shape) == 2}
    return next(iter(widths)) if len(widths) == 1 else None


def _depths(down: list[Level], up: list[Level], mid_depth: int) -> dict[str, Any]:
    """Transformer layers of each level; a last level without any counts for the middle."""
    attending = [level.depth() for level in down if level.attends]
    common = attending[0] if attending and {*attending, mid_depth or attending[0]} == {attending[0]} else 1
    depths = [level.depth() if level.attends else common for level in down]
    if down and not down[-1].attends:
        depths[-1] = mid_depth or 1
    config = {"transformer_layers_per_block": one_or_list(depths)}
    mirrored = [level.depth() if level.attends else depth for level, depth in zip(up, reversed(depths), strict=False)]
    if up and mirrored != depths[::-1]:
        config["reverse_transformer_layers_per_block"] = tuple(mirrored)
    return config


def _labels(shapes: Shapes, original: bool) -> dict[str, Any]:
    """What is embedded beside the time."""
    table = "label_emb.weight" if original else "class_embedding.weight"
    if table in shapes:
        return {"num_class_embeds": shapes[table][0]}
    if original and "label_emb.0.0.weight" in shapes:
        return {"projection_class_embeddings_input_dim": shapes["label_emb.0.0.weight"][1]}
    if "add_embedding.linear_1.weight" in shapes:
        width = shapes["add_embedding.linear_1.weight"][1]
        return {"projection_class_embeddings_input_dim": width, "addition_embed_type": "text_time"}
    if "class_embedding.linear_1.weight" in shapes:
        width = shapes["class_embedding.linear_1.weight"][1]
        return {"projection_class_embeddings_input_dim": width, "class_embed_type": "projection"}
    return {}


def controlnet_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """What the shapes say about a ControlNet."""
    hint = "input_hint_block.{}" if layout == "original" else "controlnet_cond_embedding.{}"
    if layout == "original":
        count = len(numbers(shapes, r"input_hint_block\.(\d+)\.weight"))
        widths = [shapes.get(f"input_hint_block.{2 * k}.weight", (0,))[0] for k in range(0, count - 1, 2)]
        first = hint.format("0.weight")
    else:
        blocks = numbers(shapes, r"controlnet_cond_embedding\.blocks\.(\d+)\.weight")
        widths = [shapes[hint.format("conv_in.weight")][0]]
        widths += [shapes[hint.format(f"blocks.{block}.weight")][0] for block in blocks[1::2]]
        first = hint.format("conv_in.weight")
    return unet_config(shapes, layout, controlnet=True) | {
        "conditioning_channels": shapes[first][1],
        "conditioning_embedding_out_channels": tuple(widths),
    }


def autoencoder_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """What the shapes say about the VAE of latent diffusion."""
    original = layout == "original"
    block, resnet = (r"encoder\.down\.(\d+)\.", "block") if original else (r"encoder\.down_blocks\.(\d+)\.", "resnets")
    places = [f"encoder.down.{i}" if original else f"encoder.down_blocks.{i}" for i in numbers(shapes, block)]
    attention = "attn" if original else "attentions"
    attends = [f"{place}.{attention}.0.{'norm' if original else 'group_norm'}.weight" in shapes for place in places]
    layers = [len(numbers(shapes, rf"{re.escape(place)}\.{resnet}\.(\d+)\.")) for place in places]
    return {
        "in_channels": shapes.get("encoder.conv_in.weight", (0, 3))[1],
        "out_channels": shapes.get("decoder.conv_out.weight", (3,))[0],
        "latent_channels": shapes.get("decoder.conv_in.weight", (0, 4))[1],
        "block_out_channels": tuple(shapes.get(f"{place}.{resnet}.0.conv1.weight", (0,))[0] for place in places),
        "layers_per_block": layers[0] if layers else 0,
        "down_block_types": tuple(("Attn" if one else "") + "DownEncoderBlock2D" for one in attends),
        "up_block_types": tuple(("Attn" if one else "") + "UpDecoderBlock2D" for one in reversed(attends)),
        "use_quant_conv": "quant_conv.weight" in shapes,
        "use_post_quant_conv": "post_quant_conv.weight" in shapes,
        "mid_block_add_attention": any(
            name.startswith(("decoder.mid.attn_1.", "decoder.mid_block.attentions.0.")) for name in shapes
        ),
    }


def text_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """What the shapes say about a CLIP text model."""
    if layout == "open_clip":
        layers = numbers(shapes, r"transformer\.resblocks\.(\d+)\.")
        positions, tokens = shapes.get("positional_embedding", (77, 0)), shapes.get("token_embedding.weight", (0, 0))
        hidden = shapes.get("transformer.resblocks.0.mlp.c_fc.weight", (0,))[0]
        projection = shapes.get("text_projection", (None, None))[-1]
    else:
        start = "text_model." if "text_model.embeddings.token_embedding.weight" in shapes else ""
        layers = numbers(shapes, rf"{start}encoder\.layers\.(\d+)\.")
        positions = shapes.get(f"{start}embeddings.position_embedding.weight", (77, 0))
        tokens = shapes.get(f"{start}embeddings.token_embedding.weight", (0, 0))
        hidden = shapes.get(f"{start}encoder.layers.0.mlp.fc1.weight", (0,))[0]
        projection = shapes.get("text_projection.weight", (None,))[0]
    config: dict[str, Any] = {
        "vocab_size": tokens[0],
        "hidden_size": tokens[1],
        "intermediate_size": hidden,
        "num_hidden_layers": len(layers),
        "max_position_embeddings": positions[0],
    }
    return config | ({"projection_dim": projection} if projection else {})


def t2i_adapter_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """What the shapes say about a T2I-Adapter; how pixels are folded follows from one or three channels of colour."""
    start = "adapter." if layout == "published" else ""
    light = f"{start}conv_in.weight" not in shapes
    resnets = numbers(shapes, rf"{start}body\.0\.(?:body|resnets)\.(\d+)\.")
    count = len(resnets) or next(
        (n for n in numbers(shapes, r"body\.(\d+)\.") if n and f"body.{n}.in_conv.weight" in shapes), 1
    )
    if light or resnets:
        levels = numbers(shapes, rf"{start}body\.(\d+)\.")
        places = [f"{start}body.{level}.{'out_conv' if light else 'resnets.0.block1'}.weight" for level in levels]
    else:
        places = [f"body.{n}.block1.weight" for n in numbers(shapes, r"body\.(\d+)\.")[::count]]
    widths = tuple((*shapes.get(place, ()), 0)[0] for place in places)
    entry = (*shapes.get(f"{start}body.0.in_conv.weight" if light else f"{start}conv_in.weight", ()), 0, 0)[1]
    colours, factor = _folding(entry)
    kind = "light_adapter" if light else "full_adapter_xl" if factor == 16 else "full_adapter"
    return {
        "in_channels": colours,
        "channels": widths[:-1] if light else widths,
        "num_res_blocks": count,
        "downscale_factor": factor,
        "adapter_type": kind,
    }


def _folding(entry: int) -> tuple[int, int]:
    """Channels of colour and pixels of a side that are folded together: 8 for SD, 16 for XL in published files."""
    for factor in (8, 16, 4, 2, 32, 1):
        for colours in (3, 1):
            if entry == colours * factor**2:
                return colours, factor
    return max(1, entry // 64), 8


def tiny_config(encoder: Shapes, decoder: Shapes) -> dict[str, Any]:
    """What the shapes of a tiny autoencoder's two lists of layers say; a list begins at its first weights."""
    encoder_layers, decoder_layers = tiny_layers(encoder), tiny_layers(decoder)
    width, in_channels = encoder[f"{min(encoder_layers)}.weight"][:2]
    decoder_width, latent_channels = decoder[f"{min(decoder_layers)}.weight"][:2]
    # A stage begins with a plain convolution in the encoder, and ends with one in the decoder.
    encoder_blocks, decoder_blocks = _runs_of_blocks(encoder_layers)[1:], _runs_of_blocks(decoder_layers)[1:]
    return {
        "in_channels": in_channels,
        "out_channels": decoder[f"{max(decoder_layers)}.weight"][0],
        "latent_channels": latent_channels,
        "num_encoder_blocks": encoder_blocks,
        "num_decoder_blocks": decoder_blocks,
        "encoder_block_out_channels": [width] * len(encoder_blocks),
        "decoder_block_out_channels": [decoder_width] * len(decoder_blocks),
    }


def tiny_layers(shapes: Mapping[str, Any]) -> dict[int, bool]:
    """Index of each layer that has weights -> whether it is a residual block."""
    return {int(name.split(".")[0]): ".conv." in name for name in shapes}


def _runs_of_blocks(layers: Mapping[int, bool]) -> list[int]:
    """How many residual blocks stand before each plain convolution."""
    runs = [0]
    for index in sorted(layers):
        if layers[index]:
            runs[-1] += 1
        else:
            runs.append(0)
    return runs[:-1]
