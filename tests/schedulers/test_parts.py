"""The parts that schedulers are put together from: betas, timestep and sigma grids, predictions, noise."""

import numpy as np
import pytest
import scipy.stats
import torch

from lockstep.errors import InputError
from lockstep.schedulers.betas import BETA_SCHEDULES, make_betas, rescale_to_zero_terminal_snr
from lockstep.schedulers.lms import lms_weights
from lockstep.schedulers.noise import draw_noise
from lockstep.schedulers.predictions import dynamic_threshold, predicted_denoised, predicted_noise, predicted_original
from lockstep.schedulers.sigmas import (
    beta_sigmas,
    exponential_sigmas,
    karras_sigmas,
    shift_sigmas,
    shift_sigmas_by_mu,
    sigmas_to_timesteps,
    stretch_to_terminal,
    symmetric_beta_quantile,
)
from lockstep.schedulers.spacing import spaced_timesteps


@pytest.mark.parametrize("schedule", BETA_SCHEDULES)
def test_betas_are_probabilities(schedule):
    betas = make_betas(schedule, 0.0001, 0.02, 1000)
    assert betas.dtype == torch.float32
    assert betas.shape == (1000,)
    assert bool((betas < 1).all())
    if schedule != "laplace":  # its curve is for the noise of training and rises at the start
        assert bool((betas > 0).all())


def test_zero_terminal_snr_keeps_the_start_and_loses_the_signal_at_the_end():
    betas = make_betas("scaled_linear", 0.00085, 0.012, 1000)
    rescaled = torch.cumprod(1 - rescale_to_zero_terminal_snr(betas), 0)
    assert rescaled[-1] == 0
    assert rescaled[0] == pytest.approx(float(1 - betas[0]), rel=1e-6)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 7, 30, 61, 999, 1000])
@pytest.mark.parametrize("one_more", [False, True])
@pytest.mark.parametrize("spacing", ["linspace", "leading", "trailing"])
def test_timesteps_fall_inside_training(spacing, one_more, num_steps):
    grid = spaced_timesteps(spacing, 1000, num_steps, one_more=one_more)
    assert grid.shape == (num_steps,)
    assert grid.max() <= 999
    assert grid.min() >= 0
    if num_steps < 900:
        assert (np.diff(grid) < 0).all()
    if spacing == "trailing":
        assert grid[0] == 999


def test_an_offset_moves_the_leading_timesteps_only():
    moved = spaced_timesteps("leading", 1000, 10, offset=1)
    assert moved.tolist() == [901, 801, 701, 601, 501, 401, 301, 201, 101, 1]
    assert spaced_timesteps("trailing", 1000, 10, offset=1)[0] == 999


@pytest.mark.parametrize("shape", [0.3, 0.5, 0.6, 1.0, 2.5])
def test_the_beta_quantile_equals_scipys(shape):
    probabilities = np.concatenate([np.linspace(0, 1, 333), [1e-12, 1e-6, 1 - 1e-6]])
    wanted = scipy.stats.beta.ppf(probabilities, shape, shape)
    np.testing.assert_allclose(symmetric_beta_quantile(probabilities, shape), wanted, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("grid", [karras_sigmas, exponential_sigmas, beta_sigmas])
def test_sigma_grids_fall_from_end_to_end(grid):
    sigmas = grid(14.6, 0.03, 20)
    assert sigmas[0] == pytest.approx(14.6)
    assert sigmas[-1] == pytest.approx(0.03)
    assert (np.diff(sigmas) < 0).all()
    assert grid(14.6, 0.03, 1) == pytest.approx(14.6)


def test_sigmas_go_to_timesteps_and_back():
    betas = make_betas("scaled_linear", 0.00085, 0.012, 1000)
    alpha_bar = torch.cumprod(1 - betas.double(), 0)
    sigmas = (((1 - alpha_bar) / alpha_bar) ** 0.5).numpy()
    timesteps = sigmas_to_timesteps(sigmas[::-1], np.log(sigmas))
    np.testing.assert_allclose(timesteps, np.arange(999, -1, -1), atol=1e-6)
    middle = np.sqrt(sigmas[10] * sigmas[11])
    assert sigmas_to_timesteps(np.array([middle]), np.log(sigmas))[0] == pytest.approx(10.5)
    assert sigmas_to_timesteps(np.array([0.0, 1e9]), np.log(sigmas)).tolist() == [0, 999]


def test_both_shifts_are_one_formula():
    sigmas = np.linspace(1, 0.1, 10)
    np.testing.assert_allclose(shift_sigmas(sigmas, np.e), shift_sigmas_by_mu(sigmas, 1.0, "exponential"))
    np.testing.assert_allclose(shift_sigmas(sigmas, 3.0), shift_sigmas_by_mu(sigmas, 3.0, "linear"))
    stretched = stretch_to_terminal(sigmas, 0.3)
    assert stretched[0] == 1
    assert stretched[-1] == pytest.approx(0.3)


@pytest.mark.parametrize("kind", ["epsilon", "sample", "v_prediction"])
def test_every_prediction_gives_back_what_made_the_sample(kind):
    original, noise = torch.randn(2, 5, 3, dtype=torch.float64)
    sigma = torch.tensor(1.7, dtype=torch.float64)
    alpha, scaled = 1 / (sigma**2 + 1) ** 0.5, sigma / (sigma**2 + 1) ** 0.5
    sample = alpha * original + scaled * noise
    output = {"epsilon": noise, "sample": original, "v_prediction": alpha * noise - scaled * original}[kind]
    torch.testing.assert_close(predicted_original(kind, output, sample, alpha, scaled), original)
    torch.testing.assert_close(predicted_noise(kind, output, sample, alpha, scaled), noise)
    torch.testing.assert_close(predicted_denoised(kind, output, sample / alpha, sigma), original)


def test_a_flow_prediction_gives_back_what_made_the_sample():
    original, noise = torch.randn(2, 5, 3, dtype=torch.float64)
    sigma = torch.tensor(0.4, dtype=torch.float64)
    sample = (1 - sigma) * original + sigma * noise
    output = noise - original
    torch.testing.assert_close(predicted_original("flow_prediction", output, sample, 1 - sigma, sigma), original)
    torch.testing.assert_close(predicted_noise("flow_prediction", output, sample, 1 - sigma, sigma), noise)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_dynamic_threshold_limits_each_sample_by_itself(dtype):
    quiet, loud = torch.full((3, 8, 8), 0.5), torch.full((3, 8, 8), 3.0)
    limited = dynamic_threshold(torch.stack([quiet, loud]).to(dtype), ratio=0.9, max_value=4.0)
    assert limited.dtype == dtype
    assert torch.equal(limited[0].float(), quiet)
    assert torch.equal(limited[1].float(), torch.ones_like(loud))


def test_lms_weights_integrate_polynomials_exactly():
    sigmas = np.array([14.6, 9.0, 5.0, 2.0, 0.7, 0.0])
    for order in (1, 2, 3, 4):
        weights = lms_weights(sigmas, 4, order)
        for power in range(order):
            nodes = sigmas[4 - np.arange(order)]
            exact = (sigmas[5] ** (power + 1) - sigmas[4] ** (power + 1)) / (power + 1)
            assert np.dot(weights, nodes**power) == pytest.approx(exact, rel=1e-9)


def test_noise_of_a_list_of_generators_is_drawn_sample_by_sample():
    def seeded():
        return [torch.Generator().manual_seed(seed) for seed in (1, 2)]

    device, dtype = torch.device("cpu"), torch.float32
    batch = draw_noise((2, 3, 4), seeded(), device, dtype)
    alone = [draw_noise((1, 3, 4), generator, device, dtype) for generator in seeded()]
    assert torch.equal(batch, torch.cat(alone))
    with pytest.raises(InputError, match="one per sample"):
        draw_noise((3, 3, 4), seeded(), device, dtype)
