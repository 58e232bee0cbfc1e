"""Stable Diffusion 1.x and 2.x.

encoders.py -> before_denoise.py -> denoise.py -> decoders.py are the way of the data; blocks.py puts them together.
"""
