"""Causes by trial: one thing is changed in a live model, and the residual says whether it was that."""
