"""Tiny folders of LTX-Video with random weights in the published layout."""

from pathlib import Path

import torch

import lockstep
from pipelines import tiny, tiny_flow

CHANNELS, TEXT_WIDTH = 8, 16
TRANSFORMER = {
    "in_channels": CHANNELS, "out_channels": CHANNELS, "num_attention_heads": 2, "attention_head_dim": 14,
    "cross_attention_dim": 28, "num_layers": 2, "caption_channels": TEXT_WIDTH,
}  # fmt: skip
OLD = {
    "latent_channels": CHANNELS, "block_out_channels": (4, 8, 12, 12), "layers_per_block": (1, 1, 1, 1, 1),
    "spatio_temporal_scaling": (True, True, True, False),
}  # fmt: skip
TIMED = {
    "decoder_block_out_channels": (8, 16, 32), "decoder_layers_per_block": (1, 1, 2, 1),
    "decoder_spatio_temporal_scaling": (True, True, True), "upsample_residual": (True, True, True),
    "upsample_factor": (2, 2, 2), "timestep_conditioning": True,
}  # fmt: skip
VAES = {
    "0.9.0": {
        **OLD,
        "decoder_block_out_channels": (4, 8, 12, 12), "decoder_layers_per_block": (1, 1, 1, 1, 1),
        "decoder_spatio_temporal_scaling": (True, True, True, False),
    },
    "0.9.1": {**OLD, **TIMED, "decoder_inject_noise": (True, True, True, False)},
    "0.9.5": {
        **TIMED,
        "latent_channels": CHANNELS, "block_out_channels": (4, 8, 16, 32, 64), "layers_per_block": (1, 1, 2, 1, 1),
        "down_block_types": ("LTXVideo095DownBlock3D",) * 4, "spatio_temporal_scaling": (True, True, True, True),
        "downsample_type": ("spatial", "temporal", "spatiotemporal", "spatiotemporal"),
        "decoder_inject_noise": (False, False, False, False),
        "spatial_compression_ratio": 32, "temporal_compression_ratio": 8,
    },
}  # fmt: skip
SHIFT = {
    "use_dynamic_shifting": True, "base_shift": 0.95, "max_shift": 2.05, "base_image_seq_len": 1024,
    "max_image_seq_len": 4096, "shift_terminal": 0.1,
}  # fmt: skip


def autoencoder(version: str = "0.9.0", seed: int = 3) -> lockstep.AutoencoderKLLTXVideo:
    made = tiny.randomize(lockstep.AutoencoderKLLTXVideo(**VAES[version]), seed)
    drawn = torch.Generator().manual_seed(seed)
    made.latents_mean.copy_(0.3 * torch.randn(CHANNELS, generator=drawn))
    made.latents_std.copy_(0.5 + torch.rand(CHANNELS, generator=drawn))
    if made.config.timestep_conditioning:
        made.decoder.timestep_scale_multiplier.data.fill_(1000.0)
    return made


def ltx_parts(version: str = "0.9.0") -> dict:
    """Components with the autoencoder of a version; from 0.9.5 on the grid is not shifted."""
    tokenizer = tiny_flow.t5_tokenizer()
    return {
        "tokenizer": tokenizer,
        "text_encoder": tiny_flow.t5_encoder(len(tokenizer), TEXT_WIDTH),
        "transformer": tiny.randomize(lockstep.LTXVideoTransformer3DModel(**TRANSFORMER), 2),
        "vae": autoencoder(version),
        "scheduler": lockstep.FlowMatchEulerDiscreteScheduler(**({} if version == "0.9.5" else SHIFT)),
    }


def save_ltx(folder: Path, version: str = "0.9.0") -> Path:
    return tiny_flow.write(Path(folder), "LTXPipeline", ltx_parts(version))
