import torch
from diffusers import StableDiffusionPipeline


def without_guidance_at_the_end(pipe, step_index, timestep, callback_kwargs):
    if step_index == int(pipe.num_timesteps * 0.4):
        callback_kwargs["prompt_embeds"] = callback_kwargs["prompt_embeds"].chunk(2)[-1]
        pipe._guidance_scale = 0.0
    return callback_kwargs


pipe = StableDiffusionPipeline.from_pretrained(folders["sd1"])
pictures = pipe(
    ["a cat", "a dog"], height=16, width=16, num_inference_steps=6, generator=torch.manual_seed(0),
    callback_on_step_end=without_guidance_at_the_end, callback_on_step_end_tensor_inputs=["prompt_embeds"],
).images  # fmt: skip
