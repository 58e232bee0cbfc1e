import torch
from diffusers import StableDiffusionUpscalePipeline

pipe = StableDiffusionUpscalePipeline.from_pretrained(folders["upscale"])
pictures = pipe(prompt="a cat", image=start(), num_inference_steps=4, generator=torch.manual_seed(3)).images
