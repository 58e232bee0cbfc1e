"""File -> tensors -> model: layouts that are not the published folder, and LoRA."""

from ..places import public_names

__getattr__ = public_names(__name__)
