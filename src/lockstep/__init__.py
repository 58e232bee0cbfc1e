"""Lockstep runs, ports and proves diffusion models.

Public names are resolved on first use, so that `import lockstep` stays instant and imports no torch.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from . import places

__version__ = "0.1.0"

# module -> the public names that it defines
_DEFINES = {
    "errors": ["InterruptedRun"],
    "configuration": ["ConfigMixin", "FrozenDict", "register_to_config"],
    "attention": ["AttentionModuleMixin", "attention_backend", "dispatch_attention_fn"],
    "images": ["IPAdapterMaskProcessor"],
    "parallel": ["ParallelConfig"],
    "tokenizers": ["CLIPTokenizer", "Qwen2Tokenizer", "T5Tokenizer"],
    "models.modeling": ["ModelMixin"],
    "models.unets.unet_2d_condition": ["UNet2DConditionModel"],
    "models.transformers.transformer_wan": ["WanTransformer3DModel"],
    "models.transformers.transformer_helios": ["HeliosTransformer3DModel"],
    "models.transformers.transformer_flux": ["FluxTransformer2DModel"],
    "models.transformers.transformer_qwen_image": ["QwenImageTransformer2DModel"],
    "models.transformers.transformer_sd3": ["SD3Transformer2DModel"],
    "models.transformers.transformer_z_image": ["ZImageTransformer2DModel"],
    "models.transformers.transformer_ltx_video": ["LTXVideoTransformer3DModel"],
    "models.controlnets.controlnet": ["ControlNetModel"],
    "models.controlnets.controlnet_flux": ["FluxControlNetModel", "FluxMultiControlNetModel"],
    "models.controlnets.controlnet_sd3": ["SD3ControlNetModel", "SD3MultiControlNetModel"],
    "models.controlnets.multi": ["MultiControlNetModel"],
    "models.adapters.t2i_adapter": ["T2IAdapter"],
    "models.adapters.multi": ["MultiAdapter"],
    "models.autoencoders.autoencoder_kl": ["AutoencoderKL"],
    "models.autoencoders.autoencoder_kl_qwen_image": ["AutoencoderKLQwenImage"],
    "models.autoencoders.autoencoder_kl_wan": ["AutoencoderKLWan"],
    "models.autoencoders.autoencoder_kl_ltx_video": ["AutoencoderKLLTXVideo"],
    "models.autoencoders.autoencoder_tiny": ["AutoencoderTiny"],
    "models.text_encoders.clip": ["CLIPTextModel", "CLIPTextModelWithProjection"],
    "models.vision.clip_vision": ["CLIPVisionModel", "CLIPVisionModelWithProjection"],
    "models.vision.clip_pictures": ["CLIPImageProcessor"],
    "models.vision.qwen2_vl_pictures": ["Qwen2VLImageProcessor"],
    "models.vision.safety_checker": ["StableDiffusionSafetyChecker"],
    "models.text_encoders.qwen2_5_vl": ["Qwen2_5_VLForConditionalGeneration"],
    "models.text_encoders.qwen3": ["Qwen3Model"],
    "models.text_encoders.t5": ["T5EncoderModel", "UMT5EncoderModel"],
    "schedulers": [
        *["SchedulerMixin", "DDIMScheduler", "DDIMInverseScheduler", "DDPMScheduler", "PNDMScheduler"],
        *[
            "EulerDiscreteScheduler",
            "EulerAncestralDiscreteScheduler",
            "HeunDiscreteScheduler",
            "KDPM2DiscreteScheduler",
            "KDPM2AncestralDiscreteScheduler",
        ],
        *[
            "DPMSolverMultistepScheduler",
            "DPMSolverSinglestepScheduler",
            "UniPCMultistepScheduler",
            "DEISMultistepScheduler",
            "DPMSolverSDEScheduler",
            "SASolverScheduler",
        ],
        *["LMSDiscreteScheduler", "LCMScheduler", "TCDScheduler", "CMStochasticIterativeScheduler", "IPNDMScheduler"],
        *["EDMEulerScheduler", "EDMDPMSolverMultistepScheduler", "UnCLIPScheduler"],
        *["CogVideoXDDIMScheduler", "CogVideoXDPMScheduler"],
        *["FlowMatchEulerDiscreteScheduler", "FlowMatchHeunDiscreteScheduler", "FlowMatchLCMScheduler"],
        *["HeliosScheduler", "HeliosDMDScheduler"],
    ],
    "guiders": [
        *[
            "BaseGuidance",
            "ClassifierFreeGuidance",
            "ClassifierFreeZeroStarGuidance",
            "TangentialClassifierFreeGuidance",
        ],
        *["AdaptiveProjectedGuidance", "MagnitudeAwareGuidance", "FrequencyDecoupledGuidance", "AutoGuidance"],
        *["PerturbedAttentionGuidance", "SkipLayerGuidance", "SmoothedEnergyGuidance", "TextAndImageGuidance"],
        *["LayerSkipConfig", "SmoothedEnergyGuidanceConfig"],
    ],
    "blocks": [
        *["ModularPipelineBlocks", "SequentialPipelineBlocks", "LoopSequentialPipelineBlocks"],
        *["AutoPipelineBlocks", "ConditionalPipelineBlocks", "InputParam", "OutputParam"],
        *["ComponentSpec", "ConfigSpec", "PipelineState", "Checkpoint"],
    ],
    "loaders.single_file": ["load_single_file"],
    "pipelines.manager": ["ComponentsManager"],
    "pipelines.modular": ["ModularPipeline"],
    "pipelines.pipeline": ["DiffusionPipeline"],
    "pipelines.published": [
        "StableDiffusionImg2ImgPipeline",
        "StableDiffusionInpaintPipeline",
        "StableDiffusionControlNetPipeline",
        "StableDiffusionControlNetImg2ImgPipeline",
        "StableDiffusionControlNetInpaintPipeline",
        "LatentConsistencyModelPipeline",
        "LatentConsistencyModelImg2ImgPipeline",
        "StableDiffusionXLImg2ImgPipeline",
        "StableDiffusionXLInpaintPipeline",
        "StableDiffusionXLControlNetPipeline",
        "StableDiffusionXLControlNetImg2ImgPipeline",
        "StableDiffusionXLControlNetInpaintPipeline",
        "WanImageToVideoPipeline",
        "WanVideoToVideoPipeline",
        "StableDiffusionAdapterPipeline",
        "StableDiffusionXLAdapterPipeline",
        "StableDiffusionInstructPix2PixPipeline",
        "StableDiffusionXLInstructPix2PixPipeline",
        "StableDiffusionUpscalePipeline",
        "StableDiffusionLatentUpscalePipeline",
        "StableDiffusionDepth2ImgPipeline",
        "StableDiffusion3Img2ImgPipeline",
        "StableDiffusion3InpaintPipeline",
        "StableDiffusion3ControlNetPipeline",
        "StableDiffusion3ControlNetInpaintingPipeline",
        "FluxImg2ImgPipeline",
        "FluxInpaintPipeline",
        "FluxFillPipeline",
        "FluxControlNetPipeline",
        "FluxControlNetImg2ImgPipeline",
        "FluxControlNetInpaintPipeline",
        "QwenImageImg2ImgPipeline",
        "QwenImageInpaintPipeline",
        "ZImageImg2ImgPipeline",
        "ZImageInpaintPipeline",
        "LTXImageToVideoPipeline",
        "AutoPipelineForText2Image",
        "AutoPipelineForImage2Image",
        "AutoPipelineForInpainting",
    ],
    "pipelines.stable_diffusion.consistency": ["LatentConsistencyBlocks"],
    "pipelines.stable_diffusion.blocks": ["StableDiffusionBlocks"],
    "pipelines.stable_diffusion.scenes": ["SceneBlocks"],
    "pipelines.stable_diffusion.editing": ["InstructPix2PixBlocks"],
    "pipelines.stable_diffusion.upscaling": ["UpscaleBlocks"],
    "pipelines.stable_diffusion.latent_upscaling": ["LatentUpscaleBlocks"],
    "pipelines.stable_diffusion.depth": ["DepthToImageBlocks"],
    "pipelines.stable_diffusion.pipeline": ["StableDiffusionPipeline"],
    "pipelines.flux.blocks": ["FluxBlocks", "FluxKontextBlocks"],
    "pipelines.flux.pipeline": ["FluxKontextPipeline", "FluxPipeline"],
    "pipelines.qwen_image.blocks": ["QwenImageBlocks", "QwenImageEditBlocks", "QwenImageEditPlusBlocks"],
    "pipelines.qwen_image.pipeline": ["QwenImageEditPipeline", "QwenImageEditPlusPipeline", "QwenImagePipeline"],
    "pipelines.common.qwen2_vl": ["Qwen2VLProcessor"],
    "pipelines.stable_diffusion_3.blocks": ["StableDiffusion3Blocks"],
    "pipelines.stable_diffusion_3.pipeline": ["StableDiffusion3Pipeline"],
    "pipelines.stable_diffusion_xl.blocks": ["StableDiffusionXLBlocks"],
    "pipelines.stable_diffusion_xl.editing": ["InstructPix2PixXLBlocks"],
    "pipelines.stable_diffusion_xl.pipeline": ["StableDiffusionXLPipeline"],
    "pipelines.helios.blocks": ["HeliosBlocks", "HeliosPyramidBlocks"],
    "pipelines.helios.pipeline": ["HeliosPipeline", "HeliosPyramidPipeline"],
    "pipelines.wan.blocks": ["WanBlocks"],
    "pipelines.wan.long": ["WanLongVideoBlocks"],
    "pipelines.wan.pipeline": ["WanPipeline"],
    "pipelines.z_image.blocks": ["ZImageBlocks"],
    "pipelines.z_image.pipeline": ["ZImagePipeline"],
    "pipelines.ltx_video.blocks": ["LTXConditionBlocks", "LTXVideoBlocks"],
    "pipelines.ltx_video.conditions": ["LTXVideoCondition"],
    "pipelines.ltx_video.pipeline": ["LTXConditionPipeline", "LTXPipeline"],
}
_WHERE = {name: module for module, names in _DEFINES.items() for name in names}

__all__ = ["__version__", *sorted(_WHERE)]


# Threads of torch that wait for work burn the processor, unless they are told to sleep before torch is imported: on a
# machine with other work a run takes many times as long. What a person has set stays.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


sys.meta_path.append(places.Places())


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as problem:
        if problem.name != f"{__name__}.{name}":
            raise
    from .errors import no_such_name

    raise AttributeError(no_such_name("lockstep", name, __all__))


def __dir__() -> list[str]:
    return __all__
