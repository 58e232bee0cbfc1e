import torch
from diffusers import StableDiffusionImg2ImgPipeline

pipe = StableDiffusionImg2ImgPipeline.from_pretrained(folders["sd1"])
pictures = pipe(
    "red dog", start(), 0.75, num_inference_steps=6, guidance_scale=6.0, generator=torch.manual_seed(3)
).images
