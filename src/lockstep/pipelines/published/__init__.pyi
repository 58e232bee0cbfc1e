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
from lockstep.blocks.output import PipelineOutput
from lockstep.blocks.run import Run
from lockstep.files import HubArguments
from lockstep.guiders.guidance import BaseGuidance
from lockstep.models.autoencoders.autoencoder_kl import AutoencoderKL
from lockstep.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from lockstep.models.controlnets.controlnet import ControlNetModel
from lockstep.models.controlnets.multi import MultiControlNetModel
from lockstep.models.text_encoders.clip import CLIPTextModel
from lockstep.models.text_encoders.clip import CLIPTextModelWithProjection
from lockstep.models.text_encoders.t5 import T5EncoderModel
from lockstep.models.transformers.transformer_flux import FluxTransformer2DModel
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel
from lockstep.models.vision.clip_pictures import CLIPImageProcessor
from lockstep.models.vision.safety_checker import StableDiffusionSafetyChecker
from lockstep.pipelines.flux.pipeline import FluxPipeline
from lockstep.pipelines.published.classes import AutoPipeline
from lockstep.pipelines.published.table import AUTO, PUBLISHED
from lockstep.pipelines.stable_diffusion.pipeline import StableDiffusionPipeline
from lockstep.pipelines.stable_diffusion_xl.pipeline import StableDiffusionXLPipeline
from lockstep.schedulers.scheduling import SchedulerMixin
from lockstep.tokenizers.clip import CLIPTokenizer
from lockstep.tokenizers.t5 import T5Tokenizer
from numpy import ndarray
from pathlib import Path
from typing import Any
from typing import ClassVar
from typing import Literal
from typing import Self
from typing import TypedDict
from typing import Unpack
from typing import overload
import torch

def __getattr__(name: str) -> Any:
    ...
class _StableDiffusionImg2ImgInputs(TypedDict, total=False):
    clip_skip: int | None
    height: int | None
    width: int | None
    num_images_per_prompt: int  # 1
    guidance_rescale: float  # 0.0
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['image2image'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _StableDiffusionImg2ImgParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    scheduler: SchedulerMixin | None
    vae: AutoencoderKL | AutoencoderTiny | None
    safety_checker: StableDiffusionSafetyChecker | None
    feature_extractor: CLIPImageProcessor | None

class _StableDiffusionImg2ImgPartsAndHub(_StableDiffusionImg2ImgParts, HubArguments, total=False): ...

class _StableDiffusionImg2ImgPilOutput(PipelineOutput):
    images: list[Image]
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionImg2ImgNpOutput(PipelineOutput):
    images: ndarray
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionImg2ImgPtOutput(PipelineOutput):
    images: torch.Tensor
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class StableDiffusionImg2ImgPipeline(StableDiffusionPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    scheduler: SchedulerMixin
    vae: AutoencoderKL | AutoencoderTiny
    safety_checker: StableDiffusionSafetyChecker
    feature_extractor: CLIPImageProcessor
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionImg2ImgParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionImg2ImgPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> _StableDiffusionImg2ImgPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> _StableDiffusionImg2ImgNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> _StableDiffusionImg2ImgPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> Iterator[Event]: ...

class _StableDiffusionInpaintInputs(TypedDict, total=False):
    negative_prompt: str | Sequence[str] | None
    clip_skip: int | None
    num_images_per_prompt: int  # 1
    guidance_rescale: float  # 0.0
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['inpainting'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _StableDiffusionInpaintParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    scheduler: SchedulerMixin | None
    vae: AutoencoderKL | AutoencoderTiny | None
    safety_checker: StableDiffusionSafetyChecker | None
    feature_extractor: CLIPImageProcessor | None

class _StableDiffusionInpaintPartsAndHub(_StableDiffusionInpaintParts, HubArguments, total=False): ...

class _StableDiffusionInpaintPilOutput(PipelineOutput):
    images: list[Image]
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionInpaintNpOutput(PipelineOutput):
    images: ndarray
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionInpaintPtOutput(PipelineOutput):
    images: torch.Tensor
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class StableDiffusionInpaintPipeline(StableDiffusionPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    scheduler: SchedulerMixin
    vae: AutoencoderKL | AutoencoderTiny
    safety_checker: StableDiffusionSafetyChecker
    feature_extractor: CLIPImageProcessor
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionInpaintParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionInpaintPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> _StableDiffusionInpaintPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> _StableDiffusionInpaintNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> _StableDiffusionInpaintPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionInpaintInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> Iterator[Event]: ...

class _StableDiffusionControlNetInputs(TypedDict, total=False):
    clip_skip: int | None
    padding_mask_crop: int | None
    controlnet_conditioning_scale: float | Sequence[float]  # 1.0
    control_guidance_start: float | Sequence[float]  # 0.0
    control_guidance_end: float | Sequence[float]  # 1.0
    guess_mode: bool  # False
    num_images_per_prompt: int  # 1
    guidance_rescale: float  # 0.0
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['controlnet_text2image'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _StableDiffusionControlNetParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None
    vae: AutoencoderKL | AutoencoderTiny | None
    scheduler: SchedulerMixin | None
    safety_checker: StableDiffusionSafetyChecker | None
    feature_extractor: CLIPImageProcessor | None

class _StableDiffusionControlNetPartsAndHub(_StableDiffusionControlNetParts, HubArguments, total=False): ...

class _StableDiffusionControlNetPilOutput(PipelineOutput):
    images: list[Image]
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionControlNetNpOutput(PipelineOutput):
    images: ndarray
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionControlNetPtOutput(PipelineOutput):
    images: torch.Tensor
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class StableDiffusionControlNetPipeline(StableDiffusionPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    controlnet: ControlNetModel | MultiControlNetModel
    vae: AutoencoderKL | AutoencoderTiny
    scheduler: SchedulerMixin
    safety_checker: StableDiffusionSafetyChecker
    feature_extractor: CLIPImageProcessor
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionControlNetParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_text2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionControlNetPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> _StableDiffusionControlNetPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> _StableDiffusionControlNetNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> _StableDiffusionControlNetPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionControlNetInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> Iterator[Event]: ...

class _StableDiffusionControlNetImg2ImgInputs(TypedDict, total=False):
    clip_skip: int | None
    padding_mask_crop: int | None
    controlnet_conditioning_scale: float | Sequence[float]  # 0.8
    control_guidance_start: float | Sequence[float]  # 0.0
    control_guidance_end: float | Sequence[float]  # 1.0
    guess_mode: bool  # False
    num_images_per_prompt: int  # 1
    guidance_rescale: float  # 0.0
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None
    sigmas: torch.Tensor | Sequence[float] | None
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['controlnet_image2image'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _StableDiffusionControlNetImg2ImgParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None
    vae: AutoencoderKL | AutoencoderTiny | None
    scheduler: SchedulerMixin | None
    safety_checker: StableDiffusionSafetyChecker | None
    feature_extractor: CLIPImageProcessor | None

class _StableDiffusionControlNetImg2ImgPartsAndHub(_StableDiffusionControlNetImg2ImgParts, HubArguments, total=False): ...

class _StableDiffusionControlNetImg2ImgPilOutput(PipelineOutput):
    images: list[Image]
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionControlNetImg2ImgNpOutput(PipelineOutput):
    images: ndarray
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionControlNetImg2ImgPtOutput(PipelineOutput):
    images: torch.Tensor
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class StableDiffusionControlNetImg2ImgPipeline(StableDiffusionPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    controlnet: ControlNetModel | MultiControlNetModel
    vae: AutoencoderKL | AutoencoderTiny
    scheduler: SchedulerMixin
    safety_checker: StableDiffusionSafetyChecker
    feature_extractor: CLIPImageProcessor
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionControlNetImg2ImgParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionControlNetImg2ImgPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> _StableDiffusionControlNetImg2ImgPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> _StableDiffusionControlNetImg2ImgNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> _StableDiffusionControlNetImg2ImgPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> Iterator[Event]: ...

class _StableDiffusionControlNetInpaintInputs(TypedDict, total=False):
    clip_skip: int | None
    controlnet_conditioning_scale: float | Sequence[float]  # 0.5
    control_guidance_start: float | Sequence[float]  # 0.0
    control_guidance_end: float | Sequence[float]  # 1.0
    guess_mode: bool  # False
    num_images_per_prompt: int  # 1
    guidance_rescale: float  # 0.0
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None
    sigmas: torch.Tensor | Sequence[float] | None
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    masked_image_latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['controlnet_inpainting'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _StableDiffusionControlNetInpaintParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None
    vae: AutoencoderKL | AutoencoderTiny | None
    scheduler: SchedulerMixin | None
    safety_checker: StableDiffusionSafetyChecker | None
    feature_extractor: CLIPImageProcessor | None

class _StableDiffusionControlNetInpaintPartsAndHub(_StableDiffusionControlNetInpaintParts, HubArguments, total=False): ...

class _StableDiffusionControlNetInpaintPilOutput(PipelineOutput):
    images: list[Image]
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionControlNetInpaintNpOutput(PipelineOutput):
    images: ndarray
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionControlNetInpaintPtOutput(PipelineOutput):
    images: torch.Tensor
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class StableDiffusionControlNetInpaintPipeline(StableDiffusionPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    controlnet: ControlNetModel | MultiControlNetModel
    vae: AutoencoderKL | AutoencoderTiny
    scheduler: SchedulerMixin
    safety_checker: StableDiffusionSafetyChecker
    feature_extractor: CLIPImageProcessor
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionControlNetInpaintParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionControlNetInpaintPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> _StableDiffusionControlNetInpaintPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> _StableDiffusionControlNetInpaintNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> _StableDiffusionControlNetInpaintPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> Iterator[Event]: ...

class _LatentConsistencyModelInputs(TypedDict, total=False):
    negative_prompt: str | Sequence[str] | None
    clip_skip: int | None
    num_images_per_prompt: int  # 1
    guidance_rescale: float  # 0.0
    sigmas: torch.Tensor | Sequence[float] | None
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['text2image'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _LatentConsistencyModelParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    scheduler: SchedulerMixin | None
    vae: AutoencoderKL | AutoencoderTiny | None
    safety_checker: StableDiffusionSafetyChecker | None
    feature_extractor: CLIPImageProcessor | None

class _LatentConsistencyModelPartsAndHub(_LatentConsistencyModelParts, HubArguments, total=False): ...

class _LatentConsistencyModelPilOutput(PipelineOutput):
    images: list[Image]
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _LatentConsistencyModelNpOutput(PipelineOutput):
    images: ndarray
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _LatentConsistencyModelPtOutput(PipelineOutput):
    images: torch.Tensor
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class LatentConsistencyModelPipeline(StableDiffusionPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    scheduler: SchedulerMixin
    vae: AutoencoderKL | AutoencoderTiny
    safety_checker: StableDiffusionSafetyChecker
    feature_extractor: CLIPImageProcessor
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_LatentConsistencyModelParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_LatentConsistencyModelPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> _LatentConsistencyModelPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> _LatentConsistencyModelNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> _LatentConsistencyModelPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_LatentConsistencyModelInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_LatentConsistencyModelInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> Iterator[Event]: ...

class _LatentConsistencyModelImg2ImgInputs(TypedDict, total=False):
    negative_prompt: str | Sequence[str] | None
    clip_skip: int | None
    height: int | None
    width: int | None
    num_images_per_prompt: int  # 1
    guidance_rescale: float  # 0.0
    sigmas: torch.Tensor | Sequence[float] | None
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['image2image'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _LatentConsistencyModelImg2ImgParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    scheduler: SchedulerMixin | None
    vae: AutoencoderKL | AutoencoderTiny | None
    safety_checker: StableDiffusionSafetyChecker | None
    feature_extractor: CLIPImageProcessor | None

class _LatentConsistencyModelImg2ImgPartsAndHub(_LatentConsistencyModelImg2ImgParts, HubArguments, total=False): ...

class _LatentConsistencyModelImg2ImgPilOutput(PipelineOutput):
    images: list[Image]
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _LatentConsistencyModelImg2ImgNpOutput(PipelineOutput):
    images: ndarray
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _LatentConsistencyModelImg2ImgPtOutput(PipelineOutput):
    images: torch.Tensor
    nsfw_content_detected: list[bool]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class LatentConsistencyModelImg2ImgPipeline(StableDiffusionPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    scheduler: SchedulerMixin
    vae: AutoencoderKL | AutoencoderTiny
    safety_checker: StableDiffusionSafetyChecker
    feature_extractor: CLIPImageProcessor
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_LatentConsistencyModelImg2ImgParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_LatentConsistencyModelImg2ImgPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> _LatentConsistencyModelImg2ImgPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> _LatentConsistencyModelImg2ImgNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> _LatentConsistencyModelImg2ImgPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> Iterator[Event]: ...

class _StableDiffusionXLImg2ImgInputs(TypedDict, total=False):
    negative_prompt: str | Sequence[str] | None
    negative_prompt_2: str | Sequence[str] | None
    clip_skip: int | None
    height: int | None
    width: int | None
    num_images_per_prompt: int  # 1
    original_size: tuple[int, int] | None
    target_size: tuple[int, int] | None
    crops_coords_top_left: tuple[int, int]  # (0, 0)
    negative_original_size: tuple[int, int] | None
    negative_target_size: tuple[int, int] | None
    negative_crops_coords_top_left: tuple[int, int]  # (0, 0)
    aesthetic_score: float  # 6.0
    negative_aesthetic_score: float  # 2.5
    guidance_rescale: float  # 0.0
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    pooled_prompt_embeds: torch.Tensor | None
    negative_pooled_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['image2image'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _StableDiffusionXLImg2ImgParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    tokenizer_2: CLIPTokenizer | None
    text_encoder_2: CLIPTextModelWithProjection | None
    scheduler: SchedulerMixin | None
    vae: AutoencoderKL | AutoencoderTiny | None
    force_zeros_for_empty_prompt: bool
    requires_aesthetics_score: bool

class _StableDiffusionXLImg2ImgPartsAndHub(_StableDiffusionXLImg2ImgParts, HubArguments, total=False): ...

class _StableDiffusionXLImg2ImgPilOutput(PipelineOutput):
    images: list[Image]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionXLImg2ImgNpOutput(PipelineOutput):
    images: ndarray
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionXLImg2ImgPtOutput(PipelineOutput):
    images: torch.Tensor
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class StableDiffusionXLImg2ImgPipeline(StableDiffusionXLPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    tokenizer_2: CLIPTokenizer
    text_encoder_2: CLIPTextModelWithProjection
    scheduler: SchedulerMixin
    vae: AutoencoderKL | AutoencoderTiny
    force_zeros_for_empty_prompt: bool
    requires_aesthetics_score: bool
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionXLImg2ImgParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionXLImg2ImgPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> _StableDiffusionXLImg2ImgPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> _StableDiffusionXLImg2ImgNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> _StableDiffusionXLImg2ImgPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> Iterator[Event]: ...

class _StableDiffusionXLInpaintInputs(TypedDict, total=False):
    negative_prompt: str | Sequence[str] | None
    negative_prompt_2: str | Sequence[str] | None
    clip_skip: int | None
    num_images_per_prompt: int  # 1
    original_size: tuple[int, int] | None
    target_size: tuple[int, int] | None
    crops_coords_top_left: tuple[int, int]  # (0, 0)
    negative_original_size: tuple[int, int] | None
    negative_target_size: tuple[int, int] | None
    negative_crops_coords_top_left: tuple[int, int]  # (0, 0)
    aesthetic_score: float  # 6.0
    negative_aesthetic_score: float  # 2.5
    guidance_rescale: float  # 0.0
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    pooled_prompt_embeds: torch.Tensor | None
    negative_pooled_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['inpainting'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _StableDiffusionXLInpaintParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    tokenizer_2: CLIPTokenizer | None
    text_encoder_2: CLIPTextModelWithProjection | None
    scheduler: SchedulerMixin | None
    vae: AutoencoderKL | AutoencoderTiny | None
    force_zeros_for_empty_prompt: bool
    requires_aesthetics_score: bool

class _StableDiffusionXLInpaintPartsAndHub(_StableDiffusionXLInpaintParts, HubArguments, total=False): ...

class _StableDiffusionXLInpaintPilOutput(PipelineOutput):
    images: list[Image]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionXLInpaintNpOutput(PipelineOutput):
    images: ndarray
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionXLInpaintPtOutput(PipelineOutput):
    images: torch.Tensor
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class StableDiffusionXLInpaintPipeline(StableDiffusionXLPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    tokenizer_2: CLIPTokenizer
    text_encoder_2: CLIPTextModelWithProjection
    scheduler: SchedulerMixin
    vae: AutoencoderKL | AutoencoderTiny
    force_zeros_for_empty_prompt: bool
    requires_aesthetics_score: bool
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionXLInpaintParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionXLInpaintPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> _StableDiffusionXLInpaintPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> _StableDiffusionXLInpaintNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> _StableDiffusionXLInpaintPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> Iterator[Event]: ...

class _StableDiffusionXLControlNetInputs(TypedDict, total=False):
    negative_prompt: str | Sequence[str] | None
    negative_prompt_2: str | Sequence[str] | None
    clip_skip: int | None
    padding_mask_crop: int | None
    controlnet_conditioning_scale: float | Sequence[float]  # 1.0
    control_guidance_start: float | Sequence[float]  # 0.0
    control_guidance_end: float | Sequence[float]  # 1.0
    guess_mode: bool  # False
    num_images_per_prompt: int  # 1
    original_size: tuple[int, int] | None
    target_size: tuple[int, int] | None
    crops_coords_top_left: tuple[int, int]  # (0, 0)
    negative_original_size: tuple[int, int] | None
    negative_target_size: tuple[int, int] | None
    negative_crops_coords_top_left: tuple[int, int]  # (0, 0)
    aesthetic_score: float  # 6.0
    negative_aesthetic_score: float  # 2.5
    guidance_rescale: float  # 0.0
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    pooled_prompt_embeds: torch.Tensor | None
    negative_pooled_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['controlnet_text2image'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _StableDiffusionXLControlNetParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    tokenizer_2: CLIPTokenizer | None
    text_encoder_2: CLIPTextModelWithProjection | None
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None
    vae: AutoencoderKL | AutoencoderTiny | None
    scheduler: SchedulerMixin | None
    force_zeros_for_empty_prompt: bool
    requires_aesthetics_score: bool

class _StableDiffusionXLControlNetPartsAndHub(_StableDiffusionXLControlNetParts, HubArguments, total=False): ...

class _StableDiffusionXLControlNetPilOutput(PipelineOutput):
    images: list[Image]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionXLControlNetNpOutput(PipelineOutput):
    images: ndarray
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionXLControlNetPtOutput(PipelineOutput):
    images: torch.Tensor
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class StableDiffusionXLControlNetPipeline(StableDiffusionXLPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    tokenizer_2: CLIPTokenizer
    text_encoder_2: CLIPTextModelWithProjection
    controlnet: ControlNetModel | MultiControlNetModel
    vae: AutoencoderKL | AutoencoderTiny
    scheduler: SchedulerMixin
    force_zeros_for_empty_prompt: bool
    requires_aesthetics_score: bool
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionXLControlNetParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_text2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionXLControlNetPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> _StableDiffusionXLControlNetPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> _StableDiffusionXLControlNetNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> _StableDiffusionXLControlNetPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> Iterator[Event]: ...

class _StableDiffusionXLControlNetImg2ImgInputs(TypedDict, total=False):
    negative_prompt: str | Sequence[str] | None
    negative_prompt_2: str | Sequence[str] | None
    clip_skip: int | None
    padding_mask_crop: int | None
    controlnet_conditioning_scale: float | Sequence[float]  # 0.8
    control_guidance_start: float | Sequence[float]  # 0.0
    control_guidance_end: float | Sequence[float]  # 1.0
    guess_mode: bool  # False
    num_images_per_prompt: int  # 1
    original_size: tuple[int, int] | None
    target_size: tuple[int, int] | None
    crops_coords_top_left: tuple[int, int]  # (0, 0)
    negative_original_size: tuple[int, int] | None
    negative_target_size: tuple[int, int] | None
    negative_crops_coords_top_left: tuple[int, int]  # (0, 0)
    aesthetic_score: float  # 6.0
    negative_aesthetic_score: float  # 2.5
    guidance_rescale: float  # 0.0
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None
    sigmas: torch.Tensor | Sequence[float] | None
    eta: float  # 0.0
    denoising_start: float | None
    denoising_end: float | None
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    pooled_prompt_embeds: torch.Tensor | None
    negative_pooled_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['controlnet_image2image'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _StableDiffusionXLControlNetImg2ImgParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    tokenizer_2: CLIPTokenizer | None
    text_encoder_2: CLIPTextModelWithProjection | None
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None
    vae: AutoencoderKL | AutoencoderTiny | None
    scheduler: SchedulerMixin | None
    force_zeros_for_empty_prompt: bool
    requires_aesthetics_score: bool

class _StableDiffusionXLControlNetImg2ImgPartsAndHub(_StableDiffusionXLControlNetImg2ImgParts, HubArguments, total=False): ...

class _StableDiffusionXLControlNetImg2ImgPilOutput(PipelineOutput):
    images: list[Image]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionXLControlNetImg2ImgNpOutput(PipelineOutput):
    images: ndarray
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionXLControlNetImg2ImgPtOutput(PipelineOutput):
    images: torch.Tensor
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class StableDiffusionXLControlNetImg2ImgPipeline(StableDiffusionXLPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    tokenizer_2: CLIPTokenizer
    text_encoder_2: CLIPTextModelWithProjection
    controlnet: ControlNetModel | MultiControlNetModel
    vae: AutoencoderKL | AutoencoderTiny
    scheduler: SchedulerMixin
    force_zeros_for_empty_prompt: bool
    requires_aesthetics_score: bool
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionXLControlNetImg2ImgParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionXLControlNetImg2ImgPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> _StableDiffusionXLControlNetImg2ImgPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> _StableDiffusionXLControlNetImg2ImgNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> _StableDiffusionXLControlNetImg2ImgPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> Iterator[Event]: ...

class _StableDiffusionXLControlNetInpaintInputs(TypedDict, total=False):
    negative_prompt: str | Sequence[str] | None
    negative_prompt_2: str | Sequence[str] | None
    clip_skip: int | None
    controlnet_conditioning_scale: float | Sequence[float]  # 1.0
    control_guidance_start: float | Sequence[float]  # 0.0
    control_guidance_end: float | Sequence[float]  # 1.0
    guess_mode: bool  # False
    num_images_per_prompt: int  # 1
    original_size: tuple[int, int] | None
    target_size: tuple[int, int] | None
    crops_coords_top_left: tuple[int, int]  # (0, 0)
    negative_original_size: tuple[int, int] | None
    negative_target_size: tuple[int, int] | None
    negative_crops_coords_top_left: tuple[int, int]  # (0, 0)
    aesthetic_score: float  # 6.0
    negative_aesthetic_score: float  # 2.5
    guidance_rescale: float  # 0.0
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None
    sigmas: torch.Tensor | Sequence[float] | None
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    cross_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    pooled_prompt_embeds: torch.Tensor | None
    negative_pooled_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    masked_image_latents: torch.Tensor | None
    long_prompts: Literal['pieces', 'cut']  # 'pieces'
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['controlnet_inpainting'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _StableDiffusionXLControlNetInpaintParts(TypedDict, total=False):
    guider: BaseGuidance | None
    unet: UNet2DConditionModel | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    tokenizer_2: CLIPTokenizer | None
    text_encoder_2: CLIPTextModelWithProjection | None
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None
    vae: AutoencoderKL | AutoencoderTiny | None
    scheduler: SchedulerMixin | None
    force_zeros_for_empty_prompt: bool
    requires_aesthetics_score: bool

class _StableDiffusionXLControlNetInpaintPartsAndHub(_StableDiffusionXLControlNetInpaintParts, HubArguments, total=False): ...

class _StableDiffusionXLControlNetInpaintPilOutput(PipelineOutput):
    images: list[Image]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionXLControlNetInpaintNpOutput(PipelineOutput):
    images: ndarray
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionXLControlNetInpaintPtOutput(PipelineOutput):
    images: torch.Tensor
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class StableDiffusionXLControlNetInpaintPipeline(StableDiffusionXLPipeline):
    guider: BaseGuidance
    unet: UNet2DConditionModel
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    tokenizer_2: CLIPTokenizer
    text_encoder_2: CLIPTextModelWithProjection
    controlnet: ControlNetModel | MultiControlNetModel
    vae: AutoencoderKL | AutoencoderTiny
    scheduler: SchedulerMixin
    force_zeros_for_empty_prompt: bool
    requires_aesthetics_score: bool
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionXLControlNetInpaintParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionXLControlNetInpaintPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInpaintInputs]) -> _StableDiffusionXLControlNetInpaintPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInpaintInputs]) -> _StableDiffusionXLControlNetInpaintNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInpaintInputs]) -> _StableDiffusionXLControlNetInpaintPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInpaintInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionXLControlNetInpaintInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionXLControlNetInpaintInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLControlNetInpaintInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLControlNetInpaintInputs]) -> Iterator[Event]: ...

class _FluxImg2ImgInputs(TypedDict, total=False):
    max_sequence_length: int  # 512
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    joint_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    pooled_prompt_embeds: torch.Tensor | None
    negative_pooled_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['image2image'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _FluxImg2ImgParts(TypedDict, total=False):
    guider: BaseGuidance | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    tokenizer_2: T5Tokenizer | None
    text_encoder_2: T5EncoderModel | None
    scheduler: SchedulerMixin | None
    transformer: FluxTransformer2DModel | None
    vae: AutoencoderKL | AutoencoderTiny | None

class _FluxImg2ImgPartsAndHub(_FluxImg2ImgParts, HubArguments, total=False): ...

class _FluxImg2ImgPilOutput(PipelineOutput):
    images: list[Image]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _FluxImg2ImgNpOutput(PipelineOutput):
    images: ndarray
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _FluxImg2ImgPtOutput(PipelineOutput):
    images: torch.Tensor
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class FluxImg2ImgPipeline(FluxPipeline):
    guider: BaseGuidance
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    tokenizer_2: T5Tokenizer
    text_encoder_2: T5EncoderModel
    scheduler: SchedulerMixin
    transformer: FluxTransformer2DModel
    vae: AutoencoderKL | AutoencoderTiny
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_FluxImg2ImgParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_FluxImg2ImgPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., height: int | None = None, width: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxImg2ImgInputs]) -> _FluxImg2ImgPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., height: int | None = None, width: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxImg2ImgInputs]) -> _FluxImg2ImgNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., height: int | None = None, width: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxImg2ImgInputs]) -> _FluxImg2ImgPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., height: int | None = None, width: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_FluxImg2ImgInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., height: int | None = None, width: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_FluxImg2ImgInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., height: int | None = None, width: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_FluxImg2ImgInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., height: int | None = None, width: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_FluxImg2ImgInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., height: int | None = None, width: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_FluxImg2ImgInputs]) -> Iterator[Event]: ...

class _FluxInpaintInputs(TypedDict, total=False):
    max_sequence_length: int  # 512
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    joint_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    pooled_prompt_embeds: torch.Tensor | None
    negative_pooled_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['inpainting'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _FluxInpaintParts(TypedDict, total=False):
    guider: BaseGuidance | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    tokenizer_2: T5Tokenizer | None
    text_encoder_2: T5EncoderModel | None
    scheduler: SchedulerMixin | None
    transformer: FluxTransformer2DModel | None
    vae: AutoencoderKL | AutoencoderTiny | None

class _FluxInpaintPartsAndHub(_FluxInpaintParts, HubArguments, total=False): ...

class _FluxInpaintPilOutput(PipelineOutput):
    images: list[Image]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _FluxInpaintNpOutput(PipelineOutput):
    images: ndarray
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _FluxInpaintPtOutput(PipelineOutput):
    images: torch.Tensor
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class FluxInpaintPipeline(FluxPipeline):
    guider: BaseGuidance
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    tokenizer_2: T5Tokenizer
    text_encoder_2: T5EncoderModel
    scheduler: SchedulerMixin
    transformer: FluxTransformer2DModel
    vae: AutoencoderKL | AutoencoderTiny
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_FluxInpaintParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_FluxInpaintPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxInpaintInputs]) -> _FluxInpaintPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxInpaintInputs]) -> _FluxInpaintNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxInpaintInputs]) -> _FluxInpaintPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_FluxInpaintInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_FluxInpaintInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_FluxInpaintInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_FluxInpaintInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.6, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_FluxInpaintInputs]) -> Iterator[Event]: ...

class _FluxFillInputs(TypedDict, total=False):
    negative_prompt: str | Sequence[str] | None
    negative_prompt_2: str | Sequence[str] | None
    max_sequence_length: int  # 512
    padding_mask_crop: int | None
    true_cfg_scale: float | None
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None
    eta: float  # 0.0
    generator: torch.Generator | Sequence[torch.Generator] | None
    joint_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None
    pooled_prompt_embeds: torch.Tensor | None
    negative_pooled_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None
    batch_guidance: bool  # True
    seed: int | list[int] | None
    workflow: Literal['inpainting'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool  # False

class _FluxFillParts(TypedDict, total=False):
    guider: BaseGuidance | None
    tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None
    tokenizer_2: T5Tokenizer | None
    text_encoder_2: T5EncoderModel | None
    scheduler: SchedulerMixin | None
    transformer: FluxTransformer2DModel | None
    vae: AutoencoderKL | AutoencoderTiny | None

class _FluxFillPartsAndHub(_FluxFillParts, HubArguments, total=False): ...

class _FluxFillPilOutput(PipelineOutput):
    images: list[Image]
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _FluxFillNpOutput(PipelineOutput):
    images: ndarray
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _FluxFillPtOutput(PipelineOutput):
    images: torch.Tensor
    __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class FluxFillPipeline(FluxPipeline):
    guider: BaseGuidance
    tokenizer: CLIPTokenizer
    text_encoder: CLIPTextModel
    tokenizer_2: T5Tokenizer
    text_encoder_2: T5EncoderModel
    scheduler: SchedulerMixin
    transformer: FluxTransformer2DModel
    vae: AutoencoderKL | AutoencoderTiny
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_FluxFillParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_FluxFillPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 30.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxFillInputs]) -> _FluxFillPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 30.0, num_images_per_prompt: int = 1, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxFillInputs]) -> _FluxFillNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 30.0, num_images_per_prompt: int = 1, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxFillInputs]) -> _FluxFillPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 30.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_FluxFillInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 30.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_FluxFillInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 30.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_FluxFillInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 30.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_FluxFillInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 30.0, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_FluxFillInputs]) -> Iterator[Event]: ...

class AutoPipelineForText2Image(AutoPipeline):
    ...

class AutoPipelineForImage2Image(AutoPipeline):
    ...

class AutoPipelineForInpainting(AutoPipeline):
    ...
