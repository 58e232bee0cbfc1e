"""Guidance by a text and by a picture, each with a scale of its own."""

from __future__ import annotations

import torch

from .guidance import CONDITIONAL, UNCONDITIONAL, GuiderOutput, ScaledGuidance

Tensor = torch.Tensor
NEITHER = 2  # place of a value of the branch that has neither the prompt nor the picture


class TextAndImageGuidance(ScaledGuidance):
    """Three branches: with both, with the picture alone, with neither (InstructPix2Pix, arXiv:2211.09800, eq. 3)."""

    image_guidance_scale: float = 1.5

    def acts(self) -> bool:
        return self.image_guidance_scale >= 1.0 and super().acts()

    def branches(self) -> list[tuple[str, int]]:
        three = [("pred_cond", CONDITIONAL), ("pred_image", UNCONDITIONAL), ("pred_uncond", NEITHER)]
        return three if self.acts() else three[:1]

    def forward(  # type: ignore[override]
        self, pred_cond: Tensor, pred_image: Tensor | None = None, pred_uncond: Tensor | None = None
    ) -> GuiderOutput:
        if pred_image is None or pred_uncond is None:
            return GuiderOutput(pred_cond, pred_cond)
        by_text = self.guidance_scale * (pred_cond - pred_image)
        by_picture = self.image_guidance_scale * (pred_image - pred_uncond)
        return self.output(pred_uncond + by_text + by_picture, pred_cond, pred_uncond)
