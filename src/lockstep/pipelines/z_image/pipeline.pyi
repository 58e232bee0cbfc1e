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
from lockstep.models.text_encoders.qwen3 import Qwen3Model
from lockstep.models.transformers.transformer_z_image import ZImageTransformer2DModel
from lockstep.pipelines.common.face import PicturePipeline
from lockstep.pipelines.common.masked_text import cut
from lockstep.pipelines.z_image.blocks import ZImageBlocks
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

Texts = str | list[str] | None

class _ZImagePilOutput(PipelineOutput): images: list[Image]; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _ZImageNpOutput(PipelineOutput): images: ndarray; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _ZImagePtOutput(PipelineOutput): images: torch.Tensor; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _ZImageSharedInputs(TypedDict, total=False):
    max_sequence_length: int; guidance_rescale: float
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None; eta: float
    generator: torch.Generator | Sequence[torch.Generator] | None; joint_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | Sequence[torch.Tensor] | None
    negative_prompt_embeds: torch.Tensor | Sequence[torch.Tensor] | None; prompt_embeds_mask: torch.Tensor | None
    negative_prompt_embeds_mask: torch.Tensor | None; latents: torch.Tensor | None; mu: float | None
    batch_guidance: bool; foretell: float; seed: int | list[int] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None; callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]; preview: Callable[[torch.Tensor], Any] | bool

class _ZImageInputs(_ZImageSharedInputs, total=False):
    image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    strength: float | None; padding_mask_crop: int | None; masked_image_latents: torch.Tensor | None
    workflow: Literal['text2image', 'image2image', 'inpainting'] | None

class _ZImageSharedParts(TypedDict, total=False):
    guider: BaseGuidance | None; tokenizer: Qwen2Tokenizer | None; text_encoder: Qwen3Model | None
    transformer: ZImageTransformer2DModel | None; vae: AutoencoderKL | AutoencoderTiny | AutoencoderOfOthers | None
    scheduler: SchedulerMixin | None

class _ZImageParts(_ZImageSharedParts, total=False):
    ...

class _ZImagePartsAndHub(_ZImageParts, HubArguments, total=False): ...

class ZImagePipeline(PicturePipeline):
    __getattr__: ClassVar[None]; __setattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_ZImageParts]) -> None: ...
    def run(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, cfg_normalization: bool | float = False, cfg_truncation: float = 1.0, negative_prompt: str | Sequence[str] | None = None, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_ZImageInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, cfg_normalization: bool | float = False, cfg_truncation: float = 1.0, negative_prompt: str | Sequence[str] | None = None, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_ZImageInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2image', 'image2image', 'inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_ZImagePartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, cfg_normalization: bool | float = False, cfg_truncation: float = 1.0, negative_prompt: str | Sequence[str] | None = None, num_images_per_prompt: int = 1, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_ZImageInputs]) -> _ZImagePilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, cfg_normalization: bool | float = False, cfg_truncation: float = 1.0, negative_prompt: str | Sequence[str] | None = None, num_images_per_prompt: int = 1, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_ZImageInputs]) -> _ZImageNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, cfg_normalization: bool | float = False, cfg_truncation: float = 1.0, negative_prompt: str | Sequence[str] | None = None, num_images_per_prompt: int = 1, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_ZImageInputs]) -> _ZImagePtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, cfg_normalization: bool | float = False, cfg_truncation: float = 1.0, negative_prompt: str | Sequence[str] | None = None, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_ZImageInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, cfg_normalization: bool | float = False, cfg_truncation: float = 1.0, negative_prompt: str | Sequence[str] | None = None, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_ZImageInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, cfg_normalization: bool | float = False, cfg_truncation: float = 1.0, negative_prompt: str | Sequence[str] | None = None, num_images_per_prompt: int = 1, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_ZImageInputs]) -> Any: ...
    guider: BaseGuidance; tokenizer: Qwen2Tokenizer; text_encoder: Qwen3Model; transformer: ZImageTransformer2DModel
    vae: AutoencoderKL | AutoencoderTiny | AutoencoderOfOthers; scheduler: SchedulerMixin
    default_blocks: ClassVar[Block | None]
    def encode_prompt(self, prompt: Texts, device: str | torch.device | None=None, do_classifier_free_guidance: bool=True, negative_prompt: Texts=None, prompt_embeds: list[Tensor] | None=None, negative_prompt_embeds: list[Tensor] | None=None, max_sequence_length: int=512) -> tuple[list[Tensor], list[Tensor]]:
        ...
