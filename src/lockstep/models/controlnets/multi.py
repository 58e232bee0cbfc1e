"""Several ControlNets at once: each one sees its own picture, and what they add to the UNet's skips is summed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from ...outputs import output_or_tuple
from ..side_by_side import SideBySide
from .controlnet import ControlNetModel, ControlNetOutput


class MultiControlNetModel(SideBySide):
    """ControlNets of one UNet; on disk they stand side by side in `controlnet`, `controlnet_1`, `controlnet_2` …"""

    part_class = ControlNetModel
    first_folder = "controlnet"

    def __init__(self, controlnets: Iterable[ControlNetModel]) -> None:
        super().__init__(controlnets)

    @output_or_tuple
    def forward(
        self, sample: Tensor, timestep: Tensor | float | int, encoder_hidden_states: Tensor | None,
        controlnet_cond: Sequence[Tensor], conditioning_scale: Sequence[float], return_dict: bool = True, **shared: Any,
    ) -> ControlNetOutput | tuple[tuple[Tensor, ...], Tensor]:  # fmt: skip
        """The sum of all residuals: picture k and scale k go to net k."""
        residuals = [
            net(sample, timestep, encoder_hidden_states, picture, scale, return_dict=False, **shared)
            for net, picture, scale in zip(self.nets, controlnet_cond, conditioning_scale, strict=True)
        ]
        down = tuple(sum(levels[1:], levels[0]) for levels in zip(*(down for down, _ in residuals), strict=True))
        mid = sum((mid for _, mid in residuals[1:]), residuals[0][1])
        return ControlNetOutput(down, mid) if return_dict else (down, mid)
