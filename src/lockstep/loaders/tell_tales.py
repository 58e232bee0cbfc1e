"""What gives a family away: tensors that its files have and no other's do, from specific to general.

A clue is a name, found under any prefix, or `(name, axis, size)` for a name with that size. Of two families whose clues
are all there, the earlier one is meant; `lacks` are clues that must not be there. Variants are tried in order too.
"""

from __future__ import annotations

from dataclasses import dataclass

Clue = str | tuple[str, int, int]
Variants = tuple[tuple[str, tuple[Clue, ...]], ...]


@dataclass(frozen=True)
class TellTale:
    """A family that files are recognised as."""

    family: str
    title: str
    needs: tuple[Clue, ...]
    lacks: tuple[Clue, ...] = ()
    variants: Variants = ()
    kind: str = "denoiser"
    used_by: str = ""  # how it is used, where it is no model by itself


def published(family: str, title: str, *needs: Clue) -> TellTale:
    """A family whose files have the published names, which tell no more of the variant."""
    return TellTale(family, title, needs, variants=(("published layout", ()),))


WAN: Variants = (
    ("FLF2V 14B", ("img_emb.emb_pos",)),
    ("VACE", ("vace_patch_embedding.weight",)),
    ("Animate", ("face_adapter.fuser_blocks.0.linear1_kv.weight",)),
    ("S2V", ("casual_audio_encoder.encoder.conv2.conv.weight",)),
    ("camera control", ("control_adapter.conv.weight",)),
    ("2.2 TI2V 5B", (("patch_embedding.weight", 1, 48), ("head.modulation", 2, 3072))),
    ("Fun control", (("patch_embedding.weight", 1, 48),)),
    ("2.1 I2V 14B", (("patch_embedding.weight", 1, 36), "img_emb.proj.0.bias", ("head.modulation", 2, 5120))),
    ("2.1 Fun inpainting 1.3B", (("patch_embedding.weight", 1, 36), ("head.modulation", 2, 1536))),
    ("2.2 I2V A14B", (("patch_embedding.weight", 1, 36), ("head.modulation", 2, 5120))),
    ("2.1 T2V 1.3B", (("patch_embedding.weight", 1, 16), ("head.modulation", 2, 1536))),
    ("T2V 14B (2.1, or one expert of 2.2: no tensor tells)", (("patch_embedding.weight", 1, 16),)),
)
WAN_PUBLISHED: Variants = (
    ("FLF2V 14B", ("condition_embedder.image_embedder.pos_embed",)),
    ("2.2 TI2V 5B", (("patch_embedding.weight", 1, 48), ("patch_embedding.weight", 0, 3072))),
    ("2.1 I2V 14B", (("patch_embedding.weight", 1, 36), "condition_embedder.image_embedder.norm1.bias")),
    ("2.2 I2V A14B", (("patch_embedding.weight", 1, 36),)),
    ("2.1 T2V 1.3B", (("patch_embedding.weight", 1, 16), ("patch_embedding.weight", 0, 1536))),
    ("T2V 14B (2.1, or one expert of 2.2: no tensor tells)", (("patch_embedding.weight", 1, 16),)),
)
FLUX: Variants = (
    ("Fill", (("img_in.weight", 1, 384),)),
    ("Depth or Canny", (("img_in.weight", 1, 128),)),
    ("dev (or Kontext: no tensor tells)", ("guidance_in.in_layer.weight",)),
    ("schnell", ()),
)
FLUX_PUBLISHED: Variants = (
    ("Fill", (("x_embedder.weight", 1, 384),)),
    ("Depth or Canny", (("x_embedder.weight", 1, 128),)),
    ("dev (or Kontext: no tensor tells)", ("time_text_embed.guidance_embedder.linear_1.weight",)),
    ("schnell", ()),
)
SD3: Variants = (
    ("3.5 large", ("joint_blocks.37.x_block.attn.qkv.weight",)),
    ("3.5 medium", ("joint_blocks.0.x_block.attn2.qkv.weight",)),
    ("3 medium", ()),
)
LTX: Variants = (
    ("13B", ("transformer_blocks.47.scale_shift_table",)),
    ("2B 0.9.5 or later", ("encoder.down_blocks.1.conv.conv.weight",)),
    ("2B 0.9.1", ("decoder.last_scale_shift_table",)),
    ("2B", ()),
)

FAMILIES = (
    TellTale(
        "ltx2",
        "LTX-2",
        ("av_ca_a2v_gate_adaln_single.linear.weight",),
        variants=(("2.3", ("prompt_adaln_single.linear.weight",)),),
    ),
    TellTale(
        "ltx",
        "LTX-Video",
        ("adaln_single.emb.timestep_embedder.linear_1.bias", "patchify_proj.weight"),
        ("pos_embed.proj.weight",),
        LTX,
    ),
    TellTale(
        "ltx",
        "LTX-Video",
        (
            "time_embed.emb.timestep_embedder.linear_1.bias",
            "transformer_blocks.0.attn1.norm_q.weight",
            "proj_in.weight",
        ),
        ("audio_proj_in.weight", "pos_embed.proj.weight"),
        LTX,
    ),
    TellTale("flux2", "FLUX.2", ("single_stream_modulation.lin.weight",)),
    TellTale("flux3", "FLUX.3", ("early_stream_modulations.image.lin.weight",)),
    TellTale("chroma", "Chroma", ("distilled_guidance_layer.in_proj.weight",)),
    TellTale("flux_redux", "FLUX.1 Redux", ("redux_up.weight", "redux_down.weight"), kind="adapter"),
    TellTale("flux", "FLUX.1", ("double_blocks.0.img_attn.norm.key_norm.scale",), variants=FLUX),
    TellTale(
        "flux",
        "FLUX.1",
        ("transformer_blocks.0.attn.norm_added_k.weight", "single_transformer_blocks.0.attn.norm_q.weight"),
        variants=FLUX_PUBLISHED,
    ),
    TellTale("sd3", "Stable Diffusion 3", ("joint_blocks.0.context_block.attn.qkv.weight",), variants=SD3),
    published("sd3", "Stable Diffusion 3", "pos_embed.pos_embed", "transformer_blocks.0.attn.add_q_proj.weight"),
    TellTale("helios", "Helios", ("patch_short.weight", "patch_mid.weight", "patch_long.weight")),
    TellTale("wan", "Wan", ("head.modulation", "patch_embedding.weight"), variants=WAN),
    TellTale(
        "wan",
        "Wan",
        ("condition_embedder.time_proj.weight", "patch_embedding.weight", "blocks.0.scale_shift_table"),
        ("vace_patch_embedding.weight", "face_adapter.0.to_q.weight"),
        variants=WAN_PUBLISHED,
    ),
    TellTale(
        "hunyuan_video",
        "HunyuanVideo",
        ("txt_in.individual_token_refiner.blocks.0.norm1.weight",),
        variants=(("1.5", ("vision_in.proj.0.weight",)), ("", ())),
    ),
    TellTale("qwen_image_2", "Qwen-Image 2.1", ("txt_in.text_norm.weight",)),
    TellTale(
        "qwen_image",
        "Qwen-Image",
        ("txt_norm.weight", "transformer_blocks.0.img_mod.1.weight"),
        variants=(("Edit-2511", ("__index_timestep_zero__",)), ("", ())),
    ),
    TellTale("z_image", "Z-Image", ("cap_embedder.1.weight", "layers.0.adaLN_modulation.0.weight")),
    TellTale("lumina2", "Lumina 2", ("cap_embedder.1.weight", "layers.0.adaLN_modulation.1.weight")),
    TellTale("cascade_c", "Stable Cascade, stage C", ("clip_txt_mapper.weight",)),
    TellTale("cascade_b", "Stable Cascade, stage B", ("clip_mapper.weight",)),
    TellTale(
        "pixart",
        "PixArt",
        ("t_block.1.weight", "blocks.0.cross_attn.q_linear.weight"),
        ("blocks.0.mlp.depth_conv.conv.weight",),
    ),
    published("pixart", "PixArt", "adaln_single.linear.weight", "pos_embed.proj.weight"),
    TellTale("sana", "Sana", ("blocks.0.cross_attn.q_linear.weight", "t_block.1.weight")),
    TellTale("hunyuan_dit", "HunyuanDiT", ("mlp_t5.0.weight",)),
    TellTale("auraflow", "AuraFlow", ("double_layers.0.attn.w1q.weight",)),
    TellTale("mochi", "Mochi", ("t5_yproj.weight",)),
    TellTale("hidream", "HiDream", ("caption_projection.0.linear.weight",)),
    TellTale("svd", "Stable Video Diffusion", ("input_blocks.1.1.time_stack.0.norm1.weight",)),
    TellTale("svd", "Stable Video Diffusion", ("input_blocks.1.0.time_stack.in_layers.0.weight",)),
    TellTale(
        "animatediff",
        "AnimateDiff motion module",
        ("down_blocks.0.motion_modules.0.temporal_transformer.norm.weight",),
        kind="adapter",
    ),
    TellTale(
        "ip_adapter",
        "IP-Adapter",
        ("ip_adapter.1.to_k_ip.weight",),
        kind="adapter",
        used_by="pipe.load_ip_adapter",
        variants=(
            ("FaceID plus", ("image_proj.perceiver_resampler.proj_in.weight",)),
            ("plus", ("image_proj.latents",)),
            ("full face", ("image_proj.proj.3.weight",)),
            ("FaceID", ("image_proj.norm.weight", "image_proj.proj.0.weight")),
            ("plain", ("image_proj.proj.weight",)),
        ),
    ),
    TellTale("ip_adapter", "IP-Adapter for FLUX.1", ("ip_adapter_proj_model.proj.weight",), kind="adapter"),
    TellTale(
        "controlnet_flux",
        "ControlNet for FLUX.1",
        ("controlnet_blocks.0.weight", "controlnet_x_embedder.weight"),
        kind="controlnet",
    ),
    TellTale(
        "controlnet_sd3",
        "ControlNet for Stable Diffusion 3",
        ("controlnet_blocks.0.weight", "pos_embed_input.proj.weight"),
        kind="controlnet",
    ),
    TellTale(
        "controlnet_qwen",
        "ControlNet for Qwen-Image",
        ("controlnet_blocks.0.weight", "transformer_blocks.0.img_mlp.net.0.proj.weight"),
        kind="controlnet",
    ),
    TellTale(
        "controlnet_union",
        "ControlNet union for SDXL",
        ("control_add_embedding.linear_1.weight", "task_embedding"),
        kind="controlnet",
    ),
    TellTale("control_lora", "Control-LoRA", ("lora_controlnet",), kind="controlnet"),
    TellTale(
        "wan_vae",
        "VAE of Wan",
        ("decoder.middle.0.residual.0.gamma",),
        kind="autoencoder",
        variants=(("2.2 (48 channels)", (("conv2.weight", 0, 48),)), ("2.1, or that of Qwen-Image", ())),
    ),
    TellTale(
        "wan_vae",
        "VAE of Wan",
        ("decoder.mid_block.resnets.0.norm1.gamma", "post_quant_conv.weight"),
        kind="autoencoder",
        variants=(("2.2 (48 channels)", (("post_quant_conv.weight", 0, 48),)), ("2.1, or that of Qwen-Image", ())),
    ),
    TellTale(
        "ltx_vae", "VAE of LTX-Video", ("decoder.up_blocks.0.res_blocks.0.conv1.conv.weight",), kind="autoencoder"
    ),
    TellTale(
        "ltx_vae",
        "VAE of LTX-Video",
        ("decoder.mid_block.resnets.0.conv1.conv.weight", "latents_std"),
        kind="autoencoder",
    ),
    TellTale("hunyuan_vae", "VAE of HunyuanVideo", ("decoder.conv_in.conv.weight",), kind="autoencoder"),
    TellTale("mochi_vae", "VAE of Mochi", ("blocks.2.blocks.3.stack.5.weight",), kind="autoencoder"),
    TellTale(
        "dc_ae", "Deep-compression autoencoder", ("decoder.stages.1.op_list.0.main.conv.conv.bias",), kind="autoencoder"
    ),
    TellTale("svd_vae", "VAE of Stable Video Diffusion", ("decoder.mid.block_1.mix_factor",), kind="autoencoder"),
    TellTale(
        "umt5",
        "UMT5 text encoder",
        ("encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight",),
        kind="text encoder",
    ),
    TellTale("t5", "T5 text encoder", ("encoder.block.0.layer.0.SelfAttention.q.weight",), kind="text encoder"),
    TellTale("umt5", "UMT5 text encoder (llama.cpp's names)", ("enc.blk.1.attn_rel_b.weight",), kind="text encoder"),
    TellTale("t5", "T5 text encoder (llama.cpp's names)", ("enc.blk.0.attn_q.weight",), kind="text encoder"),
    TellTale("gemma", "Gemma", ("layers.0.post_feedforward_layernorm.weight",), kind="text encoder"),
    TellTale(
        "qwen2_5_vl",
        "Qwen2.5-VL text encoder",
        ("layers.0.self_attn.k_proj.bias", "visual.patch_embed.proj.weight"),
        kind="text encoder",
    ),
    TellTale(
        "qwen2", "Qwen 2.5", ("layers.0.self_attn.k_proj.bias", "layers.0.input_layernorm.weight"), kind="text encoder"
    ),
    TellTale(
        "qwen3",
        "Qwen3 text encoder",
        ("layers.0.self_attn.q_norm.weight", "layers.0.input_layernorm.weight"),
        kind="text encoder",
    ),
    TellTale("qwen3", "Qwen3 text encoder (llama.cpp's names)", ("blk.0.attn_q_norm.weight",), kind="text encoder"),
    TellTale(
        "llama", "Llama", ("layers.0.self_attn.k_proj.weight", "layers.0.input_layernorm.weight"), kind="text encoder"
    ),
    TellTale("esrgan", "ESRGAN upscaler", ("conv_first.weight", "body.0.rdb1.conv1.weight"), kind="upscaler"),
    TellTale("esrgan", "ESRGAN upscaler (old names)", ("model.1.sub.0.RDB1.conv1.0.weight",), kind="upscaler"),
    TellTale("swinir", "SwinIR or HAT upscaler", ("layers.0.residual_group.blocks.0.norm1.weight",), kind="upscaler"),
)

# pieces of names that only low-rank adapters and their relatives have
LORA_MARKS = (
    ".lora_A.",
    ".lora_B.",
    ".lora_up.",
    ".lora_down.",
    "_lora.up.",
    "_lora.down.",
    ".lora.up.",
    ".lora.down.",
    ".hada_w",
    ".lokr_w",
    ".lora_linear_layer.",
    ".lora_mid.",
    ".dora_scale",
    ".oft_blocks",
    ".on_input",
    ".w_norm",
    ".b_norm",
)
# leftovers of training and samplers: of no use to a model
BUFFERS = (
    "betas",
    "alphas_cumprod",
    "alphas_cumprod_prev",
    "sqrt_alphas_cumprod",
    "sqrt_one_minus_alphas_cumprod",
    "log_one_minus_alphas_cumprod",
    "sqrt_recip_alphas_cumprod",
    "sqrt_recipm1_alphas_cumprod",
    "posterior_variance",
    "posterior_log_variance_clipped",
    "posterior_mean_coef1",
    "posterior_mean_coef2",
    "scale_factor",
    "logvar",
    "global_step",
    "lvlb_weights",
    "sigmas",
    "denoiser.sigmas",
    "log_sigmas",
    "model.betas",
    "shift_factor",
)
EMA = "model_ema."
V_PREDICTION_MARKS = ("v_pred", "edm_vpred.sigma_max", "edm_vpred.sigma_min")
ZERO_SNR_MARK = "ztsnr"
EDM_MARKS = ("edm_mean", "edm_std")
# other parts that all-in-one files hold and that no pipeline here uses
OTHER_PARTS = {
    "depth_model.": "a depth estimator (MiDaS)",
    "embedder.": "an image encoder (unCLIP)",
    "noise_augmentor.": "noise augmentation (unCLIP)",
    "low_scale_model.": "noise augmentation (upscaler)",
    "cc_projection.": "a camera projection (Zero123)",
    "safety_checker.": "a safety checker",
    "loss.": "a training loss (perceptual network, discriminator)",
}
