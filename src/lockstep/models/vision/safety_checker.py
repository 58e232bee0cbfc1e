"""The safety checker of Stable Diffusion: a picture's CLIP vector against those of concepts that it must not show."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import normalize

from ...configuration import register_to_config
from ..text_encoders.encoder import TransformersModel
from .clip_vision import PARTS, CLIPVisionModel

CONCEPTS, SPECIAL_CASES = 17, 3
STRICTER = 0.01  # how much lower the thresholds are for a picture that shows a special case


class StableDiffusionSafetyChecker(TransformersModel):
    """Finds pictures that come too near to one of its concepts; a special case nearby makes it stricter."""

    model_type = "clip"
    index_library = "stable_diffusion"  # under which an index names it
    ignored_tensors = (r"position_ids$",)
    tensor_renames = ((rf"^vision_model\.{PARTS}\.", r"vision_model.vision_model.\1."),)  # as transformers 5 has them

    @register_to_config
    def __init__(
        self,
        *,
        projection_dim: int = 512,
        vision_config: dict[str, Any] | None = None,
        text_config: dict[str, Any] | None = None,
        logit_scale_init_value: float = 2.6592,
    ) -> None:
        super().__init__()
        self.vision_model = CLIPVisionModel.from_config(dict(vision_config or {}))
        width = self.vision_model.config["hidden_size"]
        self.visual_projection = nn.Linear(width, projection_dim, bias=False)
        self.concept_embeds = nn.Parameter(torch.ones(CONCEPTS, projection_dim), requires_grad=False)
        self.special_care_embeds = nn.Parameter(torch.ones(SPECIAL_CASES, projection_dim), requires_grad=False)
        self.concept_embeds_weights = nn.Parameter(torch.ones(CONCEPTS), requires_grad=False)
        self.special_care_embeds_weights = nn.Parameter(torch.ones(SPECIAL_CASES), requires_grad=False)

    @torch.no_grad()
    def forward(self, clip_input: torch.Tensor, images: Any = None) -> tuple[Any, list[bool]]:
        """The pictures (tensors or arrays), those that were found replaced by black, and which these are."""
        vectors = normalize(self.visual_projection(self.vision_model(clip_input).pooler_output))
        special = scores(vectors, self.special_care_embeds, self.special_care_embeds_weights)
        found = scores(vectors, self.concept_embeds, self.concept_embeds_weights)
        flags = []
        for near_special, near_concept in zip(special, found, strict=True):
            stricter = 0.0
            for score in near_special.tolist():
                stricter = STRICTER if round(score + stricter, 3) > 0 else stricter
            flags.append(any(round(score + stricter, 3) > 0 for score in near_concept.tolist()))
        for index, flag in enumerate(flags):
            if flag and images is not None:
                images[index] = images[index] * 0
        return images, flags


def scores(vectors: torch.Tensor, concepts: torch.Tensor, thresholds: torch.Tensor) -> torch.Tensor:
    """How far each picture is above the threshold of each concept."""
    return (vectors @ normalize(concepts).t()).float().cpu() - thresholds.float().cpu()
