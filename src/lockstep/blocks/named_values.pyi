"""Written by `python -m lockstep.blocks.stubs`; do not edit."""
# ruff: noqa
# fmt: off
# mypy: disable-error-code="override"

import torch
from PIL.Image import Image
from numpy import ndarray
from typing import Any
from typing import Literal

class NamedValues:
    __slots__ = ()
    prompt: str | list[str] | None
    prompt_2: str | list[str] | None
    prompt_3: str | list[str] | None
    negative_prompt: str | list[str] | None
    negative_prompt_2: str | list[str] | None
    negative_prompt_3: str | list[str] | None
    clip_skip: int | None
    max_sequence_length: int
    image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | None
    mask_image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | None
    control_image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | list[list[Image | ndarray | torch.Tensor]] | None
    video: list[Image | ndarray | torch.Tensor] | torch.Tensor | ndarray | None
    strength: float
    padding_mask_crop: int | None
    controlnet_conditioning_scale: float | list[float]
    control_guidance_start: float | list[float]
    control_guidance_end: float | list[float]
    guess_mode: bool
    ip_adapter_image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | None
    height: int | None
    width: int | None
    num_frames: int | None
    num_images_per_prompt: int
    num_videos_per_prompt: int
    original_size: tuple[int, int] | None
    target_size: tuple[int, int] | None
    crops_coords_top_left: tuple[int, int]
    negative_original_size: tuple[int, int] | None
    negative_target_size: tuple[int, int] | None
    negative_crops_coords_top_left: tuple[int, int]
    aesthetic_score: float
    negative_aesthetic_score: float
    num_inference_steps: int
    guidance_scale: float | None
    guidance_rescale: float
    timesteps: torch.Tensor | list[int] | list[float] | None
    sigmas: torch.Tensor | list[float] | None
    eta: float
    denoising_start: float | None
    denoising_end: float | None
    generator: torch.Generator | list[torch.Generator] | None
    seed: int | list[int] | None
    cross_attention_kwargs: dict[str, Any] | None
    attention_kwargs: dict[str, Any] | None
    output_type: Literal['pil', 'np', 'pt', 'latent']
    prompt_embeds: torch.Tensor
    negative_prompt_embeds: torch.Tensor
    pooled_prompt_embeds: torch.Tensor
    negative_pooled_prompt_embeds: torch.Tensor
    prompt_embeds_mask: torch.Tensor
    negative_prompt_embeds_mask: torch.Tensor
    add_time_ids: torch.Tensor
    negative_add_time_ids: torch.Tensor
    timestep_cond: torch.Tensor
    ip_adapter_image_embeds: torch.Tensor | list[torch.Tensor]
    image_embeds: torch.Tensor
    batch_size: int
    dtype: torch.dtype
    latents: torch.Tensor
    noise: torch.Tensor
    image_latents: torch.Tensor
    video_latents: torch.Tensor
    mask: torch.Tensor
    masked_image: torch.Tensor
    masked_image_latents: torch.Tensor
    model_input: torch.Tensor
    scaled_latents: torch.Tensor
    noise_pred: torch.Tensor
    control_residuals: tuple[Any, ...]
    images: list[Image] | ndarray | torch.Tensor
    videos: list[list[Image]] | ndarray | torch.Tensor
    audio: ndarray | torch.Tensor
    nsfw_content_detected: list[bool]
    def __getattr__(self, name: str) -> Any: ...  # the values that are some block's own
