"""LTXPipeline: the face of the blocks."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from PIL.Image import Image
from torch import Tensor

from ...blocks.face import Face
from ..common.prompts import MASKS
from ..common.video import VideoPipeline, as_frames
from .blocks import LTXConditionBlocks, LTXVideoBlocks
from .decoders import unpacked

Texts = str | list[str] | None
RENAMED = {mask.replace("embeds_mask", "attention_mask"): mask for mask in MASKS}
TEXT = (
    *("prompt", "negative_prompt", "height", "width", "num_frames", "frame_rate", "num_inference_steps"),
    *("timesteps", "guidance_scale", "guidance_rescale"),
)
AFTER = ("num_videos_per_prompt", "generator", "latents")
HELD = ("conditions", "image", "video", "frame_index", "strength", "denoise_strength")


class LTXPipeline(VideoPipeline):
    """LTX-Video (arXiv:2501.00103)."""

    default_blocks = LTXVideoBlocks
    _callback_tensor_inputs: ClassVar[list[str]] = ["latents", "prompt_embeds", "negative_prompt_embeds"]
    face = Face((*TEXT, *AFTER), renamed=RENAMED)

    @torch.no_grad()
    def preview(self, latents: Tensor) -> list[Image]:
        """The first frame of latents on their way."""
        vae, state = self._autoencoder, self._current.run.state
        factor = vae.spatial_scale_factor
        rows, columns = (int(state.get(name)) // factor for name in ("height", "width"))
        frames = (int(state.get("num_frames")) - 1) // vae.temporal_scale_factor + 1
        tokens = latents[:, -frames * rows * columns :]  # what comes before them is not of the video
        first = unpacked(tokens[:, : rows * columns], (1, rows, columns))
        first = first / first.float().std().clamp(min=1.0)
        times = torch.zeros(len(first), device=first.device, dtype=vae.dtype)
        frames = vae.decode(vae.denormalize_latents(first).to(vae.dtype), times, return_dict=False)[0]
        return [video[0] for video in as_frames(frames.float(), "pil")]

    def encode_prompt(  # type: ignore[override]
        self, prompt: Texts, negative_prompt: Texts = None, do_classifier_free_guidance: bool = True,
        num_videos_per_prompt: int = 1, prompt_embeds: Tensor | None = None,
        negative_prompt_embeds: Tensor | None = None, prompt_attention_mask: Tensor | None = None,
        negative_prompt_attention_mask: Tensor | None = None, max_sequence_length: int = 128,
        device: str | torch.device | None = None, dtype: torch.dtype | None = None,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        """Embeddings and masks of the prompts, then of the negative ones, as a call takes them."""
        given: dict[str, Any] = {
            "prompt": prompt, "prompt_embeds": prompt_embeds, "prompt_attention_mask": prompt_attention_mask,
        }  # fmt: skip
        if do_classifier_free_guidance:
            given |= {
                "negative_prompt": negative_prompt, "negative_prompt_embeds": negative_prompt_embeds,
                "negative_prompt_attention_mask": negative_prompt_attention_mask,
            }  # fmt: skip
        names = ["prompt_embeds", "prompt_embeds_mask", "negative_prompt_embeds", "negative_prompt_embeds_mask"]
        found = self(
            **given, guidance_scale=3.0 if do_classifier_free_guidance else 1.0, output=names,
            max_sequence_length=max_sequence_length, num_videos_per_prompt=num_videos_per_prompt,
        )  # fmt: skip
        parts = (found[name] for name in names)
        return tuple(
            part if part is None else part.to(device, part.dtype if part.dtype == torch.bool else dtype)
            for part in parts
        )


class LTXConditionPipeline(LTXPipeline):
    """LTX-Video (arXiv:2501.00103), held to pictures and videos at any frame."""

    default_blocks = LTXConditionBlocks
    face = Face((*HELD, *TEXT, "image_cond_noise_scale", *AFTER), renamed=RENAMED)
