"""Stable Diffusion XL, base and refiner: two text encoders, sizes as conditions; the rest is pipelines/common."""
