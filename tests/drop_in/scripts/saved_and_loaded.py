import tempfile

import torch
from diffusers import DiffusionPipeline

pipe = DiffusionPipeline.from_pretrained(folders["xl"])
with tempfile.TemporaryDirectory() as folder:
    pipe.save_pretrained(folder, safe_serialization=True, max_shard_size="1GB")
    again = DiffusionPipeline.from_pretrained(folder)
    pictures = again("a house", height=16, width=16, num_inference_steps=3, generator=torch.manual_seed(0)).images
