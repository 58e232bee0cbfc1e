"""Stable Diffusion XL, base and refiner: two text encoders, sizes as conditions; the rest is pipelines/common."""

from ...places import public_names

__getattr__ = public_names(__name__)
