"""One row through three stages, each with its own models: texts, denoising, decoding; perhaps on three machines.

A stage is a part of the pipeline's own tree, planned and checked as the whole one, so what runs is what would have run
in one place. Values go from stage to stage as numpy arrays, which Ray's object store shares without a copy; schedulers
and guiders go along as the stage before left them. The last stage has the manifest of the whole run.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..blocks.checkpoints import Checkpoint
from ..blocks.plan import make_plan
from ..errors import UnsupportedError
from .making import Maker, Setup, load_settled
from .plan import PlannedRow
from .workers import STAGES

BITS = {torch.bfloat16: torch.int16}  # numpy has no name for it: its bits travel
GRID = ("timesteps", "foretold_steps")  # of which a manifest tells, whether a later block reads them or not


@dataclass(frozen=True)
class Array:
    """A tensor on its way."""

    data: np.ndarray
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Array:
        plain = tensor.detach().cpu().contiguous()
        return cls(plain.view(BITS.get(plain.dtype, plain.dtype)).numpy(), tensor.dtype)

    def unpacked(self, device: torch.device) -> torch.Tensor:
        """A tensor of the stage's own: what came is memory that others may read, too."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that it cannot be written to, which nobody does
            return torch.from_numpy(self.data).view(self.dtype).clone().to(device)


@dataclass(frozen=True)
class Noise:
    """A generator on its way, as far as it has drawn."""

    state: np.ndarray
    seed: int

    def unpacked(self, device: torch.device) -> torch.Generator:
        made = torch.Generator().manual_seed(self.seed)
        made.set_state(torch.from_numpy(np.array(self.state)))
        return made


def packed(value: Any) -> Any:
    """A value as it travels."""
    if isinstance(value, torch.Tensor):
        return Array.of(value)
    if isinstance(value, torch.Generator):
        if value.device.type != "cpu":
            raise UnsupportedError(f"A generator of {value.device} cannot go from stage to stage; give a seed.")
        return Noise(value.get_state().numpy(), value.initial_seed())
    if isinstance(value, dict):
        return {key: packed(one) for key, one in value.items()}
    return type(value)(packed(one) for one in value) if type(value) in (list, tuple) else value


def unpacked(value: Any, device: torch.device) -> Any:
    """A value as a stage reads it."""
    if isinstance(value, (Array, Noise)):
        return value.unpacked(device)
    if isinstance(value, dict):
        return {key: unpacked(one, device) for key, one in value.items()}
    return type(value)(unpacked(one, device) for one in value) if type(value) in (list, tuple) else value


@dataclass
class Handed:
    """What one stage hands to the next."""

    row: PlannedRow
    values: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)  # schedulers and guiders, as they stand
    components: dict[str, Any] = field(default_factory=dict)  # what the manifest says of the models of earlier stages
    given: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def cut(pipe: Any, inputs: Mapping[str, Any]) -> list[list[str]]:
    """The outermost blocks of a call in three: up to the words' encodings, through the loop, and behind it."""
    defaults = {str(param.name): param.default for param in pipe.assembly.inputs}
    visits = make_plan(pipe.assembly.root, {**defaults, **inputs}).flow.visits
    names = list(dict.fromkeys(visit.place.path.partition(".")[0] for visit in visits))
    own = {name: [v for v in visits if v.place.path.partition(".")[0] == name] for name in names}
    names = [name for name in names if any(visit.place.block.kind != "choice" for visit in own[name])]
    loops = [k for k, name in enumerate(names) if any(visit.place.block.kind == "loop" for visit in own[name])]
    texts = [k for k, name in enumerate(names) if any("prompt_embeds" in visit.makes for visit in own[name])]
    before = [k for k in texts if loops and k < loops[0]]
    if not before or loops[-1] + 1 == len(names):
        raise UnsupportedError(
            f"{type(pipe).__name__} cannot be run in stages: that wants words that are encoded before a loop, and "
            "something to do behind it. Run it whole."
        )
    first, second = before[0] + 1, loops[-1] + 1
    return [names[:first], names[first:second], names[second:]]


class Stage(Maker):
    """A maker of one part of a pipeline, with the models that this part needs and no others."""

    def __init__(self, setup: Setup, place: int) -> None:
        super().__init__(setup)
        self.place = place

    @property
    def is_last(self) -> bool:
        return self.place + 1 == len(STAGES)

    def check(self) -> None:
        """Refuse what no run can begin with; the models of this stage are loaded by it."""
        super().check()
        load_settled(self.pipe)  # what a maker of the whole would tell the settings of

    def begun(self, inputs: Mapping[str, Any]) -> Any:
        names = cut(self.pipe, inputs)[self.place]
        stop = {} if self.is_last else {names[-1]: Checkpoint(save=True, stop=True)}
        return self.pipe.run_part(names, **inputs, checkpoints=stop)

    def run(self, handed: Handed) -> tuple[Handed, Any]:
        """This stage of a row: what the next one needs, and the output, which the last one has."""
        began = time.perf_counter()
        run = self.begun(self.setup.read(self.pipe, handed.row.inputs))
        device = self.pipe.device
        run.state.values |= {name: unpacked(value, device) for name, value in handed.values.items()}
        run.components.own |= handed.parts
        output = run.result()
        saved = next(iter(run.options.checkpoints.values()), Checkpoint())
        grid = {name: run.state.values[name] for name in GRID if name in run.state}
        record = output.manifest.record
        made = Handed(
            handed.row,
            {**handed.values, **packed({**grid, **saved.data})},
            {**handed.parts, **saved.components},
            {**handed.components, **record["components"]},
            {**handed.given, **record["given"]},
            {**handed.weights, **self.hashes_of(output.manifest)},
            handed.seconds + time.perf_counter() - began,
        )
        if self.is_last:
            record |= {"components": made.components, "given": made.given}
            output.manifest.know_weights(made.weights)
        return made, output
