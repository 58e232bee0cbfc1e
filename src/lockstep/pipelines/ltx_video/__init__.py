"""LTX-Video (arXiv:2501.00103): text to video, and image to video."""
