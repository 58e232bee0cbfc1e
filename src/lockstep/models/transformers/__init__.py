"""Transformers that denoise tokens; what they share is in layers.py, the rotations in rotary.py."""
