"""Qwen-Image (arXiv:2508.02324): text to image, image to image, painting, and editing."""
