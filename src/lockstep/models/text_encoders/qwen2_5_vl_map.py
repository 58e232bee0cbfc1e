"""The names that Qwen2.5-VL's tensors had before transformers 5, as published files have them: rows of a weight map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..weights import Row


def qwen2_5_vl_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows."""
    return [
        ("visual.{*}", "model.visual.{*}"),
        *((f"model.{part}.{{*}}", f"model.language_model.{part}.{{*}}") for part in ("embed_tokens", "layers", "norm")),
        ("lm_head.weight", (), "drop"),  # the head, which an encoder has not
    ]
