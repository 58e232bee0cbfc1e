"""FLUX.1 (Black Forest Labs): text to image, image to image, painting, editing by a reference picture, ControlNets."""
