import torch
from diffusers import StableDiffusionImg2ImgPipeline, StableDiffusionInpaintPipeline, StableDiffusionPipeline

text = StableDiffusionPipeline.from_pretrained(folders["sd1"], safety_checker=None)
change = StableDiffusionImg2ImgPipeline(**text.components)
paint = StableDiffusionInpaintPipeline(**text.components)
shared = {"num_inference_steps": 4, "guidance_scale": 5.0}
first = text("a cat", height=16, width=16, generator=torch.manual_seed(0), **shared).images[0]
second = change("a dog", image=first, generator=torch.manual_seed(1), **shared).images[0]
third = paint("a house", image=second, mask_image=mask, height=16, width=16, generator=torch.manual_seed(2), **shared)
pictures = [first, second, third.images[0]]
