import torch
from diffusers import AutoPipelineForImage2Image, AutoPipelineForText2Image

text = AutoPipelineForText2Image.from_pretrained(folders["xl"])
first = text("a cat", height=16, width=16, num_inference_steps=3, generator=torch.manual_seed(0)).images[0]
pipe = AutoPipelineForImage2Image.from_pipe(text)
pictures = [
    first,
    *pipe("a dog", image=first, strength=0.6, num_inference_steps=5, generator=torch.manual_seed(1)).images,
]
