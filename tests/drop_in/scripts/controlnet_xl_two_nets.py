import torch
from diffusers import ControlNetModel, StableDiffusionXLControlNetPipeline

nets = [ControlNetModel.from_pretrained(folders["xl_net"]) for _ in range(2)]
pipe = StableDiffusionXLControlNetPipeline.from_pretrained(folders["xl"], controlnet=nets)
pictures = pipe(
    "a house", image=[edges, start()], controlnet_conditioning_scale=[0.5, 0.8], height=16, width=16,
    num_inference_steps=4, generator=torch.manual_seed(0),
).images  # fmt: skip
