import torch
from diffusers import StableDiffusionXLPipeline


def stop(pipe, i, t, callback_kwargs):
    if i == 2:
        pipe._interrupt = True
    return callback_kwargs


pipe = StableDiffusionXLPipeline.from_pretrained(folders["xl"])
pictures = pipe(
    "a cat", height=16, width=16, num_inference_steps=8, generator=torch.manual_seed(0), callback_on_step_end=stop
).images
