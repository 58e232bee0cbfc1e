"""A small pipeline of diffusers' scheduler and plain modules, and a port of it that can be written in many ways."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

POSITIVE = torch.tensor([[3, 9, 14, 22, 1, 0], [4, 5, 6, 31, 8, 1]])
NEGATIVE = torch.tensor([[3, 40, 1, 0, 0, 0], [3, 2, 1, 0, 0, 0]])
SCALE = 0.18215
STEPS, GUIDANCE = 3, 4.0


class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.out = nn.Embedding(50, 8), nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        return self.out(self.norm(x) + x.mean(1, keepdim=True))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in self.projected(x, context))
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def projected(self, x: torch.Tensor, context: torch.Tensor) -> Any:
        return self.to_q(x), self.to_k(context), self.to_v(context)


class FusedAttention(Attention):
    """Keys and values by one layer, as ports have it."""

    def __init__(self, source: Attention) -> None:
        super().__init__()
        self.to_q, self.to_out, self.kv = source.to_q, source.to_out, nn.Linear(8, 16)
        with torch.no_grad():
            self.kv.weight.copy_(torch.cat([source.to_k.weight, source.to_v.weight]))
            self.kv.bias.copy_(torch.cat([source.to_k.bias, source.to_v.bias]))
        del self.to_k, self.to_v

    def projected(self, x: torch.Tensor, context: torch.Tensor) -> Any:
        return self.to_q(x), *self.kv(context).chunk(2, dim=-1)


class Middle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.shift, self.attn = nn.GroupNorm(2, 8), nn.Linear(8, 8), Attention()

    def forward(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.norm(x)) + self.shift(time)[:, :, None, None]
        tokens = x.flatten(2).transpose(1, 2)
        tokens = tokens + self.attn(tokens, context)
        return tokens.transpose(1, 2).reshape(x.shape)


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv_in, self.time, self.middle = nn.Conv2d(4, 8, 3, padding=1), nn.Linear(8, 8), Middle()
        self.conv_out = nn.Conv2d(8, 4, 3, padding=1)

    def embedded(self, timestep: Any, rows: int) -> torch.Tensor:
        timestep = torch.as_tensor(timestep).float().reshape(-1)
        angles = timestep[:, None] * torch.exp(-math.log(10000) * torch.arange(4) / 4)
        return self.time(torch.cat([angles.cos(), angles.sin()], -1)).expand(rows, -1)

    def body(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        return self.conv_out(self.middle(self.conv_in(x), time, context))

    def forward(self, sample: torch.Tensor, timestep: Any, context: torch.Tensor) -> torch.Tensor:
        return self.body(sample, self.embedded(timestep, len(sample)), context)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv_in, self.conv_out = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return self.conv_out(F.silu(self.conv_in(latents)))


def seeded(kind: type[nn.Module], seed: int) -> Any:
    torch.manual_seed(seed)
    model = kind()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval().requires_grad_(False)


def noise(*shape: int, seed: int = 6) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Pipeline:
    """The reference."""

    def __init__(self, scheduler: Any = None) -> None:
        from diffusers import DDIMScheduler

        self.text_encoder, self.unet, self.vae = seeded(Text, 0), seeded(Denoiser, 1), seeded(Decoder, 2)
        self.scheduler = scheduler or DDIMScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False,
            set_alpha_to_one=False, steps_offset=1,
        )  # fmt: skip

    @torch.no_grad()
    def __call__(self) -> torch.Tensor:
        context = torch.cat([self.text_encoder(NEGATIVE), self.text_encoder(POSITIVE)])
        self.scheduler.set_timesteps(STEPS)
        x = noise(2, 4, 6, 6)
        for t in self.scheduler.timesteps:
            u, c = self.unet(torch.cat([x, x]), t, context).chunk(2)
            x = self.scheduler.step(u + GUIDANCE * (c - u), t, x, return_dict=False)[0]
        return self.vae(x / SCALE)


class DDIM:
    """The port's own scheduler."""

    def set_timesteps(self, count: int) -> None:
        self.stride = 1000 // count
        self.kept = torch.cumprod(1 - torch.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2, 0)
        self.timesteps = (torch.arange(count) * self.stride).flip(0) + 1

    def levels(self, t: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.kept[t], self.kept[max(t - self.stride, 0)]

    def step(self, prediction: torch.Tensor, t: Any, sample: torch.Tensor) -> torch.Tensor:
        now, then = self.levels(int(t))
        clean = (sample - (1 - now).sqrt() * prediction) / now.sqrt()
        return then.sqrt() * clean + (1 - then).sqrt() * prediction


class Port:
    """The same with other names and its own scheduler; what follows changes one of its methods each."""

    def __init__(self) -> None:
        self.clip, self.denoiser, self.decoder = seeded(Text, 0), seeded(Denoiser, 1), seeded(Decoder, 2)
        self.scheduler = self.made_schedule()

    def made_schedule(self) -> Any:
        return DDIM()

    def encoded(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.clip(NEGATIVE), self.clip(POSITIVE)

    def guided(self, x: torch.Tensor, t: Any, negative: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        u, c = self.denoiser(torch.cat([x, x]), t, torch.cat([negative, positive])).chunk(2)
        return u + GUIDANCE * (c - u)

    def begun(self) -> torch.Tensor:
        return noise(2, 4, 6, 6)

    def stepped(self, prediction: torch.Tensor, i: int, t: Any, x: torch.Tensor) -> torch.Tensor:
        return self.scheduler.step(prediction, t, x)

    def decoded(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(x / SCALE)

    @torch.no_grad()
    def __call__(self) -> torch.Tensor:
        negative, positive = self.encoded()
        self.scheduler.set_timesteps(STEPS)
        x = self.begun()
        for i, t in enumerate(self.scheduler.timesteps):
            x = self.stepped(self.guided(x, t, negative, positive), i, t, x)
        return self.decoded(x)
