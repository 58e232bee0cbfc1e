"""FLUX.1 (Black Forest Labs): text to image, image to image, painting, editing by a reference picture, ControlNets."""

from ...places import public_names

__getattr__ = public_names(__name__)
