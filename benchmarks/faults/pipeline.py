"""A tiny text-to-image pipeline: encode, eight guided DDIM steps, decode."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import torch

from .models import CLIP, VAE, UNet, randomized

STEPS = 8
IDS = [[98, 7, 23, 41, 5, 99] + [99] * 10]
EMPTY_IDS = [[98, 99] + [99] * 14]


@dataclass
class StepOutput:
    prev_sample: torch.Tensor


class Scheduler:
    """DDIM (arXiv:2010.02502), eta 0; from the second step on with the prediction before, as multistep solvers do."""

    def __init__(
        self, prediction_type: str = "epsilon", steps_offset: int = 1, timestep_spacing: str = "leading"
    ) -> None:
        self.prediction_type, self.steps_offset, self.timestep_spacing = prediction_type, steps_offset, timestep_spacing
        self.num_train_timesteps = 1000
        self.set_alpha_to_one = False
        self.init_noise_sigma = 1.0
        self.timesteps = torch.arange(0)
        self.steps = 0
        self.history: list[torch.Tensor] = []

    def alphas_cumprod(self) -> torch.Tensor:
        betas = torch.linspace(0.00085**0.5, 0.012**0.5, self.num_train_timesteps, dtype=torch.float64) ** 2
        return torch.cumprod(1 - betas, dim=0)

    def set_timesteps(self, count: int) -> None:
        self.steps = count
        self.history = []
        if self.timestep_spacing == "trailing":
            self.timesteps = (
                self.num_train_timesteps - torch.arange(count) * (self.num_train_timesteps // count) - 1
            ).long()
        elif self.timestep_spacing == "linspace":
            self.timesteps = torch.linspace(0, self.num_train_timesteps - 1, count).round().flip(0).long()
        else:
            self.timesteps = (torch.arange(count) * (self.num_train_timesteps // count)).flip(0) + self.steps_offset

    def step(self, model_output: torch.Tensor, timestep: torch.Tensor, sample: torch.Tensor) -> StepOutput:
        alphas = self.alphas_cumprod()
        self.history = [*self.history[-1:], model_output]
        if len(self.history) > 1:
            model_output = 1.25 * self.history[1] - 0.25 * self.history[0]
        previous = int(timestep) - self.num_train_timesteps // self.steps
        final = torch.tensor(1.0, dtype=torch.float64) if self.set_alpha_to_one else alphas[0]
        alpha, alpha_previous = alphas[int(timestep)], (alphas[previous] if previous >= 0 else final)
        root, rest = alpha.sqrt().to(sample.dtype), (1 - alpha).sqrt().to(sample.dtype)
        if self.prediction_type == "epsilon":
            original, noise = (sample - rest * model_output) / root, model_output
        elif self.prediction_type == "sample":
            original, noise = model_output, (sample - root * model_output) / rest
        else:
            original, noise = root * sample - rest * model_output, root * model_output + rest * sample
        result = (
            alpha_previous.sqrt().to(sample.dtype) * original + (1 - alpha_previous).sqrt().to(sample.dtype) * noise
        )
        return StepOutput(result)


class Pipeline:
    """Prompt ids to image."""

    def __init__(self, text_encoder: CLIP, unet: UNet, vae: VAE, scheduler: Scheduler) -> None:
        self.text_encoder, self.unet, self.vae, self.scheduler = text_encoder, unet, vae, scheduler

    def __call__(
        self, guidance_scale: float = 4.0, num_inference_steps: int = STEPS, generator: torch.Generator | None = None
    ) -> SimpleNamespace:
        dtype = self.vae.post_quant_conv.weight.dtype
        embeds = self.text_encoder(torch.tensor(IDS))[0]
        negative = self.text_encoder(torch.tensor(EMPTY_IDS))[0]
        context = torch.cat([negative, embeds], dim=0)
        latents = torch.randn(1, 4, 8, 8, generator=generator).to(dtype)
        self.scheduler.set_timesteps(num_inference_steps)
        latents = latents * self.scheduler.init_noise_sigma
        for timestep in self.scheduler.timesteps:
            model_input = torch.cat([latents, latents], dim=0)
            prediction = self.unet(model_input, timestep[None], context)
            uncond, cond = prediction.chunk(2, dim=0)
            guided = uncond + guidance_scale * (cond - uncond)
            latents = self.scheduler.step(guided, timestep, latents).prev_sample
        image = self.vae.decode(latents)
        return SimpleNamespace(images=image)


def pipeline(seed: int) -> Pipeline:
    parts = [randomized(m, seed + i) for i, m in enumerate((CLIP(), UNet(context=24), VAE()))]
    return Pipeline(*parts, Scheduler())  # type: ignore[arg-type]
