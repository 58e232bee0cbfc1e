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
from lockstep.models.transformers.transformer_helios import HeliosTransformer3DModel
from lockstep.pipelines.common.video import VideoPipeline
from lockstep.pipelines.helios.blocks import HeliosBlocks, HeliosPyramidBlocks
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

class _HeliosPilOutput(PipelineOutput): frames: list[list[Image]]; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _HeliosNpOutput(PipelineOutput): frames: ndarray; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
class _HeliosPtOutput(PipelineOutput): frames: torch.Tensor; __getattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake

class _HeliosSharedInputs(TypedDict, total=False):
    max_sequence_length: int; image: Image | ndarray | torch.Tensor | Sequence[Image | ndarray | torch.Tensor] | None
    video: Sequence[Image | ndarray | torch.Tensor] | Sequence[Sequence[Image | ndarray | torch.Tensor]] | torch.Tensor | ndarray | None
    guidance_rescale: float; eta: float; attention_kwargs: dict[str, Any] | None; prompt_embeds: torch.Tensor | None
    negative_prompt_embeds: torch.Tensor | None; history_sizes: Sequence[int]; num_latent_frames_per_chunk: int
    keep_first_frame: bool; image_noise_sigma_min: float; image_noise_sigma_max: float; video_noise_sigma_min: float
    video_noise_sigma_max: float; add_noise_to_video_latents: bool; add_noise_to_image_latents: bool
    batch_guidance: bool; foretell: float; keep_frames: bool; is_skip_first_chunk: bool; seed: int | list[int] | None
    workflow: Literal['text2video', 'image2video', 'video2video'] | None
    callback_on_step_end: Callable[..., dict[str, Any] | None] | None; callback_on_step_end_tensor_inputs: list[str]
    checkpoints: Mapping[str, Checkpoint]; preview: Callable[[torch.Tensor], Any] | bool

class _HeliosInputs(_HeliosSharedInputs, total=False):
    ...

class _HeliosSharedParts(TypedDict, total=False):
    guider: BaseGuidance | None; tokenizer: T5Tokenizer | None; text_encoder: UMT5EncoderModel | None
    transformer: HeliosTransformer3DModel | None; vae: AutoencoderKLWan | None; scheduler: SchedulerMixin | None

class _HeliosParts(_HeliosSharedParts, total=False):
    ...

class _HeliosPartsAndHub(_HeliosParts, HubArguments, total=False): ...

class HeliosPipeline(VideoPipeline):
    __getattr__: ClassVar[None]; __setattr__: ClassVar[None]  # type: ignore[assignment, misc]  # every name is declared: another one is a mistake
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_HeliosParts]) -> None: ...
    def run(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_HeliosInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_HeliosInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2video', 'image2video', 'video2video'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_HeliosPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, *, output_type: Literal['pil'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_HeliosInputs]) -> _HeliosPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, *, output_type: Literal['np'] = 'np', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_HeliosInputs]) -> _HeliosNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_HeliosInputs]) -> _HeliosPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: Literal[False], output: None = None, **inputs: Unpack[_HeliosInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: list[str], **inputs: Unpack[_HeliosInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, num_inference_steps: int = 50, sigmas: torch.Tensor | Sequence[float] | None = None, guidance_scale: float = 5.0, num_videos_per_prompt: int = 1, generator: torch.Generator | Sequence[torch.Generator] | None = None, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: str, **inputs: Unpack[_HeliosInputs]) -> Any: ...
    guider: BaseGuidance; tokenizer: T5Tokenizer; text_encoder: UMT5EncoderModel
    transformer: HeliosTransformer3DModel; vae: AutoencoderKLWan; scheduler: SchedulerMixin

class _HeliosPyramidInputs(_HeliosSharedInputs, total=False):
    num_videos_per_prompt: int; guidance_scale: float; generator: torch.Generator | Sequence[torch.Generator] | None
    pyramid_num_inference_steps_list: Sequence[int]; is_amplify_first_chunk: bool; use_zero_init: bool
    zero_steps: int

class _HeliosPyramidParts(_HeliosSharedParts, total=False):
    is_cfg_zero_star: bool; is_distilled: bool

class _HeliosPyramidPartsAndHub(_HeliosPyramidParts, HubArguments, total=False): ...

class HeliosPyramidPipeline(HeliosPipeline):
    def __init__(self, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., name_or_path: str | None = ..., **parts: Unpack[_HeliosPyramidParts]) -> None: ...
    def run(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_HeliosPyramidInputs]) -> Run: ...
    def stream(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: str | list[str] | None = None, **inputs: Unpack[_HeliosPyramidInputs]) -> Iterator[Event]: ...
    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, *, blocks: ModularPipelineBlocks | type[ModularPipelineBlocks] | None = ..., given: Iterable[str] = ..., load: bool = ..., workflow: Literal['text2video', 'image2video', 'video2video'] | None = ..., dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., torch_dtype: torch.dtype | str | dict[str, torch.dtype] | None = ..., device: torch.device | str | None = ..., variant: str | None = ..., **partsAndHub: Unpack[_HeliosPyramidPartsAndHub]) -> Self: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, *, output_type: Literal['pil'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_HeliosPyramidInputs]) -> _HeliosPilOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, *, output_type: Literal['np'] = 'np', return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_HeliosPyramidInputs]) -> _HeliosNpOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, *, output_type: Literal['pt', 'latent'], return_dict: Literal[True] = True, output: None = None, **inputs: Unpack[_HeliosPyramidInputs]) -> _HeliosPtOutput: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: Literal[False], output: None = None, **inputs: Unpack[_HeliosPyramidInputs]) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: list[str], **inputs: Unpack[_HeliosPyramidInputs]) -> dict[str, Any]: ...
    @overload
    def __call__(self, prompt: str | Sequence[str] | None = None, negative_prompt: str | Sequence[str] | None = None, height: int = 384, width: int = 640, num_frames: int = 132, *, output_type: Literal['pil', 'np', 'pt', 'latent'] = 'np', return_dict: bool = True, output: str, **inputs: Unpack[_HeliosPyramidInputs]) -> Any: ...
    is_cfg_zero_star: bool; is_distilled: bool
    @property
    def folder_defaults(self) -> dict[str, Any]:
        ...
