import torch
from diffusers import StableDiffusionPipeline

pipe = StableDiffusionPipeline.from_pretrained(folders["sd1"])
pipe.load_lora_weights(folders["loras"], weight_name="first.safetensors", adapter_name="first")
pipe.load_lora_weights(folders["loras"], weight_name="second.safetensors", adapter_name="second")
pipe.set_adapters(["first", "second"], [0.7, 0.4])
small = {"height": 16, "width": 16, "num_inference_steps": 3, "output_type": "np"}
both = pipe("a cat", **small, generator=torch.manual_seed(4)).images
pipe.set_adapters("second")
second = pipe("a cat", **small, generator=torch.manual_seed(4)).images
pictures = [*both, *second]
