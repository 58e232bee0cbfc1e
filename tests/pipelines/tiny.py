"""Tiny Stable Diffusion folders with random weights in the published layout, for Lockstep and for diffusers."""

import json
from pathlib import Path

import lockstep
from lockstep.kit.testing.closeness import randomized as randomize

WORDS = [
    "a",
    "photo",
    "of",
    "the",
    "cat",
    "dog",
    "house",
    "on",
    "red",
    "blue",
    "green",
    "background,",
    "painting",
    "style",
    "with",
    "big",
    "small",
    "3d",
    "noise",
    "quality",
]


def tokenizer() -> lockstep.CLIPTokenizer:
    return lockstep.CLIPTokenizer.train([" ".join(WORDS)] * 2, vocab_size=600)


def text_encoder(vocabulary: int, projection: bool = False, seed: int = 1):
    kind = lockstep.CLIPTextModelWithProjection if projection else lockstep.CLIPTextModel
    config = {
        "vocab_size": vocabulary, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "max_position_embeddings": 77, "bos_token_id": vocabulary - 2, "eos_token_id": vocabulary - 1,
        "pad_token_id": vocabulary - 1,
        "hidden_act": "gelu" if projection else "quick_gelu", "projection_dim": 16,
    }  # fmt: skip
    return randomize(kind(**config), seed)


def unet(in_channels: int = 4, xl: bool = False, seed: int = 2, **more) -> lockstep.UNet2DConditionModel:
    config = {
        "sample_size": 8, "in_channels": in_channels, "block_out_channels": (16, 32), "layers_per_block": 1,
        "norm_num_groups": 8,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
        "cross_attention_dim": 32 if xl else 16, "attention_head_dim": (2, 4),
    }  # fmt: skip
    if xl:
        config |= {
            "addition_embed_type": "text_time", "addition_time_embed_dim": 8, "transformer_layers_per_block": (1, 2),
            "projection_class_embeddings_input_dim": 6 * 8 + 16, "use_linear_projection": True,
        }  # fmt: skip
    return randomize(lockstep.UNet2DConditionModel(**config | more), seed)


def vae(seed: int = 3) -> lockstep.AutoencoderKL:
    config = {
        "block_out_channels": (16, 32), "latent_channels": 4, "norm_num_groups": 8, "sample_size": 32,
        "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
    }  # fmt: skip
    return randomize(lockstep.AutoencoderKL(**config), seed)


BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}


CLASSES = {
    "sd1": "StableDiffusionPipeline",
    "sd2": "StableDiffusionPipeline",
    "xl": "StableDiffusionXLPipeline",
    "refiner": "StableDiffusionXLImg2ImgPipeline",
}


def save_folder(folder: Path, kind: str = "sd1", in_channels: int = 4) -> Path:
    """A whole pipeline's folder: `sd1` (epsilon), `sd2` (v-prediction), `xl`, or `refiner`."""
    tok = tokenizer()
    prediction = "v_prediction" if kind == "sd2" else "epsilon"
    scheduler = lockstep.DDIMScheduler(
        **BETAS, steps_offset=1, clip_sample=False, set_alpha_to_one=False, prediction_type=prediction
    )
    if kind in ("sd1", "sd2"):
        more = {"use_linear_projection": True} if kind == "sd2" else {}
        parts = {"tokenizer": tok, "text_encoder": text_encoder(len(tok)), "unet": unet(in_channels, **more)}
    else:
        second = {"tokenizer_2": tok, "text_encoder_2": text_encoder(len(tok), projection=True, seed=4)}
        if kind == "refiner":  # one text encoder, and an aesthetic score in place of the target size
            one = {"cross_attention_dim": 16, "projection_class_embeddings_input_dim": 5 * 8 + 16}
            parts = {**second, "unet": unet(in_channels, xl=True, seed=12, **one)}
        else:
            first = {"tokenizer": tok, "text_encoder": text_encoder(len(tok))}
            parts = {**first, **second, "unet": unet(in_channels, xl=True)}
    parts |= {"vae": vae(), "scheduler": scheduler}
    index = {"_class_name": CLASSES[kind], "_diffusers_version": "0.42.1"}
    for name, part in parts.items():
        part.save_pretrained(folder / name)
        library = "transformers" if name.startswith(("tokenizer", "text_encoder")) else "diffusers"
        index[name] = [library, type(part).__name__]
    if kind == "xl":
        index |= {"force_zeros_for_empty_prompt": True}
    elif kind == "refiner":
        index |= {"force_zeros_for_empty_prompt": False, "requires_aesthetics_score": True}
        index |= {"tokenizer": [None, None], "text_encoder": [None, None]}
    else:
        index |= {"safety_checker": [None, None], "feature_extractor": [None, None], "requires_safety_checker": False}
    index |= {"image_encoder": [None, None], "feature_extractor": [None, None]}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2))
    return folder


K_UNET = {
    "act_fn": "gelu", "attention_head_dim": 8, "norm_num_groups": None, "block_out_channels": (32, 32, 64, 64),
    "layers_per_block": 2, "time_cond_proj_dim": 128 + 16, "conv_in_kernel": 1, "conv_out_kernel": 1,
    "cross_attention_dim": 16, "in_channels": 8, "out_channels": 5, "mid_block_type": None,
    "down_block_types": ("KDownBlock2D", *["KCrossAttnDownBlock2D"] * 3),
    "up_block_types": (*["KCrossAttnUpBlock2D"] * 3, "KUpBlock2D"),
    "resnet_time_scale_shift": "scale_shift", "time_embedding_type": "fourier", "timestep_post_act": "gelu",
}  # fmt: skip

# models that were made for one task -> the class that runs them, the folder that they differ from, and the denoiser
ONE_TASK = {
    "edit": ("StableDiffusionInstructPix2PixPipeline", "sd1", {"in_channels": 8}),
    "edit_xl": ("StableDiffusionXLInstructPix2PixPipeline", "xl", {"in_channels": 8, "xl": True}),
    "upscale": ("StableDiffusionUpscalePipeline", "sd2", {"in_channels": 7, "num_class_embeds": 400}),
    "latent_upscale": ("StableDiffusionLatentUpscalePipeline", "sd1", K_UNET),
    "depth": ("StableDiffusionDepth2ImgPipeline", "sd2", {"in_channels": 5}),
}


def depth_parts() -> dict:
    """A depth estimator of transformers, and what reads pictures for it."""
    import transformers

    config = transformers.DPTConfig(
        image_size=32, patch_size=8, hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=32,
        backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=8, is_hybrid=False,
    )  # fmt: skip
    estimator = randomize(transformers.DPTForDepthEstimation(config), 7)
    estimator.head.head[-2].bias.data.fill_(2.0)  # before a ReLU: depths that differ
    return {
        "depth_estimator": estimator,
        "feature_extractor": transformers.DPTImageProcessorPil(size={"height": 32, "width": 32}),
    }


def save_one_task(folder: Path, task: str) -> Path:
    """The folder of a model that was made for one task."""
    name, base, changes = ONE_TASK[task]
    save_folder(folder, base)
    more = {} if base != "sd2" or task == "latent_upscale" else {"use_linear_projection": True}
    unet(**{"seed": 5, **changes, **more}).save_pretrained(folder / "unet")
    index = json.loads((folder / "model_index.json").read_text()) | {"_class_name": name}
    for part in ("image_encoder", "safety_checker", "feature_extractor", "requires_safety_checker"):
        if task not in ("edit", "upscale") or (
            task == "upscale" and part in ("image_encoder", "requires_safety_checker")
        ):
            index.pop(part, None)
    if task == "upscale":
        enlarging = vae()
        enlarging.register_to_config(scaling_factor=0.08333)
        enlarging.save_pretrained(folder / "vae")
        lockstep.DDPMScheduler(**BETAS).save_pretrained(folder / "low_res_scheduler")
        index |= {
            "low_res_scheduler": ["diffusers", "DDPMScheduler"],
            "max_noise_level": 350,
            "watermarker": [None] * 2,
        }
    if task == "latent_upscale":
        scheduler = lockstep.EulerDiscreteScheduler(**BETAS, prediction_type="sample")
        scheduler.save_pretrained(folder / "scheduler")
        index["scheduler"] = ["diffusers", "EulerDiscreteScheduler"]
    if task == "depth":
        for part, component in depth_parts().items():
            component.save_pretrained(folder / part)
            index[part] = ["transformers", type(component).__name__]
    (folder / "model_index.json").write_text(json.dumps(index, indent=2))
    return folder
