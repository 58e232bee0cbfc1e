import torch
from diffusers import DPMSolverMultistepScheduler, EulerAncestralDiscreteScheduler, StableDiffusionPipeline

pipe = StableDiffusionPipeline.from_pretrained(folders["sd2"])
pictures = []
for kind, options in (
    (DPMSolverMultistepScheduler, {"use_karras_sigmas": True}),
    (EulerAncestralDiscreteScheduler, {}),
):
    pipe.scheduler = kind.from_config(pipe.scheduler.config, **options)
    made = pipe("a cat", height=16, width=16, num_inference_steps=5, generator=torch.manual_seed(1))
    pictures += made.images
