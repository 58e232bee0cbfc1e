"""The names of LTX-Video's own files for the tensors of its transformer: rows of a weight map. Only names differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..weights import Row

BLOCK = "transformer_blocks.{i}"
SAME = (
    *("scale_shift_table", "proj_out.{}", "caption_projection.{*}"),
    *(f"{BLOCK}.{part}" for part in ("scale_shift_table", "{norm}.weight", "ff.{*}", "{attn}.to_{layer}.{*}")),
)


def ltx_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for a transformer, of whatever config."""
    return [
        ("patchify_proj.{}", "proj_in.{}"),
        ("adaln_single.{*}", "time_embed.{*}"),
        *((f"{BLOCK}.{{attn}}.{part}_norm.weight", f"{BLOCK}.{{attn}}.norm_{part}.weight") for part in "qk"),
        *((name, name) for name in SAME),
    ]
