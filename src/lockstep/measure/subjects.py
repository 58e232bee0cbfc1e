"""What is measured: one model of a pipeline with a call of noise, or models of published sizes with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import UnknownNameError, UnsupportedError
from ..models.examples import EXAMPLES, example_call
from ..pipelines.example_text import text_call_of

SD15_DECODER = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 2,
}
FLUX_BLOCKS = {"num_layers": 1, "num_single_layers": 1, "num_attention_heads": 8, "joint_attention_dim": 512}
WAN_BLOCK = {"num_layers": 1, "num_attention_heads": 8, "ffn_dim": 4096, "text_dim": 512}
# name -> class, config, and the size of latents that it is measured at
PRESETS: dict[str, tuple[str, dict[str, Any], int]] = {
    "sd15-unet": ("UNet2DConditionModel", {"sample_size": 64, "cross_attention_dim": 768}, 64),
    "sd15-decoder": ("AutoencoderKL", SD15_DECODER, 64),
    "flux-blocks": ("FluxTransformer2DModel", FLUX_BLOCKS, 32),
    "wan-block": ("WanTransformer3DModel", WAN_BLOCK, 32),
}


@dataclass(frozen=True)
class Subject:
    """A model in fp32, and how to make it again with the same weights: by our class, or by a peer's."""

    name: str
    model: Any
    size: int | None
    batch: int
    text: torch.Tensor | None = None  # that a UNet reads, by the text encoder that it was trained with

    def call(self, model: Any) -> Callable[[], torch.Tensor]:
        """A call of a model that has the same config."""
        run = example_call(self.model, self.size, self.batch, self.text)
        assert run is not None  # see model_of
        dtype = next(model.parameters()).dtype
        run = run if dtype == torch.float32 else example_call(model, self.size, self.batch, self.text)
        assert run is not None
        chosen = run
        return lambda: chosen(model)

    def again(self, kind: type | None = None) -> Any:
        """A further model with these very weights."""
        config = {key: value for key, value in self.model.config.items() if not key.startswith("_")}
        made = (kind or type(self.model)).from_config(config).eval()  # type: ignore[attr-defined]
        made.load_state_dict(self.model.state_dict(), assign=True)
        return made


def preset(name: str, size: int | None, batch: int) -> Subject:
    """A model of published sizes with random weights."""
    from ..blocks.params import public_class

    kind, config, usual = PRESETS[name]
    torch.manual_seed(0)
    return Subject(name, public_class(kind, "a preset of bench")(**config).eval(), size or usual, batch)


def model_of(pipe: Any, part: str | None, size: int | None, batch: int) -> Subject:
    """The denoiser of a pipeline, or a component that is named."""
    able = {name: one for name, one in pipe.components.items() if type(one).__name__ in EXAMPLES}
    if part is not None and part not in able:
        raise UnknownNameError("component that can be measured", part, able)
    denoiser = next((name for name in ("unet", "transformer") if name in able), None)
    name = part or denoiser or next(iter(able), None)
    if name is None:
        kinds = ", ".join(type(one).__name__ for one in pipe.components.values() if isinstance(one, torch.nn.Module))
        raise UnsupportedError(f"None of the models of this pipeline can be measured alone: {kinds}.")
    return Subject(f"{name} ({type(able[name]).__name__})", able[name], size, batch, text_for(able[name], pipe))


def text_for(model: Any, pipe: Any) -> torch.Tensor | None:
    """What the pipeline's own text encoder says of some words, for a UNet that reads just that."""
    call = text_call_of(model, pipe.components.get)
    return None if call is None else call.text
