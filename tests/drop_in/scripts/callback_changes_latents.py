import torch
from diffusers import StableDiffusionPipeline


def brighter(pipe, step, timestep, values):
    values["latents"] = values["latents"] + 0.05 * (step > 1)
    return values


pipe = StableDiffusionPipeline.from_pretrained(folders["sd1"])
pictures = pipe(
    "a cat", height=16, width=16, num_inference_steps=5, generator=torch.manual_seed(0), callback_on_step_end=brighter,
    output_type="np", return_dict=False,
)[0]  # fmt: skip
