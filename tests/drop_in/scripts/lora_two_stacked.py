import torch
from diffusers import StableDiffusionPipeline

pipe = StableDiffusionPipeline.from_pretrained(folders["sd1"])
pipe.load_lora_weights(folders["lora"], weight_name="pixels.safetensors", adapter_name="pixels")
pipe.load_lora_weights(folders["lora"], weight_name="toys.safetensors", adapter_name="toys")
pipe.set_adapters(["pixels", "toys"], adapter_weights=[0.7, 0.4])
both = pipe("red cat", num_inference_steps=4, generator=torch.manual_seed(0)).images
pipe.set_adapters("toys")
toys = pipe("red cat", num_inference_steps=4, generator=torch.manual_seed(0)).images
pipe.delete_adapters("pixels")
pipe.fuse_lora(lora_scale=0.5)
fused = pipe("red cat", num_inference_steps=4, generator=torch.manual_seed(0)).images
pipe.unfuse_lora()
pipe.unload_lora_weights()
plain = pipe("red cat", num_inference_steps=4, generator=torch.manual_seed(0)).images
pictures = both + toys + fused + plain
