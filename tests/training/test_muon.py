"""Muon against the exact decomposition and against torch's own."""

import pytest
import torch
from torch import nn

from lockstep.training.muon import Muon, is_matrix, orthogonalised
from lockstep.training.settings import OptimizerSettings
from lockstep.training.trainee import Trainee


@pytest.mark.parametrize("shape", [(32, 288), (288, 32), (64, 64)])
def test_singular_values_come_near_one_and_vectors_stay(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    turned = left.T @ orthogonalised(matrix) @ right.T  # in the matrix's own axes: diagonal
    diagonal = turned.diagonal()
    assert (turned - diagonal.diag()).abs().max() < 1e-4
    large = values > 0.05 * values.max()  # tiny values need more than five steps
    assert diagonal[large].min() > 0.6
    assert diagonal.max() < 1.3


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon came with torch 2.9")
def test_steps_equal_those_of_torch():
    """torch computes the polynomial in bfloat16: the steps agree to its precision."""
    start = torch.randn(24, 40, generator=torch.Generator().manual_seed(1))
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    reference = torch.optim.Muon([theirs], lr=0.02, weight_decay=0.0, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    optimizer = Muon([ours], lr=0.02)
    for step in range(6):
        gradient = torch.randn(start.shape, generator=torch.Generator().manual_seed(step))
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        optimizer.step()
        reference.step()
    moved = (theirs - start).norm()
    assert moved > 0.2
    assert (ours - theirs).norm() / moved < 0.02


def test_only_matrices_of_some_size_get_it():
    assert is_matrix(nn.Conv2d(32, 32, 3).weight)
    assert not is_matrix(nn.Conv2d(32, 3, 3).weight)
    assert not is_matrix(nn.Linear(32, 32).bias)


def test_a_run_under_muon_resumes_exactly_and_may_begin_from_adamw():
    def fresh(muon):
        torch.manual_seed(3)
        layers = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Conv2d(8, 3, 3)).to(memory_format=torch.channels_last)
        return Trainee({"net": layers}, OptimizerSettings(muon=muon, weight_decay=0.0))

    def learn(trainee, seed):
        image = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(seed))
        return trainee.learn(trainee.modules["net"](image).square().mean(), 0.003)

    whole, resumed, changed = fresh(muon=True), fresh(muon=True), fresh(muon=False)
    learn(whole, 0)
    assert any(name.startswith("optimizer.momentum.") for name in whole.tensors())
    resumed.restore({name: value.clone().contiguous() for name, value in whole.tensors().items()}, whole.step)
    assert [learn(whole, seed) for seed in (1, 2)] == [learn(resumed, seed) for seed in (1, 2)]
    for name, value in whole.tensors().items():
        assert torch.equal(value, resumed.tensors()[name]), name

    learn(changed, 0)
    other = fresh(muon=True)
    other.restore(changed.tensors(), changed.step)
    losses = [learn(other, 1) for _ in range(10)]
    assert losses[-1] < 0.8 * losses[0]
