"""The published names of pipelines: data, from which classes, signatures, stubs and tests are made.

A row says over which family's blocks a name stands and which inputs it is always given: these decide the branches, and
what the other branches read is no argument of it. `by_position` is the published order of the first arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DECIDING = ("image", "mask_image", "control_image", "adapter_image", "video")  # the inputs that tell workflows apart
TASKS = {"text2image": (), "image2image": ("image",), "inpainting": ("image", "mask_image")}
VIDEO_TASKS = {"text2video": (), "image2video": ("image",), "video2video": ("video",)}


@dataclass(frozen=True)
class Row:
    """One published name."""

    family: str  # the blocks, by their public name
    pipeline: str  # the class that it is a narrower form of
    task: str
    by_position: tuple[str, ...]
    steered: bool = False  # by a ControlNet
    adapted: bool = False  # by a T2I-Adapter
    renamed: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    corrections: tuple[str, ...] = ()  # of old configs, by their names in pipelines/corrections.py
    tells: tuple[str, ...] = ()  # values that its callbacks may ask for, where they are not the family's

    @property
    def given(self) -> tuple[str, ...]:
        """The inputs that it is always given."""
        pictures = {"control_image": self.steered, "adapter_image": self.adapted}
        task = (TASKS | VIDEO_TASKS).get(self.task, ("image",))
        return (*task, *(name for name, wanted in pictures.items() if wanted))

    @property
    def workflow(self) -> str:
        return f"controlnet_{self.task}" if self.steered else f"adapter_{self.task}" if self.adapted else self.task


def _row(family: str, task: str, by_position: str, **more: Any) -> Row:
    blocks, pipeline = FAMILIES[family]
    return Row(blocks, pipeline, task, tuple(by_position.split()), **more)


BLOCKS = {  # of each pipeline, by the names that the table below has for them
    "StableDiffusionPipeline": {
        "sd": "StableDiffusionBlocks",
        "lcm": "LatentConsistencyBlocks",
        # models that were made for one task: each starts from a picture
        "edit": "InstructPix2PixBlocks",
        "upscale": "UpscaleBlocks",
        "latent_upscale": "LatentUpscaleBlocks",
        "depth": "DepthToImageBlocks",
    },
    "StableDiffusionXLPipeline": {"xl": "StableDiffusionXLBlocks", "edit_xl": "InstructPix2PixXLBlocks"},
    "StableDiffusion3Pipeline": {"sd3": "StableDiffusion3Blocks"},
    "FluxPipeline": {"flux": "FluxBlocks"},
    "FluxKontextPipeline": {"kontext": "FluxKontextBlocks"},
    "WanPipeline": {"wan": "WanBlocks"},
    "QwenImagePipeline": {"qwen_image": "QwenImageBlocks"},
    "QwenImageEditPipeline": {"qwen_edit": "QwenImageEditBlocks"},
    "QwenImageEditPlusPipeline": {"qwen_edit_plus": "QwenImageEditPlusBlocks"},
    "ZImagePipeline": {"z_image": "ZImageBlocks"},
    "LTXPipeline": {"ltx": "LTXVideoBlocks"},
}
FAMILIES = {name: (blocks, pipeline) for pipeline, table in BLOCKS.items() for name, blocks in table.items()}
CONTROL_IS_IMAGE, ADAPTER_IS_IMAGE = {"image": "control_image"}, {"image": "adapter_image"}
CONSISTENCY = ("latents", "denoised", "prompt_embeds", "w_embedding")
FEW_STEPS = {"num_inference_steps": 4, "guidance_scale": 8.5}
TO_ENLARGE = {"num_inference_steps": 75, "guidance_scale": 9.0}
GRID = "num_inference_steps timesteps sigmas"
FLUX_TEXT = "prompt prompt_2 negative_prompt negative_prompt_2 true_cfg_scale"
SIGMAS = "num_inference_steps sigmas"
CONTROL_END = "control_guidance_start control_guidance_end control_mode controlnet_conditioning_scale"
FLUX_GUIDED = {"num_inference_steps": 28, "guidance_scale": 7.0}
FLUX_END = f"{SIGMAS} guidance_scale num_images_per_prompt"
ARRAYS = {"output_type": "np"}
QWEN_TEXT = "prompt negative_prompt true_cfg_scale"
TOKENS_THAT_COUNT = {  # argument -> input
    "prompt_attention_mask": "prompt_embeds_mask",
    "negative_prompt_attention_mask": "negative_prompt_embeds_mask",
}
Z_IMAGE_END = f"strength height width {SIGMAS} guidance_scale cfg_normalization cfg_truncation negative_prompt"

PUBLISHED: dict[str, Row] = {
    "StableDiffusionImg2ImgPipeline": _row(
        "sd",
        "image2image",
        f"prompt image strength {GRID} guidance_scale negative_prompt",
        corrections=("STEPS_OFFSET", "NO_CLIPPING"),
    ),
    "StableDiffusionInpaintPipeline": _row(
        "sd",
        "inpainting",
        f"prompt image mask_image masked_image_latents height width padding_mask_crop strength {GRID} guidance_scale",
        corrections=("STEPS_OFFSET", "NO_RUNGE_KUTTA"),
    ),
    "StableDiffusionControlNetPipeline": _row(
        "sd",
        "text2image",
        f"prompt image height width {GRID} guidance_scale negative_prompt",
        steered=True,
        renamed=CONTROL_IS_IMAGE,
    ),
    "StableDiffusionControlNetImg2ImgPipeline": _row(
        "sd",
        "image2image",
        "prompt image control_image height width strength num_inference_steps guidance_scale negative_prompt",
        steered=True,
        defaults={"controlnet_conditioning_scale": 0.8},
    ),
    "StableDiffusionControlNetInpaintPipeline": _row(
        "sd",
        "inpainting",
        "prompt image mask_image control_image height width padding_mask_crop strength num_inference_steps "
        "guidance_scale negative_prompt",
        steered=True,
        defaults={"controlnet_conditioning_scale": 0.5},
    ),
    "LatentConsistencyModelPipeline": _row(
        "lcm",
        "text2image",
        "prompt height width num_inference_steps original_inference_steps timesteps guidance_scale",
        defaults=FEW_STEPS,
        tells=CONSISTENCY,
    ),
    "LatentConsistencyModelImg2ImgPipeline": _row(
        "lcm",
        "image2image",
        "prompt image num_inference_steps strength original_inference_steps timesteps guidance_scale",
        defaults=FEW_STEPS,
        tells=CONSISTENCY,
    ),
    "StableDiffusionXLImg2ImgPipeline": _row(
        "xl", "image2image", f"prompt prompt_2 image strength {GRID} denoising_start denoising_end guidance_scale"
    ),
    "StableDiffusionXLInpaintPipeline": _row(
        "xl",
        "inpainting",
        "prompt prompt_2 image mask_image masked_image_latents height width padding_mask_crop strength "
        f"{GRID} denoising_start denoising_end guidance_scale",
        defaults={"guidance_scale": 7.5},
    ),
    "StableDiffusionXLControlNetPipeline": _row(
        "xl",
        "text2image",
        f"prompt prompt_2 image height width {GRID} denoising_end guidance_scale",
        steered=True,
        renamed=CONTROL_IS_IMAGE,
    ),
    "StableDiffusionXLControlNetImg2ImgPipeline": _row(
        "xl",
        "image2image",
        "prompt prompt_2 image control_image height width strength num_inference_steps guidance_scale",
        steered=True,
        defaults={"strength": 0.8, "controlnet_conditioning_scale": 0.8},
    ),
    "StableDiffusionXLControlNetInpaintPipeline": _row(
        "xl",
        "inpainting",
        "prompt prompt_2 image mask_image control_image height width padding_mask_crop strength num_inference_steps "
        "denoising_start denoising_end guidance_scale",
        steered=True,
    ),
    "StableDiffusionAdapterPipeline": _row(
        "sd",
        "text2image",
        f"prompt image height width {GRID} guidance_scale negative_prompt",
        adapted=True,
        renamed=ADAPTER_IS_IMAGE,
    ),
    "StableDiffusionXLAdapterPipeline": _row(
        "xl",
        "text2image",
        f"prompt prompt_2 image height width {GRID} denoising_end guidance_scale",
        adapted=True,
        renamed=ADAPTER_IS_IMAGE,
    ),
    "StableDiffusionInstructPix2PixPipeline": _row(
        "edit",
        "editing",
        "prompt image num_inference_steps guidance_scale image_guidance_scale negative_prompt",
        defaults={"num_inference_steps": 100},
    ),
    "StableDiffusionXLInstructPix2PixPipeline": _row(
        "edit_xl",
        "editing",
        "prompt prompt_2 image height width num_inference_steps denoising_end guidance_scale image_guidance_scale "
        "negative_prompt negative_prompt_2",
        defaults={"num_inference_steps": 100, "guidance_scale": 5.0},
    ),
    "StableDiffusionUpscalePipeline": _row(
        "upscale",
        "upscaling",
        "prompt image num_inference_steps guidance_scale noise_level negative_prompt",
        defaults=TO_ENLARGE,
        corrections=("SCALE_OF_LARGE_LATENTS",),
    ),
    "StableDiffusionLatentUpscalePipeline": _row(
        "latent_upscale",
        "upscaling",
        "prompt image num_inference_steps guidance_scale negative_prompt",
        defaults=TO_ENLARGE,
    ),
    "StableDiffusionDepth2ImgPipeline": _row(
        "depth",
        "depth2image",
        "prompt image depth_map strength num_inference_steps guidance_scale negative_prompt",
    ),
    "StableDiffusion3Img2ImgPipeline": _row(
        "sd3", "image2image", f"prompt prompt_2 prompt_3 height width image strength {SIGMAS} guidance_scale"
    ),
    "StableDiffusion3InpaintPipeline": _row(
        "sd3",
        "inpainting",
        "prompt prompt_2 prompt_3 image mask_image masked_image_latents height width padding_mask_crop strength "
        f"{SIGMAS} guidance_scale",
    ),
    "StableDiffusion3ControlNetPipeline": _row(
        "sd3",
        "text2image",
        f"prompt prompt_2 prompt_3 height width {SIGMAS} guidance_scale control_guidance_start control_guidance_end "
        "control_image controlnet_conditioning_scale controlnet_pooled_projections",
        steered=True,
        defaults={"num_inference_steps": 28},
    ),
    "StableDiffusion3ControlNetInpaintingPipeline": _row(
        "sd3",
        "text2image",
        f"prompt prompt_2 prompt_3 height width {SIGMAS} guidance_scale control_guidance_start control_guidance_end "
        "control_image control_mask controlnet_conditioning_scale controlnet_pooled_projections",
        steered=True,
        defaults={"num_inference_steps": 28},
    ),
    "FluxImg2ImgPipeline": _row(
        "flux",
        "image2image",
        f"{FLUX_TEXT} image height width strength {FLUX_END}",
        defaults=FLUX_GUIDED,
    ),
    "FluxInpaintPipeline": _row(
        "flux",
        "inpainting",
        f"{FLUX_TEXT} image mask_image masked_image_latents height width padding_mask_crop strength {FLUX_END}",
        defaults=FLUX_GUIDED,
    ),
    "FluxFillPipeline": _row(
        "flux",
        "inpainting",
        f"prompt prompt_2 image mask_image masked_image_latents height width strength {FLUX_END}",
        defaults={"num_inference_steps": 50, "guidance_scale": 30.0, "strength": 1.0},
    ),
    "WanImageToVideoPipeline": _row(
        "wan",
        "image2video",
        "image prompt negative_prompt height width num_frames num_inference_steps guidance_scale guidance_scale_2",
        defaults=ARRAYS,
    ),
    "WanVideoToVideoPipeline": _row(
        "wan",
        "video2video",
        "video prompt negative_prompt height width num_inference_steps timesteps guidance_scale strength",
        defaults=ARRAYS,
    ),
    "QwenImageImg2ImgPipeline": _row(
        "qwen_image", "image2image", f"{QWEN_TEXT} image height width strength {FLUX_END}"
    ),
    "QwenImageInpaintPipeline": _row(
        "qwen_image",
        "inpainting",
        f"{QWEN_TEXT} image mask_image masked_image_latents height width padding_mask_crop strength {FLUX_END}",
    ),
    "ZImageImg2ImgPipeline": _row("z_image", "image2image", f"prompt image {Z_IMAGE_END}"),
    "ZImageInpaintPipeline": _row(
        "z_image", "inpainting", f"prompt image mask_image masked_image_latents {Z_IMAGE_END}"
    ),
    "LTXImageToVideoPipeline": _row(
        "ltx",
        "image2video",
        "image prompt negative_prompt height width num_frames frame_rate num_inference_steps timesteps guidance_scale "
        "guidance_rescale",
        renamed=TOKENS_THAT_COUNT,
    ),
    "FluxControlNetPipeline": _row(
        "flux",
        "text2image",
        f"{FLUX_TEXT} height width {SIGMAS} guidance_scale control_guidance_start control_guidance_end control_image "
        "control_mode controlnet_conditioning_scale",
        steered=True,
        defaults=FLUX_GUIDED,
    ),
    "FluxControlNetImg2ImgPipeline": _row(
        "flux",
        "image2image",
        f"prompt prompt_2 image control_image height width strength {SIGMAS} guidance_scale {CONTROL_END}",
        steered=True,
        defaults=FLUX_GUIDED,
    ),
    "FluxControlNetInpaintPipeline": _row(
        "flux",
        "inpainting",
        "prompt prompt_2 image mask_image masked_image_latents control_image height width strength padding_mask_crop "
        f"sigmas num_inference_steps guidance_scale {CONTROL_END}",
        steered=True,
        defaults=FLUX_GUIDED,
    ),
}
# the families' own names, which run every workflow
RUN_ALL = ("sd", "xl", "sd3", "flux", "kontext", "qwen_image", "qwen_edit", "qwen_edit_plus", "z_image")
WHOLE = {FAMILIES[name][1]: FAMILIES[name][0] for name in RUN_ALL}
# tasks that a family's own name stands for, where it is not text to image
OWN_TASKS = {
    "FluxKontextBlocks": ("text2image", "image2image"),
    **dict.fromkeys(("QwenImageEditBlocks", "QwenImageEditPlusBlocks"), ("image2image",)),
}
# what modular folders call them
MODULAR = {name.replace("Pipeline", "ModularPipeline"): name for name in WHOLE}
AUTO = {f"AutoPipelineFor{name}": task for name, task in
        zip(("Text2Image", "Image2Image", "Inpainting"), TASKS, strict=True)}  # fmt: skip


def blocks_of(name: str) -> str | None:
    """The blocks that a published name stands over."""
    return PUBLISHED[name].family if name in PUBLISHED else WHOLE.get(name)


def name_for(blocks: str, task: str, steered: bool) -> str | None:
    """The published name for a task over some blocks."""
    for name, row in PUBLISHED.items():
        if (row.family, row.task, row.steered) == (blocks, task, steered) and not row.adapted:
            return name
    whole = [name for name in WHOLE if WHOLE[name] == blocks]
    return whole[0] if whole and task in OWN_TASKS.get(blocks, ("text2image",)) and not steered else None
