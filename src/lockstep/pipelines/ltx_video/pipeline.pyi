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
from lockstep.models.autoencoders.autoencoder_kl_ltx_video import AutoencoderKLLTXVideo
from lockstep.models.text_encoders.t5 import T5EncoderModel
from lockstep.models.transformers.transformer_ltx_video import LTXVideoTransformer3DModel
from lockstep.pipelines.common.prompts import MASKS
from lockstep.pipelines.common.video import VideoPipeline, as_frames
from lockstep.pipelines.ltx_video.blocks import LTXConditionBlocks, LTXVideoBlocks
from lockstep.pipelines.ltx_video.conditions import LTXVideoCondition
from lockstep.pipelines.ltx_video.decoders import unpacked
from lockstep.schedulers.scheduling import SchedulerMixin
from lockstep.tokenizers.t5 import T5Tokenizer
from numpy import ndarray
from pathlib import Path
from torch import Tensor
from typing import Any
from typing import Any, ClassVar
from typing import ClassVar
from typing import Literal
from typing import Self
from typing import TypedDict
from typing import Unpack
from typing import overload
import torch

Texts = str | list[str] | None

class _LTXPilOutput(PipelineOutput): frames: list[list[Image]]; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _LTXNpOutput(PipelineOutput): frames: ndarray; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _LTXPtOutput(PipelineOutput): frames: torch.Tensor; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _LTXSharedInputs(TypedDict, total=False):
    sigmas: torch.Tensor | Sequence[float] | None; eta: float; attention_kwargs: dict[str, Any] | None
    prompt_embeds: torch.Tensor | None; negative_prompt_embeds: torch.Tensor | None
    prompt_attention_mask: torch.Tensor | None; negative_prompt_attention_mask: torch.Tensor | None
    batch_guidance: bool; foretell: float; keep_frames: bool; decode_timestep: float | Sequence[float]
    decode_noise_scale: float | Sequence[float] | None; seed: int | list[int] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None; callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]; preview: Callable[[torch.Tensor], Any] | bool

class _LTXInputs(_LTXSharedInputs, total=False):
    max_sequence_length: int; image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    mu: float | None; workflow: Literal['text2video', 'image2video'] | None

class _LTXSharedParts(TypedDict, total=False):
    guider: BaseGuidance | None; tokenizer: T5Tokenizer | None; text_encoder: T5EncoderModel | None
    transformer: LTXVideoTransformer3DModel | None; scheduler: SchedulerMixin | None
    vae: AutoencoderKLLTXVideo | None

class _LTXParts(_LTXSharedParts, total=False):
    ...

class _LTXPartsAndHub(_LTXParts, HubArguments, total=False): ...

class LTXPipeline(VideoPipeline):
    __getattr__: ClassVar[None]; __setattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_LTXParts]) -> None: ...
    def run(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LTXInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LTXInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2video', 'image2video'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_LTXPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LTXInputs]) -> _LTXPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LTXInputs]) -> _LTXNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LTXInputs]) -> _LTXPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_LTXInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_LTXInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_LTXInputs]) -> Any: ...
    guider: BaseGuidance; tokenizer: T5Tokenizer; text_encoder: T5EncoderModel
    transformer: LTXVideoTransformer3DModel; scheduler: SchedulerMixin; vae: AutoencoderKLLTXVideo
    @torch.no_grad()
    def preview(self, latents: Tensor) -> list[Image]:
        ...
    def encode_prompt(self, prompt: Texts, negative_prompt: Texts=None, do_classifier_free_guidance: bool=True, num_videos_per_prompt: int=1, prompt_embeds: Tensor | None=None, negative_prompt_embeds: Tensor | None=None, prompt_attention_mask: Tensor | None=None, negative_prompt_attention_mask: Tensor | None=None, max_sequence_length: int=128, device: str | torch.device | None=None, dtype: torch.dtype | None=None) -> tuple[Tensor | None, ...]:
        ...

class _LTXConditionInputs(_LTXSharedInputs, total=False):
    max_sequence_length: int; workflow: Literal['condition2video'] | None

class _LTXConditionParts(_LTXSharedParts, total=False):
    ...

class _LTXConditionPartsAndHub(_LTXConditionParts, HubArguments, total=False): ...

class LTXConditionPipeline(LTXPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_LTXConditionParts]) -> None: ...
    def run(self, conditions: LTXVideoCondition | Sequence[LTXVideoCondition] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, video: Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | torch.Tensor | ndarray | None = None, frame_index: int | Sequence[int] = 0, strength: float | Sequence[float] = 1.0, denoise_strength: float = 1.0, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, image_cond_noise_scale: float = 0.15, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LTXConditionInputs]) -> Run: ...
    def stream(self, conditions: LTXVideoCondition | Sequence[LTXVideoCondition] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, video: Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | torch.Tensor | ndarray | None = None, frame_index: int | Sequence[int] = 0, strength: float | Sequence[float] = 1.0, denoise_strength: float = 1.0, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, image_cond_noise_scale: float = 0.15, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_LTXConditionInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['condition2video'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_LTXConditionPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, conditions: LTXVideoCondition | Sequence[LTXVideoCondition] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, video: Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | torch.Tensor | ndarray | None = None, frame_index: int | Sequence[int] = 0, strength: float | Sequence[float] = 1.0, denoise_strength: float = 1.0, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, image_cond_noise_scale: float = 0.15, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil'] = 'pil', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LTXConditionInputs]) -> _LTXPilOutput: ...
    @overload
    def __call__(self, conditions: LTXVideoCondition | Sequence[LTXVideoCondition] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, video: Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | torch.Tensor | ndarray | None = None, frame_index: int | Sequence[int] = 0, strength: float | Sequence[float] = 1.0, denoise_strength: float = 1.0, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, image_cond_noise_scale: float = 0.15, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['np'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LTXConditionInputs]) -> _LTXNpOutput: ...
    @overload
    def __call__(self, conditions: LTXVideoCondition | Sequence[LTXVideoCondition] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, video: Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | torch.Tensor | ndarray | None = None, frame_index: int | Sequence[int] = 0, strength: float | Sequence[float] = 1.0, denoise_strength: float = 1.0, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, image_cond_noise_scale: float = 0.15, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_LTXConditionInputs]) -> _LTXPtOutput: ...
    @overload
    def __call__(self, conditions: LTXVideoCondition | Sequence[LTXVideoCondition] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, video: Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | torch.Tensor | ndarray | None = None, frame_index: int | Sequence[int] = 0, strength: float | Sequence[float] = 1.0, denoise_strength: float = 1.0, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, image_cond_noise_scale: float = 0.15, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: Literal[False], output: None = None, **inputs: Unpack[_LTXConditionInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, conditions: LTXVideoCondition | Sequence[LTXVideoCondition] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, video: Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | torch.Tensor | ndarray | None = None, frame_index: int | Sequence[int] = 0, strength: float | Sequence[float] = 1.0, denoise_strength: float = 1.0, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, image_cond_noise_scale: float = 0.15, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: list[str], **inputs: Unpack[_LTXConditionInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, conditions: LTXVideoCondition | Sequence[LTXVideoCondition] | None = None, image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None = None, video: Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | torch.Tensor | ndarray | None = None, frame_index: int | Sequence[int] = 0, strength: float | Sequence[float] = 1.0, denoise_strength: float = 1.0, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 512, width: int = 704, num_frames: int = 161, frame_rate: int | float = 25, num_inference_steps: int = 50, timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None = None, guidance_scale: float = 3.0, guidance_rescale: float = 0.0, image_cond_noise_scale: float = 0.15, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'pil', return_dict: bool = True, output: str, **inputs: Unpack[_LTXConditionInputs]) -> Any: ...
