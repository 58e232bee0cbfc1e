"""`python -m benchmarks.ports`: the UNet in numpy, JAX and MLX against ours: as published, repaired, with faults.

Each port writes a trace as a person would (its own names, its own layout, weights included); our model is the
reference, and everything else is found. Ports whose framework is not installed are left out, and told.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from lockstep import parity as px
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel
from lockstep.parity.causes.diagnosis import Live, diagnose
from lockstep.parity.comparison.answer import arranged_traces
from lockstep.parity.comparison.results import Comparison, Standing

from .backends import BACKENDS, Numpy, is_installed, ported
from .unet import GROUPS, HEADS, PLANTED, PUBLISHED, Choices, UNet

CONFIG = {
    "sample_size": 8, "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"), "block_out_channels": (32, 64), "layers_per_block": 1,
    "cross_attention_dim": 24, "attention_head_dim": HEADS, "norm_num_groups": GROUPS,
}  # fmt: skip


class Reference:
    """Our UNet with random weights, recorded once with its floor."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        self.model = UNet2DConditionModel(**CONFIG).eval()
        generator = torch.Generator().manual_seed(1)
        for name, parameter in self.model.named_parameters():  # norms and biases of a trained model are not 1 and 0
            spread = 0.1 * torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:
                parameter.data = spread + (1.0 if name.endswith("weight") else 0.0)
        self.sample = torch.randn(2, 4, 8, 12, generator=generator)
        self.timestep = torch.tensor([981.0, 21.0])
        self.context = torch.randn(2, 6, 24, generator=generator)
        self.trace = folder / "reference.trace"
        with px.record(self.model, self.trace, keep="full", level="module+ops", name="unet"):
            self.call()
        self.floor = px.floor(self.model, self.trace, call=self.call, name="unet")

    def call(self) -> None:
        with torch.no_grad():
            self.model(self.sample, self.timestep, self.context)

    def explained(self, candidate: Path) -> Comparison:
        result = px.compare(self.trace, candidate, floor=self.floor)
        traces = arranged_traces(px.Trace.open(self.trace), px.Trace.open(candidate), "auto")
        diagnose(result, reference=Live(self.model, self.call, "unet"), floor=self.floor, traces=traces)
        return result


def write(reference: Reference, port: str, choices: Choices, file: Path) -> Path:
    """The trace of one port."""
    from safetensors.numpy import save_file

    ops: Numpy = BACKENDS[port]()
    values: dict[str, np.ndarray] = {}
    weights = ported({name: p.detach().numpy() for name, p in reference.model.named_parameters()}, ops)

    def put(path: str, slot: str, array: object) -> None:
        values[f"{len(values):06d}|-|{path}|{slot}"] = np.ascontiguousarray(np.asarray(array))

    def note(path: str, x: object) -> object:
        put(f"{port}.{path}", "out", x)
        return x

    for name, array in weights.items():
        put(f"{port}.{name}", "param", array)
    given = reference.sample.permute(0, 2, 3, 1).numpy(), reference.timestep.numpy(), reference.context.numpy()
    for name, array in zip(("sample", "timestep", "context"), given, strict=True):
        put(port, f"in.{name}", array)
    put(port, "out", UNet(ops, weights, choices, note)(*(ops.array(x) for x in given)))
    save_file(values, file)
    return file


@dataclass
class Said:
    """What was said about one port in one state."""

    verdict: str
    causes: list[str]  # those that are told as proven
    at: list[str]
    sentence: str


def said(reference: Reference, port: str, choices: Choices, folder: Path) -> Said:
    result = reference.explained(write(reference, port, choices, folder / f"{port}.safetensors"))
    proven = [c for c in result.causes if c.standing is Standing.PROVEN]
    return Said(result.verdict.value, [c.name for c in proven], [c.at for c in proven], result.sentence())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ports", description=__doc__)
    parser.add_argument("--ports", default=",".join(BACKENDS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    named = planted = 0
    with tempfile.TemporaryDirectory(prefix="ports-") as folder:
        reference = Reference(Path(folder))
        for port in options.ports.split(","):
            if not is_installed(port):
                print(f"{port}: not installed, left out")
                continue
            states = [("as published", PUBLISHED[port], ()), ("repaired", Choices(), ())]
            states += [(fault, *PLANTED[fault]) for fault in PLANTED]
            for name, choices, right in states:
                began = time.perf_counter()
                answer = said(reference, port, choices, Path(folder))
                planted += bool(right)
                named += bool(right) and answer.causes[:1] != [] and answer.causes[0] in right
                print(f"{port:6} {name:36} {answer.verdict:8} {', '.join(answer.causes):30} {answer.at[:1]} "
                      f"{time.perf_counter() - began:.0f} s", flush=True)  # fmt: skip
    print(f"planted faults named: {named} of {planted}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
