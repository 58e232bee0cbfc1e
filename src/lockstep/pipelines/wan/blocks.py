"""The blocks of Wan, put together."""

from __future__ import annotations

from ...blocks import ComponentSpec, SequentialPipelineBlocks
from ...models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan
from ..common.guidance import SetGuidance
from ..common.umt5_text import EncodeVideoText
from ..common.video import VIDEO_WORKFLOWS, AutoStartVideo, DecodeVideo, StartVideo
from .conditions import AutoKeepFirstFrame, EncodeImageTokens, PrepareCondition, PrepareLatentsForImage
from .denoise import FIRST, DenoiseVideo, SetBoundary


class StartFromFrames(SequentialPipelineBlocks):
    """Image to video: the whole grid, from noise, with a first frame and maybe a last one."""

    block_classes = {
        "image_tokens": EncodeImageTokens,
        **StartVideo.with_parts(latents=PrepareLatentsForImage).block_classes,
        "condition": PrepareCondition,
    }


class WanBlocks(SequentialPipelineBlocks):
    """Text, image (first and last frame) and video to video, with one denoiser or two experts."""

    pipeline_class_name = "WanPipeline"
    roles = {"denoiser": FIRST, "autoencoder": ComponentSpec("vae", AutoencoderKLWan)}
    block_classes = {
        "guidance": SetGuidance,
        "experts": SetBoundary,
        "text_encoder": EncodeVideoText,
        "start": AutoStartVideo.with_parts(image2video=StartFromFrames),
        "denoise": DenoiseVideo,
        "first_frame": AutoKeepFirstFrame,
        "decode": DecodeVideo,
    }
    outputs = ["frames"]
    workflows = VIDEO_WORKFLOWS
