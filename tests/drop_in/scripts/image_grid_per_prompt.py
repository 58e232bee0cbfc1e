import torch
from diffusers import DiffusionPipeline

pipe = DiffusionPipeline.from_pretrained(folders["sd1"], safety_checker=None, requires_safety_checker=False)
pipe.enable_attention_slicing()
pipe.vae.enable_slicing()
images, nsfw = pipe(
    ["a cat", "red dog"], 16, 16, 4, num_images_per_prompt=2, negative_prompt=["", "noise"], guidance_rescale=0.5,
    generator=[torch.Generator().manual_seed(seed) for seed in range(4)], return_dict=False,
)  # fmt: skip
assert nsfw is None
pictures = images
