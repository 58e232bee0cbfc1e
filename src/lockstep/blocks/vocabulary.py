"""The one list of values that blocks share: what each name means, once.

A block that lists `"prompt"` means the entry here; only what is a block's own alone is described inside the block.
`range` holds the limits that every value of that name has to keep, whichever pipeline reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image

Picture = Image.Image | np.ndarray | torch.Tensor
Pictures = Picture | list[Picture]
PerSample = torch.Generator | list[torch.Generator]
DENOISER = "denoiser_input_fields"  # the group of values that condition the denoiser


@dataclass(frozen=True)
class Value:
    """One name: its type, the default where it is an input, what it means, its limits, its media kind."""

    type_hint: Any
    description: str
    default: Any = None
    required: bool = False
    group: str | None = None
    range: Mapping[str, float] = field(default_factory=dict)
    made_as: Any = None  # its type once a block has made it, where a person may give it in other forms too
    media: str | None = None  # "picture", "video": a file can stand for it (see lockstep.media)


POSITIVE = {"minimum": 1}
FRACTION = {"minimum": 0.0, "maximum": 1.0}

# What a person gives.
PROMPTS = {
    "prompt": Value(str | list[str], "What the picture has to show; a list makes one row per prompt.", required=True),
    "prompt_2": Value(str | list[str], "Prompt for the second text encoder; the first one's where it is left out."),
    "prompt_3": Value(str | list[str], "Prompt for the third text encoder; the first one's where it is left out."),
    "negative_prompt": Value(str | list[str], "What the picture must not show; used when guidance is on."),
    "negative_prompt_2": Value(str | list[str], "Negative prompt for the second text encoder."),
    "negative_prompt_3": Value(str | list[str], "Negative prompt for the third text encoder."),
    "clip_skip": Value(int, "How many of the text encoder's last layers to leave out.", range={"minimum": 0}),
    "max_sequence_length": Value(int, "Longest prompt in tokens.", default=512, range=POSITIVE),
}
PICTURES = {
    "image": Value(Pictures, "The picture to start from.", media="picture"),
    "mask_image": Value(
        Pictures, "White where the picture is to be painted anew, black where it stays.", media="picture"
    ),
    "control_image": Value(
        Pictures | list[list[Picture]],
        "The picture that steers the ControlNet (edges, depth, pose …); for several nets a list with one for each.",
        media="picture",
    ),
    "video": Value(
        list[Picture] | list[list[Picture]] | torch.Tensor | np.ndarray, "The frames to start from.", media="video"
    ),
    "last_image": Value(Pictures, "The picture that the video ends with.", media="picture"),
    "strength": Value(
        float, "How much of the start picture is replaced: 0 keeps it, 1 ignores it.", 0.8, range=FRACTION
    ),
    "padding_mask_crop": Value(
        int, "Crop to the mask with this margin in pixels before painting.", range={"minimum": 0}
    ),
    "controlnet_conditioning_scale": Value(
        float | list[float], "Weight of the ControlNet; a list gives each net its own.", default=1.0
    ),
    "control_guidance_start": Value(
        float | list[float],
        "Part of the steps at which the ControlNet begins; a list for several.",
        0.0,
        range=FRACTION,
    ),
    "control_guidance_end": Value(
        float | list[float], "Part of the steps at which the ControlNet ends; a list for several.", 1.0, range=FRACTION
    ),
    "guess_mode": Value(bool, "Let the ControlNet see the picture alone, without the prompt.", default=False),
    "adapter_image": Value(
        Pictures | list[list[Picture]],
        "The picture that steers the T2I-Adapter; for several adapters a list with one for each.",
        media="picture",
    ),
    "adapter_conditioning_scale": Value(
        float | list[float], "Weight of the T2I-Adapter; a list gives each one its own.", default=1.0
    ),
    "adapter_conditioning_factor": Value(
        float, "Part of the steps, from the first on, in which the T2I-Adapter acts.", 1.0, range=FRACTION
    ),
    "ip_adapter_image": Value(
        Pictures | list[Picture | list[Picture]],
        "The picture that an IP-Adapter takes its style or content from; for several adapters a list with one, or a "
        "list of several, for each.",
        media="picture",
    ),
}
SIZES = {
    "height": Value(int, "Height of the picture in pixels.", range=POSITIVE),
    "width": Value(int, "Width of the picture in pixels.", range=POSITIVE),
    "num_frames": Value(int, "Number of frames of the video.", range=POSITIVE),
    "frame_rate": Value(float, "Frames per second of the video.", range=POSITIVE),
    "num_images_per_prompt": Value(int, "Pictures to make for each prompt.", default=1, range=POSITIVE),
    "num_videos_per_prompt": Value(int, "Videos to make for each prompt.", default=1, range=POSITIVE),
    "original_size": Value(
        tuple[int, int], "Size (height, width) that the model is told the picture had before cropping."
    ),
    "target_size": Value(tuple[int, int], "Size (height, width) that the model is told the picture has."),
    "crops_coords_top_left": Value(tuple[int, int], "Where the model is told the picture was cropped.", default=(0, 0)),
    "negative_original_size": Value(tuple[int, int], "`original_size` of the unconditional prediction."),
    "negative_target_size": Value(tuple[int, int], "`target_size` of the unconditional prediction."),
    "negative_crops_coords_top_left": Value(
        tuple[int, int], "`crops_coords_top_left` of the unconditional prediction.", (0, 0)
    ),
    "aesthetic_score": Value(float, "Aesthetic score that a refiner is told.", default=6.0),
    "negative_aesthetic_score": Value(float, "Aesthetic score of the unconditional prediction.", default=2.5),
}
SAMPLING = {
    "num_inference_steps": Value(int, "Number of denoising steps.", default=50, range=POSITIVE),
    "guidance_scale": Value(
        float, "How strongly the prediction follows the prompt; 1 is without guidance.", range={"minimum": 0.0}
    ),
    "guidance_scale_2": Value(
        float,
        "The same for a second denoiser that makes the last steps; the first one's where it is left out.",
        range={"minimum": 0.0},
    ),
    "true_cfg_scale": Value(
        float,
        "Scale of guidance by a negative prompt, beside the one that the model was taught; 1 is without it.",
        default=1.0,
        range={"minimum": 0.0},
    ),
    "guidance_rescale": Value(
        float, "How much of the guided prediction's spread is undone (arXiv:2305.08891).", 0.0, range=FRACTION
    ),
    "timesteps": Value(
        torch.Tensor | list[int] | list[float],
        "The timesteps to run, high to low, in place of the scheduler's own.",
        made_as=torch.Tensor,
    ),
    "sigmas": Value(
        torch.Tensor | list[float], "The noise levels to run, high to low, in place of the scheduler's own."
    ),
    "eta": Value(float, "Share of fresh noise in DDIM's step (arXiv:2010.02502).", default=0.0, range=FRACTION),
    "denoising_start": Value(float, "Part of the way at which denoising begins.", range=FRACTION),
    "denoising_end": Value(float, "Part of the way at which denoising ends.", range=FRACTION),
    "generator": Value(PerSample, "Source of the noise: one for the batch, or a list with one per sample."),
    "seed": Value(
        int | list[int], "Sample k of the batch takes its noise from seed + k; a list gives each sample its own."
    ),
    "cross_attention_kwargs": Value(dict[str, Any], "Further arguments for the attention processors."),
    "joint_attention_kwargs": Value(dict[str, Any], "Further arguments for the attention processors."),
    "attention_kwargs": Value(dict[str, Any], "Further arguments for the attention processors."),
    "output_type": Value(Literal["pil", "np", "pt", "latent"], "Form of the result.", default="pil"),
}

# What blocks make for one another (and what a person may give ready-made where a block takes it as an input too).
CONDITIONS = {
    "prompt_embeds": Value(torch.Tensor, "Text encoding, one row per picture.", required=True, group=DENOISER),
    "negative_prompt_embeds": Value(
        torch.Tensor, "Encoding of the negative prompt, one row per picture.", group=DENOISER
    ),
    "pooled_prompt_embeds": Value(torch.Tensor, "One vector per prompt.", group=DENOISER),
    "negative_pooled_prompt_embeds": Value(torch.Tensor, "One vector per negative prompt.", group=DENOISER),
    "prompt_embeds_mask": Value(torch.Tensor, "Which tokens of the encoding count.", group=DENOISER),
    "negative_prompt_embeds_mask": Value(torch.Tensor, "Which tokens of the negative encoding count.", group=DENOISER),
    "add_time_ids": Value(torch.Tensor, "Sizes and crop as the model is told them.", group=DENOISER),
    "negative_add_time_ids": Value(torch.Tensor, "Sizes and crop of the unconditional prediction.", group=DENOISER),
    "timestep_cond": Value(torch.Tensor, "Embedding of the guidance scale (arXiv:2310.04378).", group=DENOISER),
    "ip_adapter_image_embeds": Value(
        list[torch.Tensor],
        "Ready encodings of the pictures of each IP-Adapter; with guidance, the rows without picture come first.",
        group=DENOISER,
    ),
    "image_embeds": Value(torch.Tensor, "Encoding of a picture.", group=DENOISER),
    "batch_size": Value(int, "Number of prompts.", default=1, range=POSITIVE),
    "dtype": Value(torch.dtype, "The dtype that the denoiser computes in."),
}
LATENTS = {
    "latents": Value(torch.Tensor, "The picture as the denoiser sees it; noise at first."),
    "noise": Value(torch.Tensor, "The noise that was added to the start picture."),
    "img_ids": Value(torch.Tensor, "The place of each token of the picture: index, row, column."),
    "image_latents": Value(torch.Tensor, "The start picture, encoded.", required=True),
    "video_latents": Value(torch.Tensor, "The start video, encoded."),
    "condition": Value(torch.Tensor, "What is given of the video, encoded, as the denoiser reads it beside the noise."),
    "first_frame_mask": Value(torch.Tensor, "Zero where the first frame of the video is given."),
    "boundary_timestep": Value(float, "The timestep below which the second denoiser takes over."),
    "mask": Value(torch.Tensor, "The mask at the size of the latents."),
    "masked_image": Value(torch.Tensor, "The start picture with the masked part blanked."),
    "masked_image_latents": Value(torch.Tensor, "The start picture with the masked part blanked, encoded."),
    "model_input": Value(torch.Tensor, "The latents as the denoiser wants them at this step."),
    "scaled_latents": Value(torch.Tensor, "The latents on the scale that the denoiser was trained on."),
    "noise_pred": Value(torch.Tensor, "What the denoiser predicts, guidance included."),
    "control_residuals": Value(tuple, "What the ControlNet adds to the denoiser's skips."),
}
RESULTS = {
    "images": Value(list[Image.Image] | np.ndarray | torch.Tensor, "The pictures.", media="picture"),
    "frames": Value(list[list[Image.Image]] | np.ndarray | torch.Tensor, "The videos, frame by frame.", media="video"),
    "videos": Value(list[list[Image.Image]] | np.ndarray | torch.Tensor, "The videos.", media="video"),
    "audio": Value(np.ndarray | torch.Tensor, "The sound."),
    "nsfw_content_detected": Value(list[bool], "Which pictures a safety checker blanked."),
}
MEDIA = ("images", "frames", "videos", "audio")

VOCABULARY: dict[str, Value] = PROMPTS | PICTURES | SIZES | SAMPLING | CONDITIONS | LATENTS | RESULTS


def media_of(name: str) -> str | None:
    """The media kind of a value, by its name."""
    return VOCABULARY[name].media if name in VOCABULARY else None
