"""The tiny UNet in tinygrad. `python port_tinygrad.py tiny.safetensors OUT`"""

import sys

from ptrace_tinygrad import Trace
from tinygrad import Tensor, nn
from tinygrad.nn.state import load_state_dict, safe_load


class FeedForward:
    def __init__(self, width):
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(width, eps=1e-5), nn.Linear(width, 64), nn.Linear(64, width)

    def __call__(self, x):
        hidden = self.fc1(self.norm(x))
        return x + self.fc2(hidden * (hidden * 0.7071067811865476).erf().add(1) * 0.5)


class Block:
    def __init__(self, width=16):
        self.norm, self.conv = nn.GroupNorm(4, width, eps=1e-5), nn.Conv2d(width, width, 3, padding=1)
        self.time, self.attn_norm = nn.Linear(16, width), nn.LayerNorm(width, eps=1e-5)
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.to_out, self.ff = nn.Linear(width, width), FeedForward(width)

    def __call__(self, x, time):
        x = x + self.conv(self.norm(x).silu()) + self.time(time)[:, :, None, None]
        tokens = x.flatten(2).transpose(1, 2)
        normed = self.attn_norm(tokens)
        weights = (self.to_q(normed) @ self.to_k(normed).transpose(1, 2) * 0.25).softmax(-1)
        tokens = self.ff(tokens + self.to_out(weights @ self.to_v(normed)))
        return tokens.transpose(1, 2).reshape(x.shape)


class UNet:
    def __init__(self):
        self.conv_in, self.down = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.mid, self.up, self.conv_out = Block(), nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)

    def __call__(self, sample, timestep):
        angles = timestep.unsqueeze(1) * (Tensor.arange(8).float() * -0.5).exp()
        skip = self.conv_in(sample)
        x = self.mid(self.down(skip), angles.cos().cat(angles.sin(), dim=-1))
        x = self.up(x.repeat_interleave(2, 2).repeat_interleave(2, 3))
        return self.conv_out(x.cat(skip, dim=1))


if __name__ == "__main__":
    tensors, model, trace = safe_load(sys.argv[1]), UNet(), Trace()
    load_state_dict(model, {name: x for name, x in tensors.items() if "." in name}, verbose=False)
    trace.watch("tiny", model)
    model(tensors["sample"].to(None), tensors["timestep"].to(None))
    trace.save(sys.argv[2])
