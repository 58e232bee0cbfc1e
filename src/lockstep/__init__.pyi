"""Written by `python -m lockstep.blocks.stubs`; do not edit."""
# ruff: noqa
# fmt: off
# mypy: disable-error-code="override"

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import attention as attention
    from . import blocks as blocks
    from . import capacity as capacity
    from . import configuration as configuration
    from . import errors as errors
    from . import extensions as extensions
    from . import files as files
    from . import fleet as fleet
    from . import guiders as guiders
    from . import images as images
    from . import kernels as kernels
    from . import loaders as loaders
    from . import measure as measure
    from . import media as media
    from . import memory as memory
    from . import models as models
    from . import notes as notes
    from . import outputs as outputs
    from . import parallel as parallel
    from . import parity as parity
    from . import pipelines as pipelines
    from . import places as places
    from . import schedulers as schedulers
    from . import tokenizers as tokenizers
    from .guiders import AdaptiveProjectedGuidance as AdaptiveProjectedGuidance
    from .attention import AttentionModuleMixin as AttentionModuleMixin
    from .guiders import AutoGuidance as AutoGuidance
    from .blocks import AutoPipelineBlocks as AutoPipelineBlocks
    from .pipelines.published import AutoPipelineForImage2Image as AutoPipelineForImage2Image
    from .pipelines.published import AutoPipelineForInpainting as AutoPipelineForInpainting
    from .pipelines.published import AutoPipelineForText2Image as AutoPipelineForText2Image
    from .models.autoencoders.autoencoder_kl import AutoencoderKL as AutoencoderKL
    from .models.autoencoders.autoencoder_kl_ltx_video import AutoencoderKLLTXVideo as AutoencoderKLLTXVideo
    from .models.autoencoders.autoencoder_kl_qwen_image import AutoencoderKLQwenImage as AutoencoderKLQwenImage
    from .models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan as AutoencoderKLWan
    from .models.autoencoders.autoencoder_tiny import AutoencoderTiny as AutoencoderTiny
    from .guiders import BaseGuidance as BaseGuidance
    from .models.vision.clip_pictures import CLIPImageProcessor as CLIPImageProcessor
    from .models.text_encoders.clip import CLIPTextModel as CLIPTextModel
    from .models.text_encoders.clip import CLIPTextModelWithProjection as CLIPTextModelWithProjection
    from .tokenizers import CLIPTokenizer as CLIPTokenizer
    from .models.vision.clip_vision import CLIPVisionModel as CLIPVisionModel
    from .models.vision.clip_vision import CLIPVisionModelWithProjection as CLIPVisionModelWithProjection
    from .schedulers import CMStochasticIterativeScheduler as CMStochasticIterativeScheduler
    from .blocks import Checkpoint as Checkpoint
    from .guiders import ClassifierFreeGuidance as ClassifierFreeGuidance
    from .guiders import ClassifierFreeZeroStarGuidance as ClassifierFreeZeroStarGuidance
    from .schedulers import CogVideoXDDIMScheduler as CogVideoXDDIMScheduler
    from .schedulers import CogVideoXDPMScheduler as CogVideoXDPMScheduler
    from .blocks import ComponentSpec as ComponentSpec
    from .pipelines.manager import ComponentsManager as ComponentsManager
    from .blocks import ConditionalPipelineBlocks as ConditionalPipelineBlocks
    from .configuration import ConfigMixin as ConfigMixin
    from .blocks import ConfigSpec as ConfigSpec
    from .models.controlnets.controlnet import ControlNetModel as ControlNetModel
    from .schedulers import DDIMInverseScheduler as DDIMInverseScheduler
    from .schedulers import DDIMScheduler as DDIMScheduler
    from .schedulers import DDPMScheduler as DDPMScheduler
    from .schedulers import DEISMultistepScheduler as DEISMultistepScheduler
    from .schedulers import DPMSolverMultistepScheduler as DPMSolverMultistepScheduler
    from .schedulers import DPMSolverSDEScheduler as DPMSolverSDEScheduler
    from .schedulers import DPMSolverSinglestepScheduler as DPMSolverSinglestepScheduler
    from .pipelines.stable_diffusion.depth import DepthToImageBlocks as DepthToImageBlocks
    from .pipelines.pipeline import DiffusionPipeline as DiffusionPipeline
    from .schedulers import EDMDPMSolverMultistepScheduler as EDMDPMSolverMultistepScheduler
    from .schedulers import EDMEulerScheduler as EDMEulerScheduler
    from .schedulers import EulerAncestralDiscreteScheduler as EulerAncestralDiscreteScheduler
    from .schedulers import EulerDiscreteScheduler as EulerDiscreteScheduler
    from .schedulers import FlowMatchEulerDiscreteScheduler as FlowMatchEulerDiscreteScheduler
    from .schedulers import FlowMatchHeunDiscreteScheduler as FlowMatchHeunDiscreteScheduler
    from .schedulers import FlowMatchLCMScheduler as FlowMatchLCMScheduler
    from .pipelines.flux.blocks import FluxBlocks as FluxBlocks
    from .pipelines.published import FluxControlNetImg2ImgPipeline as FluxControlNetImg2ImgPipeline
    from .pipelines.published import FluxControlNetInpaintPipeline as FluxControlNetInpaintPipeline
    from .models.controlnets.controlnet_flux import FluxControlNetModel as FluxControlNetModel
    from .pipelines.published import FluxControlNetPipeline as FluxControlNetPipeline
    from .pipelines.published import FluxFillPipeline as FluxFillPipeline
    from .pipelines.published import FluxImg2ImgPipeline as FluxImg2ImgPipeline
    from .pipelines.published import FluxInpaintPipeline as FluxInpaintPipeline
    from .pipelines.flux.blocks import FluxKontextBlocks as FluxKontextBlocks
    from .pipelines.flux.pipeline import FluxKontextPipeline as FluxKontextPipeline
    from .models.controlnets.controlnet_flux import FluxMultiControlNetModel as FluxMultiControlNetModel
    from .pipelines.flux.pipeline import FluxPipeline as FluxPipeline
    from .models.transformers.transformer_flux import FluxTransformer2DModel as FluxTransformer2DModel
    from .guiders import FrequencyDecoupledGuidance as FrequencyDecoupledGuidance
    from .configuration import FrozenDict as FrozenDict
    from .pipelines.helios.blocks import HeliosBlocks as HeliosBlocks
    from .schedulers import HeliosDMDScheduler as HeliosDMDScheduler
    from .pipelines.helios.pipeline import HeliosPipeline as HeliosPipeline
    from .pipelines.helios.blocks import HeliosPyramidBlocks as HeliosPyramidBlocks
    from .pipelines.helios.pipeline import HeliosPyramidPipeline as HeliosPyramidPipeline
    from .schedulers import HeliosScheduler as HeliosScheduler
    from .models.transformers.transformer_helios import HeliosTransformer3DModel as HeliosTransformer3DModel
    from .schedulers import HeunDiscreteScheduler as HeunDiscreteScheduler
    from .images import IPAdapterMaskProcessor as IPAdapterMaskProcessor
    from .schedulers import IPNDMScheduler as IPNDMScheduler
    from .blocks import InputParam as InputParam
    from .pipelines.stable_diffusion.editing import InstructPix2PixBlocks as InstructPix2PixBlocks
    from .pipelines.stable_diffusion_xl.editing import InstructPix2PixXLBlocks as InstructPix2PixXLBlocks
    from .errors import InterruptedRun as InterruptedRun
    from .schedulers import KDPM2AncestralDiscreteScheduler as KDPM2AncestralDiscreteScheduler
    from .schedulers import KDPM2DiscreteScheduler as KDPM2DiscreteScheduler
    from .schedulers import LCMScheduler as LCMScheduler
    from .schedulers import LMSDiscreteScheduler as LMSDiscreteScheduler
    from .pipelines.ltx_video.blocks import LTXConditionBlocks as LTXConditionBlocks
    from .pipelines.ltx_video.pipeline import LTXConditionPipeline as LTXConditionPipeline
    from .pipelines.published import LTXImageToVideoPipeline as LTXImageToVideoPipeline
    from .pipelines.ltx_video.pipeline import LTXPipeline as LTXPipeline
    from .pipelines.ltx_video.blocks import LTXVideoBlocks as LTXVideoBlocks
    from .pipelines.ltx_video.conditions import LTXVideoCondition as LTXVideoCondition
    from .models.transformers.transformer_ltx_video import LTXVideoTransformer3DModel as LTXVideoTransformer3DModel
    from .pipelines.stable_diffusion.consistency import LatentConsistencyBlocks as LatentConsistencyBlocks
    from .pipelines.published import LatentConsistencyModelImg2ImgPipeline as LatentConsistencyModelImg2ImgPipeline
    from .pipelines.published import LatentConsistencyModelPipeline as LatentConsistencyModelPipeline
    from .pipelines.stable_diffusion.latent_upscaling import LatentUpscaleBlocks as LatentUpscaleBlocks
    from .guiders import LayerSkipConfig as LayerSkipConfig
    from .blocks import LoopSequentialPipelineBlocks as LoopSequentialPipelineBlocks
    from .guiders import MagnitudeAwareGuidance as MagnitudeAwareGuidance
    from .models.modeling import ModelMixin as ModelMixin
    from .pipelines.modular import ModularPipeline as ModularPipeline
    from .blocks import ModularPipelineBlocks as ModularPipelineBlocks
    from .models.adapters.multi import MultiAdapter as MultiAdapter
    from .models.controlnets.multi import MultiControlNetModel as MultiControlNetModel
    from .blocks import OutputParam as OutputParam
    from .schedulers import PNDMScheduler as PNDMScheduler
    from .parallel import ParallelConfig as ParallelConfig
    from .guiders import PerturbedAttentionGuidance as PerturbedAttentionGuidance
    from .blocks import PipelineState as PipelineState
    from .tokenizers import Qwen2Tokenizer as Qwen2Tokenizer
    from .models.vision.qwen2_vl_pictures import Qwen2VLImageProcessor as Qwen2VLImageProcessor
    from .pipelines.common.qwen2_vl import Qwen2VLProcessor as Qwen2VLProcessor
    from .models.text_encoders.qwen2_5_vl import Qwen2_5_VLForConditionalGeneration as Qwen2_5_VLForConditionalGeneration
    from .models.text_encoders.qwen3 import Qwen3Model as Qwen3Model
    from .pipelines.qwen_image.blocks import QwenImageBlocks as QwenImageBlocks
    from .pipelines.qwen_image.blocks import QwenImageEditBlocks as QwenImageEditBlocks
    from .pipelines.qwen_image.pipeline import QwenImageEditPipeline as QwenImageEditPipeline
    from .pipelines.qwen_image.blocks import QwenImageEditPlusBlocks as QwenImageEditPlusBlocks
    from .pipelines.qwen_image.pipeline import QwenImageEditPlusPipeline as QwenImageEditPlusPipeline
    from .pipelines.published import QwenImageImg2ImgPipeline as QwenImageImg2ImgPipeline
    from .pipelines.published import QwenImageInpaintPipeline as QwenImageInpaintPipeline
    from .pipelines.qwen_image.pipeline import QwenImagePipeline as QwenImagePipeline
    from .models.transformers.transformer_qwen_image import QwenImageTransformer2DModel as QwenImageTransformer2DModel
    from .schedulers import SASolverScheduler as SASolverScheduler
    from .models.controlnets.controlnet_sd3 import SD3ControlNetModel as SD3ControlNetModel
    from .models.controlnets.controlnet_sd3 import SD3MultiControlNetModel as SD3MultiControlNetModel
    from .models.transformers.transformer_sd3 import SD3Transformer2DModel as SD3Transformer2DModel
    from .pipelines.stable_diffusion.scenes import SceneBlocks as SceneBlocks
    from .schedulers import SchedulerMixin as SchedulerMixin
    from .blocks import SequentialPipelineBlocks as SequentialPipelineBlocks
    from .guiders import SkipLayerGuidance as SkipLayerGuidance
    from .guiders import SmoothedEnergyGuidance as SmoothedEnergyGuidance
    from .guiders import SmoothedEnergyGuidanceConfig as SmoothedEnergyGuidanceConfig
    from .pipelines.stable_diffusion_3.blocks import StableDiffusion3Blocks as StableDiffusion3Blocks
    from .pipelines.published import StableDiffusion3ControlNetInpaintingPipeline as StableDiffusion3ControlNetInpaintingPipeline
    from .pipelines.published import StableDiffusion3ControlNetPipeline as StableDiffusion3ControlNetPipeline
    from .pipelines.published import StableDiffusion3Img2ImgPipeline as StableDiffusion3Img2ImgPipeline
    from .pipelines.published import StableDiffusion3InpaintPipeline as StableDiffusion3InpaintPipeline
    from .pipelines.stable_diffusion_3.pipeline import StableDiffusion3Pipeline as StableDiffusion3Pipeline
    from .pipelines.published import StableDiffusionAdapterPipeline as StableDiffusionAdapterPipeline
    from .pipelines.stable_diffusion.blocks import StableDiffusionBlocks as StableDiffusionBlocks
    from .pipelines.published import StableDiffusionControlNetImg2ImgPipeline as StableDiffusionControlNetImg2ImgPipeline
    from .pipelines.published import StableDiffusionControlNetInpaintPipeline as StableDiffusionControlNetInpaintPipeline
    from .pipelines.published import StableDiffusionControlNetPipeline as StableDiffusionControlNetPipeline
    from .pipelines.published import StableDiffusionDepth2ImgPipeline as StableDiffusionDepth2ImgPipeline
    from .pipelines.published import StableDiffusionImg2ImgPipeline as StableDiffusionImg2ImgPipeline
    from .pipelines.published import StableDiffusionInpaintPipeline as StableDiffusionInpaintPipeline
    from .pipelines.published import StableDiffusionInstructPix2PixPipeline as StableDiffusionInstructPix2PixPipeline
    from .pipelines.published import StableDiffusionLatentUpscalePipeline as StableDiffusionLatentUpscalePipeline
    from .pipelines.stable_diffusion.pipeline import StableDiffusionPipeline as StableDiffusionPipeline
    from .models.vision.safety_checker import StableDiffusionSafetyChecker as StableDiffusionSafetyChecker
    from .pipelines.published import StableDiffusionUpscalePipeline as StableDiffusionUpscalePipeline
    from .pipelines.published import StableDiffusionXLAdapterPipeline as StableDiffusionXLAdapterPipeline
    from .pipelines.stable_diffusion_xl.blocks import StableDiffusionXLBlocks as StableDiffusionXLBlocks
    from .pipelines.published import StableDiffusionXLControlNetImg2ImgPipeline as StableDiffusionXLControlNetImg2ImgPipeline
    from .pipelines.published import StableDiffusionXLControlNetInpaintPipeline as StableDiffusionXLControlNetInpaintPipeline
    from .pipelines.published import StableDiffusionXLControlNetPipeline as StableDiffusionXLControlNetPipeline
    from .pipelines.published import StableDiffusionXLImg2ImgPipeline as StableDiffusionXLImg2ImgPipeline
    from .pipelines.published import StableDiffusionXLInpaintPipeline as StableDiffusionXLInpaintPipeline
    from .pipelines.published import StableDiffusionXLInstructPix2PixPipeline as StableDiffusionXLInstructPix2PixPipeline
    from .pipelines.stable_diffusion_xl.pipeline import StableDiffusionXLPipeline as StableDiffusionXLPipeline
    from .models.adapters.t2i_adapter import T2IAdapter as T2IAdapter
    from .models.text_encoders.t5 import T5EncoderModel as T5EncoderModel
    from .tokenizers import T5Tokenizer as T5Tokenizer
    from .schedulers import TCDScheduler as TCDScheduler
    from .guiders import TangentialClassifierFreeGuidance as TangentialClassifierFreeGuidance
    from .guiders import TextAndImageGuidance as TextAndImageGuidance
    from .models.text_encoders.t5 import UMT5EncoderModel as UMT5EncoderModel
    from .models.unets.unet_2d_condition import UNet2DConditionModel as UNet2DConditionModel
    from .schedulers import UnCLIPScheduler as UnCLIPScheduler
    from .schedulers import UniPCMultistepScheduler as UniPCMultistepScheduler
    from .pipelines.stable_diffusion.upscaling import UpscaleBlocks as UpscaleBlocks
    from .pipelines.wan.blocks import WanBlocks as WanBlocks
    from .pipelines.published import WanImageToVideoPipeline as WanImageToVideoPipeline
    from .pipelines.wan.long import WanLongVideoBlocks as WanLongVideoBlocks
    from .pipelines.wan.pipeline import WanPipeline as WanPipeline
    from .models.transformers.transformer_wan import WanTransformer3DModel as WanTransformer3DModel
    from .pipelines.published import WanVideoToVideoPipeline as WanVideoToVideoPipeline
    from .pipelines.z_image.blocks import ZImageBlocks as ZImageBlocks
    from .pipelines.published import ZImageImg2ImgPipeline as ZImageImg2ImgPipeline
    from .pipelines.published import ZImageInpaintPipeline as ZImageInpaintPipeline
    from .pipelines.z_image.pipeline import ZImagePipeline as ZImagePipeline
    from .models.transformers.transformer_z_image import ZImageTransformer2DModel as ZImageTransformer2DModel
    from .attention import attention_backend as attention_backend
    from .attention import dispatch_attention_fn as dispatch_attention_fn
    from .loaders.single_file import load_single_file as load_single_file
    from .configuration import register_to_config as register_to_config

__version__: str
__all__ = [
    "__version__", "AdaptiveProjectedGuidance", "AttentionModuleMixin", "AutoGuidance", "AutoPipelineBlocks",
    "AutoPipelineForImage2Image", "AutoPipelineForInpainting", "AutoPipelineForText2Image", "AutoencoderKL",
    "AutoencoderKLLTXVideo", "AutoencoderKLQwenImage", "AutoencoderKLWan", "AutoencoderTiny", "BaseGuidance",
    "CLIPImageProcessor", "CLIPTextModel", "CLIPTextModelWithProjection", "CLIPTokenizer", "CLIPVisionModel",
    "CLIPVisionModelWithProjection", "CMStochasticIterativeScheduler", "Checkpoint", "ClassifierFreeGuidance",
    "ClassifierFreeZeroStarGuidance", "CogVideoXDDIMScheduler", "CogVideoXDPMScheduler", "ComponentSpec",
    "ComponentsManager", "ConditionalPipelineBlocks", "ConfigMixin", "ConfigSpec", "ControlNetModel",
    "DDIMInverseScheduler", "DDIMScheduler", "DDPMScheduler", "DEISMultistepScheduler", "DPMSolverMultistepScheduler",
    "DPMSolverSDEScheduler", "DPMSolverSinglestepScheduler", "DepthToImageBlocks", "DiffusionPipeline",
    "EDMDPMSolverMultistepScheduler", "EDMEulerScheduler", "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler", "FlowMatchEulerDiscreteScheduler", "FlowMatchHeunDiscreteScheduler",
    "FlowMatchLCMScheduler", "FluxBlocks", "FluxControlNetImg2ImgPipeline", "FluxControlNetInpaintPipeline",
    "FluxControlNetModel", "FluxControlNetPipeline", "FluxFillPipeline", "FluxImg2ImgPipeline", "FluxInpaintPipeline",
    "FluxKontextBlocks", "FluxKontextPipeline", "FluxMultiControlNetModel", "FluxPipeline", "FluxTransformer2DModel",
    "FrequencyDecoupledGuidance", "FrozenDict", "HeliosBlocks", "HeliosDMDScheduler", "HeliosPipeline",
    "HeliosPyramidBlocks", "HeliosPyramidPipeline", "HeliosScheduler", "HeliosTransformer3DModel",
    "HeunDiscreteScheduler", "IPAdapterMaskProcessor", "IPNDMScheduler", "InputParam", "InstructPix2PixBlocks",
    "InstructPix2PixXLBlocks", "InterruptedRun", "KDPM2AncestralDiscreteScheduler", "KDPM2DiscreteScheduler",
    "LCMScheduler", "LMSDiscreteScheduler", "LTXConditionBlocks", "LTXConditionPipeline", "LTXImageToVideoPipeline",
    "LTXPipeline", "LTXVideoBlocks", "LTXVideoCondition", "LTXVideoTransformer3DModel", "LatentConsistencyBlocks",
    "LatentConsistencyModelImg2ImgPipeline", "LatentConsistencyModelPipeline", "LatentUpscaleBlocks",
    "LayerSkipConfig", "LoopSequentialPipelineBlocks", "MagnitudeAwareGuidance", "ModelMixin", "ModularPipeline",
    "ModularPipelineBlocks", "MultiAdapter", "MultiControlNetModel", "OutputParam", "PNDMScheduler", "ParallelConfig",
    "PerturbedAttentionGuidance", "PipelineState", "Qwen2Tokenizer", "Qwen2VLImageProcessor", "Qwen2VLProcessor",
    "Qwen2_5_VLForConditionalGeneration", "Qwen3Model", "QwenImageBlocks", "QwenImageEditBlocks",
    "QwenImageEditPipeline", "QwenImageEditPlusBlocks", "QwenImageEditPlusPipeline", "QwenImageImg2ImgPipeline",
    "QwenImageInpaintPipeline", "QwenImagePipeline", "QwenImageTransformer2DModel", "SASolverScheduler",
    "SD3ControlNetModel", "SD3MultiControlNetModel", "SD3Transformer2DModel", "SceneBlocks", "SchedulerMixin",
    "SequentialPipelineBlocks", "SkipLayerGuidance", "SmoothedEnergyGuidance", "SmoothedEnergyGuidanceConfig",
    "StableDiffusion3Blocks", "StableDiffusion3ControlNetInpaintingPipeline", "StableDiffusion3ControlNetPipeline",
    "StableDiffusion3Img2ImgPipeline", "StableDiffusion3InpaintPipeline", "StableDiffusion3Pipeline",
    "StableDiffusionAdapterPipeline", "StableDiffusionBlocks", "StableDiffusionControlNetImg2ImgPipeline",
    "StableDiffusionControlNetInpaintPipeline", "StableDiffusionControlNetPipeline",
    "StableDiffusionDepth2ImgPipeline", "StableDiffusionImg2ImgPipeline", "StableDiffusionInpaintPipeline",
    "StableDiffusionInstructPix2PixPipeline", "StableDiffusionLatentUpscalePipeline", "StableDiffusionPipeline",
    "StableDiffusionSafetyChecker", "StableDiffusionUpscalePipeline", "StableDiffusionXLAdapterPipeline",
    "StableDiffusionXLBlocks", "StableDiffusionXLControlNetImg2ImgPipeline",
    "StableDiffusionXLControlNetInpaintPipeline", "StableDiffusionXLControlNetPipeline",
    "StableDiffusionXLImg2ImgPipeline", "StableDiffusionXLInpaintPipeline",
    "StableDiffusionXLInstructPix2PixPipeline", "StableDiffusionXLPipeline", "T2IAdapter", "T5EncoderModel",
    "T5Tokenizer", "TCDScheduler", "TangentialClassifierFreeGuidance", "TextAndImageGuidance", "UMT5EncoderModel",
    "UNet2DConditionModel", "UnCLIPScheduler", "UniPCMultistepScheduler", "UpscaleBlocks", "WanBlocks",
    "WanImageToVideoPipeline", "WanLongVideoBlocks", "WanPipeline", "WanTransformer3DModel",
    "WanVideoToVideoPipeline", "ZImageBlocks", "ZImageImg2ImgPipeline", "ZImageInpaintPipeline", "ZImagePipeline",
    "ZImageTransformer2DModel", "attention_backend", "dispatch_attention_fn", "load_single_file", "register_to_config"
]
