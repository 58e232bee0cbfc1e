"""Guiders with two branches, with and without the prompt, that differ in how the two are combined."""

from __future__ import annotations

from dataclasses import field

import torch
from torch.nn.functional import normalize

from .guidance import GuiderOutput, ScaledGuidance

Tensor = torch.Tensor


class TwoBranchGuidance(ScaledGuidance):
    """The frame of the family: both branches inside the interval, the conditional one alone outside of it."""

    def combine(self, cond: Tensor, uncond: Tensor) -> Tensor:
        """The guided prediction."""
        return self.extrapolate(cond, uncond, self.guidance_scale)

    def forward(self, pred_cond: Tensor, pred_uncond: Tensor | None = None) -> GuiderOutput:  # type: ignore[override]
        pred = self.combine(pred_cond, pred_uncond) if self.acts() and pred_uncond is not None else pred_cond
        return self.output(pred, pred_cond, pred_uncond)


class ClassifierFreeGuidance(TwoBranchGuidance):
    """Classifier-free guidance (arXiv:2207.12598)."""


class ClassifierFreeZeroStarGuidance(TwoBranchGuidance):
    """CFG-Zero*: the unconditional prediction scaled to fit the other one, no step at the start (arXiv:2503.18886)."""

    zero_init_steps: int = 1

    def forward(self, pred_cond: Tensor, pred_uncond: Tensor | None = None) -> GuiderOutput:  # type: ignore[override]
        if self.enabled and (self._step or 0) < self.zero_init_steps:
            return GuiderOutput(torch.zeros_like(pred_cond), pred_cond, pred_uncond)
        return super().forward(pred_cond, pred_uncond)

    def combine(self, cond: Tensor, uncond: Tensor) -> Tensor:
        flat_cond, flat_uncond = cond.flatten(1).float(), uncond.flatten(1).float()
        fit = (flat_cond * flat_uncond).sum(1) / ((flat_uncond**2).sum(1) + 1e-8)
        fitted = uncond * fit.to(cond.dtype).view(-1, *[1] * (cond.ndim - 1))
        return self.extrapolate(cond, fitted, self.guidance_scale)


class TangentialClassifierFreeGuidance(TwoBranchGuidance):
    """TCFG: the unconditional prediction without its part off the common direction (arXiv:2503.18137)."""

    def combine(self, cond: Tensor, uncond: Tensor) -> Tensor:
        both = torch.stack([cond, uncond], dim=1).float().flatten(2)
        main = torch.linalg.svd(both, full_matrices=False).Vh[:, :1]  # the strongest common direction of the two
        along = (uncond.flatten(1).float().unsqueeze(1) * main).sum(-1, keepdim=True) * main
        tangential = along.reshape(uncond.shape).to(cond.dtype)
        return self.extrapolate(cond, tangential, self.guidance_scale)


class AdaptiveProjectedGuidance(TwoBranchGuidance):
    """APG: less of the update that runs along the prediction, its length bounded, with momentum (arXiv:2410.02416)."""

    adaptive_projected_guidance_momentum: float | None = None
    adaptive_projected_guidance_rescale: float = 15.0
    adaptive_projected_guidance_norm_dim: int | tuple[int, ...] | None = None
    eta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._average: Tensor | None = None

    def set_state(self, step: int, num_inference_steps: int, timestep: Tensor | float | None) -> None:
        super().set_state(step, num_inference_steps, timestep)
        if step == 0:
            self._average = None

    def combine(self, cond: Tensor, uncond: Tensor) -> Tensor:
        momentum, max_norm = self.adaptive_projected_guidance_momentum, self.adaptive_projected_guidance_rescale
        update = cond - uncond
        axes = self._axes(update)
        if momentum is not None:
            update = self._average = update if self._average is None else update + momentum * self._average
        if max_norm > 0:
            length = update.norm(p=2, dim=axes, keepdim=True)
            update = update * torch.minimum(torch.ones_like(update), max_norm / length)
        parallel, orthogonal = project(update, cond, axes)
        start = cond if self.use_original_formulation else uncond
        return start + self.guidance_scale * (orthogonal + self.eta * parallel)

    def _axes(self, tensor: Tensor) -> list[int]:
        named = self.adaptive_projected_guidance_norm_dim
        if named is None:
            return list(range(1, tensor.ndim))
        return [named] if isinstance(named, int) else list(named)


class MagnitudeAwareGuidance(TwoBranchGuidance):
    """MAMBO-G: the scale falls where the two predictions are far apart (arXiv:2508.03442)."""

    guidance_scale: float = field(default=10.0, kw_only=False)
    alpha: float = 8.0

    def combine(self, cond: Tensor, uncond: Tensor) -> Tensor:
        axes = list(range(1, cond.ndim))
        length = torch.linalg.vector_norm
        ratio = length(cond - uncond, dim=axes, keepdim=True) / length(uncond, dim=axes, keepdim=True)
        damping = torch.exp(-self.alpha * ratio)
        original = self.use_original_formulation
        scale = self.guidance_scale * damping if original else 1.0 + (self.guidance_scale - 1.0) * damping
        return self.extrapolate(cond, uncond, scale)


def project(vector: Tensor, onto: Tensor, axes: list[int], upcast: bool = True) -> tuple[Tensor, Tensor]:
    """The parts of a vector along another one and across it, computed in double precision where the device has it."""
    dtype = torch.float64 if upcast and vector.device.type != "mps" else vector.dtype
    direction = normalize(onto.to(dtype), dim=axes)  # type: ignore[arg-type]
    parallel = (vector.to(dtype) * direction).sum(dim=axes, keepdim=True) * direction
    return parallel.to(vector.dtype), (vector.to(dtype) - parallel).to(vector.dtype)
