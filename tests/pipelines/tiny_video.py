"""Tiny Wan and Helios folders with random weights in the published layout, for Lockstep and for diffusers."""

import functools
import tempfile
from pathlib import Path

import lockstep
from pipelines.tiny import WORDS, randomize
from tokenizers_of_tests import train_sentencepiece

TEXT_WIDTH = 16
TRANSFORMER = {
    "num_attention_heads": 2, "attention_head_dim": 12, "in_channels": 4, "out_channels": 4, "text_dim": TEXT_WIDTH,
    "freq_dim": 16, "ffn_dim": 20, "num_layers": 2,
}  # fmt: skip
VAE = {
    "base_dim": 4, "z_dim": 4, "num_res_blocks": 1, "dim_mult": [1, 1, 1, 1],
    "latents_mean": [0.1, -0.2, 0.3, 0.0], "latents_std": [1.5, 2.0, 0.8, 1.1],
}  # fmt: skip
VAE_22 = {
    **VAE, "decoder_base_dim": 4, "is_residual": True, "in_channels": 12, "out_channels": 12, "patch_size": 2,
    "scale_factor_spatial": 16,
}  # fmt: skip
SCHEDULER = {
    "prediction_type": "flow_prediction",
    "use_flow_sigmas": True,
    "num_train_timesteps": 1000,
    "flow_shift": 3.0,
}
VISION = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 16,
    "patch_size": 8, "projection_dim": 16,
}  # fmt: skip
READS_IMAGE = {"in_channels": 12}  # 4 of noise, 4 of mask, 4 of the image
SEES_IMAGE = {**READS_IMAGE, "image_dim": 16, "added_kv_proj_dim": 24}
KINDS = {
    "text": {},
    "image": {"transformer": SEES_IMAGE, "sees": True},
    "first and last": {"transformer": {**SEES_IMAGE, "pos_embed_seq_len": 10}, "sees": True},
    "experts": {"two": True, "configs": {"boundary_ratio": 0.875}},
    "image experts": {"two": True, "transformer": READS_IMAGE, "configs": {"boundary_ratio": 0.9}},
    "5B": {"vae": VAE_22, "configs": {"expand_timesteps": True}},
}


@functools.cache
def text_parts():
    """A tokenizer trained here and a UMT5 encoder."""
    with tempfile.TemporaryDirectory() as folder:
        train_sentencepiece(Path(folder), WORDS)
        tokenizer = lockstep.T5Tokenizer.from_pretrained(folder)
    encoder = lockstep.UMT5EncoderModel(
        vocab_size=len(tokenizer), d_model=TEXT_WIDTH, d_kv=8, d_ff=24, num_layers=2, num_heads=2
    )
    return {"tokenizer": tokenizer, "text_encoder": randomize(encoder, 1)}


def parts(kind):
    made = KINDS[kind]
    config = {**TRANSFORMER, **made.get("transformer", {})}
    found = {
        **text_parts(),
        "transformer": randomize(lockstep.WanTransformer3DModel(**config), 2),
        "vae": randomize(lockstep.AutoencoderKLWan(**made.get("vae", VAE)), 3),
        "scheduler": lockstep.UniPCMultistepScheduler(**SCHEDULER),
        **made.get("configs", {}),
    }
    if "two" in made:
        found["transformer_2"] = randomize(lockstep.WanTransformer3DModel(**config), 4)
    if "sees" in made:
        found["image_encoder"] = randomize(lockstep.CLIPVisionModel(**VISION), 5)
        found["image_processor"] = lockstep.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size=16)
    return found


def save_wan(folder, kind="text"):
    reads_image = KINDS[kind].get("transformer") is not None
    pipeline = lockstep.WanImageToVideoPipeline if reads_image else lockstep.WanPipeline
    pipeline(**parts(kind)).save_pretrained(folder)
    return Path(folder)


def save_helios(folder, scheduler, configs, gamma):
    """Base with one stage, Mid with three, Distilled with a scheduler of its own."""
    config = {**TRANSFORMER, "rope_dim": (4, 4, 4)}
    kind = lockstep.HeliosDMDScheduler if configs.get("is_distilled") else lockstep.HeliosScheduler
    made = {
        **text_parts(),
        "transformer": randomize(lockstep.HeliosTransformer3DModel(**config), 2),
        "vae": randomize(lockstep.AutoencoderKLWan(**VAE), 3),
        "scheduler": kind(**scheduler, gamma=gamma, use_dynamic_shifting=True),
        **configs,
    }
    pipeline = lockstep.HeliosPipeline if scheduler.get("stages") == 1 else lockstep.HeliosPyramidPipeline
    pipeline(**made).save_pretrained(folder)
    return Path(folder)
