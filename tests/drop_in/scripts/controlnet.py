import torch
from diffusers import ControlNetModel, StableDiffusionControlNetPipeline, UniPCMultistepScheduler

controlnet = ControlNetModel.from_pretrained(folders["sd1_net"], torch_dtype=torch.float32)
pipe = StableDiffusionControlNetPipeline.from_pretrained(folders["sd1"], controlnet=controlnet, safety_checker=None)
pipe.scheduler = UniPCMultistepScheduler.from_config(pipe.scheduler.config)
pipe.enable_model_cpu_offload() if torch.cuda.is_available() else None
pictures = pipe(
    "the big red house", image=edges, num_inference_steps=5, controlnet_conditioning_scale=0.7,
    control_guidance_end=0.8, generator=torch.manual_seed(0),
).images  # fmt: skip
