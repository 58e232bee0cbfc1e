"""Guiders with two branches, with and without the prompt, that differ in how the two are combined."""

from __future__ import annotations

import typing

import torch
from torch.nn.functional import normalize

from ..configuration import register_to_config
from .guidance import CONDITIONAL, UNCONDITIONAL, BaseGuidance, GuiderOutput, extrapolate, is_off, rescale_noise_cfg

Tensor = torch.Tensor


class TwoBranchGuidance(BaseGuidance):
    """The frame of the family: both branches inside the interval, the conditional one alone outside of it."""

    guidance_scale: float
    guidance_rescale: float
    use_original_formulation: bool

    def _remember(self, guidance_scale: float, guidance_rescale: float, use_original_formulation: bool) -> None:
        self.guidance_scale = guidance_scale
        self.guidance_rescale = guidance_rescale
        self.use_original_formulation = use_original_formulation

    def acts(self) -> bool:
        off = is_off(self.guidance_scale, self.use_original_formulation)
        return not off and self.acts_within(self._start, self._stop)

    def branches(self) -> list[tuple[str, int]]:
        both = [("pred_cond", CONDITIONAL), ("pred_uncond", UNCONDITIONAL)]
        return both if self.acts() else both[:1]

    def combine(self, cond: Tensor, uncond: Tensor) -> Tensor:
        """The guided prediction."""
        return extrapolate(cond, uncond, self.guidance_scale, self.use_original_formulation)

    def forward(self, pred_cond: Tensor, pred_uncond: Tensor | None = None) -> GuiderOutput:  # type: ignore[override]
        pred = self.combine(pred_cond, pred_uncond) if self.acts() and pred_uncond is not None else pred_cond
        if self.guidance_rescale > 0.0:
            pred = rescale_noise_cfg(pred, pred_cond, self.guidance_rescale)
        return GuiderOutput(pred, pred_cond, pred_uncond)


class ClassifierFreeGuidance(TwoBranchGuidance):
    """Classifier-free guidance (arXiv:2207.12598)."""

    @register_to_config
    def __init__(
        self,
        guidance_scale: float = 7.5,
        guidance_rescale: float = 0.0,
        use_original_formulation: bool = False,
        start: float = 0.0,
        stop: float = 1.0,
        enabled: bool = True,
    ) -> None:
        super().__init__(start, stop, enabled)
        self._remember(guidance_scale, guidance_rescale, use_original_formulation)


class ClassifierFreeZeroStarGuidance(TwoBranchGuidance):
    """CFG-Zero*: the unconditional prediction scaled to fit the conditional one, and no step at the start (arXiv:2503.18886)."""

    @register_to_config
    def __init__(
        self,
        guidance_scale: float = 7.5,
        zero_init_steps: int = 1,
        guidance_rescale: float = 0.0,
        use_original_formulation: bool = False,
        start: float = 0.0,
        stop: float = 1.0,
        enabled: bool = True,
    ) -> None:
        super().__init__(start, stop, enabled)
        self._remember(guidance_scale, guidance_rescale, use_original_formulation)
        self.zero_init_steps = zero_init_steps

    def forward(self, pred_cond: Tensor, pred_uncond: Tensor | None = None) -> GuiderOutput:  # type: ignore[override]
        if self._enabled and (self._step or 0) < self.zero_init_steps:
            return GuiderOutput(torch.zeros_like(pred_cond), pred_cond, pred_uncond)
        return super().forward(pred_cond, pred_uncond)

    def combine(self, cond: Tensor, uncond: Tensor) -> Tensor:
        flat_cond, flat_uncond = cond.flatten(1).float(), uncond.flatten(1).float()
        fit = (flat_cond * flat_uncond).sum(1) / ((flat_uncond**2).sum(1) + 1e-8)
        fitted = uncond * fit.to(cond.dtype).view(-1, *[1] * (cond.ndim - 1))
        return extrapolate(cond, fitted, self.guidance_scale, self.use_original_formulation)


class TangentialClassifierFreeGuidance(TwoBranchGuidance):
    """TCFG: the unconditional prediction without its part off the common direction (arXiv:2503.18137)."""

    @register_to_config
    def __init__(
        self,
        guidance_scale: float = 7.5,
        guidance_rescale: float = 0.0,
        use_original_formulation: bool = False,
        start: float = 0.0,
        stop: float = 1.0,
        enabled: bool = True,
    ) -> None:
        super().__init__(start, stop, enabled)
        self._remember(guidance_scale, guidance_rescale, use_original_formulation)

    def combine(self, cond: Tensor, uncond: Tensor) -> Tensor:
        both = torch.stack([cond, uncond], dim=1).float().flatten(2)
        main = torch.linalg.svd(both, full_matrices=False).Vh[:, :1]  # the strongest common direction of the two
        along = (uncond.flatten(1).float().unsqueeze(1) * main).sum(-1, keepdim=True) * main
        tangential = along.reshape(uncond.shape).to(cond.dtype)
        return extrapolate(cond, tangential, self.guidance_scale, self.use_original_formulation)


class AdaptiveProjectedGuidance(TwoBranchGuidance):
    """APG: less of the update that runs along the prediction, its length bounded, with momentum (arXiv:2410.02416)."""

    @register_to_config
    def __init__(
        self,
        guidance_scale: float = 7.5,
        adaptive_projected_guidance_momentum: float | None = None,
        adaptive_projected_guidance_rescale: float = 15.0,
        adaptive_projected_guidance_norm_dim: int | tuple[int, ...] | None = None,
        eta: float = 1.0,
        guidance_rescale: float = 0.0,
        use_original_formulation: bool = False,
        start: float = 0.0,
        stop: float = 1.0,
        enabled: bool = True,
    ) -> None:
        super().__init__(start, stop, enabled)
        self._remember(guidance_scale, guidance_rescale, use_original_formulation)
        self.momentum, self.max_norm, self.eta = (
            adaptive_projected_guidance_momentum,
            adaptive_projected_guidance_rescale,
            eta,
        )
        self.norm_dim = adaptive_projected_guidance_norm_dim
        self._average: Tensor | None = None

    def set_state(self, step: int, num_inference_steps: int, timestep: object) -> None:
        super().set_state(step, num_inference_steps, timestep)
        if step == 0:
            self._average = None

    def fresh(self) -> typing.Self:
        copied = super().fresh()
        copied._average = None
        return copied

    def combine(self, cond: Tensor, uncond: Tensor) -> Tensor:
        update = cond - uncond
        axes = self._axes(update)
        if self.momentum is not None:
            update = self._average = update if self._average is None else update + self.momentum * self._average
        if self.max_norm > 0:
            length = update.norm(p=2, dim=axes, keepdim=True)
            update = update * torch.minimum(torch.ones_like(update), self.max_norm / length)
        parallel, orthogonal = project(update, cond, axes)
        start = cond if self.use_original_formulation else uncond
        return start + self.guidance_scale * (orthogonal + self.eta * parallel)

    def _axes(self, tensor: Tensor) -> list[int]:
        if self.norm_dim is None:
            return [-axis for axis in range(1, tensor.ndim)]
        return [self.norm_dim] if isinstance(self.norm_dim, int) else list(self.norm_dim)


class MagnitudeAwareGuidance(TwoBranchGuidance):
    """MAMBO-G: the scale falls where the two predictions are far apart (arXiv:2508.03442)."""

    @register_to_config
    def __init__(
        self,
        guidance_scale: float = 10.0,
        alpha: float = 8.0,
        guidance_rescale: float = 0.0,
        use_original_formulation: bool = False,
        start: float = 0.0,
        stop: float = 1.0,
        enabled: bool = True,
    ) -> None:
        super().__init__(start, stop, enabled)
        self._remember(guidance_scale, guidance_rescale, use_original_formulation)
        self.alpha = alpha

    def combine(self, cond: Tensor, uncond: Tensor) -> Tensor:
        axes = list(range(1, cond.ndim))
        length = torch.linalg.vector_norm
        ratio = length(cond - uncond, dim=axes, keepdim=True) / length(uncond, dim=axes, keepdim=True)
        damping = torch.exp(-self.alpha * ratio)
        original = self.use_original_formulation
        scale = self.guidance_scale * damping if original else 1.0 + (self.guidance_scale - 1.0) * damping
        return extrapolate(cond, uncond, scale, original)


def project(vector: Tensor, onto: Tensor, axes: list[int], upcast: bool = True) -> tuple[Tensor, Tensor]:
    """The parts of a vector along another one and across it, computed in double precision where the device has it."""
    dtype = torch.float64 if upcast and vector.device.type != "mps" else vector.dtype
    direction = normalize(onto.to(dtype), dim=axes)  # type: ignore[arg-type]
    parallel = (vector.to(dtype) * direction).sum(dim=axes, keepdim=True) * direction
    return parallel.to(vector.dtype), (vector.to(dtype) - parallel).to(vector.dtype)
