"""How predictions combine: each guider says which branches the denoiser has to predict at a step, and mixes them.

guidance.py             the base: state of a step, inputs of each branch, the interval in which a guider acts
branches.py             runs the branches, as one batch or one after the other
classifier_free.py      with and without the prompt: CFG, CFG-Zero*, tangential, projected, magnitude-aware
frequency_decoupled.py  the same two, mixed band by band
text_and_image.py       a prompt and a picture, each with its scale: InstructPix2Pix
perturbed.py            a branch whose layers are disturbed: PAG, skip-layer, smoothed energy, autoguidance
disturbances.py         how layers are disturbed, for the calling thread alone
"""

from .branches import predict_branches
from .classifier_free import (
    AdaptiveProjectedGuidance,
    ClassifierFreeGuidance,
    ClassifierFreeZeroStarGuidance,
    MagnitudeAwareGuidance,
    TangentialClassifierFreeGuidance,
)
from .disturbances import LayerSkipConfig, SmoothedEnergyGuidanceConfig
from .frequency_decoupled import FrequencyDecoupledGuidance
from .guidance import BaseGuidance, Condition, GuiderOutput, rescale_noise_cfg
from .perturbed import AutoGuidance, PerturbedAttentionGuidance, SkipLayerGuidance, SmoothedEnergyGuidance
from .text_and_image import TextAndImageGuidance

__all__ = [
    "AdaptiveProjectedGuidance",
    "AutoGuidance",
    "BaseGuidance",
    "ClassifierFreeGuidance",
    "ClassifierFreeZeroStarGuidance",
    "Condition",
    "FrequencyDecoupledGuidance",
    "GuiderOutput",
    "LayerSkipConfig",
    "MagnitudeAwareGuidance",
    "PerturbedAttentionGuidance",
    "SkipLayerGuidance",
    "SmoothedEnergyGuidance",
    "SmoothedEnergyGuidanceConfig",
    "TangentialClassifierFreeGuidance",
    "TextAndImageGuidance",
    "predict_branches",
    "rescale_noise_cfg",
]
