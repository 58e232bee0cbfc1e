"""Wan 2.1 and 2.2: text, image, first and last frame, and video to video; one denoiser or two experts."""

from ...places import public_names

__getattr__ = public_names(__name__)
