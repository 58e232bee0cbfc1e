"""Z-Image (arXiv:2511.22699): text to image, image to image and painting."""
