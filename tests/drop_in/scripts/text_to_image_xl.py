import torch
from diffusers import DiffusionPipeline

pipe = DiffusionPipeline.from_pretrained(folders["xl"], torch_dtype=torch.float32, use_safetensors=True)
pictures = pipe(
    prompt="a photo of a cat", prompt_2="painting style", negative_prompt="blue", height=16, width=16,
    num_inference_steps=4, generator=torch.Generator().manual_seed(0), original_size=(64, 64),
    crops_coords_top_left=(4, 4), target_size=(16, 16),
).images  # fmt: skip
