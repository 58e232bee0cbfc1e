"""The blocks of Helios, put together."""

from __future__ import annotations

from ...blocks import ComponentSpec, SequentialPipelineBlocks
from ...models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan
from ...models.transformers.transformer_helios import HeliosTransformer3DModel
from ..common.chunks import FinishVideo
from ..common.guidance import SetGuidance
from ..common.umt5_text import EncodeVideoText
from ..common.video import VIDEO_WORKFLOWS
from .chunk import Chunks
from .history import AutoBegin
from .pyramid import ChunksOfStages


class HeliosBlocks(SequentialPipelineBlocks):
    """Text, image and video to video, chunk by chunk."""

    pipeline_class_name = "HeliosPipeline"
    roles = {
        "denoiser": ComponentSpec("transformer", HeliosTransformer3DModel),
        "autoencoder": ComponentSpec("vae", AutoencoderKLWan),
    }
    block_classes = {
        "guidance": SetGuidance,
        "text_encoder": EncodeVideoText,
        "start": AutoBegin,
        "chunks": Chunks,
        "finish": FinishVideo,
    }
    outputs = ["frames"]
    workflows = VIDEO_WORKFLOWS


class HeliosPyramidBlocks(HeliosBlocks):
    """Text, image and video to video, chunk by chunk, each in stages of growing size."""

    pipeline_class_name = "HeliosPyramidPipeline"
    block_classes = {**HeliosBlocks.block_classes, "chunks": ChunksOfStages}
    outputs = ["frames"]
