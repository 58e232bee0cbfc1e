"""Stable Diffusion 1.x and 2.x: one CLIP text encoder and a UNet; the rest is pipelines/common."""

from ...places import public_names

__getattr__ = public_names(__name__)
