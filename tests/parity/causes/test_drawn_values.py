"""What was drawn at random is taken as it was drawn: other draws behind it do not hide why there was one more."""

from __future__ import annotations

import torch
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Conv2d(3, 8, 2, stride=2), nn.ConvTranspose2d(4, 3, 2, stride=2)


class Loop:
    """A picture becomes latents, gets noise, and is denoised twice, with noise between."""

    def __init__(self):
        self.vae, self.unet = seeded(Autoencoder()), seeded(nn.Conv2d(4, 4, 3, padding=1))

    def latents(self, moments, generator):
        return moments.chunk(2, dim=1)[0]

    def __call__(self, picture):
        generator = torch.Generator().manual_seed(5)
        latents = 0.18215 * self.latents(self.vae.encoder(picture), generator)
        for sigma in (0.7, 0.3):
            latents = latents + sigma * torch.randn(latents.shape, generator=generator)
            latents = latents - 0.1 * self.unet(latents)
        return self.vae.decoder(latents / 0.18215)


class Sampled(Loop):
    def latents(self, moments, generator):
        mean, logvar = moments.chunk(2, dim=1)
        return mean + torch.exp(0.5 * logvar) * torch.randn(mean.shape, generator=generator)


def test_a_posterior_that_is_sampled_for_its_mode_is_told(tmp_path):
    picture = drawn(1, 3, 8, 8)
    result = diagnosed(tmp_path, Loop(), Sampled(), lambda loop: loop(picture))
    cause = result.causes[0]
    assert (cause.name, cause.standing) == ("posterior_sample", Standing.PROVEN), cause.why
    assert "exp(" in cause.why
    assert result.explained.verdict == "PASS", result.explained.sentence()
