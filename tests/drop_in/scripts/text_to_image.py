import torch
from diffusers import StableDiffusionPipeline

pipe = StableDiffusionPipeline.from_pretrained(folders["sd1"], torch_dtype=torch.float32)
pipe = pipe.to("cpu")
generator = torch.Generator("cpu").manual_seed(0)
pictures = pipe("a photo of a cat", height=16, width=16, num_inference_steps=4, generator=generator).images
