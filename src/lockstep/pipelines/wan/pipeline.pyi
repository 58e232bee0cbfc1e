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
from lockstep.models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan
from lockstep.models.text_encoders.t5 import UMT5EncoderModel
from lockstep.models.transformers.transformer_wan import WanTransformer3DModel
from lockstep.models.vision.clip_pictures import CLIPImageProcessor
from lockstep.models.vision.clip_vision import CLIPVisionModel
from lockstep.pipelines.common.video import VideoPipeline
from lockstep.pipelines.wan.blocks import WanBlocks
from lockstep.schedulers.scheduling import SchedulerMixin
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

class _WanPilOutput(PipelineOutput): frames: list[list[Image]]; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _WanNpOutput(PipelineOutput): frames: ndarray; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _WanPtOutput(PipelineOutput): frames: torch.Tensor; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _WanSharedInputs(TypedDict, total=False):
    max_sequence_length: int; guidance_rescale: float; sigmas: torch.Tensor | Sequence[float] | None; eta: float
    attention_kwargs: dict[str, Any] | None; prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None; batch_guidance: bool; foretell: float; keep_frames: bool
    seed: int | list[int] | None; callback_on_step_end: Callable[..., dict[str, Any] | None] | None
    callback_on_step_end_tensor_inputs: list[str]; checkpoints: Mapping[str, Checkpoint]
    preview: Callable[[torch.Tensor], Any] | bool

class _WanInputs(_WanSharedInputs, total=False):
    image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    video: Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | torch.Tensor | ndarray | None
    last_image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None; strength: float
    timesteps: torch.Tensor | Sequence[int] | Sequence[float] | None; image_embeds: torch.Tensor | None
    workflow: Literal['text2video', 'image2video', 'video2video'] | None

class _WanSharedParts(TypedDict, total=False):
    guider: BaseGuidance | None; scheduler: SchedulerMixin | None; transformer_2: WanTransformer3DModel | None
    tokenizer: T5Tokenizer | None; text_encoder: UMT5EncoderModel | None; transformer: WanTransformer3DModel | None
    vae: AutoencoderKLWan | None; boundary_ratio: float | None; expand_timesteps: bool

class _WanParts(_WanSharedParts, total=False):
    image_encoder: CLIPVisionModel | None; image_processor: CLIPImageProcessor | None

class _WanPartsAndHub(_WanParts, HubArguments, total=False): ...

class WanPipeline(VideoPipeline):
    __getattr__: ClassVar[None]; __setattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_WanParts]) -> None: ...
    def run(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 480, width: int = 832, num_frames: int = 81, num_inference_steps: int = 50, guidance_scale: float = 5.0, guidance_scale_2: float | None = None, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_WanInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 480, width: int = 832, num_frames: int = 81, num_inference_steps: int = 50, guidance_scale: float = 5.0, guidance_scale_2: float | None = None, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_WanInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2video', 'image2video', 'video2video'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_WanPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 480, width: int = 832, num_frames: int = 81, num_inference_steps: int = 50, guidance_scale: float = 5.0, guidance_scale_2: float | None = None, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_WanInputs]) -> _WanPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 480, width: int = 832, num_frames: int = 81, num_inference_steps: int = 50, guidance_scale: float = 5.0, guidance_scale_2: float | None = None, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['np'] = 'np', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_WanInputs]) -> _WanNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 480, width: int = 832, num_frames: int = 81, num_inference_steps: int = 50, guidance_scale: float = 5.0, guidance_scale_2: float | None = None, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_WanInputs]) -> _WanPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 480, width: int = 832, num_frames: int = 81, num_inference_steps: int = 50, guidance_scale: float = 5.0, guidance_scale_2: float | None = None, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: Literal[False], output: None = None, **inputs: Unpack[_WanInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 480, width: int = 832, num_frames: int = 81, num_inference_steps: int = 50, guidance_scale: float = 5.0, guidance_scale_2: float | None = None, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: list[str], **inputs: Unpack[_WanInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 480, width: int = 832, num_frames: int = 81, num_inference_steps: int = 50, guidance_scale: float = 5.0, guidance_scale_2: float | None = None, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, latents: torch.Tensor | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: str, **inputs: Unpack[_WanInputs]) -> Any: ...
    guider: BaseGuidance; scheduler: SchedulerMixin; transformer_2: WanTransformer3DModel; tokenizer: T5Tokenizer
    text_encoder: UMT5EncoderModel; transformer: WanTransformer3DModel; vae: AutoencoderKLWan
    image_encoder: CLIPVisionModel; image_processor: CLIPImageProcessor; boundary_ratio: float | None
    expand_timesteps: bool
