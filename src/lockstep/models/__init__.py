"""Tensors to tensors: one model is one file, its configuration and attention included."""

from ..places import public_names

__getattr__ = public_names(__name__)
