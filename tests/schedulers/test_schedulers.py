"""What the schedulers promise by themselves: independent runs, a true solution,
and where they leave the reference on purpose."""

import copy
import json
import threading

import numpy as np
import pytest
import torch

import lockstep.schedulers
from lockstep.errors import ConfigError, InputError, NotFoundError
from lockstep.schedulers import (
    DDIMInverseScheduler,
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    DPMSolverSinglestepScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FlowMatchHeunDiscreteScheduler,
    LCMScheduler,
    LMSDiscreteScheduler,
    UniPCMultistepScheduler,
    exchanged,
)
from schedulers.side_by_side import SHAPE, both, quiet_reference, reference

ALL = [name for name in lockstep.schedulers.__all__ if name.endswith("Scheduler")]
WHOLE = [name for name in ALL if not name.startswith("Helios")]  # whose caller tells the stage
STEPPED = [name for name in WHOLE if name != "CogVideoXDPMScheduler"]  # whose caller keeps the x0 of the step before


def sample_run(scheduler, seed: int = 0) -> torch.Tensor:
    """A run over the whole grid with a model that depends on its input."""
    generator = torch.Generator().manual_seed(seed)
    sample = torch.randn(SHAPE, generator=generator) * float(scheduler.init_noise_sigma)
    for timestep in scheduler.timesteps:
        output = torch.tanh(scheduler.scale_model_input(sample, timestep)) + 0.1 * seed
        sample = scheduler.step(output, timestep, sample, generator=generator).prev_sample
    return sample


def ready(name: str, num_steps: int = 9):
    scheduler = getattr(lockstep.schedulers, name)()
    scheduler.set_timesteps(num_steps)
    return scheduler


@pytest.mark.parametrize("name", STEPPED)
def test_runs_on_fresh_copies_do_not_meet(name):
    """Two runs that take turns, one step each, end where they end alone; so do deep copies taken in the middle."""
    scheduler = ready(name)
    alone = [sample_run(scheduler.fresh(), seed) for seed in (0, 1)]
    runs = [scheduler.fresh() for _ in range(2)]
    generators = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    samples = [torch.randn(SHAPE, generator=generator) * float(scheduler.init_noise_sigma) for generator in generators]
    for k, timestep in enumerate(scheduler.timesteps):
        if k == 4:
            runs = copy.deepcopy(runs)
        for seed, run in enumerate(runs):
            output = torch.tanh(run.scale_model_input(samples[seed], timestep)) + 0.1 * seed
            samples[seed] = run.step(output, timestep, samples[seed], generator=generators[seed]).prev_sample
    for got, wanted in zip(samples, alone, strict=True):
        assert torch.equal(got, wanted)
    assert not torch.equal(*alone)
    assert scheduler.step_index is None


@pytest.mark.parametrize("name", STEPPED)
def test_a_new_grid_forgets_the_run_before(name):
    scheduler = ready(name)
    first = sample_run(scheduler)
    half = ready(name)
    sample_run(half, seed=3)
    half.set_begin_index(2)
    half.set_timesteps(9)
    assert half.begin_index is None
    assert torch.equal(sample_run(half), first)


@pytest.mark.parametrize("name", STEPPED)
def test_a_run_leaves_the_inputs_as_they_were(name):
    scheduler = ready(name)
    sample, output = torch.randn(2, *SHAPE)
    before = sample.clone(), output.clone()
    for timestep in scheduler.timesteps[:3]:
        scheduler.scale_model_input(sample, timestep)
        scheduler.step(output, timestep, sample)
    assert torch.equal(sample, before[0])
    assert torch.equal(output, before[1])


@pytest.mark.parametrize("name", STEPPED)
def test_a_tuple_holds_what_the_output_holds(name):
    scheduler = ready(name)
    sample, output = torch.randn(2, *SHAPE)
    timestep = scheduler.timesteps[0]
    named = scheduler.fresh().step(output, timestep, sample, generator=torch.Generator().manual_seed(0))
    plain = scheduler.fresh().step(
        output, timestep, sample, generator=torch.Generator().manual_seed(0), return_dict=False
    )
    assert isinstance(plain, tuple)
    assert len(plain) == len(named)
    assert all(torch.equal(a, b) for a, b in zip(plain, named.values(), strict=True))
    assert torch.equal(plain[0], named.prev_sample)


@pytest.mark.parametrize("name", STEPPED)
def test_many_threads_share_one_scheduler(name):
    scheduler = ready(name, 5)
    wanted = [sample_run(scheduler.fresh(), seed) for seed in range(4)]
    got = {}
    threads = [
        threading.Thread(target=lambda seed=seed: got.update({seed: sample_run(scheduler.fresh(), seed)}))
        for seed in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(got[seed], wanted[seed]) for seed in range(4))


@pytest.mark.parametrize("name", [name for name in STEPPED if name not in ("PNDMScheduler", "DDIMInverseScheduler")])
def test_noise_of_a_sample_is_the_same_in_any_batch(name):
    """With one generator per sample, sample k of a batch equals the same sample alone."""
    scheduler = ready(name, 4)
    if name == "FlowMatchEulerDiscreteScheduler":
        scheduler = FlowMatchEulerDiscreteScheduler(stochastic_sampling=True)
        scheduler.set_timesteps(4)
    sample, output = torch.randn(2, 3, *SHAPE[1:])

    def run(rows):
        one, generators = scheduler.fresh(), [torch.Generator().manual_seed(row) for row in rows]
        current = sample[rows]
        for timestep in one.timesteps:
            current = one.step(output[rows], timestep, current, generator=generators).prev_sample
        return current

    together = run([0, 1, 2])
    for row in range(3):
        torch.testing.assert_close(run([row])[0], together[row], rtol=1e-6, atol=1e-7)


# --- a true solution: for Gaussian data the ODE has a closed form ---------------------------------------------------

SPREAD = 2.0
ORDERS = {
    "DDIMScheduler": ({"clip_sample": False, "timestep_spacing": "trailing"}, 0.02),
    "PNDMScheduler": ({"skip_prk_steps": True, "set_alpha_to_one": True, "timestep_spacing": "trailing"}, 0.005),
    "EulerDiscreteScheduler": ({}, 0.02),
    "HeunDiscreteScheduler": ({}, 0.005),
    "KDPM2DiscreteScheduler": ({}, 0.005),
    "LMSDiscreteScheduler": ({}, 0.005),
    "DPMSolverMultistepScheduler": ({}, 0.005),
    "DPMSolverSinglestepScheduler": ({}, 0.005),
    "UniPCMultistepScheduler": ({}, 0.005),
    "DEISMultistepScheduler": ({}, 0.005),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_exact_model_of_gaussian_data_gives_the_exact_path(name):
    """x0 ~ N(0, s²): the flow scales a sample by s / std(x_T), whatever the sampler (arXiv:2206.00364, appendix B)."""
    options, allowed = ORDERS[name]
    scheduler = getattr(lockstep.schedulers, name)(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", **options
    )
    scheduler.set_timesteps(100)
    sample = start = torch.randn(4, 1, 8, 8, dtype=torch.float64) * float(scheduler.init_noise_sigma)
    alpha_bar = scheduler.alphas_cumprod.double()
    for timestep in scheduler.timesteps:
        model_input = scheduler.scale_model_input(sample, timestep)
        place = float(timestep)
        low, high = int(np.floor(place)), int(np.ceil(place))
        sigmas = ((1 - alpha_bar) / alpha_bar) ** 0.5
        ratio = sigmas[low] + (place - low) * (sigmas[high] - sigmas[low])
        alpha, sigma = 1 / (ratio**2 + 1) ** 0.5, ratio / (ratio**2 + 1) ** 0.5
        noise = model_input * sigma / (alpha**2 * SPREAD**2 + sigma**2)
        sample = scheduler.step(noise, timestep, sample).prev_sample.double()
    last = alpha_bar[-1]
    scale = SPREAD / (last * SPREAD**2 + 1 - last).sqrt()
    wanted = start / float(scheduler.init_noise_sigma) * scale
    error = float((sample - wanted).norm() / wanted.norm())
    assert error < allowed, f"off by {error:.3g}"


FLOW_ORDERS = {
    "EulerDiscreteScheduler": 1,
    "HeunDiscreteScheduler": 2,
    "DPMSolverMultistepScheduler": 2,
    "DPMSolverSinglestepScheduler": 2,
    "UniPCMultistepScheduler": 2,
}


@pytest.mark.parametrize("name", FLOW_ORDERS)
def test_samplers_of_flow_matching_converge_at_their_order(name):
    """x0 ~ N(0, s²) again: twice the steps halve the error of the first order and quarter that of the second."""
    spread = 0.5

    def error(steps):
        scheduler = exchanged(FlowMatchEulerDiscreteScheduler(), getattr(lockstep.schedulers, name))
        scheduler.set_timesteps(steps)
        sample = start = torch.randn(4, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        for timestep in scheduler.timesteps:
            sigma = float(scheduler.sigmas[scheduler.step_index or 0])  # timesteps are whole numbers in some grids
            variance = (1 - sigma) ** 2 * spread**2 + sigma**2
            flow = (sigma - (1 - sigma) * spread**2) / variance * sample
            sample = scheduler.step(flow, timestep, sample).prev_sample.double()
        first = float(scheduler.sigmas[0])
        wanted = start * spread / ((1 - first) ** 2 * spread**2 + first**2) ** 0.5
        return float((sample - wanted).norm() / wanted.norm())

    few, many = error(80), error(160)
    assert np.log2(few / many) > FLOW_ORDERS[name] - 0.3, (few, many)
    assert many < 0.02


def test_ddim_inverse_undoes_ddim():
    """Noise to picture and back, with the same small steps."""
    forward, backward = (
        cls(clip_sample=False, beta_schedule="scaled_linear") for cls in (DDIMScheduler, DDIMInverseScheduler)
    )
    forward.set_timesteps(500)
    backward.set_timesteps(500)
    start = sample = torch.randn(SHAPE)
    for scheduler in (forward, backward):
        for timestep in scheduler.timesteps:
            sample = scheduler.step(0.3 * torch.sin(sample), timestep, sample).prev_sample
    assert float((sample - start).norm() / start.norm()) < 0.01


# --- the double shift of flow matching ------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [FlowMatchEulerDiscreteScheduler, FlowMatchHeunDiscreteScheduler])
def test_the_last_sigma_is_shifted_twice_by_default_and_once_on_request(cls):
    def shifted(sigma):
        return 3.0 * sigma / (1 + 2.0 * sigma)

    ours, theirs = both(cls.__name__, shift=3.0)
    ours.set_timesteps(10)
    theirs.set_timesteps(10)
    assert torch.equal(ours.sigmas, theirs.sigmas)
    assert ours.sigmas[-2] == pytest.approx(shifted(shifted(0.001)), rel=1e-5)

    once = cls(shift=3.0, shift_once=True)
    once.set_timesteps(10)
    assert once.sigmas[-2] == pytest.approx(shifted(0.001), rel=1e-5)
    even = np.linspace(1, 0.001, 10)
    wanted = shifted(even) if cls.order == 1 else shifted(even)[1:].repeat(2)
    got = once.sigmas[:-1] if cls.order == 1 else once.sigmas[1:-1]
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)


def test_explicit_sigmas_are_shifted_once_in_both_modes():
    grids = []
    for shift_once in (False, True):
        scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0, shift_once=shift_once)
        scheduler.set_timesteps(sigmas=np.linspace(1, 0.1, 10))
        grids.append(scheduler.sigmas)
    assert torch.equal(*grids)


def test_shift_once_is_written_only_when_it_is_used(tmp_path):
    FlowMatchEulerDiscreteScheduler(shift=3.0).save_pretrained(tmp_path / "plain")
    assert "shift_once" not in json.loads((tmp_path / "plain/scheduler_config.json").read_text())
    FlowMatchEulerDiscreteScheduler(shift=3.0, shift_once=True).save_pretrained(tmp_path / "once")
    assert FlowMatchEulerDiscreteScheduler.from_pretrained(tmp_path / "once").config.shift_once is True
    with quiet_reference():
        import diffusers

        assert diffusers.FlowMatchEulerDiscreteScheduler.from_pretrained(tmp_path / "once").config.shift == 3.0


def test_mu_is_linear_in_the_number_of_tokens():
    scheduler = FlowMatchEulerDiscreteScheduler()
    assert scheduler.mu_for(256) == pytest.approx(0.5)
    assert scheduler.mu_for(4096) == pytest.approx(1.15)
    assert scheduler.mu_for(2176) == pytest.approx(0.825)


# --- configs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_config_survives_the_disk(name, tmp_path):
    scheduler = getattr(lockstep.schedulers, name)(num_train_timesteps=100)
    path = scheduler.save_pretrained(tmp_path / "folder" / "scheduler")
    assert path.name == "scheduler_config.json"
    saved = json.loads(path.read_text())
    assert saved["_class_name"] == name
    assert not {"_use_default_values", "shift_once"} & set(saved)
    loaded = type(scheduler).from_pretrained(tmp_path / "folder", subfolder="scheduler")
    keep = {key for key in scheduler.config if not key.startswith("_")}
    assert {key: loaded.config[key] for key in keep} == {key: scheduler.config[key] for key in keep}
    assert len(loaded) == 100


def test_loading_takes_replacements_and_names_what_is_missing(tmp_path):
    EulerDiscreteScheduler().save_pretrained(tmp_path)
    assert EulerDiscreteScheduler.from_pretrained(tmp_path, use_karras_sigmas=True).config.use_karras_sigmas is True
    with pytest.raises(NotFoundError, match="scheduler_config.json"):
        EulerDiscreteScheduler.from_pretrained(tmp_path, subfolder="nowhere")


def test_an_option_of_another_class_is_kept_and_does_not_act():
    karras = EulerDiscreteScheduler(use_karras_sigmas=True)
    ancestral = lockstep.schedulers.EulerAncestralDiscreteScheduler.from_config(karras.config)
    assert ancestral.config.use_karras_sigmas is True
    assert "use_karras_sigmas" in ancestral.unknown_config_keys
    plain = lockstep.schedulers.EulerAncestralDiscreteScheduler()
    ancestral.set_timesteps(5)
    plain.set_timesteps(5)
    assert torch.equal(ancestral.sigmas, plain.sigmas)
    assert EulerDiscreteScheduler.from_config(ancestral.config).config.use_karras_sigmas is True


# --- where the reference is left on purpose -------------------------------------------------------------------------


def test_trailing_has_as_many_timesteps_as_asked_for():
    """1000 / 61 rounds down, so that the reference's range has a 62nd point, at timestep -1: the noisiest."""
    ours, theirs = both("DDIMScheduler", timestep_spacing="trailing")
    ours.set_timesteps(61)
    theirs.set_timesteps(61)
    assert theirs.timesteps[-1] == -1
    assert torch.equal(ours.timesteps, theirs.timesteps[:-1])
    for name in ("EulerDiscreteScheduler", "DPMSolverMultistepScheduler", "UniPCMultistepScheduler", "DDPMScheduler"):
        scheduler = getattr(lockstep.schedulers, name)(timestep_spacing="trailing")
        for num_steps in range(1, 1001, 7):
            scheduler.set_timesteps(num_steps)
            assert len(scheduler.timesteps) == num_steps
            assert scheduler.timesteps.min() >= 0


def test_unipc_bh1_ends_at_zero_with_a_number():
    """B(h) = h is infinite at sigma 0 and is multiplied by nothing there; the reference multiplies it by 0."""
    ours, theirs = both("UniPCMultistepScheduler", solver_type="bh1")
    ours.set_timesteps(5)
    theirs.set_timesteps(5)
    our_sample = their_sample = torch.randn(SHAPE)
    for timestep in theirs.timesteps:
        assert torch.equal(our_sample, their_sample)
        output = torch.randn(SHAPE)
        our_sample = ours.step(output, timestep, our_sample).prev_sample
        their_sample = theirs.step(output, timestep, their_sample).prev_sample
    assert their_sample.isnan().all()
    assert our_sample.isfinite().all()
    assert torch.equal(our_sample, ours.history.outputs[-1])  # at sigma 0 the first-order step is x0 itself


def test_ddpm_fixed_large_log_is_the_same_noise_as_fixed_large():
    """The reference takes the square root of the logarithm and gets NaN."""
    results = {}
    for kind in ("fixed_large", "fixed_large_log"):
        scheduler = DDPMScheduler(variance_type=kind)
        scheduler.set_timesteps(5)
        results[kind] = sample_run(scheduler)
    assert torch.equal(results["fixed_large"], results["fixed_large_log"])


@pytest.mark.parametrize("name", ["EulerDiscreteScheduler", "DPMSolverMultistepScheduler", "UniPCMultistepScheduler"])
def test_velocity_and_noise_before_set_timesteps_are_those_of_training(name):
    """The reference looks the place in the grid, which falls, up in tables that rise."""
    scheduler, ddpm = getattr(lockstep.schedulers, name)(), DDPMScheduler()
    sample, noise = torch.randn(2, 3, *SHAPE[1:])
    timesteps = torch.tensor([999, 400, 0])
    torch.testing.assert_close(
        scheduler.get_velocity(sample, noise, timesteps.float()),
        ddpm.get_velocity(sample, noise, timesteps),
        rtol=1e-4,
        atol=1e-5,
    )
    noisy = scheduler.add_noise(sample, noise, timesteps.float())
    if name == "EulerDiscreteScheduler":
        noisy = noisy * ddpm.alphas_cumprod[timesteps].sqrt().reshape(-1, 1, 1, 1)
    torch.testing.assert_close(noisy, ddpm.add_noise(sample, noise, timesteps), rtol=1e-4, atol=1e-5)


def test_lcm_adds_no_noise_at_the_end_of_a_shortened_grid():
    """The reference counts the steps before it cuts explicit timesteps by the strength, and noises the last one."""
    scheduler = LCMScheduler()
    scheduler.set_timesteps(timesteps=[999, 759, 499, 259], strength=0.5)
    assert scheduler.timesteps.tolist() == [499, 259]
    scheduler.step(torch.randn(SHAPE), scheduler.timesteps[0], torch.randn(SHAPE))
    last = scheduler.step(torch.randn(SHAPE), scheduler.timesteps[1], torch.randn(SHAPE))
    assert torch.equal(last.prev_sample, last.denoised)


def test_a_grid_whose_first_two_timesteps_round_to_one_is_run_whole():
    """The reference begins at the second of them and has no sigma left for the last step."""
    ours, theirs = both("DPMSolverMultistepScheduler", beta_schedule="squaredcos_cap_v2", use_karras_sigmas=True)
    ours.set_timesteps(20)
    theirs.set_timesteps(20)
    assert ours.timesteps[0] == ours.timesteps[1]
    assert sample_run(ours).isfinite().all()
    with pytest.raises(IndexError):
        sample_run(theirs)


def test_singlestep_thresholds_in_eps_as_multistep_does():
    """The reference's singlestep class has lost the timestep there. First order,
    where the two classes are one method."""
    options = {"algorithm_type": "dpmsolver", "final_sigmas_type": "sigma_min", "thresholding": True, "solver_order": 1}
    results = []
    for cls in (DPMSolverMultistepScheduler, DPMSolverSinglestepScheduler):
        scheduler = cls(**options)
        scheduler.set_timesteps(6)
        results.append(sample_run(scheduler))
    assert torch.equal(*results)


def test_mu_of_one_run_is_not_left_to_the_next():
    """The reference writes it into its config."""
    scheduler = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0)
    dpm = DPMSolverMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, use_dynamic_shifting=True, flow_shift=3.0
    )
    dpm.set_timesteps(6)
    before = dpm.sigmas
    dpm.set_timesteps(6, mu=0.2)
    assert not torch.equal(dpm.sigmas, before)
    dpm.set_timesteps(6)
    assert torch.equal(dpm.sigmas, before)
    scheduler.set_timesteps(6)
    assert dpm.config.flow_shift == 3.0


def test_lms_weights_are_exact_where_the_reference_rounds():
    """The reference evaluates the polynomials in float32; where sigmas are close digits cancel."""
    _, theirs = both("LMSDiscreteScheduler", use_beta_sigmas=True)
    ours = LMSDiscreteScheduler(use_beta_sigmas=True)
    ours.set_timesteps(50)
    theirs.set_timesteps(50)
    sigmas = ours.sigmas.double().numpy()
    worst_ours = worst_theirs = 0.0
    for index in range(3, 49):
        nodes = sigmas[index - np.arange(4)]
        for k, weight in enumerate(lockstep.schedulers.lms.lms_weights(sigmas, index, 4)):
            others = np.delete(nodes, k)
            # centred on the step: the polynomial's coefficients would cancel far from zero
            basis = np.poly1d(others - sigmas[index], r=True).integ()
            exact = basis(sigmas[index + 1] - sigmas[index]) / np.prod(nodes[k] - others)
            scale = abs(sigmas[index + 1] - sigmas[index])
            worst_ours = max(worst_ours, abs(weight - exact) / scale)
            their_weight = reference(lambda index=index, k=k: theirs.get_lms_coefficient(4, index, k))
            worst_theirs = max(worst_theirs, abs(their_weight - exact) / scale)
    assert worst_ours < 1e-12
    assert worst_theirs > 1e-6


ONES = torch.ones(SHAPE)


@pytest.mark.parametrize("name", STEPPED)
def test_a_step_refuses_what_it_cannot_use(name):
    """Each is an error of ours before anything is computed; the scheduler is where it was."""
    scheduler = ready(name)
    first = scheduler.timesteps[0]
    for arguments, words in (
        ((ONES.numpy(), first, ONES), "model_output as a floating-point tensor, got ndarray"),
        ((ONES, first, ONES.long()), "sample as a floating-point tensor, got torch.int64"),
        ((ONES + 0j, first, ONES), "model_output as a floating-point tensor, got torch.complex64"),
        ((ONES[:, :1], first, ONES), "of the sample's shape"),
        ((ONES, scheduler.timesteps[:2], ONES), "one timestep at a time"),
        ((ONES, None, ONES), "a number as the timestep, got NoneType"),
        ((ONES, "first", ONES), "a number as the timestep, got str"),
    ):
        with pytest.raises(InputError, match=words):
            scheduler.step(*arguments)
    for begin in (-1, 1.5, "0"):
        with pytest.raises(InputError, match="begin_index wants"):
            scheduler.set_begin_index(begin)
    assert scheduler.step_index is None
    scheduler.step(ONES, first, ONES)


@pytest.mark.parametrize("name", [name for name in WHOLE if getattr(ready(name), "sigmas", None) is not None])
def test_a_run_that_is_over_takes_no_further_step(name):
    scheduler = ready(name)
    sample_run(scheduler)
    with pytest.raises(InputError, match="the run is over"):
        scheduler.step(ONES, scheduler.timesteps[-1], ONES)
    scheduler = ready(name)
    scheduler.set_begin_index(99)
    with pytest.raises(InputError, match="at index 99"):
        scheduler.step(ONES, scheduler.timesteps[0], ONES)


@pytest.mark.parametrize(
    "name", ["DDIMScheduler", "DDIMInverseScheduler", "DDPMScheduler", "PNDMScheduler", "LCMScheduler", "TCDScheduler"]
)
def test_a_timestep_that_was_not_trained_is_refused(name):
    scheduler = ready(name)
    for timestep in (1000, -1, torch.tensor(5000), 999.0, torch.tensor(999.0)):
        with pytest.raises(InputError, match="whole number from 0 to 999"):
            scheduler.step(ONES, timestep, ONES)
    with pytest.raises(InputError, match="from 0 to 999, got .1000, 0"):
        scheduler.add_noise(ONES, ONES, torch.tensor([1000] + [0] * (len(ONES) - 1)))


@pytest.mark.parametrize(
    "name", [name for name in WHOLE if name not in ("FlowMatchHeunDiscreteScheduler", "IPNDMScheduler")]
)
def test_noise_wants_one_timestep_or_one_for_each_sample(name):
    scheduler = ready(name, 7)
    for timesteps, words in ((500, "got int"), (scheduler.timesteps[:5], "got 5 values")):
        with pytest.raises(InputError, match=words):
            scheduler.add_noise(ONES, ONES, timesteps)
    alone, each = scheduler.timesteps[2], scheduler.timesteps[2].repeat(len(ONES))
    assert torch.equal(scheduler.add_noise(ONES, ONES, alone), scheduler.add_noise(ONES, ONES, each))


@pytest.mark.parametrize("grid", [[], "fast", [[900.0]], [float("nan"), 1.0], [900.0, None]])
def test_an_explicit_grid_is_a_list_of_numbers(grid):
    for name in ("EulerDiscreteScheduler", "DPMSolverMultistepScheduler", "DDPMScheduler", "LCMScheduler"):
        with pytest.raises(InputError, match="timesteps wants a list of at least one finite number"):
            getattr(lockstep.schedulers, name)().set_timesteps(timesteps=grid)
    for name in ("EulerDiscreteScheduler", "FlowMatchEulerDiscreteScheduler"):
        with pytest.raises(InputError, match="sigmas wants a list of at least one finite number"):
            getattr(lockstep.schedulers, name)().set_timesteps(sigmas=grid)
    with pytest.raises(InputError, match="at least one timestep"):
        EulerDiscreteScheduler().set_timesteps(sigmas=[0.0])  # the last sigma is where a run ends


def test_generators_are_generators():
    with pytest.raises(InputError, match="torch.Generator or a list of them, got 5"):
        ready("DDPMScheduler", 4).step(ONES, 750, ONES, generator=5)


def test_an_error_about_a_config_names_its_file(tmp_path):
    (tmp_path / "scheduler_config.json").write_text('{"num_train_timesteps": "1000"}')
    with pytest.raises(ConfigError, match=r"wants int, got str '1000'\. .*scheduler_config\.json"):
        DDIMScheduler.from_pretrained(tmp_path, force_download=False)
