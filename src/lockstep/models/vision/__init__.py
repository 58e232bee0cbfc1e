"""Models that look at pictures: CLIP's vision transformer and what is built on it."""
