"""A pipeline of two stages: Karras sigmas from numpy, a guider that counts, an image that is encoded again between
the stages."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch

from .models import CLIP, VAE, UNet, randomized
from .pipeline import EMPTY_IDS, IDS


@dataclass
class Stepped:
    prev_sample: torch.Tensor


class KarrasScheduler:
    """Euler steps over the sigmas of arXiv:2206.00364."""

    def __init__(self, sigma_min: float = 0.05, sigma_max: float = 12.0) -> None:
        self.sigma_min, self.sigma_max = sigma_min, sigma_max
        self.sigmas, self.timesteps, self.place = torch.zeros(0), torch.zeros(0), 0

    def set_timesteps(self, count: int) -> None:
        rho = 7.0
        ramp = np.linspace(0, 1, count)
        lowest, highest = self.sigma_min ** (1 / rho), self.sigma_max ** (1 / rho)
        sigmas = (highest + ramp * (lowest - highest)) ** rho
        self.timesteps = torch.from_numpy(np.log(sigmas) * 180.0 + 540.0).float()
        self.sigmas = torch.from_numpy(np.append(sigmas, 0.0)).float()
        self.place = 0

    def scale_model_input(self, sample: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        sigma = self.sigmas[self.place]
        return sample / ((sigma**2 + 1) ** 0.5)

    def add_noise(self, sample: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return sample + noise * self.sigmas[0]

    def step(self, model_output: torch.Tensor, timestep: torch.Tensor, sample: torch.Tensor) -> Stepped:
        sigma, after = self.sigmas[self.place], self.sigmas[self.place + 1]
        self.place += 1
        return Stepped(sample + (after - sigma) * model_output)


class CountingGuider:
    """Guidance from its second step on."""

    def __init__(self, scale: float = 3.5, start: int = 1) -> None:
        self.scale, self.start, self.steps_seen = scale, start, 0

    def begin(self) -> None:
        self.steps_seen = 0

    def __call__(self, uncond: torch.Tensor, cond: torch.Tensor) -> torch.Tensor:
        self.steps_seen += 1
        scale = self.scale if self.steps_seen > self.start else 1.0
        return uncond + scale * (cond - uncond)


class Stages:
    """Noise to latents to an image, and that image once more from half of the noise."""

    def __init__(
        self, text_encoder: CLIP, unet: UNet, vae: VAE, scheduler: KarrasScheduler, guider: CountingGuider
    ) -> None:
        self.text_encoder, self.unet, self.vae = text_encoder, unet, vae
        self.scheduler, self.guider = scheduler, guider

    def encode(self, image: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        mean, logvar = self.vae.quant_conv(self.vae.encoder(2 * image - 1)).chunk(2, dim=1)  # noqa: RUF059  (a fault reads it)
        return mean * self.vae.scaling_factor

    def denoise(self, latents: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        self.guider.begin()
        for timestep in self.scheduler.timesteps:
            model_input = self.scheduler.scale_model_input(torch.cat([latents, latents]), timestep)
            uncond, cond = self.unet(model_input, timestep[None], context).chunk(2)
            latents = self.scheduler.step(self.guider(uncond, cond), timestep, latents).prev_sample
        return latents

    def __call__(self, num_inference_steps: int = 4, generator: torch.Generator | None = None) -> SimpleNamespace:
        dtype = self.vae.post_quant_conv.weight.dtype
        negative, embeds = (self.text_encoder(torch.tensor(ids))[0] for ids in (EMPTY_IDS, IDS))
        context = torch.cat([negative, embeds])
        self.scheduler.set_timesteps(num_inference_steps)
        noise = torch.randn(1, 4, 8, 8, generator=generator).to(dtype)
        image = self.vae.decode(self.denoise(noise * self.scheduler.sigmas[0], context))
        latents = self.encode(image, generator)
        self.scheduler.set_timesteps(num_inference_steps)
        noise = torch.randn(1, 4, 8, 8, generator=generator).to(dtype)
        return SimpleNamespace(images=self.vae.decode(self.denoise(self.scheduler.add_noise(latents, noise), context)))


def stages(seed: int) -> Stages:
    text, unet, vae = (randomized(m, seed + i) for i, m in enumerate((CLIP(), UNet(context=24), VAE())))
    return Stages(text, unet, vae, KarrasScheduler(), CountingGuider())  # type: ignore[arg-type]
