"""Several ControlNets at once: each one sees its own picture, and what they add to the UNet's skips is summed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from ... import files
from ...errors import InputError
from ...outputs import output_or_tuple
from ..modeling import CalledAsForward
from .controlnet import ControlNetModel, ControlNetOutput

FIRST_FOLDER = "controlnet"


class MultiControlNetModel(CalledAsForward):
    """ControlNets of one UNet; on disk they stand side by side in `controlnet`, `controlnet_1`, `controlnet_2` …"""

    gathers_several = True  # a list of nets given to a pipeline becomes one of these

    def __init__(self, controlnets: Iterable[ControlNetModel]) -> None:
        super().__init__()
        nets = list(controlnets)
        if not nets or not all(isinstance(getattr(net, "_orig_mod", net), ControlNetModel) for net in nets):
            got = ", ".join(type(net).__name__ for net in nets) or "nothing"
            raise InputError(f"MultiControlNetModel wants ControlNetModels, got {got}.")
        self.nets = nn.ModuleList(nets)

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

    @property
    def dtype(self) -> torch.dtype:
        return self.nets[0].dtype  # type: ignore[return-value]

    @property
    def device(self) -> torch.device:
        return self.nets[0].device  # type: ignore[return-value]

    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, subfolder: str | None = None, **options: Any) -> Self:
        """The nets of a pipeline's folder; options are those of `ControlNetModel.from_pretrained`."""
        hub = {key: options[key] for key in options.keys() & files.HUB_ARGUMENTS}
        first = subfolder or FIRST_FOLDER
        root = files.resolve_folder(name_or_path, patterns=[f"{first}*/*"], **hub)
        folders = [first]
        while (root / f"{first}_{len(folders)}").is_dir():
            folders.append(f"{first}_{len(folders)}")
        return cls(ControlNetModel.from_pretrained(root, subfolder=name, **options) for name in folders)

    def save_pretrained(self, folder: str | Path, **options: Any) -> None:
        """The first net into this folder, the others into its numbered neighbours."""
        folder = Path(folder)
        for index, net in enumerate(self.nets):
            plain: Any = getattr(net, "_orig_mod", net)  # torch.compile wraps
            plain.save_pretrained(folder.with_name(f"{folder.name}_{index}") if index else folder, **options)
