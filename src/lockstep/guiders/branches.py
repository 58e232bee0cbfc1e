"""Runs the branches of a step through the denoiser: as one batch where the guider allows it, else one by one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch

from .guidance import BaseGuidance

Predict = Callable[[dict[str, torch.Tensor], int], torch.Tensor]


def predict_branches(
    guider: BaseGuidance,
    batches: list[SimpleNamespace],
    denoiser: torch.nn.Module,
    predict: Predict,
    *,
    batched: bool = True,
) -> None:
    """Set `noise_pred` on every branch; `predict(inputs, repeats)` runs the denoiser on `repeats` branches at once."""
    if batched and guider.batchable and len(batches) > 1 and _one_shape(guider, batches):
        _predict_together(guider, batches, denoiser, predict)
    else:
        _predict_one_by_one(guider, batches, denoiser, predict)


def _predict_together(guider: BaseGuidance, batches: list[SimpleNamespace], denoiser: Any, predict: Predict) -> None:
    for _ in batches:
        guider.prepare_models(denoiser)
    try:
        rows = batches[::-1]  # the published order of a guided batch: without the prompt first, with it last
        inputs = [_inputs(guider, batch) for batch in rows]
        joined = {key: torch.cat([one[key] for one in inputs]) for key in inputs[0]}
        names = "+".join(getattr(batch, guider._identifier_key) for batch in batches)
        with _context(denoiser, names):
            predictions = predict(joined, len(batches)).chunk(len(batches))
    finally:
        guider.cleanup_models(denoiser)
    for batch, prediction in zip(rows, predictions, strict=True):
        batch.noise_pred = prediction


def _predict_one_by_one(guider: BaseGuidance, batches: list[SimpleNamespace], denoiser: Any, predict: Predict) -> None:
    for batch in batches:
        guider.prepare_models(denoiser)
        try:
            with _context(denoiser, getattr(batch, guider._identifier_key)):
                batch.noise_pred = predict(_inputs(guider, batch), 1)
        finally:
            guider.cleanup_models(denoiser)


def _inputs(guider: BaseGuidance, batch: SimpleNamespace) -> dict[str, torch.Tensor]:
    return {key: value for key, value in vars(batch).items() if key not in (guider._identifier_key, "noise_pred")}


def _one_shape(guider: BaseGuidance, batches: list[SimpleNamespace]) -> bool:
    shapes = [{key: value.shape for key, value in _inputs(guider, batch).items()} for batch in batches]
    return all(shape == shapes[0] for shape in shapes)


def _context(denoiser: Any, name: str) -> Any:
    return denoiser.cache_context(name) if hasattr(denoiser, "cache_context") else nullcontext()
