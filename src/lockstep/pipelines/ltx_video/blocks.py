"""The blocks of LTX-Video, put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...models.autoencoders.autoencoder_kl_ltx_video import AutoencoderKLLTXVideo
from ...models.transformers.transformer_ltx_video import LTXVideoTransformer3DModel
from ..common.guidance import SetGuidance
from ..common.held import NoiseHeld, SetConditionTimesteps, StepHeld
from ..common.parts import TransformerBlocks
from .before_denoise import AutoStart, StartFromText
from .conditions import DecodeHeld, PredictHeld, PrepareConditions
from .decoders import DecodeTokens
from .denoise import Denoise
from .encoders import EncodeCountedPrompt, EncodePrompt


class LTXVideoBlocks(
    TransformerBlocks, face="LTXPipeline", transformer=LTXVideoTransformer3DModel, autoencoder=AutoencoderKLLTXVideo
):
    """Text to video, and image to video with a first frame."""

    outputs = ["frames"]
    workflows = {"text2video": [], "image2video": ["image"]}
    block_classes = {
        "guidance": SetGuidance,
        "text_encoder": EncodePrompt,
        "start": AutoStart,
        "denoise": Denoise,
        "decode": DecodeTokens,
    }


class LTXConditionBlocks(LTXVideoBlocks, face="LTXConditionPipeline"):
    """Text to video that is held to pictures and videos, each at a frame and with a strength of its own."""

    workflows = {"condition2video": []}
    block_classes = {
        "guidance": SetGuidance,
        "text_encoder": EncodeCountedPrompt,
        "start": StartFromText.with_parts(timesteps=SetConditionTimesteps, latents=PrepareConditions),
        "denoise": Denoise.with_parts(scale=NoiseHeld, predict=PredictHeld, step=StepHeld),
        "decode": DecodeHeld,
    }

    def count_samples(self, values: Mapping[str, Any]) -> int:
        """As many as prompts: each video is held to all that is given."""
        return super().count_samples({name: value for name, value in values.items() if name not in ("image", "video")})
