"""What the tensors of a LoRA and of its relatives do to a weight: one table, a formula for each.

W is the model's weight, s the strength, a alpha and r the rank; a file without alpha has a = r.

| kind | tensors | W becomes |
|---|---|---|
| LoRA (arXiv:2106.09685) | up, down, optionally mid | W + s · a/r · up · (mid ·) down |
| LoHa (arXiv:2108.06098) | w1_a w1_b w2_a w2_b, optionally t1 t2 | W + s · a/r · (w1_a w1_b) ⊙ (w2_a w2_b) |
| LoKr (arXiv:2309.14859) | w1 or w1_a w1_b, w2 or w2_a w2_b, optionally t2 | W + s · a/r · w1 ⊗ w2 |
| full | diff | W + s · diff |
| IA3 (arXiv:2205.05638) | weight, on_input | W + s · W ⊙ weight, along its rows or columns |
| DoRA (arXiv:2402.09353) | magnitude m beside any of the first four | W + s · (m · W' / ‖W'‖ - W), W' = W + ΔW |

Biases and norms are vectors that are added. All of it is computed in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import WeightsError
from .weight_map import Move

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Algorithm:
    """A kind of change: the tensors that it needs (one of several sets), its product, and where its rank is read."""

    name: str
    needs: tuple[frozenset[str], ...]
    product: Callable[[Tensors], Tensor]  # rows first; the rest of the axes in the order of the weight's
    rank: Callable[[Tensors], int | None]


def _lora(t: Tensors) -> Tensor:
    up, down = t["up"].flatten(1), t["down"].flatten(1)
    if "mid" not in t:
        return up @ down
    return torch.einsum("oa,abkl,bi->oikl", up, t["mid"], down)


def _tucker(core: Tensor, b: Tensor, a: Tensor) -> Tensor:
    return torch.einsum("pqkl,qi,po->oikl", core, b, a)


def _loha(t: Tensors) -> Tensor:
    pairs = [(t[f"hada_w{k}_a"], t[f"hada_w{k}_b"], t.get(f"hada_t{k}")) for k in (1, 2)]
    first, second = (a @ b if core is None else _tucker(core, b, a) for a, b, core in pairs)
    return first * second


def _lokr(t: Tensors) -> Tensor:
    first = t["lokr_w1"] if "lokr_w1" in t else t["lokr_w1_a"] @ t["lokr_w1_b"]
    if "lokr_t2" in t:
        second = _tucker(t["lokr_t2"], t["lokr_w2_b"], t["lokr_w2_a"])
    else:
        second = t["lokr_w2"] if "lokr_w2" in t else t["lokr_w2_a"] @ t["lokr_w2_b"]
    return torch.kron(first.reshape(*first.shape, *[1] * (second.ndim - first.ndim)), second.contiguous())


def _lokr_rank(t: Tensors) -> int | None:
    thin = t.get("lokr_w2_b", t.get("lokr_w1_b"))
    return None if thin is None else thin.shape[0]  # both whole: there is no rank, and alpha counts for nothing


def _prefixed(start: str, *texts: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(start + part for part in text.split()) for text in texts)


ALGORITHMS = (
    Algorithm("LoRA", _prefixed("", "up down"), _lora, lambda t: t["down"].shape[0]),
    Algorithm("LoHa", _prefixed("hada_", "w1_a w1_b w2_a w2_b"), _loha, lambda t: t["hada_w1_b"].shape[0]),
    Algorithm(
        "LoKr",
        _prefixed("lokr_", "w1 w2", "w1 w2_a w2_b", "w1_a w1_b w2", "w1_a w1_b w2_a w2_b"),
        _lokr,
        _lokr_rank,
    ),
    Algorithm("full", _prefixed("", "diff"), lambda t: t["diff"], lambda t: None),
    Algorithm("IA3", _prefixed("", "ia3 on_input"), lambda t: t["ia3"].flatten(), lambda t: None),
)
COMPANIONS = {
    "mid",
    "alpha",
    "dora_scale",
    "magnitude",
    "hada_t1",
    "hada_t2",
    "lokr_t2",
    "on_input",
}  # that no kind is told by


def algorithm_of(tensors: Tensors) -> Algorithm | None:
    """The kind whose tensors are there; None where they make up none."""
    there = set(tensors)
    fitting = [kind for kind in ALGORITHMS if any(needs <= there for needs in kind.needs)]
    return fitting[0] if len(fitting) == 1 else None


@dataclass(frozen=True)
class Change:
    """What a file does to one parameter of a model.

    Where the file cuts its layers otherwise than the model, `move` leads from its layout to the model's: the file's
    tensor is number `source` of what goes in (the others, of `sizes` rows, are left as they are), and the parameter is
    number `target` of what comes out.
    """

    algorithm: Algorithm
    tensors: Tensors
    shape: tuple[int, ...]  # of the weight as the file sees it
    alpha: float | None = None
    root_of_rank: bool = False  # rsLoRA: divided by the root of the rank
    move: Move | None = None
    source: int = 0
    target: int = 0
    sizes: tuple[int, ...] = ()

    @property
    def scale(self) -> float:
        """Alpha divided by the rank."""
        rank = self.algorithm.rank(self.tensors)
        if self.alpha is None or not rank:
            return 1.0
        return self.alpha / (rank**0.5 if self.root_of_rank else rank)

    def addition(self, strength: float, weight: Tensor) -> Tensor:
        """What is added to a weight (fp32) at a strength."""
        plain = {name: tensor.to(weight.device, torch.float32) for name, tensor in self.tensors.items()}
        product = self.algorithm.product(plain)
        if self.algorithm.name == "IA3":
            return strength * weight * self._factors(product, weight)
        added = self._in_place(self.scale * product.reshape(self.shape)).reshape(weight.shape)
        if self.magnitude is None:
            return strength * added
        changed = weight + added
        return strength * (changed * (self._magnitudes(plain, weight) / self._norms(changed)) - weight)

    def check(self) -> None:
        """Refuse tensors that do not make a change of this shape; values are not looked at."""
        meta = {name: torch.empty(tensor.shape, device="meta") for name, tensor in self.tensors.items()}
        try:
            product = self.algorithm.product(meta)
            fits = product.numel() == _count(self.shape) and product.shape[0] == self.shape[0]
        except (RuntimeError, ValueError):
            fits = False
        if self.algorithm.name == "IA3":
            fits = self.tensors["ia3"].numel() == self.shape[1 if self._on_input else 0]
        if self.magnitude is not None and self.move is not None and not self._by_rows:
            raise WeightsError("its DoRA norms go over columns of a layer that this model has in other parts")
        if not fits or (self.magnitude is not None and self.magnitude.numel() not in (self.shape[0], self.shape[1])):
            found = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in self.tensors.items())
            raise WeightsError(f"wanted a change of shape {list(self.shape)}, got {found}")

    # ---- the file's layout and the model's ----

    def _in_place(self, rows: Tensor) -> Tensor:
        """A tensor with the rows of the file's layer as the model has it; rows that it leaves alone are zero."""
        if self.move is None:
            return rows
        sizes = self.sizes or (len(rows),)
        given = [rows if k == self.source else rows.new_zeros(n, *rows.shape[1:]) for k, n in enumerate(sizes)]
        return self.move.apply(given)[self.target]

    # ---- relatives that look at the weight ----

    @property
    def magnitude(self) -> Tensor | None:
        return self.tensors.get("magnitude", self.tensors.get("dora_scale"))

    @property
    def _on_input(self) -> bool:
        return bool(self.tensors["on_input"].item())

    def _factors(self, factors: Tensor, weight: Tensor) -> Tensor:
        if self._on_input:
            return factors.reshape(1, -1, *[1] * (weight.ndim - 2))
        return self._in_place(factors[:, None]).reshape(-1, *[1] * (weight.ndim - 1))

    @property
    def _by_rows(self) -> bool:
        """Whether there is a magnitude for each row (peft, and LyCORIS where it says so) or for each column."""
        shape = () if self.magnitude is None else self.magnitude.shape
        columns = "dora_scale" in self.tensors and len(shape) > 1 and shape[0] == 1 and shape[1] == self.shape[1]
        return not columns

    def _magnitudes(self, plain: Tensors, weight: Tensor) -> Tensor:
        values = plain.get("magnitude", plain.get("dora_scale"))
        assert values is not None
        if self._by_rows:
            return self._in_place(values.reshape(-1, 1)).reshape(-1, *[1] * (weight.ndim - 1))
        return values.reshape(1, -1, *[1] * (weight.ndim - 2))

    def _norms(self, weight: Tensor) -> Tensor:
        axes = tuple(axis for axis in range(weight.ndim) if axis != (0 if self._by_rows else 1))
        return torch.linalg.vector_norm(weight, dim=axes, keepdim=True)

    # ---- as a file ----

    def published(self) -> dict[str, Tensor]:
        """The tensors by the endings that files have, in the model's layout: LoRA as peft names it."""
        if self.algorithm.name == "LoRA" and "mid" not in self.tensors and self._by_rows:
            up, down = self.tensors["up"].flatten(1), self.tensors["down"]
            up = self._in_place(up if self.scale == 1 else up.float() * self.scale)
            made = {"lora_A.weight": down, "lora_B.weight": up.reshape(*up.shape, *[1] * (down.ndim - 2))}
            if self.magnitude is not None:
                rows = self._in_place(self.magnitude.reshape(-1, 1)).flatten()
                made["lora_magnitude_vector"] = rows if down.ndim == 2 else rows.reshape(1, -1, *[1] * (down.ndim - 2))
            return made
        if self.move is not None:
            raise WeightsError(f"a {self.algorithm.name} that the file keeps in other parts than the model")
        alpha = {} if self.alpha is None else {"alpha": torch.tensor(self.alpha)}
        return {ENDINGS.get(self.algorithm.name, {}).get(name, name): t for name, t in self.tensors.items()} | alpha


ENDINGS = {  # where a part is not called as files call it
    "LoRA": {"up": "lora_up.weight", "down": "lora_down.weight", "mid": "lora_mid.weight"},
    "IA3": {"ia3": "weight"},
}


def _count(shape: tuple[int, ...]) -> int:
    return torch.Size(shape).numel()


@torch.no_grad()
def merged_weight(original: Tensor, changes: list[tuple[Change, float]]) -> Tensor:
    """The weight with every change on top, each computed from the original and summed in fp32."""
    weight = original.detach().float()
    total = weight
    for change, strength in changes:
        total = total + change.addition(strength, weight)
    return total.to(original.dtype)
