import torch
from diffusers import AutoPipelineForInpainting

pipe = AutoPipelineForInpainting.from_pretrained(folders["sd1"])
pictures = pipe(
    prompt="a house", image=start(), mask_image=mask, height=16, width=16, strength=0.9, num_inference_steps=5,
    generator=torch.Generator().manual_seed(92),
).images  # fmt: skip
