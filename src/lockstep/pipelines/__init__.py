"""Pipelines: each family is a folder of blocks and one short class that gives them a face."""

from ..places import public_names

__getattr__ = public_names(__name__)
