"""The model that every port of this folder ports: a tiny UNet and, for C++ and Rust, one block of it.

`python reference.py DIR` writes the weights and the inputs that the ports read: tiny.safetensors.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, width, eps=1e-5)
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(16, width)
        self.attn_norm = nn.LayerNorm(width, eps=1e-5)
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.to_out = nn.Linear(width, width)
        self.ff = FeedForward(width)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        x = x + self.conv(F.silu(self.norm(x))) + self.time(time)[:, :, None, None]
        tokens = x.flatten(2).transpose(1, 2)
        normed = self.attn_norm(tokens)
        q, k, v = self.to_q(normed), self.to_k(normed), self.to_v(normed)
        weights = torch.softmax(q @ k.transpose(1, 2) * 0.25, dim=-1)
        tokens = self.ff(tokens + self.to_out(weights @ v))
        return tokens.transpose(1, 2).reshape(x.shape)


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(width, eps=1e-5), nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class TinyUNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv_in, self.down = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.mid, self.up = Block(), nn.Conv2d(16, 8, 3, padding=1)
        self.conv_out = nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        angles = timestep[:, None] * torch.exp(torch.arange(8) * -0.5)
        time = torch.cat([angles.cos(), angles.sin()], dim=-1)
        skip = self.conv_in(sample)
        x = self.mid(self.down(skip), time)
        x = self.up(x.repeat_interleave(2, 2).repeat_interleave(2, 3))
        return self.conv_out(torch.cat([x, skip], dim=1))


def model() -> TinyUNet:
    torch.manual_seed(0)
    return TinyUNet().eval()


def inputs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        "sample": torch.randn(2, 4, 8, 12, generator=generator),
        "timestep": torch.tensor([3.0, 7.0]),
        "tokens": torch.randn(2, 6, 16, generator=generator),
    }


def build():
    unet, given = model(), inputs()
    return unet, torch.no_grad()(lambda: unet(given["sample"], given["timestep"])), "unet"


def build_block():
    block, given = model().mid.ff, inputs()
    return block, torch.no_grad()(lambda: block(given["tokens"])), "block"


if __name__ == "__main__":
    file = Path(sys.argv[1], "tiny.safetensors")
    save_file({**model().state_dict(), **inputs()}, file)
