"""Runs the branches of a step through the denoiser: spread over ranks where there are several, as one batch where the
guider allows it, else one by one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Protocol

import torch

from .guidance import BaseGuidance

Predict = Callable[[dict[str, torch.Tensor], int], torch.Tensor]


class SpreadsBranches(Protocol):
    """What `enable_parallelism` puts on a denoiser whose branches are predicted on several ranks."""

    def predict(
        self, guider: BaseGuidance, batches: list[SimpleNamespace], denoiser: Any, predict: Predict
    ) -> None: ...


def predict_branches(
    guider: BaseGuidance,
    batches: list[SimpleNamespace],
    denoiser: torch.nn.Module,
    predict: Predict,
    *,
    batched: bool = True,
) -> None:
    """Set `noise_pred` on every branch; `predict(inputs, repeats)` runs the denoiser on `repeats` branches at once."""
    spread: SpreadsBranches | None = getattr(denoiser, "_branch_ranks", None)
    if spread is not None:
        spread.predict(guider, batches, denoiser, predict)
    elif batched and guider.batchable and len(batches) > 1 and _one_shape(guider, batches):
        _predict_together(guider, batches, denoiser, predict)
    else:
        _predict_one_by_one(guider, batches, denoiser, predict)


def _predict_together(guider: BaseGuidance, batches: list[SimpleNamespace], denoiser: Any, predict: Predict) -> None:
    for _ in batches:
        guider.prepare_models(denoiser)
    try:
        rows = batches[::-1]  # the published order of a guided batch: without the prompt first, with it last
        inputs = [branch_inputs(guider, batch) for batch in rows]
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
            with branch_context(guider, batch, denoiser):
                batch.noise_pred = predict(branch_inputs(guider, batch), 1)
        finally:
            guider.cleanup_models(denoiser)


def branch_inputs(guider: BaseGuidance, batch: SimpleNamespace) -> dict[str, torch.Tensor]:
    """What the denoiser is told of a branch."""
    return {key: value for key, value in vars(batch).items() if key not in (guider._identifier_key, "noise_pred")}


def _one_shape(guider: BaseGuidance, batches: list[SimpleNamespace]) -> bool:
    shapes = [{key: value.shape for key, value in branch_inputs(guider, batch).items()} for batch in batches]
    return all(shape == shapes[0] for shape in shapes)


def branch_context(guider: BaseGuidance, batch: SimpleNamespace, denoiser: Any) -> Any:
    """Names the branch whose prediction runs inside."""
    return _context(denoiser, getattr(batch, guider._identifier_key))


def _context(denoiser: Any, name: str) -> Any:
    return denoiser.cache_context(name) if hasattr(denoiser, "cache_context") else nullcontext()
