"""Several T2I-Adapters at once: each one sees its own picture, and their feature maps are added with weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from torch import Tensor

from ...errors import InputError
from ..side_by_side import SideBySide
from .t2i_adapter import T2IAdapter


class MultiAdapter(SideBySide):
    """T2I-Adapters of one UNet; on disk they stand side by side in `adapter`, `adapter_1`, `adapter_2` …"""

    part_class = T2IAdapter
    first_folder = "adapter"

    def __init__(self, adapters: Iterable[T2IAdapter]) -> None:
        super().__init__(adapters)
        factors = {(one.downscale_factor, one.total_downscale_factor) for one in self.adapters}
        if len(factors) > 1:
            raise InputError(
                "MultiAdapter adds the feature maps of its adapters, so all have to shrink a picture alike; got "
                f"(downscale_factor, total_downscale_factor) {', '.join(map(str, sorted(factors)))}."
            )

    @property
    def adapters(self) -> list[T2IAdapter]:
        return [cast(T2IAdapter, getattr(net, "_orig_mod", net)) for net in self.nets]

    @property
    def downscale_factor(self) -> int:
        """What height and width have to be multiples of."""
        return self.adapters[0].downscale_factor

    @property
    def total_downscale_factor(self) -> int:
        """Pixels per row or column of the coarsest feature map."""
        return self.adapters[0].total_downscale_factor

    def forward(self, xs: Sequence[Tensor], adapter_weights: Sequence[float] | None = None) -> list[Tensor]:
        """The weighted sum of all feature maps: picture k and weight k go to adapter k; equal weights unless given."""
        weights = [1 / len(self.nets)] * len(self.nets) if adapter_weights is None else list(adapter_weights)
        if not len(xs) == len(weights) == len(self.nets):
            raise InputError(
                f"MultiAdapter wants a picture and a weight for each of {len(self.nets)} adapters, got {len(xs)} "
                f"pictures and {len(weights)} weights."
            )
        weighted = [
            [weight * feature for feature in net(picture)]
            for net, picture, weight in zip(self.nets, xs, weights, strict=True)
        ]
        return [sum(level[1:], level[0]) for level in zip(*weighted, strict=True)]
