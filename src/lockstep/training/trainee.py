"""What is trained: modules, the moving average of their weights, and the optimizer, as one thing that can be saved
whole."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import NonFiniteError, WeightsError
from .muon import Muon, is_matrix
from .settings import OptimizerSettings

Optimizer = torch.optim.Optimizer


class Trainee:
    """Named modules with their optimizers, and their average in `averaged`."""

    def __init__(self, modules: Mapping[str, nn.Module], settings: OptimizerSettings) -> None:
        self.modules = nn.ModuleDict(dict(modules))
        self.averaged = copy.deepcopy(self.modules).eval().requires_grad_(False)
        self.settings = settings
        self.step = 0
        self.optimizers = build_optimizers(self.modules, settings)

    def learn(self, loss: Tensor, learning_rate: float) -> float:
        """One step down the gradient of `loss`; the value of the loss."""
        value = float(loss.detach())
        if not math.isfinite(value):
            raise NonFiniteError(
                f"The loss at step {self.step} is {value}. Resume from the last checkpoint with a lower learning "
                "rate or clip."
            )
        loss.backward()
        nn.utils.clip_grad_norm_(self.modules.parameters(), self.settings.clip, foreach=True)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        average_into(self.averaged.parameters(), self.modules.parameters(), self.average_decay())
        return value

    def average_decay(self) -> float:
        """Short memory at first, so that the random beginning is soon forgotten."""
        return min(self.settings.ema_limit, (1 + self.step) / (10 + self.step))

    def tensors(self) -> dict[str, Tensor]:
        """Everything that has to be kept, by name."""
        kept = {f"weights.{name}": value for name, value in self.modules.state_dict().items()}
        kept |= {f"average.{name}": value for name, value in self.averaged.state_dict().items()}
        for name, parameter, state, _ in self.optimizer_states():
            kept |= {f"optimizer.{moment}.{name}": value for moment, value in state.get(parameter, {}).items()}
        return kept

    def optimizer_states(self) -> Iterator[tuple[str, nn.Parameter, dict[Tensor, Any], tuple[str, ...]]]:
        """Every trained parameter by name, with the states of its optimizer and what that keeps for a parameter."""
        names = {parameter: name for name, parameter in self.modules.named_parameters()}
        for optimizer in self.optimizers:
            moments = ("momentum",) if isinstance(optimizer, Muon) else ("step", "exp_avg", "exp_avg_sq")
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    yield names[parameter], parameter, optimizer.state, moments

    def restore(self, tensors: Mapping[str, Tensor], step: int) -> None:
        """Become what `tensors()` was at that step."""
        for prefix, module in (("weights.", self.modules), ("average.", self.averaged)):
            stored = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
            wanted = {name: value.shape for name, value in module.state_dict().items()}
            if wanted != {name: value.shape for name, value in stored.items()}:
                odd = sorted(set(wanted) ^ set(stored)) or [n for n in wanted if wanted[n] != stored[n].shape]
                raise WeightsError(
                    f"The checkpoint is of another model: {odd[0]!r} does not fit the settings file. "
                    "Use the settings that the run was started with, or start another run."
                )
            module.load_state_dict(stored)
        for name, parameter, states, moments in self.optimizer_states():
            stored_state = {moment: tensors.get(f"optimizer.{moment}.{name}") for moment in moments}
            if stored_state[moments[0]] is not None:  # else the optimizer begins anew with this parameter
                states[parameter] = {key: laid_out_like(parameter, value) for key, value in stored_state.items()}
        self.step = step


def build_optimizers(modules: nn.Module, settings: OptimizerSettings) -> list[Optimizer]:
    """AdamW for everything, or, where the settings want Muon, for what is no matrix; a table of words is none."""
    parameters = list(modules.parameters())
    tables = {module.weight for module in modules.modules() if isinstance(module, nn.Embedding)}
    matrices = [p for p in parameters if settings.muon and is_matrix(p) and p not in tables]
    chosen = set(matrices)
    rest = [p for p in parameters if p not in chosen]
    optimizers: list[Optimizer] = []
    if rest:
        betas = (settings.beta1, settings.beta2)
        decay, rate = settings.weight_decay, settings.learning_rate
        optimizers.append(torch.optim.AdamW(rest, lr=rate, betas=betas, weight_decay=decay, fused=True))
    if matrices:
        optimizers.append(Muon(matrices, lr=settings.learning_rate))
    return optimizers


def laid_out_like(parameter: Tensor, value: Tensor | None) -> Tensor:
    """A copy in the parameter's memory order: the fused optimizer pairs elements by their place in memory."""
    if value is None:
        raise WeightsError("The checkpoint lacks a part of the optimizer's state. It is damaged: take an older one.")
    return torch.empty_like(parameter).copy_(value).detach() if value.shape == parameter.shape else value.clone()


@torch.no_grad()
def averaged_tensors(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The averaged weights of one module among the tensors of a checkpoint, by the module's own names."""
    prefix = f"average.{name}."
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def average_into(average: Iterable[Tensor], weights: Iterable[Tensor], decay: float) -> None:
    """average = decay · average + (1 - decay) · weights."""
    torch._foreach_lerp_(list(average), [weight.detach() for weight in weights], 1 - decay)


def learning_rate_at(step: int, settings: OptimizerSettings, decay_from: int | None, decay_steps: int) -> float:
    """Warm-up, then constant for as long as nobody asks for the end, then half a cosine down."""
    rate = settings.learning_rate * min(1.0, (step + 1) / max(1, settings.warmup_steps))
    if decay_from is None or step < decay_from:
        return rate
    done = min(1.0, (step - decay_from) / max(1, decay_steps))
    return rate * (settings.final_share + (1 - settings.final_share) * (0.5 + 0.5 * math.cos(math.pi * done)))
