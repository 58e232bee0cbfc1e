"""Guiders with a branch whose layers are disturbed: away from what the weakened model says."""

from __future__ import annotations

import math
import typing
from typing import Any

import torch
from torch import nn

from ..configuration import register_to_config
from ..errors import ConfigError
from .classifier_free import TwoBranchGuidance
from .disturbances import (
    Disturbances,
    LayerSkipConfig,
    SmoothedEnergyGuidanceConfig,
    gaussian_blur,
    mean_blur,
    read_configs,
)
from .guidance import (
    CONDITIONAL,
    UNCONDITIONAL,
    BaseGuidance,
    GuiderOutput,
    check_interval,
    extrapolate,
    is_off,
    rescale_noise_cfg,
)

Tensor = torch.Tensor


class DisturbedGuidance(BaseGuidance):
    """The frame of the family: up to three branches, of which the last has the prompt and a disturbed model."""

    batchable = False  # the disturbance belongs to one branch
    disturbed_name = "pred_cond_skip"
    guidance_scale: float
    guidance_rescale: float
    use_original_formulation: bool
    disturbed_scale: float
    disturbed_interval: tuple[float, float]
    _disturbances: Disturbances | None = None

    def disturb(self, disturbances: Disturbances, denoiser: nn.Module) -> None:
        """Install what weakens the model."""
        raise NotImplementedError

    def _is_cfg_enabled(self) -> bool:
        off = is_off(self.guidance_scale, self.use_original_formulation)
        return not off and self.acts_within(self._start, self._stop)

    def _is_disturbance_enabled(self) -> bool:
        off = math.isclose(self.disturbed_scale, 0.0)
        return not off and self.acts_within(*self.disturbed_interval, open_start=True)

    def branches(self) -> list[tuple[str, int]]:
        wanted = [("pred_cond", CONDITIONAL)]
        wanted += [("pred_uncond", UNCONDITIONAL)] if self._is_cfg_enabled() else []
        return wanted + ([(self.disturbed_name, CONDITIONAL)] if self._is_disturbance_enabled() else [])

    def prepare_models(self, denoiser: nn.Module) -> None:
        super().prepare_models(denoiser)
        if self.branches()[self._count_prepared - 1][0] == self.disturbed_name:
            self._disturbances = Disturbances()
            self.disturb(self._disturbances, denoiser)

    def cleanup_models(self, denoiser: nn.Module) -> None:
        if self._disturbances is not None:
            self._disturbances.remove()
            self._disturbances = None

    def forward(self, pred_cond: Tensor, pred_uncond: Tensor | None = None, **disturbed: Tensor) -> GuiderOutput:  # type: ignore[override]
        weakened = disturbed.get(self.disturbed_name)
        if pred_uncond is None and weakened is None:
            pred = pred_cond
        elif pred_uncond is None:
            pred = extrapolate(
                pred_cond, typing.cast(Tensor, weakened), self.disturbed_scale, self.use_original_formulation
            )
        else:
            pred = extrapolate(pred_cond, pred_uncond, self.guidance_scale, self.use_original_formulation)
            if weakened is not None:
                pred = pred + self.disturbed_scale * (pred_cond - weakened)
        if self.guidance_rescale > 0.0:
            pred = rescale_noise_cfg(pred, pred_cond, self.guidance_rescale)
        return GuiderOutput(pred, pred_cond, pred_uncond)


class SkipLayerGuidance(DisturbedGuidance):
    """Skip-layer guidance, as Stable Diffusion 3.5 uses it: the weakened model leaves out some layers."""

    @register_to_config
    def __init__(
        self,
        guidance_scale: float = 7.5,
        skip_layer_guidance_scale: float = 2.8,
        skip_layer_guidance_start: float = 0.01,
        skip_layer_guidance_stop: float = 0.2,
        skip_layer_guidance_layers: int | list[int] | None = None,
        skip_layer_config: Any = None,
        guidance_rescale: float = 0.0,
        use_original_formulation: bool = False,
        start: float = 0.0,
        stop: float = 1.0,
        enabled: bool = True,
    ) -> None:
        super().__init__(start, stop, enabled)
        check_interval("SkipLayerGuidance", "skip_layer_guidance_start", "skip_layer_guidance_stop",
                       skip_layer_guidance_start, skip_layer_guidance_stop)  # fmt: skip
        self.guidance_scale, self.guidance_rescale = guidance_scale, guidance_rescale
        self.use_original_formulation = use_original_formulation
        self.disturbed_scale = skip_layer_guidance_scale
        self.disturbed_interval = (skip_layer_guidance_start, skip_layer_guidance_stop)
        self.layers = read_configs("SkipLayerGuidance", LayerSkipConfig, skip_layer_guidance_layers, skip_layer_config)

    def disturb(self, disturbances: Disturbances, denoiser: nn.Module) -> None:
        for config in self.layers:
            disturbances.skip_layers(denoiser, config)


class PerturbedAttentionGuidance(DisturbedGuidance):
    """PAG: in the weakened model each token attends to itself alone (arXiv:2403.17377)."""

    @register_to_config
    def __init__(
        self,
        guidance_scale: float = 7.5,
        perturbed_guidance_scale: float = 2.8,
        perturbed_guidance_start: float = 0.01,
        perturbed_guidance_stop: float = 0.2,
        perturbed_guidance_layers: int | list[int] | None = None,
        perturbed_guidance_config: Any = None,
        guidance_rescale: float = 0.0,
        use_original_formulation: bool = False,
        start: float = 0.0,
        stop: float = 1.0,
        enabled: bool = True,
    ) -> None:
        super().__init__(start, stop, enabled)
        check_interval("PerturbedAttentionGuidance", "perturbed_guidance_start", "perturbed_guidance_stop",
                       perturbed_guidance_start, perturbed_guidance_stop)  # fmt: skip
        self.guidance_scale, self.guidance_rescale = guidance_scale, guidance_rescale
        self.use_original_formulation = use_original_formulation
        self.disturbed_scale = perturbed_guidance_scale
        self.disturbed_interval = (perturbed_guidance_start, perturbed_guidance_stop)
        scores_alone = {"skip_attention": False, "skip_attention_scores": True, "skip_ff": False}
        self.layers = read_configs("PerturbedAttentionGuidance", LayerSkipConfig, perturbed_guidance_layers,
                                   perturbed_guidance_config, **scores_alone)  # fmt: skip
        for config in self.layers:
            if not config.skip_attention_scores or config.skip_ff:
                raise ConfigError(
                    "PerturbedAttentionGuidance disturbs attention scores and nothing else: wants skip_attention=False, "
                    f"skip_attention_scores=True, skip_ff=False, got {config}."
                )

    def disturb(self, disturbances: Disturbances, denoiser: nn.Module) -> None:
        for config in self.layers:
            disturbances.skip_layers(denoiser, config)


class SmoothedEnergyGuidance(DisturbedGuidance):
    """SEG: in the weakened model the queries are blurred (arXiv:2408.00760).

    From `seg_blur_threshold_inf` on the blur counts as infinitely wide: every query becomes their mean, as in the paper.
    """

    disturbed_name = "pred_cond_seg"

    @register_to_config
    def __init__(
        self,
        guidance_scale: float = 7.5,
        seg_guidance_scale: float = 2.8,
        seg_blur_sigma: float = 9999999.0,
        seg_blur_threshold_inf: float = 9999.0,
        seg_guidance_start: float = 0.0,
        seg_guidance_stop: float = 1.0,
        seg_guidance_layers: int | list[int] | None = None,
        seg_guidance_config: Any = None,
        guidance_rescale: float = 0.0,
        use_original_formulation: bool = False,
        start: float = 0.0,
        stop: float = 1.0,
        enabled: bool = True,
    ) -> None:
        super().__init__(start, stop, enabled)
        check_interval(
            "SmoothedEnergyGuidance", "seg_guidance_start", "seg_guidance_stop", seg_guidance_start, seg_guidance_stop
        )
        self.guidance_scale, self.guidance_rescale = guidance_scale, guidance_rescale
        self.use_original_formulation = use_original_formulation
        self.disturbed_scale = seg_guidance_scale
        self.disturbed_interval = (seg_guidance_start, seg_guidance_stop)
        self.sigma, self.infinite_from = seg_blur_sigma, seg_blur_threshold_inf
        self.layers = read_configs(
            "SmoothedEnergyGuidance", SmoothedEnergyGuidanceConfig, seg_guidance_layers, seg_guidance_config
        )

    def smooth(self, query: Tensor) -> Tensor:
        return mean_blur(query) if self.sigma > self.infinite_from else gaussian_blur(query, self.sigma)

    def disturb(self, disturbances: Disturbances, denoiser: nn.Module) -> None:
        for config in self.layers:
            disturbances.blur_queries(denoiser, config, self.smooth)


class AutoGuidance(TwoBranchGuidance):
    """Away from a worse version of the same model, here one with dropped layers (arXiv:2406.02507)."""

    batchable = False
    _disturbances: Disturbances | None = None

    @register_to_config
    def __init__(
        self,
        guidance_scale: float = 7.5,
        auto_guidance_layers: int | list[int] | None = None,
        auto_guidance_config: Any = None,
        dropout: float | None = None,
        guidance_rescale: float = 0.0,
        use_original_formulation: bool = False,
        start: float = 0.0,
        stop: float = 1.0,
        enabled: bool = True,
    ) -> None:
        super().__init__(start, stop, enabled)
        self._remember(guidance_scale, guidance_rescale, use_original_formulation)
        if auto_guidance_config is None and dropout is None:
            raise ConfigError(
                "AutoGuidance: 'dropout' has to say how much of the named layers is dropped (1.0 is all)."
            )
        self.layers = read_configs("AutoGuidance", LayerSkipConfig, auto_guidance_layers, auto_guidance_config,
                                   **({} if dropout is None else {"dropout": dropout}))  # fmt: skip

    def prepare_models(self, denoiser: nn.Module) -> None:
        super().prepare_models(denoiser)
        if self.acts() and self.is_unconditional:
            self._disturbances = Disturbances()
            for config in self.layers:
                self._disturbances.skip_layers(denoiser, config)

    def cleanup_models(self, denoiser: nn.Module) -> None:
        if self._disturbances is not None:
            self._disturbances.remove()
            self._disturbances = None
