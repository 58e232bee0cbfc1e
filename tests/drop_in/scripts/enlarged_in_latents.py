import torch
from diffusers import StableDiffusionLatentUpscalePipeline, StableDiffusionPipeline

small = StableDiffusionPipeline.from_pretrained(folders["sd1"])
latents = small(
    "a cat", height=16, width=16, num_inference_steps=3, generator=torch.manual_seed(3), output_type="latent"
).images
pipe = StableDiffusionLatentUpscalePipeline.from_pretrained(folders["latent_upscale"])
pictures = pipe(
    prompt="a cat", image=latents, num_inference_steps=4, guidance_scale=0, generator=torch.manual_seed(4)
).images
