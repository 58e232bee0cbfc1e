"""Our side of each Candle trace: the same weights, the same inputs, the same run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from lockstep import parity as px
from lockstep.models.autoencoders.autoencoder_kl import AutoencoderKL
from lockstep.models.text_encoders.clip import CLIPTextModel
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel
from lockstep.schedulers.ddim import DDIMScheduler

CLIP_CONFIG = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "eos_token_id": 2}
SD15_CONFIG = {"sample_size": 64, "cross_attention_dim": 768, "attention_head_dim": 8}
STEPS, GUIDANCE, SCALING = 10, 7.5, 0.18215


@dataclass
class Side:
    """What is recorded, and how it is run."""

    target: Any
    call: Callable[[], Any]
    name: str | None = None
    map: Any = "auto"


def weight(name: str, shape: list[int]) -> torch.Tensor:
    """A weight by its name alone, as the traces' README describes it."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    draw = (
        np.random.Generator(np.random.PCG64(seed)).standard_normal(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    )
    if name.endswith("weight") and len(shape) == 1:
        draw = 1 + 0.1 * draw
    elif name.endswith("bias"):
        draw = 0.05 * draw
    elif "embedding" in name and len(shape) == 2 and "time" not in name:
        draw = 0.5 * draw
    else:
        draw = draw / np.sqrt(int(np.prod(shape[1:])) if len(shape) > 1 else 1)
    return torch.from_numpy(draw.astype(np.float32))


def loaded(cls: type[nn.Module], config: dict[str, Any], manifest: Path) -> Any:
    with torch.device("meta"):
        model = cls(**config)
    tensors = {name: weight(name, shape) for name, shape in json.loads(manifest.read_text()).items()}
    model.load_state_dict(tensors, strict=True, assign=True)
    return model.eval()


def _config(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / "configs.json").read_text())[name]


def unet(folder: Path, name: str) -> Side:
    config = SD15_CONFIG if name == "unet_sd15" else _config(folder, name)
    model = loaded(UNet2DConditionModel, config, folder / f"manifest_{name}.json")
    given = load_file(folder / f"inputs_{name}.safetensors")
    return Side(model, lambda: model(given["sample"], given["timestep"], given["encoder_hidden_states"]), "unet")


def vae(folder: Path, name: str) -> Side:
    model = loaded(AutoencoderKL, _config(folder, name), folder / f"manifest_{name}.json")
    latents = load_file(folder / f"inputs_{name}.safetensors")["latents"]
    return Side(model, lambda: model.decode(latents), "vae")


def clip(folder: Path, name: str) -> Side:
    model = loaded(CLIPTextModel, CLIP_CONFIG, folder / f"manifest_{name}.json")
    ids = load_file(folder / f"inputs_{name}.safetensors")["input_ids"]
    return Side(model, lambda: model(ids), "text_encoder")


class Loop:
    """Guided DDIM steps and the decoder, with the values that Candle's driver wrote down."""

    def __init__(self, unet: UNet2DConditionModel, vae: AutoencoderKL, scheduler: DDIMScheduler) -> None:
        self.unet, self.vae, self.scheduler = unet, vae, scheduler

    def __call__(
        self, noise: torch.Tensor, prompt_embeds: torch.Tensor, negative_prompt_embeds: torch.Tensor
    ) -> torch.Tensor:
        embeds = torch.cat([negative_prompt_embeds, prompt_embeds])
        self.scheduler.set_timesteps(STEPS)
        latents = noise * self.scheduler.init_noise_sigma
        px.tap("latents", latents, step="-")
        for index, timestep in enumerate(self.scheduler.timesteps):
            step = f"denoise:{index:02}"
            px.tap("timestep", timestep[None], step=step)
            model_input = self.scheduler.scale_model_input(torch.cat([latents, latents]), timestep)
            uncond, cond = self.unet(model_input, timestep, embeds).sample.chunk(2)
            px.tap("pred_uncond", uncond, step=step)
            px.tap("pred_cond", cond, step=step)
            guided = uncond + GUIDANCE * (cond - uncond)
            px.tap("noise_pred", guided, step=step)
            latents = self.scheduler.step(guided, timestep, latents).prev_sample
            px.tap("latents", latents, step=step)
        return self.vae.decode(latents / SCALING).sample


def loop(folder: Path, name: str) -> Side:
    parts = (
        loaded(UNet2DConditionModel, _config(folder, "unet_tiny"), folder / "manifest_unet_tiny.json"),
        loaded(AutoencoderKL, _config(folder, "vae_tiny"), folder / "manifest_vae_tiny.json"),
    )
    scheduler = DDIMScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False, set_alpha_to_one=False,
        steps_offset=1
    )  # fmt: skip
    given = load_file(folder / f"inputs_{name}.safetensors")
    target = Loop(*parts, scheduler)
    return Side(target, lambda: target(**given), None)


SIDES: dict[str, Callable[[Path, str], Side]] = {
    "unet_tiny": unet,
    "unet_sd15": unet,
    "vae_tiny": vae,
    "clip_sd15": clip,
    "loop_tiny": loop,
}
