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
from lockstep.pipelines.stable_diffusion.pipeline import _StableDiffusionNpOutput
from lockstep.pipelines.stable_diffusion.pipeline import _StableDiffusionPilOutput
from lockstep.pipelines.stable_diffusion.pipeline import _StableDiffusionPtOutput
from lockstep.pipelines.stable_diffusion.pipeline import _StableDiffusionSharedInputs
from lockstep.pipelines.stable_diffusion.pipeline import _StableDiffusionSharedParts
from lockstep.pipelines.stable_diffusion_xl.pipeline import StableDiffusionXLPipeline
from lockstep.pipelines.stable_diffusion_xl.pipeline import _StableDiffusionXLNpOutput
from lockstep.pipelines.stable_diffusion_xl.pipeline import _StableDiffusionXLPilOutput
from lockstep.pipelines.stable_diffusion_xl.pipeline import _StableDiffusionXLPtOutput
from lockstep.pipelines.stable_diffusion_xl.pipeline import _StableDiffusionXLSharedInputs
from lockstep.pipelines.stable_diffusion_xl.pipeline import _StableDiffusionXLSharedParts
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
class _StableDiffusionImg2ImgInputs(_StableDiffusionSharedInputs, total=False):
    height: int | None; width: int | None; workflow: Literal['image2image'] | None

class _StableDiffusionImg2ImgParts(_StableDiffusionSharedParts, total=False):
    ...

class _StableDiffusionImg2ImgPartsAndHub(_StableDiffusionImg2ImgParts, HubArguments, total=False): ...

class StableDiffusionImg2ImgPipeline(StableDiffusionPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionImg2ImgParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionImg2ImgPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> _StableDiffusionPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> _StableDiffusionNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> _StableDiffusionPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.8, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionImg2ImgInputs]) -> Iterator[Event]: ...

class _StableDiffusionInpaintInputs(_StableDiffusionSharedInputs, total=False):
    negative_prompt: str | Sequence[str] | None; workflow: Literal['inpainting'] | None

class _StableDiffusionInpaintParts(_StableDiffusionSharedParts, total=False):
    ...

class _StableDiffusionInpaintPartsAndHub(_StableDiffusionInpaintParts, HubArguments, total=False): ...

class StableDiffusionInpaintPipeline(StableDiffusionPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionInpaintParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionInpaintPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> _StableDiffusionPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> _StableDiffusionNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> _StableDiffusionPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionInpaintInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionInpaintInputs]) -> Iterator[Event]: ...

class _StableDiffusionControlNetInputs(_StableDiffusionSharedInputs, total=False):
    padding_mask_crop: int | None; controlnet_conditioning_scale: float | Sequence[float]
    control_guidance_start: float | Sequence[float]; control_guidance_end: float | Sequence[float]; guess_mode: bool
    workflow: Literal['controlnet_text2image'] | None

class _StableDiffusionControlNetParts(_StableDiffusionSharedParts, total=False):
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None

class _StableDiffusionControlNetPartsAndHub(_StableDiffusionControlNetParts, HubArguments, total=False): ...

class StableDiffusionControlNetPipeline(StableDiffusionPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionControlNetParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_text2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionControlNetPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> _StableDiffusionPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> _StableDiffusionNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> _StableDiffusionPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionControlNetInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetInputs]) -> Iterator[Event]: ...

class _StableDiffusionControlNetImg2ImgInputs(_StableDiffusionSharedInputs, total=False):
    padding_mask_crop: int | None; controlnet_conditioning_scale: float | Sequence[float]
    control_guidance_start: float | Sequence[float]; control_guidance_end: float | Sequence[float]; guess_mode: bool
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None; sigmas: torch.Tensor | Sequence[float] | None
    workflow: Literal['controlnet_image2image'] | None

class _StableDiffusionControlNetImg2ImgParts(_StableDiffusionSharedParts, total=False):
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None

class _StableDiffusionControlNetImg2ImgPartsAndHub(_StableDiffusionControlNetImg2ImgParts, HubArguments, total=False): ...

class StableDiffusionControlNetImg2ImgPipeline(StableDiffusionPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionControlNetImg2ImgParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionControlNetImg2ImgPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> _StableDiffusionPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> _StableDiffusionNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> _StableDiffusionPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetImg2ImgInputs]) -> Iterator[Event]: ...

class _StableDiffusionControlNetInpaintInputs(_StableDiffusionSharedInputs, total=False):
    controlnet_conditioning_scale: float | Sequence[float]; control_guidance_start: float | Sequence[float]
    control_guidance_end: float | Sequence[float]; guess_mode: bool
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None; sigmas: torch.Tensor | Sequence[float] | None
    masked_image_latents: torch.Tensor | None; workflow: Literal['controlnet_inpainting'] | None

class _StableDiffusionControlNetInpaintParts(_StableDiffusionSharedParts, total=False):
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None

class _StableDiffusionControlNetInpaintPartsAndHub(_StableDiffusionControlNetInpaintParts, HubArguments, total=False): ...

class StableDiffusionControlNetInpaintPipeline(StableDiffusionPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionControlNetInpaintParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionControlNetInpaintPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> _StableDiffusionPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> _StableDiffusionNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> _StableDiffusionPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 1.0, num_inference_steps: int = 50, guidance_scale: float | None = None, negative_prompt: str | Sequence[str] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionControlNetInpaintInputs]) -> Iterator[Event]: ...

class _LatentConsistencyModelInputs(_StableDiffusionSharedInputs, total=False):
    negative_prompt: str | Sequence[str] | None; sigmas: torch.Tensor | Sequence[float] | None
    workflow: Literal['text2image'] | None

class _LatentConsistencyModelParts(_StableDiffusionSharedParts, total=False):
    ...

class _LatentConsistencyModelPartsAndHub(_LatentConsistencyModelParts, HubArguments, total=False): ...

class LatentConsistencyModelPipeline(StableDiffusionPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_LatentConsistencyModelParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_LatentConsistencyModelPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> _StableDiffusionPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> _StableDiffusionNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> _StableDiffusionPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_LatentConsistencyModelInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_LatentConsistencyModelInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 4, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LatentConsistencyModelInputs]) -> Iterator[Event]: ...

class _LatentConsistencyModelImg2ImgInputs(_StableDiffusionSharedInputs, total=False):
    negative_prompt: str | Sequence[str] | None; height: int | None; width: int | None
    sigmas: torch.Tensor | Sequence[float] | None; workflow: Literal['image2image'] | None

class _LatentConsistencyModelImg2ImgParts(_StableDiffusionSharedParts, total=False):
    ...

class _LatentConsistencyModelImg2ImgPartsAndHub(_LatentConsistencyModelImg2ImgParts, HubArguments, total=False): ...

class LatentConsistencyModelImg2ImgPipeline(StableDiffusionPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_LatentConsistencyModelImg2ImgParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_LatentConsistencyModelImg2ImgPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> _StableDiffusionPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> _StableDiffusionNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> _StableDiffusionPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., num_inference_steps: int = 4, strength: float = 0.8, original_inference_steps: int | None = None, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 8.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LatentConsistencyModelImg2ImgInputs]) -> Iterator[Event]: ...

class _StableDiffusionXLImg2ImgInputs(_StableDiffusionXLSharedInputs, total=False):
    height: int | None; width: int | None; workflow: Literal['image2image'] | None

class _StableDiffusionXLImg2ImgParts(_StableDiffusionXLSharedParts, total=False):
    ...

class _StableDiffusionXLImg2ImgPartsAndHub(_StableDiffusionXLImg2ImgParts, HubArguments, total=False): ...

class StableDiffusionXLImg2ImgPipeline(StableDiffusionXLPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionXLImg2ImgParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionXLImg2ImgPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> _StableDiffusionXLPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> _StableDiffusionXLNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> _StableDiffusionXLPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., strength: float = 0.3, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLImg2ImgInputs]) -> Iterator[Event]: ...

class _StableDiffusionXLInpaintInputs(_StableDiffusionXLSharedInputs, total=False):
    workflow: Literal['inpainting'] | None

class _StableDiffusionXLInpaintParts(_StableDiffusionXLSharedParts, total=False):
    ...

class _StableDiffusionXLInpaintPartsAndHub(_StableDiffusionXLInpaintParts, HubArguments, total=False): ...

class StableDiffusionXLInpaintPipeline(StableDiffusionXLPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionXLInpaintParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionXLInpaintPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> _StableDiffusionXLPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> _StableDiffusionXLNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> _StableDiffusionXLPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., masked_image_latents: torch.Tensor | None = None, height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float = 7.5, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLInpaintInputs]) -> Iterator[Event]: ...

class _StableDiffusionXLControlNetInputs(_StableDiffusionXLSharedInputs, total=False):
    padding_mask_crop: int | None; controlnet_conditioning_scale: float | Sequence[float]
    control_guidance_start: float | Sequence[float]; control_guidance_end: float | Sequence[float]; guess_mode: bool
    workflow: Literal['controlnet_text2image'] | None

class _StableDiffusionXLControlNetParts(_StableDiffusionXLSharedParts, total=False):
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None

class _StableDiffusionXLControlNetPartsAndHub(_StableDiffusionXLControlNetParts, HubArguments, total=False): ...

class StableDiffusionXLControlNetPipeline(StableDiffusionXLPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionXLControlNetParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_text2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionXLControlNetPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> _StableDiffusionXLPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> _StableDiffusionXLNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> _StableDiffusionXLPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, sigmas: torch.Tensor | Sequence[float] | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLControlNetInputs]) -> Iterator[Event]: ...

class _StableDiffusionXLControlNetImg2ImgInputs(_StableDiffusionXLSharedInputs, total=False):
    padding_mask_crop: int | None; controlnet_conditioning_scale: float | Sequence[float]
    control_guidance_start: float | Sequence[float]; control_guidance_end: float | Sequence[float]; guess_mode: bool
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None; sigmas: torch.Tensor | Sequence[float] | None
    denoising_start: float | None; denoising_end: float | None; workflow: Literal['controlnet_image2image'] | None

class _StableDiffusionXLControlNetImg2ImgParts(_StableDiffusionXLSharedParts, total=False):
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None

class _StableDiffusionXLControlNetImg2ImgPartsAndHub(_StableDiffusionXLControlNetImg2ImgParts, HubArguments, total=False): ...

class StableDiffusionXLControlNetImg2ImgPipeline(StableDiffusionXLPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionXLControlNetImg2ImgParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionXLControlNetImg2ImgPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> _StableDiffusionXLPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> _StableDiffusionXLNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> _StableDiffusionXLPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> Any: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, strength: float = 0.8, num_inference_steps: int = 50, guidance_scale: float | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusionXLControlNetImg2ImgInputs]) -> Iterator[Event]: ...

class _StableDiffusionXLControlNetInpaintInputs(_StableDiffusionXLSharedInputs, total=False):
    controlnet_conditioning_scale: float | Sequence[float]; control_guidance_start: float | Sequence[float]
    control_guidance_end: float | Sequence[float]; guess_mode: bool
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None; sigmas: torch.Tensor | Sequence[float] | None
    masked_image_latents: torch.Tensor | None; workflow: Literal['controlnet_inpainting'] | None

class _StableDiffusionXLControlNetInpaintParts(_StableDiffusionXLSharedParts, total=False):
    controlnet: ControlNetModel | MultiControlNetModel | Sequence[ControlNetModel] | None

class _StableDiffusionXLControlNetInpaintPartsAndHub(_StableDiffusionXLControlNetInpaintParts, HubArguments, total=False): ...

class StableDiffusionXLControlNetInpaintPipeline(StableDiffusionXLPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusionXLControlNetInpaintParts]) -> None: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['controlnet_inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusionXLControlNetInpaintPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInpaintInputs]) -> _StableDiffusionXLPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInpaintInputs]) -> _StableDiffusionXLNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] = ..., height: int | None = None, width: int | None = None, padding_mask_crop: int | None = None, strength: float = 0.9999, num_inference_steps: int = 50, denoising_start: float | None = None, denoising_end: float | None = None, guidance_scale: float | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusionXLControlNetInpaintInputs]) -> _StableDiffusionXLPtOutput: ...
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
