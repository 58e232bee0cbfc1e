import torch
from diffusers import ControlNetModel, StableDiffusionControlNetImg2ImgPipeline

controlnet = ControlNetModel.from_pretrained(folders["sd1_net"])
pipe = StableDiffusionControlNetImg2ImgPipeline.from_pretrained(folders["sd1"], controlnet=controlnet)
pictures = pipe(
    "blue dog", image=start(), control_image=edges, num_inference_steps=5, generator=torch.manual_seed(0)
).images
