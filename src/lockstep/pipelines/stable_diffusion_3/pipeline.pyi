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
from lockstep.models.autoencoders.autoencoder_kl import AutoencoderKL
from lockstep.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from lockstep.models.autoencoders.of_others import AutoencoderOfOthers
from lockstep.models.controlnets.controlnet_sd3 import SD3ControlNetModel
from lockstep.models.controlnets.controlnet_sd3 import SD3MultiControlNetModel
from lockstep.models.text_encoders.clip import CLIPTextModelWithProjection
from lockstep.models.text_encoders.t5 import T5EncoderModel
from lockstep.models.transformers.transformer_sd3 import SD3Transformer2DModel
from lockstep.pipelines.common.face import PicturePipeline
from lockstep.pipelines.stable_diffusion_3.blocks import StableDiffusion3Blocks
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

Texts = str | list[str] | None

class _StableDiffusion3PilOutput(PipelineOutput): images: list[Image]; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _StableDiffusion3NpOutput(PipelineOutput): images: ndarray; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _StableDiffusion3PtOutput(PipelineOutput): images: torch.Tensor; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _StableDiffusion3SharedInputs(TypedDict, total=False):
    negative_prompt: str | Sequence[str] | None; negative_prompt_2: str | Sequence[str] | None
    negative_prompt_3: str | Sequence[str] | None; clip_skip: int | None; max_sequence_length: int
    num_images_per_prompt: int; guidance_rescale: float
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None; eta: float
    generator: torch.Generator | Sequence[torch.Generator] | None; joint_attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None; negative_prompt_embeds: torch.Tensor | None
    pooled_prompt_embeds: torch.Tensor | None; negative_pooled_prompt_embeds: torch.Tensor | None
    latents: torch.Tensor | None; mu: float | None; batch_guidance: bool; foretell: float
    skip_guidance_layers: Sequence[int] | None; skip_layer_guidance_scale: float; skip_layer_guidance_start: float
    skip_layer_guidance_stop: float; seed: int | list[int] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None; callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]; preview: Callable[[torch.Tensor], Any] | bool

class _StableDiffusion3Inputs(_StableDiffusion3SharedInputs, total=False):
    image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    mask_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    control_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | None
    strength: float; padding_mask_crop: int | None; controlnet_conditioning_scale: float | Sequence[float]
    control_guidance_start: float | Sequence[float]; control_guidance_end: float | Sequence[float]
    masked_image_latents: torch.Tensor | None; controlnet_pooled_projections: torch.Tensor | None
    workflow: Literal['text2image', 'image2image', 'inpainting', 'controlnet_text2image', 'controlnet_image2image', 'controlnet_inpainting'] | None

class _StableDiffusion3SharedParts(TypedDict, total=False):
    guider: BaseGuidance | None; tokenizer: CLIPTokenizer | None; tokenizer_2: CLIPTokenizer | None
    text_encoder: CLIPTextModelWithProjection | None; text_encoder_2: CLIPTextModelWithProjection | None
    tokenizer_3: T5Tokenizer | None; text_encoder_3: T5EncoderModel | None; transformer: SD3Transformer2DModel | None
    vae: AutoencoderKL | AutoencoderTiny | AutoencoderOfOthers | None; scheduler: SchedulerMixin | None

class _StableDiffusion3Parts(_StableDiffusion3SharedParts, total=False):
    controlnet: SD3ControlNetModel | SD3MultiControlNetModel | Sequence[SD3ControlNetModel] | None

class _StableDiffusion3PartsAndHub(_StableDiffusion3Parts, HubArguments, total=False): ...

class StableDiffusion3Pipeline(PicturePipeline):
    __getattr__: ClassVar[None]; __setattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_StableDiffusion3Parts]) -> None: ...
    def run(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, prompt_3: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusion3Inputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, prompt_3: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_StableDiffusion3Inputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2image', 'image2image', 'inpainting', 'controlnet_text2image', 'controlnet_image2image', 'controlnet_inpainting'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_StableDiffusion3PartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, prompt_3: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusion3Inputs]) -> _StableDiffusion3PilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, prompt_3: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusion3Inputs]) -> _StableDiffusion3NpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, prompt_3: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_StableDiffusion3Inputs]) -> _StableDiffusion3PtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, prompt_3: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_StableDiffusion3Inputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, prompt_3: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_StableDiffusion3Inputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, prompt_2: str | Sequence[str] | None = None, prompt_3: str | Sequence[str] | None = None, height: int | None = None, width: int | None = None, num_inference_steps: int = 28, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 7.0, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_StableDiffusion3Inputs]) -> Any: ...
    guider: BaseGuidance; tokenizer: CLIPTokenizer; tokenizer_2: CLIPTokenizer
    text_encoder: CLIPTextModelWithProjection; text_encoder_2: CLIPTextModelWithProjection; tokenizer_3: T5Tokenizer
    text_encoder_3: T5EncoderModel; transformer: SD3Transformer2DModel
    controlnet: SD3ControlNetModel | SD3MultiControlNetModel
    vae: AutoencoderKL | AutoencoderTiny | AutoencoderOfOthers; scheduler: SchedulerMixin
    def encode_prompt(self, prompt: Texts, prompt_2: Texts, prompt_3: Texts, device: str | torch.device | None=None, num_images_per_prompt: int=1, do_classifier_free_guidance: bool=True, negative_prompt: Texts=None, negative_prompt_2: Texts=None, negative_prompt_3: Texts=None, prompt_embeds: Tensor | None=None, negative_prompt_embeds: Tensor | None=None, pooled_prompt_embeds: Tensor | None=None, negative_pooled_prompt_embeds: Tensor | None=None, clip_skip: int | None=None, max_sequence_length: int=256, lora_scale: float | None=None) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
        ...
