"""Stable Diffusion 3 and 3.5 (arXiv:2403.03206): text to image, image to image, painting."""
