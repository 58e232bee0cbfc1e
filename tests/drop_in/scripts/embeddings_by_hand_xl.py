import torch
from diffusers import StableDiffusionXLPipeline

pipe = StableDiffusionXLPipeline.from_pretrained(folders["xl"])
embeds, negative, pooled, negative_pooled = pipe.encode_prompt("a cat", negative_prompt="blue")
pictures = pipe(
    prompt_embeds=embeds, negative_prompt_embeds=negative, pooled_prompt_embeds=pooled,
    negative_pooled_prompt_embeds=negative_pooled, height=16, width=16, num_inference_steps=4,
    generator=torch.manual_seed(0),
).images  # fmt: skip
