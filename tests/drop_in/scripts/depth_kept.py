import torch
from diffusers import StableDiffusionDepth2ImgPipeline
from transformers import DPTForDepthEstimation, DPTImageProcessorPil

pipe = StableDiffusionDepth2ImgPipeline.from_pretrained(
    folders["depth"],
    depth_estimator=DPTForDepthEstimation.from_pretrained(folders["depth"], subfolder="depth_estimator"),
    feature_extractor=DPTImageProcessorPil.from_pretrained(folders["depth"], subfolder="feature_extractor"),
)
pictures = pipe(
    prompt="red dog", image=start(), negative_prompt="blue", strength=0.7, generator=torch.manual_seed(1)
).images
