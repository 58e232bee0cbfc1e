"""Guiders with a branch whose layers are disturbed: away from what the weakened model says."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import nn

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
from .guidance import CONDITIONAL, UNCONDITIONAL, GuiderOutput, ScaledGuidance, check_interval

Tensor = torch.Tensor


class WeakeningGuidance(ScaledGuidance):
    """A guider that disturbs some `layers` of the model while one branch, the weakened one, is predicted."""

    batchable = False  # the disturbance belongs to one branch
    weakened_branch: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.layers = self.read_layers()
        self._disturbances: Disturbances | None = None

    def read_layers(self) -> list[Any]:
        """The configs that say which layers are disturbed."""
        raise NotImplementedError

    def disturb(self, disturbances: Disturbances, denoiser: nn.Module) -> None:
        """Install what weakens the model."""
        for config in self.layers:
            disturbances.skip_layers(denoiser, config)

    def check_model(self, denoiser: nn.Module) -> None:
        tried = Disturbances()
        try:
            self.disturb(tried, denoiser)
        finally:
            tried.remove()

    def prepare_models(self, denoiser: nn.Module) -> None:
        super().prepare_models(denoiser)
        if self.branches()[self._count_prepared - 1][0] == self.weakened_branch:
            self._disturbances = Disturbances()
            self.disturb(self._disturbances, denoiser)

    def cleanup_models(self, denoiser: nn.Module) -> None:
        if self._disturbances is not None:
            self._disturbances.remove()
            self._disturbances = None


class ThirdBranchGuidance(WeakeningGuidance):
    """The frame of the family: up to three branches, of which the last has the prompt and the weakened model.

    `prefix` is what the names of its scale (`<prefix>_scale`), its interval (`_start`, `_stop`) and its layers
    (`_layers`, by index) begin with; `configs` names the other way to give layers, as objects of one `config_kind`.
    """

    weakened_branch = "pred_cond_skip"
    prefix: ClassVar[str]
    configs: ClassVar[str]
    config_kind: ClassVar[type] = LayerSkipConfig
    by_index: ClassVar[dict[str, Any]] = {}  # values of the config of layers that are given by index

    def read_layers(self) -> list[Any]:
        layers, given = getattr(self, f"{self.prefix}_layers"), getattr(self, self.configs)
        return read_configs(self, self.config_kind, layers, given, **self.by_index)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = (f"{self.prefix}_start", f"{self.prefix}_stop")
        check_interval(type(self).__name__, *names, *self.weakened_interval)

    @property
    def weakened_scale(self) -> float:
        return getattr(self, f"{self.prefix}_scale")

    @property
    def weakened_interval(self) -> tuple[float, float]:
        return getattr(self, f"{self.prefix}_start"), getattr(self, f"{self.prefix}_stop")

    def acts_weakened(self) -> bool:
        """Whether this step needs the prediction of the weakened model."""
        return not math.isclose(self.weakened_scale, 0.0) and self.acts_within(*self.weakened_interval, open_start=True)

    def branches(self) -> list[tuple[str, int]]:
        wanted = [("pred_cond", CONDITIONAL)]
        wanted += [("pred_uncond", UNCONDITIONAL)] if self.acts() else []
        return wanted + ([(self.weakened_branch, CONDITIONAL)] if self.acts_weakened() else [])

    def forward(self, pred_cond: Tensor, pred_uncond: Tensor | None = None, **others: Tensor) -> GuiderOutput:  # type: ignore[override]
        weakened = others.get(self.weakened_branch)
        pred = pred_cond
        if pred_uncond is not None:
            pred = self.extrapolate(pred_cond, pred_uncond, self.guidance_scale)
            if weakened is not None:
                pred = pred + self.weakened_scale * (pred_cond - weakened)
        elif weakened is not None:
            pred = self.extrapolate(pred_cond, weakened, self.weakened_scale)
        return self.output(pred, pred_cond, pred_uncond)


class SkipLayerGuidance(ThirdBranchGuidance):
    """Skip-layer guidance, as Stable Diffusion 3.5 uses it: the weakened model leaves out some layers."""

    prefix, configs = "skip_layer_guidance", "skip_layer_config"
    skip_layer_guidance_scale: float = 2.8
    skip_layer_guidance_start: float = 0.01
    skip_layer_guidance_stop: float = 0.2
    skip_layer_guidance_layers: int | list[int] | None = None
    skip_layer_config: LayerSkipConfig | dict[str, Any] | list[LayerSkipConfig | dict[str, Any]] | None = None


class PerturbedAttentionGuidance(ThirdBranchGuidance):
    """PAG: in the weakened model each token attends to itself alone (arXiv:2403.17377)."""

    prefix, configs = "perturbed_guidance", "perturbed_guidance_config"
    by_index = {"skip_attention": False, "skip_attention_scores": True, "skip_ff": False}
    perturbed_guidance_scale: float = 2.8
    perturbed_guidance_start: float = 0.01
    perturbed_guidance_stop: float = 0.2
    perturbed_guidance_layers: int | list[int] | None = None
    perturbed_guidance_config: LayerSkipConfig | dict[str, Any] | list[LayerSkipConfig | dict[str, Any]] | None = None

    def read_layers(self) -> list[LayerSkipConfig]:
        configs = super().read_layers()
        for config in configs:
            if not config.skip_attention_scores or config.skip_ff:
                raise ConfigError(
                    "PerturbedAttentionGuidance disturbs attention scores and nothing else: wants "
                    f"skip_attention=False, skip_attention_scores=True, skip_ff=False, got {config}."
                )
        return configs


class SmoothedEnergyGuidance(ThirdBranchGuidance):
    """SEG: in the weakened model the queries are blurred (arXiv:2408.00760).

    Above `seg_blur_threshold_inf` the blur counts as infinitely wide: every query becomes their mean, as in the paper.
    """

    prefix, configs, config_kind = "seg_guidance", "seg_guidance_config", SmoothedEnergyGuidanceConfig
    weakened_branch = "pred_cond_seg"
    seg_guidance_scale: float = 2.8
    seg_guidance_start: float = 0.0
    seg_guidance_stop: float = 1.0
    seg_guidance_layers: int | list[int] | None = None
    seg_guidance_config: (
        SmoothedEnergyGuidanceConfig | dict[str, Any] | list[SmoothedEnergyGuidanceConfig | dict[str, Any]] | None
    ) = None
    seg_blur_sigma: float = 9999999.0
    seg_blur_threshold_inf: float = 9999.0

    def smooth(self, query: Tensor) -> Tensor:
        endless = self.seg_blur_sigma > self.seg_blur_threshold_inf
        return mean_blur(query) if endless else gaussian_blur(query, self.seg_blur_sigma)

    def disturb(self, disturbances: Disturbances, denoiser: nn.Module) -> None:
        for config in self.layers:
            disturbances.blur_queries(denoiser, config, self.smooth)


class AutoGuidance(WeakeningGuidance, TwoBranchGuidance):
    """Away from a worse version of the same model, here one with dropped layers (arXiv:2406.02507)."""

    weakened_branch = "pred_uncond"
    auto_guidance_layers: int | list[int] | None = None
    auto_guidance_config: LayerSkipConfig | dict[str, Any] | list[LayerSkipConfig | dict[str, Any]] | None = None
    dropout: float | None = None

    def read_layers(self) -> list[LayerSkipConfig]:
        if self.auto_guidance_config is None and self.dropout is None:
            raise ConfigError(
                "AutoGuidance: 'dropout' has to say how much of the named layers is dropped (1.0 is all)."
            )
        dropout = {} if self.dropout is None else {"dropout": self.dropout}
        return read_configs(self, LayerSkipConfig, self.auto_guidance_layers, self.auto_guidance_config, **dropout)
