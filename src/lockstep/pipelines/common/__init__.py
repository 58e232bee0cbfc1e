"""Blocks that no family owns, in the way of the data. They ask for the denoiser and the autoencoder as roles.

parts (what blocks use) -> prompts, clip_text, t5_text -> guidance -> control -> sizes -> timesteps, flow (grids that
are shifted) -> start, painting (noise, pictures and masks to the first latents), tokens (their places) -> denoise (the
loop), unet (what UNets want in it), beside, editing (what they read beside the latents) -> decode -> safety ->
workflows (the tables). A family adds its text encoder and conditions, says who plays the roles, and puts a table of
blocks together.
"""
