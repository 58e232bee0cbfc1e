"""Few-step sampling of distilled flow models, at growing sizes if asked (scale-wise distillation, arXiv:2503.16397)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from ..configuration import register_to_config
from ..errors import InputError
from .flow import ShiftedFlowScheduler
from .noise import Generators, draw_noise
from .template import SchedulerOutput, Step, takes_step

UpscaleMode = Literal["nearest", "linear", "bilinear", "bicubic", "trilinear", "area", "nearest-exact"]


class FlowMatchLCMScheduler(ShiftedFlowScheduler):
    """Jump to x0 along the flow, enlarge it where the config says, then noise back to the next sigma."""

    first_size: torch.Size | None = None

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, shift: float = 1.0, use_dynamic_shifting: bool = False,
        base_shift: float = 0.5, max_shift: float = 1.15, base_image_seq_len: int = 256, max_image_seq_len: int = 4096,
        invert_sigmas: bool = False, shift_terminal: float | None = None, use_karras_sigmas: bool | None = False,
        use_exponential_sigmas: bool | None = False, use_beta_sigmas: bool | None = False,
        time_shift_type: Literal["exponential", "linear"] = "exponential", scale_factors: list[float] | None = None,
        upscale_mode: UpscaleMode = "bicubic",
    ) -> None:  # fmt: skip
        self._prepare_shifted()
        self.set_scale_factors(scale_factors, upscale_mode)

    def set_scale_factors(self, scale_factors: list[float] | None, upscale_mode: UpscaleMode) -> None:
        """Enlarge after each step but the last to these multiples of the first size."""
        self._scale_factors, self._upscale_mode = scale_factors or [], upscale_mode

    def _restart(self) -> None:
        super()._restart()
        self.first_size = None

    @takes_step
    def step(self, at: Step, generator: Generators = None) -> SchedulerOutput:
        sigma, sigma_next = self.sigmas[at.index], self.sigmas[at.index + 1]
        original = self._enlarged(at.sample.to(torch.float32) - sigma * at.output, at.index)
        noise = draw_noise(original.shape, generator, original.device, original.dtype)
        return SchedulerOutput(((1 - sigma_next) * original + sigma_next * noise).to(at.output.dtype))

    def _enlarged(self, original: Tensor, index: int) -> Tensor:
        factors = self._scale_factors
        if not factors:
            return original
        if len(self.timesteps) != len(factors) + 1:
            raise InputError(
                f"scale_factors wants one per step but the last, {len(self.timesteps) - 1}, got {len(factors)}."
            )
        if self.first_size is None:
            self.first_size = original.shape[2:]
        if index >= len(factors):
            return original
        size = [round(factors[index] * side) for side in self.first_size]
        return interpolate(original, size=size, mode=self._upscale_mode)
