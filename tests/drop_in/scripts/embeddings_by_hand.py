import torch
from diffusers import StableDiffusionPipeline

pipe = StableDiffusionPipeline.from_pretrained(folders["sd1"])
positive, negative = pipe.encode_prompt("a photo of a cat", "cpu", 2, True, negative_prompt="blue noise")
pictures = pipe(
    prompt_embeds=positive * 1.1, negative_prompt_embeds=negative, height=16, width=16, num_inference_steps=4,
    generator=[torch.Generator().manual_seed(seed) for seed in (1, 2)],
).images  # fmt: skip
