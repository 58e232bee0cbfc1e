"""Tiny folders of the families of flow matching with random weights in the published layout."""

import json
from pathlib import Path

import lockstep
from pipelines import tiny

PUBLISHED_FLUX_SHIFT = {"base_shift": 0.5, "max_shift": 1.15, "shift": 3.0, "use_dynamic_shifting": True}
CHANNELS = 4


def t5_tokenizer() -> lockstep.T5Tokenizer:
    words = [f"▁{word}" for word in tiny.WORDS] + [*"abcdefghijklmnopqrstuvwxyz0123456789,.▁"]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -2.0), *((word, -3.0 - k / 50) for k, word in enumerate(words))]
    return lockstep.T5Tokenizer.from_vocabulary(pieces, model_max_length=512)


def t5_encoder(vocabulary: int, width: int, seed: int = 5) -> lockstep.T5EncoderModel:
    config = {
        "vocab_size": vocabulary, "d_model": width, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2,
        "feed_forward_proj": "gated-gelu",
    }  # fmt: skip
    return tiny.randomize(lockstep.T5EncoderModel(**config), seed)


def vae(seed: int = 3, channels: int = CHANNELS) -> lockstep.AutoencoderKL:
    config = {
        "block_out_channels": (8, 8, 16), "latent_channels": channels, "norm_num_groups": 8, "sample_size": 32,
        "down_block_types": ("DownEncoderBlock2D",) * 3, "up_block_types": ("UpDecoderBlock2D",) * 3,
        "scaling_factor": 0.3611, "shift_factor": 0.1159, "use_quant_conv": False, "use_post_quant_conv": False,
    }  # fmt: skip
    return tiny.randomize(lockstep.AutoencoderKL(**config), seed)


FLUX = {
    "in_channels": 4 * CHANNELS, "num_layers": 2, "num_single_layers": 2, "attention_head_dim": 12,
    "num_attention_heads": 2, "joint_attention_dim": 24, "pooled_projection_dim": 16, "axes_dims_rope": (4, 4, 4),
    "guidance_embeds": True,
}  # fmt: skip


def flux_parts(kind: str = "dev") -> dict:
    """Components of FLUX `dev`, `schnell`, `fill` or `kontext`."""
    more = {"schnell": {"guidance_embeds": False}}
    more["fill"] = {"in_channels": 4 * (2 * CHANNELS + 4 * 4), "out_channels": 4 * CHANNELS}
    shift = {"shift": 1.0} if kind == "schnell" else PUBLISHED_FLUX_SHIFT
    clip, t5 = tiny.tokenizer(), t5_tokenizer()
    return {
        "tokenizer": clip,
        "text_encoder": tiny.text_encoder(len(clip)),
        "tokenizer_2": t5,
        "text_encoder_2": t5_encoder(len(t5), 24),
        "transformer": tiny.randomize(lockstep.FluxTransformer2DModel(**{**FLUX, **more.get(kind, {})}), 2),
        "vae": vae(),
        "scheduler": lockstep.FlowMatchEulerDiscreteScheduler(**shift),
    }


def write(folder: Path, kind: str, parts: dict, **more) -> Path:
    """Components and the index that the published pipeline of that name has."""
    index = {"_class_name": kind, "_diffusers_version": "0.42.1"}
    for name, part in parts.items():
        if part is None:
            index[name] = [None, None]
            continue
        part.save_pretrained(folder / name)
        library = "transformers" if name.startswith(("tokenizer", "text_encoder", "processor")) else "diffusers"
        published = {"T5Tokenizer": "T5TokenizerFast"}.get(type(part).__name__, type(part).__name__)
        index[name] = [library, published]
    (folder / "model_index.json").write_text(json.dumps({**index, **more}, indent=2))
    return folder


NAMES = {"fill": "FluxFillPipeline", "kontext": "FluxKontextPipeline"}


def save_flux(folder: Path, kind: str = "dev") -> Path:
    absent = {} if kind == "fill" else {"image_encoder": None, "feature_extractor": None}
    return write(folder, NAMES.get(kind, "FluxPipeline"), flux_parts(kind) | absent)


SD3 = {
    "sample_size": 8, "in_channels": 16, "out_channels": 16, "num_layers": 3, "attention_head_dim": 8,
    "num_attention_heads": 2, "joint_attention_dim": 40, "caption_projection_dim": 16, "pooled_projection_dim": 32,
    "pos_embed_max_size": 12,
}  # fmt: skip
SD3_KINDS = {
    "sd3": {},
    "sd35_medium": {"qk_norm": "rms_norm", "dual_attention_layers": (0, 1)},
    "sd35_large": {"qk_norm": "rms_norm"},
}


def sd3_parts(kind: str = "sd35_medium") -> dict:
    """Components of Stable Diffusion 3: two CLIPs of 16 numbers each and T5 of 40."""
    clip, t5 = tiny.tokenizer(), t5_tokenizer()
    return {
        "tokenizer": clip,
        "text_encoder": tiny.text_encoder(len(clip), projection=True),
        "tokenizer_2": clip,
        "text_encoder_2": tiny.text_encoder(len(clip), projection=True, seed=4),
        "tokenizer_3": t5,
        "text_encoder_3": t5_encoder(len(t5), 40),
        "transformer": tiny.randomize(lockstep.SD3Transformer2DModel(**{**SD3, **SD3_KINDS[kind]}), 2),
        "vae": vae(channels=16),
        "scheduler": lockstep.FlowMatchEulerDiscreteScheduler(shift=3.0),
    }


def save_sd3(folder: Path, kind: str = "sd35_medium", **changes) -> Path:
    absent = {"image_encoder": None, "feature_extractor": None}
    return write(folder, "StableDiffusion3Pipeline", {**sd3_parts(kind), **changes, **absent})


def shifted(vae):
    """Their painting of Stable Diffusion 3 forgets the shift of the latents when it decodes; this puts it back."""

    def decode(latents, *args, **kwargs):
        return type(vae).decode(vae, latents + vae.config.shift_factor, *args, **kwargs)

    return decode


def likeliest(vae):
    """Their control pictures of Stable Diffusion 3 are drawn from the global generator; this takes the likeliest."""
    encode = vae.encode

    def encoded(pixels, *args, **kwargs):
        found = encode(pixels, *args, **kwargs)
        found.latent_dist.sample = lambda generator=None: found.latent_dist.mode()
        return found

    vae.encode = encoded


def sd3_net(seed: int, **more) -> lockstep.SD3ControlNetModel:
    config = {**SD3, "num_layers": 2, **more}
    return tiny.randomize(lockstep.SD3ControlNetModel(**config), seed)


def flux_net(seed: int, **more) -> lockstep.FluxControlNetModel:
    config = {**FLUX, "num_layers": 2, "num_single_layers": 1, **more}
    return tiny.randomize(lockstep.FluxControlNetModel(**config), seed)
