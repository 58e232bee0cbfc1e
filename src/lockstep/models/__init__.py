"""Tensors to tensors: one model is one file, its configuration and attention included."""
