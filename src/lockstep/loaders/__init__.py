"""File -> tensors -> model: layouts that are not the published folder, and LoRA."""
