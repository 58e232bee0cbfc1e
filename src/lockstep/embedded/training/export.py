"""The trained parts as one folder in the standard Stable Diffusion layout, from averaged weights, in half precision."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ... import files
from ...errors import InputError, NonFiniteError
from ...guiders import ClassifierFreeGuidance
from ...models.autoencoders.autoencoder_tiny import AutoencoderTiny
from ...models.text_encoders.clip import CLIPTextModel
from ...models.unets.unet_2d_condition import UNet2DConditionModel
from ...schedulers import DDIMScheduler
from ...tokenizers import CLIPTokenizer
from ...training.checkpoint import load_checkpoint
from ...training.settings import load_settings
from ...training.trainee import averaged_tensors
from .autoencoder import load_trained_autoencoder, run_folder
from .diffusion import build_models, settings_of
from .polish import polished
from .settings import AutoencoderSettings, DiffusionSettings, PolishSettings
from .wording import widened_text_encoder

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
MODEL_INDEX: dict[str, Any] = {
    "_class_name": "StableDiffusionPipeline",
    "_blocks_class_name": "SceneBlocks",  # Lockstep's: several things are drawn one by one
    "_diffusers_version": "0.42.1",
    "feature_extractor": [None, None],
    "image_encoder": [None, None],
    "requires_safety_checker": False,
    "safety_checker": [None, None],
    "scheduler": ["diffusers", "DDIMScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderTiny"],
    "_lockstep_components": {"guider": ["lockstep", "ClassifierFreeGuidance"]},
    "_lockstep_defaults": {"num_inference_steps": 2},  # the words tell everything: further steps add errors
}
FRACTION_BITS = 6  # of a weight that are kept: an error of 0.4 % at most
GUIDANCE = 1.0  # the scale that suits the model: nearest to the true pictures; elsewhere it is the caller's to give


def export(
    work: Path,
    target: Path,
    settings: DiffusionSettings,
    autoencoder: AutoencoderSettings,
    *,
    run_name: str = "main",
    dtype: str = "float16",
    limit_mb: float = 40.0,
) -> Path:
    """Write the folder from the averaged weights of a diffusion run and of both halves of the autoencoder."""
    folder = work / "runs" / run_name
    models = {**load_averaged(folder, settings), "vae": load_trained_autoencoder(work, autoencoder)}
    return write_folder(target, models, folder / "tokenizer", settings.scheduler, dtype, limit_mb)


def export_upon(
    work: Path, target: Path, released: Path, *, run_name: str = "wording", dtype: str = "float16",
    limit_mb: float = 60.0,
) -> Path:  # fmt: skip
    """Write a released model again with what runs have made better: its words, its UNet where the run has trained it,
    and the halves of its autoencoder."""
    run = work / "runs" / run_name
    tensors, _ = load_checkpoint(run / "checkpoint.safetensors")
    scheduler = DDIMScheduler.from_pretrained(released / "scheduler").config
    if averaged_tensors(tensors, "decoder"):
        blocks = load_settings(PolishSettings, run / "settings.toml").decoder_blocks
        models = polished(released, tensors, blocks)
        return write_folder(target, models, released / "tokenizer", scheduler, dtype, limit_mb)
    if averaged_tensors(tensors, "unet"):
        models = load_averaged(run, settings_of(work, run_name))
    else:
        before = CLIPTextModel.from_pretrained(released / "text_encoder", dtype=torch.float32)
        text_encoder = widened_text_encoder(before, run / "tokenizer").eval()
        text_encoder.load_state_dict(averaged_tensors(tensors, "text_encoder"))
        unet = UNet2DConditionModel.from_pretrained(released / "unet", dtype=torch.float32)
        models = {"unet": unet, "text_encoder": text_encoder}
    vae = AutoencoderTiny.from_pretrained(released / "vae", dtype=torch.float32)
    for part in ("decoder", "encoder"):
        checkpoint = run_folder(work, part) / "checkpoint.safetensors"
        if checkpoint.is_file():
            getattr(vae, part).load_state_dict(averaged_tensors(load_checkpoint(checkpoint)[0], part))
    return write_folder(target, {**models, "vae": vae}, run / "tokenizer", scheduler, dtype, limit_mb)


def load_averaged(run_folder: Path, settings: DiffusionSettings) -> dict[str, nn.Module]:
    """Text encoder and UNet of a run, with averaged weights."""
    tensors, _ = load_checkpoint(run_folder / "checkpoint.safetensors")
    models = build_models(settings, run_folder / "tokenizer")
    for name, model in models.items():
        model.load_state_dict(averaged_tensors(tensors, name))
        model.eval()
    return models


def write_folder(
    target: Path,
    models: Mapping[str, nn.Module],
    tokenizer_folder: Path,
    scheduler_config: Mapping[str, Any],
    dtype: str,
    limit_mb: float,
) -> Path:
    """Everything beside the target first, then into its place part by part; what else is in the target stays."""
    if dtype not in DTYPES:
        raise InputError(f"The export wants one of {', '.join(DTYPES)} as dtype, got {dtype!r}.")
    if target.is_file():
        raise InputError(f"The export wants a folder, but {target} is a file.")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as beside:
        built = Path(beside)
        for name, model in models.items():
            in_half(name, model, DTYPES[dtype]).save_pretrained(built / name)  # type: ignore[operator]
        CLIPTokenizer.from_pretrained(tokenizer_folder).save_pretrained(built / "tokenizer")
        DDIMScheduler.from_config(scheduler_config).save_pretrained(built / "scheduler")
        ClassifierFreeGuidance(guidance_scale=GUIDANCE).save_pretrained(built / "guider")
        files.write_text(built / "model_index.json", json.dumps(MODEL_INDEX, indent=2) + "\n")
        check_size(built, limit_mb)
        for part in built.iterdir():
            place = target / part.name
            if place.is_dir():
                shutil.rmtree(place)
            part.replace(place)
    return target


def in_half(name: str, model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The model in the shipped precision; a weight that does not fit into it is an error, not an Inf."""
    model = model.to(dtype=dtype, memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    if dtype == torch.float16:
        for parameter in model.parameters():
            parameter.data = shortened(parameter.data)
    for key, value in model.state_dict().items():
        if value.is_floating_point() and not value.isfinite().all():
            raise NonFiniteError(f"{name}: {key!r} has values that {dtype} cannot hold. Export as bfloat16 or float32.")
    return model


def shortened(values: torch.Tensor) -> torch.Tensor:
    """Half precision with fewer significant bits, rounded: a quarter less where files are compressed, as archives and
    histories do, and no difference to be seen."""
    cut = 10 - FRACTION_BITS  # of ten
    patterns = values.view(torch.int16).to(torch.int32)
    rounded = (patterns + (1 << (cut - 1))) >> cut << cut
    return rounded.to(torch.int16).view(torch.float16)


def check_size(folder: Path, limit_mb: float) -> None:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > limit_mb * 1e6:
        raise InputError(
            f"The folder would have {size / 1e6:.1f} MB, the limit is {limit_mb:g} MB. Export in half precision or "
            "raise it."
        )
