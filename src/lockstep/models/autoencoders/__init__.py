"""Pictures to latents and back."""
