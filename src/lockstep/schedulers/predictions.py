"""What a model predicts, and what a sampler wants instead.

A noisy sample is x = alpha·x0 + sigma·eps. A model predicts `epsilon` (eps), `sample` (x0), `v_prediction`
(alpha·eps - sigma·x0, arXiv:2202.00512) or `flow_prediction` (eps - x0, arXiv:2210.02747).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import ConfigError


def check_prediction_type(owner: str, prediction_type: str, known: Sequence[str]) -> None:
    """Refuse a prediction type that a class does not know."""
    if prediction_type not in known:
        raise ConfigError(f"{owner}: prediction_type wants one of {', '.join(known)}, got {prediction_type!r}.")


def predicted_original(
    kind: str, output: Tensor, sample: Tensor, alpha: Tensor | float, sigma: Tensor | float
) -> Tensor:
    """The x0 that a prediction implies."""
    if kind == "epsilon":
        return (sample - sigma * output) / alpha
    if kind == "v_prediction":
        return alpha * sample - sigma * output
    if kind == "flow_prediction":
        return sample - sigma * output
    return output


def predicted_noise(kind: str, output: Tensor, sample: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """The eps that a prediction implies."""
    if kind == "epsilon":
        return output
    if kind == "v_prediction":
        return alpha * output + sigma * sample
    return (sample - alpha * predicted_original(kind, output, sample, alpha, sigma)) / sigma


def predicted_denoised(kind: str, output: Tensor, sample: Tensor, sigma: Tensor) -> Tensor:
    """The x0 that a prediction implies where the sample is x0 + sigma·eps (arXiv:2206.00364, section 5)."""
    if kind == "epsilon":
        return sample - sigma * output
    if kind == "v_prediction":
        return output * (-sigma / (sigma**2 + 1) ** 0.5) + sample / (sigma**2 + 1)
    return output


def dynamic_threshold(sample: Tensor, ratio: float, max_value: float) -> Tensor:
    """Clip each sample to its own high quantile and rescale to it (Imagen, arXiv:2205.11487, section 2.3)."""
    flat = sample.flatten(1)
    if flat.dtype not in (torch.float32, torch.float64):
        flat = flat.float()  # torch.quantile knows no half precision, and the clamp is done in the same precision
    bound = torch.quantile(flat.abs(), ratio, dim=1).clamp(min=1, max=max_value).unsqueeze(1)
    return (torch.clamp(flat, -bound, bound) / bound).reshape(sample.shape).to(sample.dtype)
