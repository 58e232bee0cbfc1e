import torch
from diffusers import StableDiffusionPipeline

pipe = StableDiffusionPipeline.from_pretrained(folders["sd1"])
latents = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(5))
pictures = pipe("a cat", latents=latents, num_images_per_prompt=2, num_inference_steps=4, output_type="pt").images
