import torch
from diffusers import ControlNetModel, StableDiffusionControlNetInpaintPipeline

controlnet = ControlNetModel.from_pretrained(folders["sd1_net"])
pipe = StableDiffusionControlNetInpaintPipeline.from_pretrained(folders["sd1"], controlnet=controlnet)
pipe.load_ip_adapter(folders["ip_adapter"], subfolder="models", weight_name="plus.safetensors")
pipe.set_ip_adapter_scale(0.6)
pictures = pipe(
    "blue dog", image=start(), mask_image=mask, control_image=edges, ip_adapter_image=start(), num_inference_steps=4,
    controlnet_conditioning_scale=0.8, generator=torch.manual_seed(0),
).images  # fmt: skip
