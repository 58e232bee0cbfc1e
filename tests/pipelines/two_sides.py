"""Both sides of a pipeline's proof: a tiny folder, loaded by diffusers and by Lockstep, and one call of each."""

import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class TwoSides:
    """What both sides share: the folder's weights, the arguments of the call and the seed."""

    save: Callable[[Path], Path]
    arguments: dict
    seed: int = 7

    def loaded(self, kind):
        """A tiny pipeline of either side; what is loaded stays, though the folder goes."""
        with tempfile.TemporaryDirectory() as folder:
            pipe = kind.from_pretrained(self.save(Path(folder)))
        pipe.set_progress_bar_config(disable=True)
        return pipe

    def built(self, kind):
        """The pipeline to watch, and a call that runs it: what `lockstep parity stages` takes."""
        pipe = self.loaded(kind)

        def call():
            arguments = copy.deepcopy(self.arguments)  # some write into lists
            return pipe(**arguments, generator=torch.Generator().manual_seed(self.seed))

        return pipe, call
