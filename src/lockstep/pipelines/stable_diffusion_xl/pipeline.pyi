"""Written by `python -m lockstep.blocks.stubs`; do not edit."""
# ruff: noqa
# fmt: off

from PIL.Image import Image
from collections.abc import Callable
from collections.abc import Mapping
from lockstep.blocks import Checkpoint
from lockstep.guiders.classifier_free import ClassifierFreeGuidance
from lockstep.models.autoencoders.autoencoder_kl import AutoencoderKL
from lockstep.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from lockstep.models.controlnets.controlnet import ControlNetModel
from lockstep.models.controlnets.multi import MultiControlNetModel
from lockstep.models.text_encoders.clip import CLIPTextModel
from lockstep.models.text_encoders.clip import CLIPTextModelWithProjection
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel
from lockstep.pipelines.common.face import PicturePipeline
from lockstep.pipelines.stable_diffusion_xl.blocks import StableDiffusionXLBlocks
from lockstep.schedulers.scheduling import SchedulerMixin
from lockstep.tokenizers.clip import CLIPTokenizer
from numpy import ndarray
from typing import Any
from typing import Literal
import torch

class StableDiffusionXLPipeline(PicturePipeline):
    guider: ClassifierFreeGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    tokenizer_2: CLIPTokenizer
    text_encoder_2: CLIPTextModelWithProjection
    controlnet: ControlNetModel | MultiControlNetModel
    vae: AutoencoderKL | AutoencoderTiny
    scheduler: SchedulerMixin
    def __call__(
        self,
        prompt: str | list[str] | None = None,
        *,
        prompt_2: str | list[str] | None = None,
        negative_prompt: str | list[str] | None = None,
        negative_prompt_2: str | list[str] | None = None,
        clip_skip: int | None = None,
        image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | None = None,
        mask_image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | None = None,
        control_image: Image | ndarray | torch.Tensor | list[Image | ndarray | torch.Tensor] | list[list[Image | ndarray | torch.Tensor]] | None = None,
        strength: float | None = None,
        padding_mask_crop: int | None = None,
        controlnet_conditioning_scale: float | list[float] = 1.0,
        control_guidance_start: float | list[float] = 0.0,
        control_guidance_end: float | list[float] = 1.0,
        guess_mode: bool = False,
        height: int | None = None,
        width: int | None = None,
        num_images_per_prompt: int = 1,
        original_size: tuple[int, int] | None = None,
        target_size: tuple[int, int] | None = None,
        crops_coords_top_left: tuple[int, int] = (0, 0),
        negative_original_size: tuple[int, int] | None = None,
        negative_target_size: tuple[int, int] | None = None,
        negative_crops_coords_top_left: tuple[int, int] = (0, 0),
        aesthetic_score: float = 6.0,
        negative_aesthetic_score: float = 2.5,
        num_inference_steps: int = 50,
        guidance_scale: float | None = None,
        guidance_rescale: float = 0.0,
        timesteps: torch.Tensor | list[int] | list[float] | None = None,
        sigmas: torch.Tensor | list[float] | None = None,
        eta: float = 0.0,
        denoising_start: float | None = None,
        denoising_end: float | None = None,
        generator: torch.Generator | list[torch.Generator] | None = None,
        cross_attention_kwargs: dict[str, Any] | None = None,
        output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil',
        prompt_embeds: torch.Tensor | None = None,
        negative_prompt_embeds: torch.Tensor | None = None,
        pooled_prompt_embeds: torch.Tensor | None = None,
        negative_pooled_prompt_embeds: torch.Tensor | None = None,
        latents: torch.Tensor | None = None,
        masked_image_latents: torch.Tensor | None = None,
        batch_guidance: bool = True,
        seed: int | list[int] | None = None,
        return_dict: bool = True,
        output: str | list[str] | None = None,
        workflow: str | None = None,
        callback_on_step_end: Callable[..., dict[str, Any] | None] | None = None,
        callback_on_step_end_tensor_inputs: list[str] = ...,
        checkpoints: Mapping[str, Checkpoint] = ...,
        preview: Callable[[torch.Tensor], Any] | bool = False,
    ) -> Any: ...
