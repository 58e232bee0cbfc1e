"""Questions to a model in training: does it denoise better when told what it sees, and is what it draws the right
thing?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ...schedulers import DDIMScheduler
from ...training.noise import generator_of
from ...training.sampling import Modules, predict


@torch.inference_mode()
def conditional_losses(
    modules: Modules, scheduler: DDIMScheduler, latents: Tensor, tokens: Tensor, batch_size: int = 64
) -> tuple[float, float]:
    """The v-loss with the right captions and with shuffled ones, on fixed noise over all timesteps."""
    count = len(latents)
    noise = torch.randn(latents.shape, generator=generator_of(1, 0))
    timesteps = torch.linspace(0.02, 0.99, count).mul(scheduler.config.num_train_timesteps).long()
    # A fixed stride visits the timesteps of every kind of picture; half a turn gives each the caption of another.
    timesteps = timesteps[torch.randperm(count, generator=generator_of(1, 1))]
    wrong = tokens.roll(count // 2, 0)
    right_sum = wrong_sum = 0.0
    for rows in torch.arange(count).split(batch_size):
        noisy = scheduler.add_noise(latents[rows], noise[rows], timesteps[rows])
        target = scheduler.get_velocity(latents[rows], noise[rows], timesteps[rows])
        for index, captions in enumerate((tokens, wrong)):
            error = F.mse_loss(predict(modules, noisy, timesteps[rows], captions[rows]).float(), target).item() * len(
                rows
            )
            right_sum, wrong_sum = (right_sum + error, wrong_sum) if index == 0 else (right_sum, wrong_sum + error)
    return right_sum / count, wrong_sum / count


def retrieval_ranks(samples: Tensor, wanted: Sequence[str], gallery: Tensor, concepts: Sequence[str]) -> list[int]:
    """For each sample, how many other concepts have a picture nearer to it than the wanted concept's nearest
    picture."""
    names = sorted(set(concepts))
    column = {name: index for index, name in enumerate(names)}
    owner = torch.tensor([column[name] for name in concepts])
    distances = torch.cdist(samples.flatten(1).float(), gallery.flatten(1).float())
    nearest = torch.full((len(samples), len(names)), float("inf"))
    nearest.scatter_reduce_(1, owner.expand(len(samples), -1), distances, "amin")
    own = nearest[torch.arange(len(samples)), torch.tensor([column[name] for name in wanted])]
    return (nearest < own[:, None]).sum(1).tolist()


def top_k(ranks: Sequence[int], k: int) -> float:
    """The share of samples whose wanted concept is among the k nearest."""
    return sum(rank < k for rank in ranks) / max(1, len(ranks))
