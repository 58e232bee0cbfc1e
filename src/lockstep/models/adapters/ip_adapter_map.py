"""The names of the original IP-Adapter files (tencent-ailab/IP-Adapter): rows of a weight map, and what shapes tell.

A file has two sections: `image_proj.*`, a projection of one of four kinds, and `ip_adapter.*`, keys and values for the
attentions to the text. The attentions are counted together with those among image tokens, which have none: 1, 3, 5 …
FaceID files have a LoRA in the second section too, for all attentions: 0, 1, 2 …
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .image_projections import HEAD_WIDTH

Row = tuple[Any, ...]
Shapes = Mapping[str, tuple[int, ...]]
PLAIN, FULL, PLUS, FACE = "plain", "full face", "plus", "FaceID"
ATTENTION = re.compile(r"ip_adapter\.(\d+)\.to_k_ip\.weight")
LORA = re.compile(r"ip_adapter\.(\d+)\.(to_\w+_lora\.(?:down|up)\.weight)")


def projection_config(kind: str, shapes: Shapes) -> dict[str, int]:
    """The arguments of a projection of this kind, read off the shapes of `image_proj`."""
    if kind == PLAIN:
        tokens_width, width = shapes["image_proj.proj.weight"]
        text = shapes["image_proj.norm.weight"][0]
        return {"image_embed_dim": width, "cross_attention_dim": text, "num_image_text_embeds": tokens_width // text}
    if kind == FULL:
        hidden, text = shapes["image_proj.proj.0.weight"][0], shapes["image_proj.proj.3.weight"][0]
        return {"image_embed_dim": hidden, "cross_attention_dim": text}
    if kind == FACE:
        hidden, width = shapes["image_proj.proj.0.weight"]
        text, tokens_width = shapes["image_proj.norm.weight"][0], shapes["image_proj.proj.2.weight"][0]
        tokens, rest = divmod(tokens_width, text)
        if rest or not tokens:
            raise ValueError(f"tokens of width {text} do not fill {tokens_width}")
        return {"image_embed_dim": width, "cross_attention_dim": text, "hidden": hidden, "num_tokens": tokens}
    hidden, width = shapes["image_proj.proj_in.weight"]
    place = "attn" if "image_proj.layers.0.attn.to_q.weight" in shapes else "0"
    heads = shapes[f"image_proj.layers.0.{place}.to_q.weight"][0] // HEAD_WIDTH
    if not heads:
        raise ValueError(f"a head is {HEAD_WIDTH} wide, and the queries are narrower")
    return {
        "embed_dims": width,
        "output_dims": shapes["image_proj.proj_out.weight"][0],
        "hidden_dims": hidden,
        "depth": len({name.split(".")[2] for name in shapes if name.startswith("image_proj.layers.")}),
        "heads": heads,
        "num_queries": shapes["image_proj.latents"][1],
        "ffn_dims": shapes["image_proj.layers.0.1.1.weight"][0],
    }


def ip_adapter_rows(kind: str, shapes: Shapes) -> list[Row]:
    """All rows: the projection as `projection.…`, the attentions counted as `attentions.0.to_k_ip.weight` …"""
    return [*projection_rows(kind), *attention_rows(shapes)]


def attention_rows(shapes: Shapes) -> Iterator[Row]:
    numbers = sorted(int(match[1]) for name in shapes if (match := ATTENTION.fullmatch(name)))
    for place, number in enumerate(numbers):
        yield f"ip_adapter.{number}.{{}}.weight", f"attentions.{place}.{{}}.weight"


def projection_rows(kind: str) -> Iterator[Row]:
    if kind == PLAIN:
        yield "image_proj.proj.{}", "projection.image_embeds.{}"
        yield "image_proj.norm.{}", "projection.norm.{}"
        return
    if kind == FULL:
        yield "image_proj.proj.0.{}", "projection.ff.net.0.proj.{}"
        yield "image_proj.proj.2.{}", "projection.ff.net.2.{}"
        yield "image_proj.proj.3.{}", "projection.norm.{}"
        return
    if kind == FACE:
        yield "image_proj.proj.0.{}", "projection.ff.net.0.proj.{}"
        yield "image_proj.proj.2.{}", "projection.ff.net.2.{}"
        yield "image_proj.norm.{}", "projection.norm.{}"
        return
    yield "image_proj.latents", "projection.latents"
    for name in ("proj_in", "proj_out", "norm_out"):
        yield f"image_proj.{name}.{{}}", f"projection.{name}.{{}}"
    theirs, ours = "image_proj.layers.{layer}", "projection.layers.{layer}"
    yield f"{theirs}.0.norm1.{{}}", f"{ours}.ln0.{{}}"
    yield f"{theirs}.0.norm2.{{}}", f"{ours}.ln1.{{}}"
    for place, also in (("0", ""), ("attn", "accept | ")):
        yield f"{theirs}.{place}.to_q.weight", f"{ours}.attn.to_q.weight", f"{also}keep"
        pair = f"{ours}.attn.to_k.weight", f"{ours}.attn.to_v.weight"
        yield f"{theirs}.{place}.to_kv.weight", pair, f"{also}split"
        yield f"{theirs}.{place}.to_out.weight", f"{ours}.attn.to_out.0.weight", f"{also}keep"
    yield f"{theirs}.1.0.{{}}", f"{ours}.ff.0.{{}}"
    yield f"{theirs}.1.1.weight", f"{ours}.ff.1.net.0.proj.weight"
    yield f"{theirs}.1.3.weight", f"{ours}.ff.1.net.2.weight"
