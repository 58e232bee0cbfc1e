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
    prompt: str | list[str] | Any
    prompt_2: str | list[str] | Any
    prompt_3: str | list[str] | Any
    negative_prompt: str | list[str] | Any
    negative_prompt_2: str | list[str] | Any
    negative_prompt_3: str | list[str] | Any
    clip_skip: int | Any
    max_sequence_length: int
    image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | Any
    mask_image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | Any
    control_image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | list[list[Image | ndarray | torch.Tensor]] | Any
    video: list[Image | ndarray | torch.Tensor] | list[list[Image | ndarray | torch.Tensor]] | torch.Tensor | ndarray | Any
    last_image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | Any
    strength: float
    padding_mask_crop: int | Any
    controlnet_conditioning_scale: float | list[float]
    control_guidance_start: float | list[float]
    control_guidance_end: float | list[float]
    guess_mode: bool
    adapter_image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | list[list[Image | ndarray | torch.Tensor]] | Any
    adapter_conditioning_scale: float | list[float]
    adapter_conditioning_factor: float
    ip_adapter_image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | list[Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor]] | Any
    height: int | Any
    width: int | Any
    num_frames: int | Any
    frame_rate: float | Any
    num_images_per_prompt: int
    num_videos_per_prompt: int
    original_size: tuple[int, int] | Any
    target_size: tuple[int, int] | Any
    crops_coords_top_left: tuple[int, int]
    negative_original_size: tuple[int, int] | Any
    negative_target_size: tuple[int, int] | Any
    negative_crops_coords_top_left: tuple[int, int]
    aesthetic_score: float
    negative_aesthetic_score: float
    num_inference_steps: int
    guidance_scale: float | Any
    guidance_scale_2: float | Any
    true_cfg_scale: float
    guidance_rescale: float
    timesteps: torch.Tensor | Any
    sigmas: torch.Tensor | list[float] | Any
    eta: float
    denoising_start: float | Any
    denoising_end: float | Any
    generator: torch.Generator | list[torch.Generator] | Any
    seed: int | list[int] | Any
    cross_attention_kwargs: dict[str, Any] | Any
    joint_attention_kwargs: dict[str, Any] | Any
    attention_kwargs: dict[str, Any] | Any
    output_type: Literal['pil', 'np', 'pt', 'latent']
    prompt_embeds: torch.Tensor | Any
    negative_prompt_embeds: torch.Tensor | Any
    pooled_prompt_embeds: torch.Tensor | Any
    negative_pooled_prompt_embeds: torch.Tensor | Any
    prompt_embeds_mask: torch.Tensor | Any
    negative_prompt_embeds_mask: torch.Tensor | Any
    add_time_ids: torch.Tensor | Any
    negative_add_time_ids: torch.Tensor | Any
    timestep_cond: torch.Tensor | Any
    ip_adapter_image_embeds: list[torch.Tensor] | Any
    image_embeds: torch.Tensor | Any
    batch_size: int
    dtype: torch.dtype | Any
    latents: torch.Tensor | Any
    noise: torch.Tensor | Any
    img_ids: torch.Tensor | Any
    image_latents: torch.Tensor | Any
    video_latents: torch.Tensor | Any
    condition: torch.Tensor | Any
    first_frame_mask: torch.Tensor | Any
    boundary_timestep: float | Any
    mask: torch.Tensor | Any
    masked_image: torch.Tensor | Any
    masked_image_latents: torch.Tensor | Any
    model_input: torch.Tensor | Any
    scaled_latents: torch.Tensor | Any
    noise_pred: torch.Tensor | Any
    control_residuals: tuple[Any, ...] | Any
    images: list[Image] | ndarray | torch.Tensor | Any
    frames: list[list[Image]] | ndarray | torch.Tensor | Any
    videos: list[list[Image]] | ndarray | torch.Tensor | Any
    audio: ndarray | torch.Tensor | Any
    nsfw_content_detected: list[bool] | Any
    def __getattr__(self, name: str) -> Any: ...  # the values that are some block's own
