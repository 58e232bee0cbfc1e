"""The branches of the guidance on several ranks: each predicts some, all of them get all predictions."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import torch

from ..errors import InputError
from ..guiders import BaseGuidance
from ..guiders.branches import Predict, branch_context, branch_inputs
from .ranks import Ranks


def most_branches(guider: BaseGuidance) -> int:
    """The largest number of branches that a guider asks for at some step of its run."""
    tried = copy.copy(guider)
    steps = guider.get_state()["num_inference_steps"]
    counts = [tried.num_conditions]
    for step in range(steps or 0):
        tried.set_state(step, steps, None)
        counts.append(tried.num_conditions)
    return max(counts)


class SpreadBranches:
    """Branch k is predicted by rank k mod n of a group; guiders see every branch prepared and cleaned up everywhere.

    Every rank runs the denoiser equally often, so that weights that lie on several ranks come together in each: who has
    no branch left repeats one, while the others compute theirs.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self.counts: list[int] = []  # branches of every step, for a trace that is put together

    def predict(self, guider: BaseGuidance, batches: list[SimpleNamespace], denoiser: Any, predict: Predict) -> None:
        """Set `noise_pred` on every branch."""
        group = self._ranks.branches
        if not self.counts and most_branches(guider) == 1:
            raise InputError(
                f"cfg={group.size} shares the branches of the guidance out, and this run has one at every step: each "
                f"rank would do the same work ({type(guider).__name__} does not guide here). Ask for guidance (a "
                "guidance_scale above 1; true_cfg_scale and a negative_prompt for a model that was taught its scale), "
                "or share out the tokens: ulysses or ring."
            )
        rounds = -(-len(batches) // group.size)
        own = [min(turn * group.size + group.place, len(batches) - 1) for turn in range(rounds)]
        made: dict[int, torch.Tensor] = {}
        self.counts.append(len(batches))
        for number, batch in enumerate(batches):
            guider.prepare_models(denoiser)
            try:
                for _ in range(own.count(number)):
                    with branch_context(guider, batch, denoiser):
                        made[number] = predict(branch_inputs(guider, batch), 1)
            finally:
                guider.cleanup_models(denoiser)
        for turn, number in enumerate(own):
            whole = self._gathered(made[number])
            for place, prediction in enumerate(whole):
                if turn * group.size + place < len(batches):
                    batches[turn * group.size + place].noise_pred = prediction

    def _gathered(self, prediction: torch.Tensor) -> list[torch.Tensor]:
        size = self._ranks.branches.size
        whole = self._ranks.gathered("branches of the guidance", prediction[None], self._ranks.branches, (1,) * size, 0)
        return list(whole.unbind(0))
