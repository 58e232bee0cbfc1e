import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline

scheduler = DDIMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", set_alpha_to_one=False)
pipe = StableDiffusionPipeline.from_pretrained(folders["sd1"], scheduler=scheduler)
pictures = pipe("a cat", height=16, width=16, num_inference_steps=5, eta=0.4, generator=torch.manual_seed(0)).images
