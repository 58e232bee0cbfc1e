"""Shares of the draws, and whether what is drawn is what was asked for."""

from collections import Counter

import pytest
import torch

from lockstep.embedded.training.data import load_items
from lockstep.embedded.training.drawing import draw_rows, drawing_weights
from lockstep.embedded.training.evaluation import retrieval_ranks, top_k
from lockstep.embedded.training.settings import Mixture
from lockstep.training.noise import generator_of


def test_every_kind_gets_its_share(work):
    items = load_items(work).items
    mixture = Mixture(
        styles={"3d": 0.7, "flat": 0.3}, kinds={"base": 0.5, "colour": 0.5}, mirrored=0.25, beyond_core=0.1
    )
    weights = drawing_weights(items, mixture)
    rows = torch.cat([draw_rows(weights, 32, generator_of(0, step)) for step in range(400)]).tolist()
    drawn = [items[row] for row in rows]
    for share, belongs in (
        (0.7, lambda item: item.style == "3d"),
        (0.5, lambda item: item.kind == "colour"),
        (0.5 * 0.25, lambda item: item.mirror),
        (0.1, lambda item: not item.core),
    ):
        assert sum(map(belongs, drawn)) / len(drawn) == pytest.approx(share, abs=0.02)
    assert not any(item.kind in ("background", "both") for item in drawn)


def test_a_batch_is_spread_evenly():
    weights = torch.full((64,), 1 / 64, dtype=torch.float64)
    counts = Counter(draw_rows(weights, 64, generator_of(1, 2)).tolist())
    assert set(counts.values()) == {1}, "equal weights and as many draws as rows: every row once"


def test_ranks_count_the_concepts_that_are_nearer():
    gallery = torch.tensor([[0.0], [10.0], [1.0], [2.0]])
    concepts = ["a", "a", "b", "c"]
    samples = torch.tensor([[0.1], [9.0], [1.4], [1.6]])
    assert retrieval_ranks(samples, ["a", "a", "a", "b"], gallery, concepts) == [0, 0, 2, 1]
    assert top_k([0, 0, 2, 1], 1) == 0.5
    assert top_k([0, 0, 2, 1], 2) == 0.75
