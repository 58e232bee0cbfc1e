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
from lockstep.models.autoencoders.autoencoder_kl import AutoencoderKL
from lockstep.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from lockstep.models.autoencoders.of_others import AutoencoderOfOthers
from lockstep.models.controlnets.controlnet_flux import FluxControlNetModel
from lockstep.models.controlnets.controlnet_flux import FluxMultiControlNetModel
from lockstep.models.text_encoders.clip import CLIPTextModel
from lockstep.models.text_encoders.t5 import T5EncoderModel
from lockstep.models.transformers.transformer_flux import FluxTransformer2DModel
from lockstep.pipelines.common.face import PicturePipeline
from lockstep.pipelines.flux.blocks import FluxBlocks, FluxKontextBlocks
from lockstep.schedulers.scheduling import SchedulerMixin
from lockstep.tokenizers.clip import CLIPTokenizer
from lockstep.tokenizers.t5 import T5Tokenizer
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

class _FluxPilOutput(PipelineOutput): images: list[Image]; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _FluxNpOutput(PipelineOutput): images: ndarray; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _FluxPtOutput(PipelineOutput): images: torch.Tensor; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _FluxSharedInputs(TypedDict, total=False):
    max_sequence_length: int; timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None; eta: float
    generator: torch.Generator | Sequence[torch.Generator] | None; joint_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None; negative_prompt_embeds: torch.Tensor | None
    pooled_prompt_embeds: torch.Tensor | None; negative_pooled_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None; mu: float | None; batch_guidance: bool; foretell: float
    seed: int | list[int] | None; callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]; checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool

class _FluxInputs(_FluxSharedInputs, total=False):
    image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | None
    strength: float; padding_mask_crop: int | None; controlnet_conditioning_scale: float | Sequence[float]
    control_guidance_start: float | Sequence[float]; control_guidance_end: float | Sequence[float]
    masked_image_latents: torch.Tensor | None; control_mode: int | Sequence[int] | None
    workflow: Literal['text2image', 'image2image', 'inpainting', 'controlnet_text2image', 'controlnet_image2image', 'controlnet_inpainting'] | None

class _FluxSharedParts(TypedDict, total=False):
    guider: BaseGuidance | None; tokenizer: CLIPTokenizer | None; text_encoder: CLIPTextModel | None
    tokenizer_2: T5Tokenizer | None; text_encoder_2: T5EncoderModel | None
    transformer: FluxTransformer2DModel | None; vae: AutoencoderKL | AutoencoderTiny | AutoencoderOfOthers | None
    scheduler: SchedulerMixin | None

class _FluxParts(_FluxSharedParts, total=False):
    controlnet: FluxControlNetModel | FluxMultiControlNetModel | Sequence[FluxControlNetModel] | None

class _FluxPartsAndHub(_FluxParts, HubArguments, total=False): ...

class FluxPipeline(PicturePipeline):
    __getattr__: ClassVar[None]; __setattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_FluxParts]) -> None: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_FluxInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_FluxInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2image', 'image2image', 'inpainting', 'controlnet_text2image', 'controlnet_image2image', 'controlnet_inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_FluxPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxInputs]) -> _FluxPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxInputs]) -> _FluxNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxInputs]) -> _FluxPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_FluxInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_FluxInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_FluxInputs]) -> Any: ...
    guider: BaseGuidance; tokenizer: CLIPTokenizer; text_encoder: CLIPTextModel; tokenizer_2: T5Tokenizer
    text_encoder_2: T5EncoderModel; transformer: FluxTransformer2DModel
    controlnet: FluxControlNetModel | FluxMultiControlNetModel
    vae: AutoencoderKL | AutoencoderTiny | AutoencoderOfOthers; scheduler: SchedulerMixin
    default_blocks: ClassVar[Block | None]
    def encode_prompt(self, prompt: str | list[str] | None, prompt_2: str | list[str] | None=None, device: str | torch.device | None=None, num_images_per_prompt: int=1, prompt_embeds: Tensor | None=None, pooled_prompt_embeds: Tensor | None=None, max_sequence_length: int=512, lora_scale: float | None=None) -> tuple[Tensor, Tensor, Tensor]:
        ...

class _FluxKontextInputs(_FluxSharedInputs, total=False):
    max_area: int; _auto_resize: bool; workflow: Literal['text2image', 'image2image'] | None

class _FluxKontextParts(_FluxSharedParts, total=False):
    ...

class _FluxKontextPartsAndHub(_FluxKontextParts, HubArguments, total=False): ...

class FluxKontextPipeline(FluxPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_FluxKontextParts]) -> None: ...
    def run(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_FluxKontextInputs]) -> Run: ...
    def stream(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_FluxKontextInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2image', 'image2image'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_FluxKontextPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxKontextInputs]) -> _FluxPilOutput: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxKontextInputs]) -> _FluxNpOutput: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_FluxKontextInputs]) -> _FluxPtOutput: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_FluxKontextInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_FluxKontextInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, negative_prompt_2: str | Sequence[str] | None = None, true_cfg_scale: float = 1.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 3.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_FluxKontextInputs]) -> Any: ...
