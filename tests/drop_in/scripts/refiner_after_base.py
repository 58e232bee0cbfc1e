import torch
from diffusers import StableDiffusionXLImg2ImgPipeline, StableDiffusionXLPipeline

base = StableDiffusionXLPipeline.from_pretrained(folders["xl"])
refiner = StableDiffusionXLImg2ImgPipeline.from_pretrained(folders["refiner"], vae=base.vae)
shared = {"prompt": "a cat", "num_inference_steps": 8, "generator": torch.manual_seed(0)}
latents = base(**shared, height=16, width=16, denoising_end=0.6, output_type="latent").images
pictures = refiner(**shared, image=latents, denoising_start=0.6).images
