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
from lockstep.blocks.vocabulary import Pictures
from lockstep.files import HubArguments
from lockstep.guiders.guidance import BaseGuidance
from lockstep.models.autoencoders.autoencoder_kl_qwen_image import AutoencoderKLQwenImage
from lockstep.models.text_encoders.qwen2_5_vl import Qwen2_5_VLForConditionalGeneration
from lockstep.models.transformers.transformer_qwen_image import QwenImageTransformer2DModel
from lockstep.pipelines.common.face import PicturePipeline
from lockstep.pipelines.common.qwen2_vl import Qwen2VLProcessor
from lockstep.pipelines.qwen_image.blocks import QwenImageBlocks, QwenImageEditBlocks, QwenImageEditPlusBlocks
from lockstep.schedulers.scheduling import SchedulerMixin
from lockstep.tokenizers.qwen2 import Qwen2Tokenizer
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

class _QwenImagePilOutput(PipelineOutput): images: list[Image]; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _QwenImageNpOutput(PipelineOutput): images: ndarray; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _QwenImagePtOutput(PipelineOutput): images: torch.Tensor; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _QwenImageSharedInputs(TypedDict, total=False):
    max_sequence_length: int; timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None; eta: float
    generator: torch.Generator | Sequence[torch.Generator] | None; attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | Sequence[torch.Tensor] | None; negative_prompt_embeds: torch.Tensor | None
    prompt_embeds_mask: torch.Tensor | None; negative_prompt_embeds_mask: torch.Tensor | None
    latents: torch.Tensor | None; mu: float | None; batch_guidance: bool; foretell: float
    seed: int | list[int] | None; callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]; checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool

class _QwenImageInputs(_QwenImageSharedInputs, total=False):
    image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None; strength: float
    padding_mask_crop: int | None; masked_image_latents: torch.Tensor | None
    workflow: Literal['text2image', 'image2image', 'inpainting'] | None

class _QwenImageSharedParts(TypedDict, total=False):
    guider: BaseGuidance | None; tokenizer: Qwen2Tokenizer | None
    text_encoder: Qwen2_5_VLForConditionalGeneration | None; transformer: QwenImageTransformer2DModel | None
    scheduler: SchedulerMixin | None; vae: AutoencoderKLQwenImage | None

class _QwenImageParts(_QwenImageSharedParts, total=False):
    ...

class _QwenImagePartsAndHub(_QwenImageParts, HubArguments, total=False): ...

class QwenImagePipeline(PicturePipeline):
    __getattr__: ClassVar[None]; __setattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_QwenImageParts]) -> None: ...
    def run(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_QwenImageInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_QwenImageInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2image', 'image2image', 'inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_QwenImagePartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_QwenImageInputs]) -> _QwenImagePilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_QwenImageInputs]) -> _QwenImageNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_QwenImageInputs]) -> _QwenImagePtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_QwenImageInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_QwenImageInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_QwenImageInputs]) -> Any: ...
    guider: BaseGuidance; tokenizer: Qwen2Tokenizer; text_encoder: Qwen2_5_VLForConditionalGeneration
    transformer: QwenImageTransformer2DModel; scheduler: SchedulerMixin; vae: AutoencoderKLQwenImage
    default_blocks: ClassVar[Block | None]
    def encode_prompt(self, prompt: str | list[str] | None, device: str | torch.device | None=None, num_images_per_prompt: int=1, prompt_embeds: Tensor | None=None, prompt_embeds_mask: Tensor | None=None, max_sequence_length: int=1024) -> tuple[Tensor, Tensor | None]:
        ...

class _QwenImageEditInputs(_QwenImageSharedInputs, total=False):
    max_area: int; workflow: Literal['editing'] | None

class _QwenImageEditParts(_QwenImageSharedParts, total=False):
    processor: Qwen2VLProcessor | None

class _QwenImageEditPartsAndHub(_QwenImageEditParts, HubArguments, total=False): ...

class QwenImageEditPipeline(QwenImagePipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_QwenImageEditParts]) -> None: ...
    def run(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_QwenImageEditInputs]) -> Run: ...
    def stream(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_QwenImageEditInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['editing'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_QwenImageEditPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_QwenImageEditInputs]) -> _QwenImagePilOutput: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_QwenImageEditInputs]) -> _QwenImageNpOutput: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_QwenImageEditInputs]) -> _QwenImagePtOutput: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_QwenImageEditInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_QwenImageEditInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_QwenImageEditInputs]) -> Any: ...
    processor: Qwen2VLProcessor
    def encode_prompt(self, prompt: str | list[str] | None, image: Pictures | None=None, device: str | torch.device | None=None, num_images_per_prompt: int=1, prompt_embeds: Tensor | None=None, prompt_embeds_mask: Tensor | None=None, max_sequence_length: int=1024, max_area: int=1024 ** 2) -> tuple[Tensor, Tensor | None]:
        ...

class _QwenImageEditPlusInputs(_QwenImageSharedInputs, total=False):
    max_area: int; seen_area: int; workflow: Literal['editing'] | None

class _QwenImageEditPlusParts(_QwenImageSharedParts, total=False):
    processor: Qwen2VLProcessor | None

class _QwenImageEditPlusPartsAndHub(_QwenImageEditPlusParts, HubArguments, total=False): ...

class QwenImageEditPlusPipeline(QwenImageEditPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_QwenImageEditPlusParts]) -> None: ...
    def run(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_QwenImageEditPlusInputs]) -> Run: ...
    def stream(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_QwenImageEditPlusInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['editing'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_QwenImageEditPlusPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_QwenImageEditPlusInputs]) -> _QwenImagePilOutput: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_QwenImageEditPlusInputs]) -> _QwenImageNpOutput: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_QwenImageEditPlusInputs]) -> _QwenImagePtOutput: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_QwenImageEditPlusInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_QwenImageEditPlusInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] = ..., prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, true_cfg_scale: float = 4.0, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.5, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_QwenImageEditPlusInputs]) -> Any: ...
    processor: Qwen2VLProcessor
