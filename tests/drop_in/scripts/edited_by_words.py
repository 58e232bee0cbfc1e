import torch
from diffusers import StableDiffusionInstructPix2PixPipeline

pipe = StableDiffusionInstructPix2PixPipeline.from_pretrained(folders["edit"], safety_checker=None)
pictures = pipe(
    "the cat red", image=start(), num_inference_steps=5, image_guidance_scale=1.8, guidance_scale=6.0,
    generator=torch.manual_seed(3),
).images  # fmt: skip
