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
from lockstep.blocks.compose import Block
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
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel
from lockstep.models.vision.clip_pictures import CLIPImageProcessor
from lockstep.models.vision.clip_vision import CLIPVisionModelWithProjection
from lockstep.models.vision.safety_checker import StableDiffusionSafetyChecker
from lockstep.pipelines.common.face import PicturePipeline
from lockstep.pipelines.corrections import NO_CLIPPING, STEPS_OFFSET
from lockstep.pipelines.stable_diffusion.blocks import StableDiffusionBlocks
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

class _StableDiffusionPilOutput(PipelineOutput): images: list[Image]; nsfw_content_detected: list[bool]; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _StableDiffusionNpOutput(PipelineOutput): images: ndarray; nsfw_content_detected: list[bool]; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _StableDiffusionPtOutput(PipelineOutput): images: torch.Tensor; nsfw_content_detected: list[bool]; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusionSharedInputs(TypedDict, total=False):
    num_images_per_prompt: int; guidance_rescale: float; eta: float
    generator: torch.Generator | Sequence[torch.Generator] | None; prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None; latents: torch.Tensor | None; batch_guidance: bool; foretell: float
    seed: int | list[int] | None; callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]; checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool

class _StableDiffusionInputs(_StableDiffusionSharedInputs, total=False):
    negative_prompt: str | Sequence[str] | None; clip_skip: int | None
    image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | None
    strength: float | None; padding_mask_crop: int | None; controlnet_conditioning_scale: float | Sequence[float]
    control_guidance_start: float | Sequence[float]; control_guidance_end: float | Sequence[float]; guess_mode: bool
    adapter_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | None
    adapter_conditioning_scale: float | Sequence[float]; adapter_conditioning_factor: float
    ip_adapter_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor]] | None
    cross_attention_kwargs: dict[str, Any] | None; ip_adapter_image_embeds: Sequence[torch.Tensor] | None
    masked_image_latents: torch.Tensor | None; long_prompts: Literal['pieces', 'cut']
    prompt_weighting: Literal['a1111', 'compel'] | None
    workflow: Literal['text2image', 'image2image', 'inpainting', 'controlnet_text2image', 'controlnet_image2image', 'controlnet_inpainting', 'adapter_text2image', 'adapter_image2image', 'adapter_inpainting'] | None

class _StableDiffusionSharedParts(TypedDict, total=False):
    guider: BaseGuidance | None; unet: UNet2DConditionModel | None; tokenizer: CLIPTokenizer | None
    text_encoder: CLIPTextModel | None; vae: AutoencoderKL | AutoencoderTiny | AutoencoderOfOthers | None
    scheduler: SchedulerMixin | None

class _StableDiffusionParts(_StableDiffusionSharedParts, total=False):
    image_encoder: CLIPVisionModelWithProjection | None; feature_extractor: CLIPImageProcessor | None
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None
    adapter: T2IAdapter | MultiAdapter | Sequence[T2IAdapter] | None
    safety_checker: StableDiffusionSafetyChecker | None; requires_safety_checker: bool

class _StableDiffusionPartsAndHub(_StableDiffusionParts, HubArguments, total=False): ...

class StableDiffusionPipeline(PicturePipeline):
    __getattr__: ClassVar[None]; __setattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionParts]) -> None: ...
    def run(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2image', 'image2image', 'inpainting', 'controlnet_text2image', 'controlnet_image2image', 'controlnet_inpainting', 'adapter_text2image', 'adapter_image2image', 'adapter_inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionInputs]) -> _StableDiffusionPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionInputs]) -> _StableDiffusionNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionInputs]) -> _StableDiffusionPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionInputs]) -> Any: ...
    guider: BaseGuidance; unet: UNet2DConditionModel; tokenizer: CLIPTokenizer; text_encoder: CLIPTextModel
    image_encoder: CLIPVisionModelWithProjection; feature_extractor: CLIPImageProcessor
    controlnet: ControlNetModel | MultiControlNetModel; vae: AutoencoderKL | AutoencoderTiny | AutoencoderOfOthers
    adapter: T2IAdapter | MultiAdapter; scheduler: SchedulerMixin; safety_checker: StableDiffusionSafetyChecker
    requires_safety_checker: bool
    default_blocks: ClassVar[Block | None]
    def encode_prompt(self, prompt: str | list[str] | None, device: str | torch.device | None=None, num_images_per_prompt: int=1, do_classifier_free_guidance: bool=True, negative_prompt: str | list[str] | None=None, prompt_embeds: Tensor | None=None, negative_prompt_embeds: Tensor | None=None, lora_scale: float | None=None, clip_skip: int | None=None) -> tuple[Tensor, Tensor | None]:
        ...
