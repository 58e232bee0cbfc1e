"""Stable Diffusion 3 and 3.5 (arXiv:2403.03206): text to image, image to image, painting."""

from ...places import public_names

__getattr__ = public_names(__name__)
