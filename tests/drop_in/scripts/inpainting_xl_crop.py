import torch
from diffusers import StableDiffusionXLInpaintPipeline

pipe = StableDiffusionXLInpaintPipeline.from_pretrained(folders["xl"])
pictures = pipe(
    prompt="a house", image=start().resize((32, 32)), mask_image=mask.resize((32, 32)), height=16, width=16,
    strength=0.8, padding_mask_crop=2, num_inference_steps=4, generator=torch.Generator().manual_seed(2),
).images  # fmt: skip
