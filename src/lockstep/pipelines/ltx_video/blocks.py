"""The blocks of LTX-Video, put together."""

from __future__ import annotations

from ...models.autoencoders.autoencoder_kl_ltx_video import AutoencoderKLLTXVideo
from ...models.transformers.transformer_ltx_video import LTXVideoTransformer3DModel
from ..common.guidance import SetGuidance
from ..common.parts import TransformerBlocks
from .before_denoise import AutoStart
from .decoders import DecodeTokens
from .denoise import Denoise
from .encoders import EncodePrompt


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
