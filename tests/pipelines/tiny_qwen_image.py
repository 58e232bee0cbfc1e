"""Tiny folders of Qwen-Image with random weights in the published layout."""

from pathlib import Path

import lockstep
from pipelines import tiny, tiny_flow, tiny_z_image

CHANNELS = 4
PUBLISHED_SHIFT = {
    "base_image_seq_len": 256, "base_shift": 0.5, "max_image_seq_len": 8192, "max_shift": 0.9, "shift": 1.0,
    "use_dynamic_shifting": True,
}  # fmt: skip
TRANSFORMER = {
    "in_channels": 4 * CHANNELS, "out_channels": CHANNELS, "num_layers": 2, "attention_head_dim": 12,
    "num_attention_heads": 2, "joint_attention_dim": 16, "axes_dims_rope": (4, 4, 4),
}  # fmt: skip
VISION = {
    "depth": 3, "hidden_size": 16, "intermediate_size": 20, "num_heads": 2, "patch_size": 4, "window_size": 16,
    "out_hidden_size": 16, "fullatt_block_indexes": [1], "model_type": "qwen2_5_vl",
}  # fmt: skip
ENCODER = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2,
    "num_key_value_heads": 1, "rope_scaling": {"mrope_section": [1, 1, 2], "rope_type": "default"},
    "vision_config": VISION,
}  # fmt: skip
VAE = {
    "base_dim": 4, "z_dim": CHANNELS, "dim_mult": (1, 1, 2), "num_res_blocks": 1, "temperal_downsample": (False, True),
    "latents_mean": [0.1, -0.2, 0.3, 0.0], "latents_std": [2.0, 1.5, 1.2, 0.8],
}  # fmt: skip


def qwen_image_parts(terminal: float | None = 0.02, **changes) -> dict:
    """Components; `terminal` is the last sigma, which one step cannot have, `changes` are of the transformer."""
    tokenizer = tiny_z_image.qwen_tokenizer("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    marks = {"image_token_id": tokenizer.convert_tokens_to_ids("<|image_pad|>")}
    encoder = lockstep.Qwen2_5_VLForConditionalGeneration(vocab_size=len(tokenizer), **marks, **ENCODER)
    return {
        "tokenizer": tokenizer,
        "text_encoder": tiny.randomize(encoder, 4),
        "transformer": tiny.randomize(lockstep.QwenImageTransformer2DModel(**{**TRANSFORMER, **changes}), 2),
        "vae": tiny.randomize(lockstep.AutoencoderKLQwenImage(**VAE), 3),
        "scheduler": lockstep.FlowMatchEulerDiscreteScheduler(**PUBLISHED_SHIFT, shift_terminal=terminal),
    }


def save_qwen_image(folder: Path, **changes) -> Path:
    return tiny_flow.write(folder, "QwenImagePipeline", qwen_image_parts(**changes))


def save_qwen_image_edit(folder: Path, **changes) -> Path:
    """The same with the processor of the editing models, which reads pictures in patches of the tiny tower."""
    parts = qwen_image_parts(**changes)
    pictures = lockstep.Qwen2VLImageProcessor(patch_size=VISION["patch_size"], min_pixels=64, max_pixels=4096)
    parts["processor"] = lockstep.Qwen2VLProcessor(pictures, parts["tokenizer"])
    return tiny_flow.write(folder, "QwenImageEditPipeline", parts)
