"""Written by `python -m lockstep.blocks.stubs`; do not edit."""
# ruff: noqa
# fmt: off
# mypy: disable-error-code="override"

from PIL.Image import Image
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from lockstep.blocks.block import ModularPipelineBlocks
from lockstep.blocks.checkpoints import Checkpoint
from lockstep.blocks.events import Event
from lockstep.blocks.face import Face
from lockstep.blocks.output import PipelineOutput
from lockstep.blocks.run import Run
from lockstep.files import HubArguments
from lockstep.guiders.guidance import BaseGuidance
from lockstep.models.adapters.multi import MultiAdapter
from lockstep.models.adapters.t2i_adapter import T2IAdapter
from lockstep.models.autoencoders.autoencoder_kl import AutoencoderKL
from lockstep.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from lockstep.models.autoencoders.of_others import AutoencoderOfOthers
from lockstep.models.controlnets.controlnet import ControlNetModel
from lockstep.models.controlnets.multi import MultiControlNetModel
from lockstep.models.text_encoders.clip import CLIPTextModel
from lockstep.models.text_encoders.clip import CLIPTextModelWithProjection
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel
from lockstep.models.vision.clip_pictures import CLIPImageProcessor
from lockstep.models.vision.clip_vision import CLIPVisionModelWithProjection
from lockstep.pipelines.common.face import PicturePipeline
from lockstep.pipelines.stable_diffusion_xl.blocks import StableDiffusionXLBlocks
from lockstep.schedulers.scheduling import SchedulerMixin
from lockstep.tokenizers.clip import CLIPTokenizer
from numpy import ndarray
from pathlib import Path
from torch import Tensor
from typing import Any
from typing import ClassVar
from typing import Literal
from typing import Self
from typing import TypedDict
from typing import Unpack
from typing import overload
import torch

class _StableDiffusionXLPilOutput(PipelineOutput): images: list[Image]; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _StableDiffusionXLNpOutput(PipelineOutput): images: ndarray; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _StableDiffusionXLPtOutput(PipelineOutput): images: torch.Tensor; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionXLSharedInputs(TypedDict, total=False):
    clip_skip: int | None; num_images_per_prompt: int; original_size: tuple[int, int] | None
    target_size: tuple[int, int] | None; crops_coords_top_left: tuple[int, int]
    negative_original_size: tuple[int, int] | None; negative_target_size: tuple[int, int] | None
    negative_crops_coords_top_left: tuple[int, int]; aesthetic_score: float; negative_aesthetic_score: float
    guidance_rescale: float; eta: float; generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None; prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None; pooled_prompt_embeds: torch.Tensor | None
    negative_pooled_prompt_embeds: torch.Tensor | None; latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']; prompt_weighting: Literal['a1111', 'compel'] | None; batch_guidance: bool
    foretell: float; seed: int | list[int] | None; callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]; checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool

class _StableDiffusionXLInputs(_StableDiffusionXLSharedInputs, total=False):
    negative_prompt: str | Sequence[str] | None; negative_prompt_2: str | Sequence[str] | None
    image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | None
    strength: float | None; padding_mask_crop: int | None; controlnet_conditioning_scale: float | Sequence[float]
    control_guidance_start: float | Sequence[float]; control_guidance_end: float | Sequence[float]; guess_mode: bool
    adapter_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | None
    adapter_conditioning_scale: float | Sequence[float]; adapter_conditioning_factor: float
    ip_adapter_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor]] | None
    guidance_scale: float; denoising_start: float | None; ip_adapter_image_embeds: Sequence[torch.Tensor] | None
    masked_image_latents: torch.Tensor | None
    workflow: Literal['text2image', 'image2image', 'inpainting', 'controlnet_text2image', 'controlnet_image2image', 'controlnet_inpainting', 'adapter_text2image', 'adapter_image2image', 'adapter_inpainting'] | None

class _StableDiffusionXLSharedParts(TypedDict, total=False):
    guider: BaseGuidance | None; unet: UNet2DConditionModel | None; tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None; tokenizer_2: CLIPTokenizer | None
    text_encoder_2: CLIPTextModelWithProjection | None
    vae: AutoencoderKL | AutoencoderTiny | AutoencoderOfOthers | None; scheduler: SchedulerMixin | None
    force_zeros_for_empty_prompt: bool; requires_aesthetics_score: bool

class _StableDiffusionXLParts(_StableDiffusionXLSharedParts, total=False):
    image_encoder: CLIPVisionModelWithProjection | None; feature_extractor: CLIPImageProcessor | None
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None
    adapter: T2IAdapter | MultiAdapter | Sequence[T2IAdapter] | None

class _StableDiffusionXLPartsAndHub(_StableDiffusionXLParts, HubArguments, total=False): ...

class StableDiffusionXLPipeline(PicturePipeline):
    __getattr__: ClassVar[None]; __setattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionXLParts]) -> None: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2image', 'image2image', 'inpainting', 'controlnet_text2image', 'controlnet_image2image', 'controlnet_inpainting', 'adapter_text2image', 'adapter_image2image', 'adapter_inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionXLPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLInputs]) -> _StableDiffusionXLPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLInputs]) -> _StableDiffusionXLNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLInputs]) -> _StableDiffusionXLPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionXLInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionXLInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionXLInputs]) -> Any: ...
    guider: BaseGuidance; unet: UNet2DConditionModel; tokenizer: CLIPTokenizer; text_encoder: CLIPTextModel
    tokenizer_2: CLIPTokenizer; text_encoder_2: CLIPTextModelWithProjection
    image_encoder: CLIPVisionModelWithProjection; feature_extractor: CLIPImageProcessor
    controlnet: ControlNetModel | MultiControlNetModel; vae: AutoencoderKL | AutoencoderTiny | AutoencoderOfOthers
    adapter: T2IAdapter | MultiAdapter; scheduler: SchedulerMixin; force_zeros_for_empty_prompt: bool
    requires_aesthetics_score: bool
    def encode_prompt(self, prompt: str | list[str] | None, prompt_2: str | list[str] | None=None, device: str | torch.device | None=None, num_images_per_prompt: int=1, do_classifier_free_guidance: bool=True, negative_prompt: str | list[str] | None=None, negative_prompt_2: str | list[str] | None=None, prompt_embeds: Tensor | None=None, negative_prompt_embeds: Tensor | None=None, pooled_prompt_embeds: Tensor | None=None, negative_pooled_prompt_embeds: Tensor | None=None, lora_scale: float | None=None, clip_skip: int | None=None) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
        ...
